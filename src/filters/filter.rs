//! One filter: its owner, what it is for, and its place in the chain.

use std::{sync::Arc, time::Instant};

use nearhead_chain::{
    log_search::LogFilter,
    window::{Cursor, Snapshot},
};
use nearhead_tenants::id::KeyId;
use parking_lot::Mutex;

use crate::{
    access::FilterPermit, limits::FILTER_LIFETIME, metrics::OpenFilter, rpc::log_query::LogBlocks,
};

/// What a filter is for.
#[derive(Clone, Debug)]
pub(crate) enum FilterKind {
    /// Hashes of new canonical blocks.
    Blocks,
    /// Logs of some blocks, and those that were removed.
    Logs {
        /// The blocks.
        blocks: LogBlocks,
        /// The logs.
        filter: Arc<LogFilter>,
    },
}

/// A filter of one key.
#[derive(Debug)]
pub(crate) struct Filter {
    owner: KeyId,
    /// What it is for.
    pub(crate) kind: FilterKind,
    state: Mutex<FilterState>,
    _held: Held,
}

#[derive(Debug)]
struct FilterState {
    place: Place,
    /// How often it has moved.
    moves: u64,
    /// When somebody asked about it last.
    asked: Instant,
}

/// Where in the chain a filter continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The last block whose changes its client has got.
    pub(crate) cursor: Cursor,
    /// The version of the snapshot by which it came there.
    version: u64,
    /// Differs for each move.
    moved: u64,
}

/// What a filter holds for as long as it is open.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) _permit: FilterPermit,
    pub(super) _open: OpenFilter,
}

impl Place {
    /// Whether the client has got more than this snapshot has: it was asked with a newer one
    /// meanwhile.
    pub(crate) fn is_beyond(&self, snapshot: &Snapshot) -> bool {
        snapshot.version() < self.version
    }
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
        let place = Place {
            cursor: Cursor::after(snapshot.head()),
            version: snapshot.version(),
            moved: 0,
        };
        Self {
            owner,
            kind,
            state: Mutex::new(FilterState {
                place,
                moves: 0,
                asked: now,
            }),
            _held: held,
        }
    }

    /// The key that it belongs to.
    pub(super) const fn owner(&self) -> KeyId {
        self.owner
    }

    /// Whether nobody has asked about it for too long.
    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        let asked = self.state.lock().asked;
        now.saturating_duration_since(asked) >= FILTER_LIFETIME
    }

    /// Notes that somebody asks about it; `false` if it is forgotten already.
    pub(super) fn ask(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let is_kept = now.saturating_duration_since(state.asked) < FILTER_LIFETIME;
        if is_kept {
            state.asked = state.asked.max(now);
        }
        is_kept
    }

    /// Where it continues.
    pub(crate) fn place(&self) -> Place {
        self.state.lock().place
    }

    /// Moves it from a place to the cursor of a snapshot; returns its new place, or `None` if it is
    /// no longer where it was, because another answer has moved it.
    pub(super) fn advance(&self, from: &Place, to: Cursor, snapshot: &Snapshot) -> Option<Place> {
        let mut state = self.state.lock();
        if state.place.moved != from.moved {
            return None;
        }
        state.moves += 1;
        state.place = Place {
            cursor: to,
            version: snapshot.version(),
            moved: state.moves,
        };
        Some(state.place)
    }

    /// Moves it back, unless it was moved further since.
    pub(super) fn take_back(&self, moved: &Place, before: Place) {
        let mut state = self.state.lock();
        if state.place.moved == moved.moved {
            state.place = before;
        }
    }
}
