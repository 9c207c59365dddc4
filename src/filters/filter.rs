//! One filter: its owner, what it is for, and who has its place in the chain.

use std::time::Instant;

use nearhead_chain::window::{Cursor, Snapshot};
use nearhead_tenants::id::KeyId;
use parking_lot::Mutex;

use super::{filter_kind::FilterKind, place::Place, stored_filters::StoredFilter};
use crate::{access::FilterPermit, limits::FILTER_LIFETIME, metrics::OpenFilter};

/// A filter of one key; in a fleet, what this process knows of it.
#[derive(Debug)]
pub(crate) struct Filter {
    owner: KeyId,
    /// What it is for.
    pub(crate) kind: FilterKind,
    /// When somebody asked about it last.
    asked: Mutex<Instant>,
    keeper: Keeper,
    _held: Option<Held>,
}

/// Who has the place of a filter.
#[derive(Debug)]
enum Keeper {
    /// This process.
    Here(Mutex<Moving>),
    /// The store of the fleet.
    Store(StoredFilter),
}

/// A place that moves.
#[derive(Debug)]
struct Moving {
    place: Place,
    /// How often it has moved.
    moves: u64,
}

/// What a filter holds for as long as it is open.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) _permit: FilterPermit,
    pub(super) _open: OpenFilter,
}

impl Filter {
    /// A filter that begins after the head of `snapshot`.
    pub(super) fn new(
        owner: KeyId,
        kind: FilterKind,
        snapshot: &Snapshot,
        now: Instant,
        held: Held,
    ) -> Self {
        let cursor = Cursor::after(snapshot.head());
        Self {
            owner,
            kind,
            asked: Mutex::new(now),
            keeper: Keeper::Here(Mutex::new(Moving {
                place: Place::here(cursor, snapshot, 0),
                moves: 0,
            })),
            _held: Some(held),
        }
    }

    /// A filter of a fleet, whose place the store has. Without what it would hold, it is for one
    /// answer.
    pub(super) fn of_fleet(
        owner: KeyId,
        kind: FilterKind,
        stored: StoredFilter,
        now: Instant,
        held: Option<Held>,
    ) -> Self {
        Self {
            owner,
            kind,
            asked: Mutex::new(now),
            keeper: Keeper::Store(stored),
            _held: held,
        }
    }

    /// The key that it belongs to.
    pub(super) const fn owner(&self) -> KeyId {
        self.owner
    }

    /// How the store of the fleet has it; `None` if this process has its place.
    pub(super) const fn stored(&self) -> Option<&StoredFilter> {
        match &self.keeper {
            Keeper::Here(_) => None,
            Keeper::Store(stored) => Some(stored),
        }
    }

    /// Whether nobody has asked about it for too long.
    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(*self.asked.lock()) >= FILTER_LIFETIME
    }

    /// Notes that somebody asks about it; `false` if it is forgotten already.
    pub(super) fn ask(&self, now: Instant) -> bool {
        let mut asked = self.asked.lock();
        let is_kept = now.saturating_duration_since(*asked) < FILTER_LIFETIME;
        if is_kept {
            *asked = (*asked).max(now);
        }
        is_kept
    }

    /// Where it continues; `None` if only the store knows that.
    pub(super) fn place(&self) -> Option<Place> {
        match &self.keeper {
            Keeper::Here(moving) => Some(moving.lock().place.clone()),
            Keeper::Store(_) => None,
        }
    }

    /// Moves it from a place to the cursor of a snapshot; returns its new place, or `None` if it is
    /// no longer where it was, because another answer has moved it.
    pub(super) fn advance(&self, from: &Place, to: Cursor, snapshot: &Snapshot) -> Option<Place> {
        let Keeper::Here(moving) = &self.keeper else {
            return None;
        };
        let mut moving = moving.lock();
        if !moving.place.is_same(from) {
            return None;
        }
        moving.moves += 1;
        moving.place = Place::here(to, snapshot, moving.moves);
        Some(moving.place.clone())
    }

    /// Moves it back, unless it was moved further since.
    pub(super) fn take_back(&self, moved: &Place, before: &Place) {
        if let Keeper::Here(moving) = &self.keeper {
            let mut moving = moving.lock();
            if moving.place.is_same(moved) {
                moving.place = before.clone();
            }
        }
    }
}
