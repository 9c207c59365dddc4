use std::num::{NonZeroU32, NonZeroU64};

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};

use super::{AdminError, Patch, SecretText};
use crate::{
    allowlists::{Allowlists, Entries, MethodName, Network, OriginPattern, UserAgentPart},
    limits::{Quota, Rate, TenantLimits, Weight},
    public_key::PublicKey,
    record::{BesideSecret, KeySettings},
    secret::Secret,
};

/// What changes in the settings of a key. What is absent stays as it is; of a new key, that is
/// without limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SettingsPatch {
    /// To what it is narrowed.
    pub allow: AllowPatch,
    /// How fast, and how much in a day.
    pub quota: QuotaPatch,
    /// A new secret beside it, or none any more.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub secret: Patch<SecretRequest>,
    /// All public keys of those who sign tokens for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_keys: Option<Vec<PublicKey>>,
}

/// Which allowlists change, each as a whole; `null` and `[]` empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AllowPatch {
    /// Pages.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub origins: Patch<Entries<OriginPattern>>,
    /// Programs.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub user_agents: Patch<Entries<UserAgentPart>>,
    /// Methods.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub methods: Patch<Entries<MethodName>>,
    /// Contracts.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub contracts: Patch<Entries<Address>>,
    /// Networks.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub networks: Patch<Entries<Network>>,
}

/// Which quotas change; `null` removes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct QuotaPatch {
    /// Requests.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub requests: Patch<RateRequest>,
    /// Units.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub units: Patch<RateRequest>,
    /// Units from 00:00 to 24:00 UTC.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub units_per_day: Patch<NonZeroU64>,
}

/// A rate to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateRequest {
    /// How much in a second.
    pub per_second: NonZeroU32,
    /// How much at once, if that is not one second's worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<NonZeroU32>,
}

/// A new secret beside a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecretRequest {
    /// Whether a request without it is refused.
    pub required: bool,
    /// Whether a request with it may have any origin and any user agent.
    pub exempts: bool,
}

/// Which limits of a tenant change; `null` removes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LimitsPatch {
    /// How fast, and how much in a day.
    pub quota: QuotaPatch,
    /// WebSocket sessions that may be open at once.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub sessions: Patch<u32>,
    /// Subscriptions of all its sessions.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub subscriptions: Patch<u32>,
    /// Its share under load, relative to those of other tenants; 1 if it is removed.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub weight: Patch<Weight>,
}

impl LimitsPatch {
    /// The limits after the change.
    pub(super) fn apply(self, before: TenantLimits) -> TenantLimits {
        TenantLimits {
            quota: self.quota.apply(before.quota),
            sessions: self.sessions.apply(before.sessions, |sessions| sessions),
            subscriptions: self.subscriptions.apply(before.subscriptions, |most| most),
            weight: self
                .weight
                .apply(Some(before.weight), Weight::get)
                .unwrap_or(NonZeroU32::MIN),
        }
    }
}

impl QuotaPatch {
    fn apply(self, before: Quota) -> Quota {
        let rate = |RateRequest { per_second, burst }| Rate {
            per_second,
            burst: burst.unwrap_or(per_second),
        };
        Quota {
            requests: self.requests.apply(before.requests, rate),
            units: self.units.apply(before.units, rate),
            units_per_day: self.units_per_day.apply(before.units_per_day, |most| most),
        }
    }
}

impl AllowPatch {
    fn apply(self, before: Allowlists) -> Allowlists {
        fn list<T>(patch: Patch<Entries<T>>, before: Entries<T>) -> Entries<T> {
            patch.apply(Some(before), |after| after).unwrap_or_default()
        }
        Allowlists {
            origins: list(self.origins, before.origins),
            user_agents: list(self.user_agents, before.user_agents),
            methods: list(self.methods, before.methods),
            contracts: list(self.contracts, before.contracts),
            networks: list(self.networks, before.networks),
        }
    }
}

impl SettingsPatch {
    /// The settings after the change, and the new secret beside the key if there is one.
    pub(super) fn apply(
        self,
        before: KeySettings,
    ) -> Result<(KeySettings, Option<SecretText>), AdminError> {
        let made = match &self.secret {
            Patch::Set(_) => Some(Secret::generate()?),
            Patch::Keep | Patch::Remove => None,
        };
        let secret = match (self.secret, &made) {
            (Patch::Set(SecretRequest { required, exempts }), Some(made)) => {
                Some(Box::new(BesideSecret {
                    digest: made.digest(),
                    is_required: required,
                    exempts,
                }))
            }
            (Patch::Keep, _) => before.secret,
            _ => None,
        };
        let settings = KeySettings {
            allow: self.allow.apply(before.allow),
            quota: self.quota.apply(before.quota),
            secret,
            public_keys: self.public_keys.unwrap_or(before.public_keys),
        };
        Ok((settings, made.as_ref().map(SecretText::from)))
    }
}
