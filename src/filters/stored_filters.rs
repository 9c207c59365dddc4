//! The filters in the store of a fleet.

use std::{io, sync::Arc};

use nearhead_actors::fleet::{
    SharedStore,
    store::{FilterReturn, FilterStore, StoreError, StoreFault},
};
use nearhead_chain::window::Cursor;
use nearhead_fleet::{
    block_id::BlockId,
    bounds::FILTER_MOVE_RECENT,
    filter::{FilterCriteria, FilterName, FilterPlace},
    fleet_key::FleetKey,
    record::RecordError,
    scripts::FilterMade,
};
use nearhead_tenants::secret::random;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    criteria::{criteria_of, kind_of},
    error::StoreAway,
    filter_kind::FilterKind,
    place::{Place, StoredPlace, block_at},
};
use crate::{limits::FILTER_CHANGES_MAX, metrics::RecordRefusals};

/// The filters in the store of a fleet; clones share its thread. What the fleet has not written is
/// counted, and is as if it were not there.
#[derive(Clone, Debug)]
pub(crate) struct StoredFilters(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    store: FilterStore,
    key: FleetKey,
    refusals: RecordRefusals,
    /// Filters that are made and removed at a time.
    changes: Semaphore,
}

/// Why a filter was not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotMoved {
    /// The store was not asked.
    Never,
    /// Nobody knows whether it was.
    Unknown,
}

/// One filter, as the store has it.
#[derive(Debug)]
pub(super) struct StoredFilter {
    pub(super) name: FilterName,
    pub(super) store: StoredFilters,
}

impl StoredFilters {
    /// The filters in this store, which is connected to when it is needed.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn open(shared: &SharedStore, refusals: RecordRefusals) -> io::Result<Self> {
        let counts = Arc::clone(shared.status.filter_calls());
        let store = FilterStore::open(&shared.options, counts).map_err(io::Error::other)?;
        Ok(Self(Arc::new(Parts {
            store,
            key: shared.key.clone(),
            refusals,
            changes: Semaphore::new(FILTER_CHANGES_MAX),
        })))
    }

    /// Adds a filter that begins after a block.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn make(
        &self,
        name: &FilterName,
        kind: &FilterKind,
        cursor: Cursor,
    ) -> Result<FilterMade, StoreAway> {
        let Parts { store, key, .. } = &*self.0;
        let _permit = self.change()?;
        let sealed = criteria_of(kind).seal(name, key);
        // The bound of a filter's addresses and topics is lower.
        let criteria = sealed.map_err(|error| self.refuse(&error))?;
        let place = self.place(name, cursor)?;
        let made = store.make(name, &criteria, &place.bytes).await;
        made.map_err(|error| away(&error))
    }

    /// A turn to make or remove a filter.
    fn change(&self) -> Result<SemaphorePermit<'_>, StoreAway> {
        self.0.changes.try_acquire().map_err(|_| StoreAway)
    }

    /// A filter's place, and its kind if `with_kind`; `None` if there is no such filter.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn read(
        &self,
        name: &FilterName,
        with_kind: bool,
    ) -> Result<Option<(Place, Option<FilterKind>)>, StoreAway> {
        let Parts { store, key, .. } = &*self.0;
        let read = store.read(name, with_kind).await;
        let read = read.map_err(|error| away(&error))?;
        if read.place.is_empty() {
            return Ok(None);
        }
        let place = match FilterPlace::open(name, &read.place, key) {
            Ok(place) => place,
            Err(error) => return Ok(self.count(&error)),
        };
        let kind = match with_kind {
            false => None,
            true => match FilterCriteria::open(name, &read.criteria, key) {
                Ok(criteria) => Some(kind_of(criteria)),
                Err(error) => return Ok(self.count(&error)),
            },
        };
        let moved_ago = u128::from(read.now.saturating_sub(place.moved_at));
        let stored = StoredPlace {
            bytes: read.place,
            is_recent: moved_ago < FILTER_MOVE_RECENT.as_millis(),
        };
        let BlockId { number, hash } = place.block;
        Ok(Some((
            Place::stored(Cursor::at(number, hash), stored),
            kind,
        )))
    }

    /// The record of a new place.
    fn place(&self, name: &FilterName, cursor: Cursor) -> Result<StoredPlace, StoreAway> {
        let tag = random().map(u64::from_be_bytes);
        let place = FilterPlace {
            block: block_at(cursor),
            moved_at: self.0.store.now().unwrap_or(0),
            tag: tag.map_err(|_| StoreAway)?,
        };
        Ok(StoredPlace {
            bytes: place.seal(name, &self.0.key),
            is_recent: true,
        })
    }

    /// The place to which a filter may be moved.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn next_place(&self, name: &FilterName, to: Cursor) -> Result<Place, StoreAway> {
        Ok(Place::stored(to, self.place(name, to)?))
    }

    /// Moves a filter from one place to the other.
    ///
    /// # Errors
    /// It was not moved, or perhaps. `Ok(false)` if it was in another place.
    pub(super) async fn advance(
        &self,
        name: &FilterName,
        from: &Place,
        to: &Place,
    ) -> Result<bool, NotMoved> {
        let [from, to] = [from, to].map(record);
        let moved = self.0.store.advance(name, from, to).await;
        moved.map_err(|error| {
            let not_asked = matches!(error.fault(), StoreFault::NotAsked(_));
            let StoreAway = away(&error);
            match not_asked {
                true => NotMoved::Never,
                false => NotMoved::Unknown,
            }
        })
    }

    /// Moves a filter back, in the background; what is returned waits for it.
    pub(super) fn take_back(
        &self,
        name: &FilterName,
        moved: &Place,
        before: &Place,
    ) -> Option<FilterReturn> {
        let [moved, before] = [moved, before].map(record);
        let back = self.0.store.take_back(name, moved, before);
        back.map_err(|error| away(&error)).ok()
    }

    /// Removes a filter; `false` if there is none.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn remove(&self, name: &FilterName) -> Result<bool, StoreAway> {
        let _permit = self.change()?;
        let place = self.0.store.remove(name).await;
        let place = place.map_err(|error| away(&error))?;
        if place.is_empty() {
            return Ok(false);
        }
        match FilterPlace::open(name, &place, &self.0.key) {
            Ok(_) => Ok(true),
            Err(error) => Ok(self.count(&error).unwrap_or(false)),
        }
    }

    /// Waits until no call is on its way any more, if that is not long.
    pub(super) async fn settle(&self) {
        self.0.store.settle().await;
    }

    /// Counts a record that the fleet has not written: there is no filter.
    fn count<T>(&self, error: &RecordError) -> Option<T> {
        tracing::debug!(%error, "a record of a filter is refused");
        self.0.refusals.count(error);
        None
    }

    fn refuse(&self, error: &RecordError) -> StoreAway {
        tracing::error!(%error, "a filter has no room in a record");
        StoreAway
    }
}

/// The record of a place; empty if the store does not have it, which no filter of a fleet meets.
fn record(place: &Place) -> &[u8] {
    place.as_stored().map_or(&[], |stored| &stored.bytes)
}

fn away(error: &StoreError) -> StoreAway {
    tracing::debug!(%error, "a question about a filter has no answer");
    StoreAway
}
