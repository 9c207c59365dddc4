//! How much tenants and keys may do. What is not limited here is limited by the service's options.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rate {
    /// Tokens that it gets in a second.
    pub per_second: NonZeroU32,
    /// Tokens that it holds when it is full.
    pub burst: NonZeroU32,
}

impl Rate {
    /// A bucket that holds one second's worth.
    #[must_use]
    pub const fn of_one_second(per_second: NonZeroU32) -> Self {
        Self {
            per_second,
            burst: per_second,
        }
    }
}

/// How fast, and how much in a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Quota {
    /// Requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Rate>,
    /// Units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<Rate>,
    /// Units from 00:00 to 24:00 UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units_per_day: Option<NonZeroU64>,
}

/// What a tenant may do with all its keys together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TenantLimits {
    /// How fast, and how much in a day.
    pub quota: Quota,
    /// WebSocket sessions that may be open at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Subscriptions of all its sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<u32>,
    /// Its share under load, relative to those of other tenants.
    pub weight: NonZeroU32,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self {
            quota: Quota::default(),
            sessions: None,
            subscriptions: None,
            weight: NonZeroU32::MIN,
        }
    }
}
