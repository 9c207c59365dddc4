//! A key in force, with what it may still use.

use std::sync::Arc;

use nearhead_tenants::{UnixMillis, public_key::VerifyingKey, record::KeyRecord};

use super::{
    local_only::LocalOnly,
    meter::{Exceeded, Meter, Now, Remaining, scarcest},
    tenant::{Tenant, kept_meter},
};

/// A key in force. A change of the key or of its tenant makes another one with the same counters.
#[derive(Debug)]
pub struct ActiveKey {
    pub(crate) record: Arc<KeyRecord>,
    pub(crate) tenant: Arc<Tenant>,
    /// Whether it serves this machine alone. Other keys have only this looked at.
    pub(crate) local_only: Option<LocalOnly>,
    /// Its public keys. They are read here once, and not for each token.
    pub(super) public_keys: Box<[Arc<VerifyingKey>]>,
    /// What it has used of its own quota; `None` is unlimited.
    meter: Option<Arc<Meter>>,
}

impl ActiveKey {
    /// The key at `now`, with the counters that it had before.
    pub(super) fn new(
        record: Arc<KeyRecord>,
        tenant: Arc<Tenant>,
        before: Option<&Self>,
        used_today: u64,
        now: UnixMillis,
    ) -> Self {
        let before = before.and_then(|before| before.meter.as_ref());
        Self {
            meter: kept_meter(record.settings.quota, before, used_today, now),
            public_keys: record
                .settings
                .public_keys
                .iter()
                // They were checked when the key got them.
                .filter_map(|public_key| VerifyingKey::new(public_key).ok().map(Arc::new))
                .collect(),
            record,
            tenant,
            local_only: None,
        }
    }

    /// The same key, for this machine alone if that is given.
    pub(super) fn with_local_only(self, local_only: Option<LocalOnly>) -> Self {
        Self { local_only, ..self }
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

    /// Charges units beyond those that were taken.
    pub(crate) fn charge(&self, units: u64, now: Now) {
        for meter in self.meters() {
            meter.charge(units, now);
        }
    }

    /// What is left of the scarcest bucket; `None` if no rate is limited.
    pub(crate) fn remaining(&self, now: Now) -> Option<Remaining> {
        let left = |meter: &Option<Arc<Meter>>| meter.as_ref()?.remaining(now);
        scarcest(left(&self.meter), left(&self.tenant.meter))
    }

    /// Whether anything is counted.
    pub(crate) fn is_metered(&self) -> bool {
        self.meters().next().is_some()
    }

    fn meters(&self) -> impl Iterator<Item = &Meter> {
        [&self.meter, &self.tenant.meter]
            .into_iter()
            .filter_map(Option::as_deref)
    }
}
