//! A key in force, with what it may still use.

use std::sync::Arc;

use nearhead_tenants::{
    id::KeyId, public_key::VerifyingKey, record::KeyRecord, secret::SecretDigest,
};

use super::{
    bucket::MeterParts,
    local_only::LocalOnly,
    meter::{Exceeded, Meter, Now, Remaining, scarcest},
    shards::FoundBy,
    tenant::{Tenant, kept_meter},
};

/// A key in force. A change of the key or of its tenant makes another one with the same counters.
#[derive(Debug)]
pub struct ActiveKey {
    pub(crate) record: Arc<KeyRecord>,
    pub(crate) tenant: Arc<Tenant>,
    /// What it has used of its own quota; `None` is unlimited.
    meter: Option<Arc<Meter>>,
    /// `None` if it has nothing of this, so that most of many keys take less memory.
    rare: Option<Box<Rare>>,
}

/// What few keys have.
#[derive(Clone, Debug, Default)]
struct Rare {
    local_only: Option<LocalOnly>,
    /// They are read once, and not for each token.
    public_keys: Box<[Arc<VerifyingKey>]>,
}

impl FoundBy<KeyId> for ActiveKey {
    fn id(&self) -> &KeyId {
        &self.record.id
    }
}

impl FoundBy<SecretDigest> for ActiveKey {
    fn id(&self) -> &SecretDigest {
        &self.record.digest
    }
}

impl ActiveKey {
    /// The key at `now`, which goes on with the meter of its chain, and with the public keys that
    /// it had before. It serves this machine alone if `local_only` says so.
    pub(super) fn new(
        record: Arc<KeyRecord>,
        tenant: Arc<Tenant>,
        local_only: Option<LocalOnly>,
        (before, meter): (Option<&Self>, Option<&Arc<Meter>>),
        parts: MeterParts<'_>,
    ) -> Self {
        let public_keys = public_keys(&record, before);
        let is_rare = local_only.is_some() || !public_keys.is_empty();
        Self {
            meter: kept_meter(record.settings.quota, meter, parts),
            rare: is_rare.then(|| {
                Box::new(Rare {
                    local_only,
                    public_keys,
                })
            }),
            record,
            tenant,
        }
    }

    /// Whether [`Self::new`] would make the same key of this.
    pub(super) fn is_made_of(
        &self,
        record: &Arc<KeyRecord>,
        tenant: &Arc<Tenant>,
        local_only: Option<&LocalOnly>,
    ) -> bool {
        Arc::ptr_eq(&self.tenant, tenant)
            && self.local_only() == local_only
            && (Arc::ptr_eq(&self.record, record) || self.record == *record)
    }

    /// Whether it serves this machine alone. Other keys have only this looked at.
    pub(crate) fn local_only(&self) -> Option<&LocalOnly> {
        self.rare.as_ref()?.local_only.as_ref()
    }

    /// Its public keys.
    pub(super) fn public_keys(&self) -> &[Arc<VerifyingKey>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.public_keys)
    }

    /// What it has used of its own quota.
    pub(super) const fn meter(&self) -> Option<&Arc<Meter>> {
        self.meter.as_ref()
    }

    /// Whether a request needs a token.
    pub(super) fn needs_token(&self) -> bool {
        !self.record.settings.public_keys.is_empty()
    }

    /// Takes this many requests, and a unit for each, from the key and its tenant.
    ///
    /// # Errors
    /// One of them has too little left. Nothing is taken.
    pub(crate) fn take(&self, requests: u32, now: Now) -> Result<(), Exceeded> {
        if let Some(own) = &self.meter {
            own.take(requests, now)?;
        }
        let Some(meter) = &self.tenant.meter else {
            return Ok(());
        };
        meter.take(requests, now).inspect_err(|_| {
            if let Some(own) = &self.meter {
                own.give_back(requests);
            }
        })
    }

    /// Takes `requests` instead of those that were `taken` before.
    ///
    /// # Errors
    /// As of [`take`](Self::take). Nothing is taken then.
    pub(crate) fn take_instead(&self, taken: u32, requests: u32, now: Now) -> Result<(), Exceeded> {
        self.meters().for_each(|meter| meter.give_back(taken));
        self.take(requests, now)
    }

    /// Charges units beyond those that were taken.
    pub(crate) fn charge(&self, units: u64, now: Now) {
        if units > 0 {
            self.meters().for_each(|meter| meter.charge(units, now));
        }
    }

    /// What is left of the scarcest bucket; `None` if no rate is limited.
    pub(crate) fn remaining(&self, now: Now) -> Option<Remaining> {
        let left = |meter: &Option<Arc<Meter>>| meter.as_ref()?.remaining(now);
        scarcest(left(&self.meter), left(&self.tenant.meter))
    }

    fn meters(&self) -> impl Iterator<Item = &Meter> {
        [&self.meter, &self.tenant.meter]
            .into_iter()
            .filter_map(Option::as_deref)
    }
}

/// The public keys of a record: those from before if they are the same, because to read them takes
/// long.
fn public_keys(record: &KeyRecord, before: Option<&ActiveKey>) -> Box<[Arc<VerifyingKey>]> {
    let listed = &record.settings.public_keys;
    match before {
        Some(before) if before.record.settings.public_keys == *listed => {
            before.public_keys().into()
        }
        _ => listed
            .iter()
            // They were checked when the key got them.
            .filter_map(|public_key| VerifyingKey::new(public_key).ok().map(Arc::new))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four pointers: all else is shared or rare.
    #[test]
    fn a_key_is_small() {
        assert_eq!(size_of::<ActiveKey>(), 4 * size_of::<usize>());
    }
}
