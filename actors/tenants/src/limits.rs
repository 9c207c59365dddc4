//! How much tenants and keys may do. What is not limited here is limited by the service's options.

use std::{
    num::{NonZeroU32, NonZeroU64},
    str::FromStr,
};

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
    /// Its share under load, relative to those of other tenants: a [`Weight`].
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

/// Largest weight of a tenant. Beside one of weight 1 whose item takes 1 ms, it is given 1 s of
/// work: as long as that item may wait.
pub const WEIGHT_MAX: u32 = 1_000;

/// A weight that a tenant may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u32")]
pub struct Weight(NonZeroU32);

/// A number is not a [`Weight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a weight is a whole number from 1 to {WEIGHT_MAX}")]
pub struct NotAWeight;

impl Weight {
    /// The number that it is.
    #[must_use]
    pub const fn get(self) -> NonZeroU32 {
        self.0
    }
}

impl TryFrom<u64> for Weight {
    type Error = NotAWeight;

    fn try_from(number: u64) -> Result<Self, NotAWeight> {
        u32::try_from(number)
            .ok()
            .filter(|number| *number <= WEIGHT_MAX)
            .and_then(NonZeroU32::new)
            .map(Self)
            .ok_or(NotAWeight)
    }
}

impl TryFrom<NonZeroU64> for Weight {
    type Error = NotAWeight;

    fn try_from(number: NonZeroU64) -> Result<Self, NotAWeight> {
        number.get().try_into()
    }
}

impl FromStr for Weight {
    type Err = NotAWeight;

    fn from_str(text: &str) -> Result<Self, NotAWeight> {
        text.parse::<u64>().map_err(|_| NotAWeight)?.try_into()
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.0.get()
    }
}
