//! All filters of a service.

use std::{sync::Arc, time::Instant};

use dashmap::{DashMap, mapref::entry::Entry};
use nearhead_chain::window::{Cursor, Snapshot};
use nearhead_fleet::{filter::FilterName, scripts::FilterMade};
use nearhead_tenants::id::KeyId;

use super::{
    error::StoreAway,
    filter::{Filter, Held},
    filter_id::FilterId,
    filter_kind::FilterKind,
    place::Place,
    stored_filters::{StoredFilter, StoredFilters},
};
use crate::{
    access::{ActiveKey, FilterCaps, TooManyFilters},
    limits::FILTERS_PER_TENANT_MAX,
    metrics::{ForgottenReason, Metrics},
};

/// All filters of a service; cloning shares them. A restart loses them, unless the service is in a
/// fleet: then the store has them, and these are the ones that this process knows.
///
/// A filter belongs to the key that made it: for all other keys it does not exist.
#[derive(Clone, Debug)]
pub struct Filters(Arc<AllFilters>);

#[derive(Debug)]
struct AllFilters {
    by_id: DashMap<FilterId, Arc<Filter>>,
    caps: FilterCaps,
    metrics: Metrics,
    /// The store of the fleet; `None` without one.
    stored: Option<StoredFilters>,
}

/// Why a filter was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstallError {
    /// There are too many.
    TooMany(TooManyFilters),
    /// The system gives no random numbers for an id.
    NoId,
    /// The store of the fleet does not answer.
    Away,
}

impl From<StoreAway> for InstallError {
    fn from(_: StoreAway) -> Self {
        Self::Away
    }
}

impl Filters {
    /// No filters yet.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self::in_store(metrics, None)
    }

    /// Those of the store of a fleet, if there is one.
    pub(crate) fn in_store(metrics: Metrics, stored: Option<StoredFilters>) -> Self {
        Self(Arc::new(AllFilters {
            by_id: DashMap::new(),
            caps: FilterCaps::default(),
            metrics,
            stored,
        }))
    }

    /// Makes a filter of a key that begins after the head of `snapshot`.
    ///
    /// # Errors
    /// There are too many, the system gives no random numbers, or the store does not answer.
    pub(crate) async fn make(
        &self,
        kind: FilterKind,
        key: &ActiveKey,
        snapshot: &Snapshot,
        now: Instant,
    ) -> Result<FilterId, InstallError> {
        match &self.0.stored {
            None => self.install(kind, key, snapshot, now),
            // Boxed, so that the answers of a process alone do not carry the future's state.
            Some(stored) => Box::pin(self.make_in(stored, kind, key, snapshot, now)).await,
        }
    }

    async fn make_in(
        &self,
        stored: &StoredFilters,
        kind: FilterKind,
        key: &ActiveKey,
        snapshot: &Snapshot,
        now: Instant,
    ) -> Result<FilterId, InstallError> {
        let held = self.hold(key, &kind).map_err(InstallError::TooMany)?;
        let id = FilterId::generate().map_err(|_| InstallError::NoId)?;
        let name = name(id, key);
        let begin = Cursor::after(snapshot.head());
        let full = match stored.make(&name, &kind, begin).await? {
            FilterMade::Made => {
                self.keep(id, key, kind, (stored, name), now, Some(held));
                return Ok(id);
            }
            FilterMade::Full => TooManyFilters::OfService,
            FilterMade::TenantFull => TooManyFilters::OfTenant {
                most: FILTERS_PER_TENANT_MAX,
            },
        };
        Err(InstallError::TooMany(full))
    }

    /// The filter of a key with this id, about which somebody asks now, and its place; `None` if
    /// there is none.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn ask(
        &self,
        id: FilterId,
        key: &ActiveKey,
        now: Instant,
    ) -> Result<Option<(Arc<Filter>, Place)>, StoreAway> {
        let found = self.find(id, key.record.id, now);
        match &self.0.stored {
            None => Ok(found.and_then(|filter| {
                let place = filter.place()?;
                Some((filter, place))
            })),
            // Boxed, as above.
            Some(stored) => Box::pin(self.ask_in(stored, id, key, found, now)).await,
        }
    }

    async fn ask_in(
        &self,
        stored: &StoredFilters,
        id: FilterId,
        key: &ActiveKey,
        found: Option<Arc<Filter>>,
        now: Instant,
    ) -> Result<Option<(Arc<Filter>, Place)>, StoreAway> {
        let name = name(id, key);
        let Some((place, kind)) = stored.read(&name, found.is_none()).await? else {
            // It was removed or forgotten, whichever process did so.
            let owner = key.record.id;
            let is_it = |_: &FilterId, filter: &Arc<Filter>| filter.owner() == owner;
            self.0.by_id.remove_if(&id, is_it);
            return Ok(None);
        };
        let read = || {
            let kind = kind?;
            // If there is no room for it, it is read again at the next question.
            let held = self.hold(key, &kind).ok();
            Some(self.keep(id, key, kind, (stored, name), now, held))
        };
        Ok(found.or_else(read).map(|filter| (filter, place)))
    }

    /// Where a filter continues now; `None` if it is gone.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn place(&self, filter: &Filter) -> Result<Option<Place>, StoreAway> {
        match filter.stored() {
            None => Ok(filter.place()),
            Some(StoredFilter { name, store }) => {
                // Boxed, as above.
                let read = Box::pin(store.read(name, false)).await?;
                Ok(read.map(|(place, _)| place))
            }
        }
    }

    /// Removes the filter of a key with this id; `false` if there is none.
    ///
    /// # Errors
    /// The store does not answer. The filter may be gone even so.
    pub(crate) async fn remove(
        &self,
        id: FilterId,
        key: &ActiveKey,
        now: Instant,
    ) -> Result<bool, StoreAway> {
        let was_here = self.uninstall(id, key.record.id, now);
        match &self.0.stored {
            None => Ok(was_here),
            // Boxed, as above.
            Some(stored) => Box::pin(stored.remove(&name(id, key))).await,
        }
    }

    /// Waits until the fleet's store has what the last answers left, if that is not long.
    pub(super) async fn settle(&self) {
        if let Some(stored) = &self.0.stored {
            stored.settle().await;
        }
    }

    /// Keeps a filter of the fleet's store that this process knows now, as long as it holds
    /// something.
    fn keep(
        &self,
        id: FilterId,
        key: &ActiveKey,
        kind: FilterKind,
        (store, name): (&StoredFilters, FilterName),
        now: Instant,
        held: Option<Held>,
    ) -> Arc<Filter> {
        let store = store.clone();
        let stored = StoredFilter { name, store };
        let is_kept = held.is_some();
        let filter = Filter::of_fleet(key.record.id, kind, stored, now, held);
        let filter = Arc::new(filter);
        if is_kept {
            self.0.by_id.insert(id, Arc::clone(&filter));
        }
        filter
    }

    /// What a filter of this kind holds.
    fn hold(&self, key: &ActiveKey, kind: &FilterKind) -> Result<Held, TooManyFilters> {
        let permit = self.0.caps.take(&key.tenant, kind.value_count())?;
        Ok(Held {
            _permit: permit,
            _open: self.0.metrics.filters.open(),
        })
    }

    /// Makes a filter whose place this process has.
    ///
    /// # Errors
    /// There are too many, or the system gives no random numbers.
    pub(super) fn install(
        &self,
        kind: FilterKind,
        key: &ActiveKey,
        snapshot: &Snapshot,
        now: Instant,
    ) -> Result<FilterId, InstallError> {
        let held = self.hold(key, &kind).map_err(InstallError::TooMany)?;
        let filter = Arc::new(Filter::new(key.record.id, kind, snapshot, now, held));
        loop {
            let id = FilterId::generate().map_err(|_| InstallError::NoId)?;
            if let Entry::Vacant(vacant) = self.0.by_id.entry(id) {
                vacant.insert(filter);
                return Ok(id);
            }
        }
    }

    /// The filter of a key with this id, about which somebody asks now, if this process knows it.
    pub(super) fn find(&self, id: FilterId, key: KeyId, now: Instant) -> Option<Arc<Filter>> {
        let filter = self.0.by_id.get(&id)?;
        // While it is looked at, nobody can forget it.
        (filter.owner() == key && filter.ask(now)).then(|| Arc::clone(&filter))
    }

    /// Forgets the filter of a key with this id; `false` if this process knows none.
    pub(super) fn uninstall(&self, id: FilterId, key: KeyId, now: Instant) -> bool {
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

/// The name by which all processes of a fleet know a filter of a key.
fn name(id: FilterId, key: &ActiveKey) -> FilterName {
    FilterName {
        tenant: key.tenant.id.bytes(),
        owner: key.record.id.bytes(),
        id: id.bytes(),
    }
}
