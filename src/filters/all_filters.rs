//! All filters of a service.

use std::{sync::Arc, time::Instant};

use dashmap::{DashMap, mapref::entry::Entry};
use nearhead_chain::window::Snapshot;
use nearhead_tenants::id::KeyId;

use super::{
    filter::{Filter, FilterKind, Held},
    filter_id::FilterId,
};
use crate::{
    access::{ActiveKey, FilterCaps, TooManyFilters},
    metrics::{ForgottenReason, Metrics},
};

/// All filters of a service; cloning shares them. A restart loses them.
///
/// A filter belongs to the key that made it: for all other keys it does not exist.
#[derive(Clone, Debug)]
pub struct Filters(Arc<AllFilters>);

#[derive(Debug)]
struct AllFilters {
    by_id: DashMap<FilterId, Arc<Filter>>,
    caps: FilterCaps,
    metrics: Metrics,
}

/// Why a filter was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstallError {
    /// There are too many.
    TooMany(TooManyFilters),
    /// The system gives no random numbers for an id.
    NoId,
}

impl Filters {
    /// No filters yet.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self(Arc::new(AllFilters {
            by_id: DashMap::new(),
            caps: FilterCaps::default(),
            metrics,
        }))
    }

    /// Makes a filter of a key that begins after the head of `snapshot`.
    ///
    /// # Errors
    /// There are too many, or the system gives no random numbers.
    pub(crate) fn install(
        &self,
        kind: FilterKind,
        key: &ActiveKey,
        snapshot: &Snapshot,
        now: Instant,
    ) -> Result<FilterId, InstallError> {
        let values = match &kind {
            FilterKind::Blocks => 0,
            FilterKind::Logs { filter, .. } => filter.value_count(),
        };
        let permit = self.0.caps.take(&key.tenant, values);
        let permit = permit.map_err(InstallError::TooMany)?;
        let held = Held {
            _permit: permit,
            _open: self.0.metrics.filters.open(),
        };
        let filter = Arc::new(Filter::new(key.record.id, kind, snapshot, now, held));
        loop {
            let id = FilterId::generate().map_err(|_| InstallError::NoId)?;
            if let Entry::Vacant(vacant) = self.0.by_id.entry(id) {
                vacant.insert(filter);
                return Ok(id);
            }
        }
    }

    /// The filter of a key with this id, about which somebody asks now.
    pub(crate) fn find(&self, id: FilterId, key: KeyId, now: Instant) -> Option<Arc<Filter>> {
        let filter = self.0.by_id.get(&id)?;
        // While it is looked at, nobody can forget it.
        (filter.owner() == key && filter.ask(now)).then(|| Arc::clone(&filter))
    }

    /// Removes the filter of a key with this id; `false` if there is none.
    pub(crate) fn uninstall(&self, id: FilterId, key: KeyId, now: Instant) -> bool {
        let is_it =
            |_: &FilterId, filter: &Arc<Filter>| filter.owner() == key && !filter.is_forgotten(now);
        self.0.by_id.remove_if(&id, is_it).is_some()
    }

    /// Forgets the filters that nobody has asked about for too long, and those of keys that let
    /// nobody in any more.
    pub(crate) fn forget(&self, has_key: impl Fn(KeyId) -> bool, now: Instant) {
        self.0.by_id.retain(|_, filter| {
            let reason = if filter.is_forgotten(now) {
                ForgottenReason::Idle
            } else if !has_key(filter.owner()) {
                ForgottenReason::Key
            } else {
                return true;
            };
            self.0.metrics.filters.forgotten(reason).inc();
            false
        });
    }
}
