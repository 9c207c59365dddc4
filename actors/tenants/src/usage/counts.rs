use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    mem,
};

use crate::{
    id::KeyId,
    usage::counted::{Counted, RequestUse},
};

/// Most cells of one worker between two ticks. In a second, which has four, a worker answers some
/// 50,000 requests, so they fit even if no two are of the same key.
pub const CELLS_MAX: usize = 65_536;

/// Most methods, one for what is no method included.
pub const METHODS_MAX: usize = 1_024;

/// The room of a worker that is kept however little was counted.
const CELLS_KEPT: usize = 1_024;

/// What one worker has counted since the last tick. It belongs to that worker alone.
#[derive(Debug, Default)]
pub struct UsageCounts {
    cells: HashMap<CellId, Counted, BuildHasherDefault<CellHasher>>,
    /// Requests, sessions and notifications for which there was no room.
    dropped: u64,
}

/// What a worker counted between two ticks.
#[derive(Debug, Default)]
pub struct TakenCounts {
    pub(super) cells: Vec<(CellId, Counted)>,
    /// Requests, sessions and notifications for which there was no room.
    pub(super) dropped: u64,
}

/// What counts are grouped by: key, method and outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellId {
    pub(super) key: KeyId,
    pub(super) method: u16,
    pub(super) outcome: u8,
}

impl CellId {
    /// Stands for what sessions do besides requests.
    pub(super) const fn session(key: KeyId) -> Self {
        Self {
            key,
            method: u16::MAX,
            outcome: u8::MAX,
        }
    }
}

impl std::hash::Hash for CellId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let more = u64::from(self.method) << 8 | u64::from(self.outcome);
        state.write_u64(u64::from_le_bytes(self.key.bytes()));
        state.write_u64(more);
    }
}

/// Ids of keys are random or digests, and no client chooses them, so a cheap hash spreads them.
#[derive(Debug, Default)]
pub(super) struct CellHasher(u64);

impl Hasher for CellHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        // The odd constant is 2^64 divided by the golden ratio.
        let mixed = (self.0.rotate_left(29) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
}

impl UsageCounts {
    /// Counts a request.
    pub fn request(&mut self, key: KeyId, request: &RequestUse) {
        let (method, outcome) = (request.method, request.outcome);
        let id = CellId {
            key,
            method,
            outcome,
        };
        if let Some(counted) = self.cell(id) {
            counted.request(request);
        }
    }

    /// Counts a session that was opened, for this many units.
    pub fn session_opened(&mut self, key: KeyId, units: u64) {
        if let Some(counted) = self.cell(CellId::session(key)) {
            counted.session_opened(units);
        }
    }

    /// Counts notifications of a session.
    pub fn notified(&mut self, key: KeyId, notifications: u64, units: u64, bytes_out: u64) {
        if let Some(counted) = self.cell(CellId::session(key)) {
            counted.notified(notifications, units, bytes_out);
        }
    }

    /// Whether there is nothing to take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.dropped == 0
    }

    /// Takes everything: what a tick hands to the owner of the store. Room for a tick like this
    /// one stays; what a busier one took is freed.
    pub fn take(&mut self) -> TakenCounts {
        let taken = TakenCounts {
            cells: self.cells.drain().collect(),
            dropped: mem::take(&mut self.dropped),
        };
        self.keep_room(taken.cells.len());
        taken
    }

    /// Frees room that the last tick did not need, in which nothing was counted.
    pub fn rest(&mut self) {
        if self.cells.is_empty() {
            self.keep_room(0);
        }
    }

    fn keep_room(&mut self, cells: usize) {
        let most = CELLS_KEPT.max(cells * 2);
        if self.cells.capacity() > most * 2 {
            self.cells.shrink_to(most);
        }
    }

    fn cell(&mut self, id: CellId) -> Option<&mut Counted> {
        if self.cells.len() >= CELLS_MAX && !self.cells.contains_key(&id) {
            self.dropped += 1;
            return None;
        }
        Some(self.cells.entry(id).or_default())
    }
}

impl TakenCounts {
    /// What was counted, with the key and the index of the outcome; `None` for what sessions did
    /// besides requests. Several methods may have the same two.
    pub fn by_outcome(&self) -> impl Iterator<Item = (KeyId, Option<u8>, &Counted)> {
        self.cells.iter().map(|(id, counted)| {
            let outcome = (*id != CellId::session(id.key)).then_some(id.outcome);
            (id.key, outcome, counted)
        })
    }

    /// The keys that were used; one may come several times.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.cells.iter().map(|(id, _)| id.key)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use super::*;
    use crate::usage::used::Used;

    fn key(number: u64) -> KeyId {
        KeyId::of_configured(&number.to_string())
    }

    fn used(taken: &TakenCounts, id: CellId) -> Used {
        let found = taken.cells.iter().find(|(known, _)| *known == id);
        found.map(|(_, counted)| counted.used()).unwrap_or_default()
    }

    const REQUEST: RequestUse = RequestUse {
        method: 3,
        outcome: 1,
        units: 20,
        bytes_in: 100,
        bytes_out: 300,
        took: Duration::from_millis(2),
    };

    #[test]
    fn requests_are_counted_by_key_method_and_outcome() {
        let mut counts = UsageCounts::default();
        assert!(counts.is_empty());
        for request in [
            REQUEST,
            REQUEST,
            RequestUse {
                outcome: 0,
                ..REQUEST
            },
        ] {
            counts.request(key(1), &request);
        }
        counts.session_opened(key(1), 1);
        counts.notified(key(1), 2, 10, 500);
        let taken = counts.take();
        assert!(counts.is_empty());
        let cell = |method, outcome| {
            let key = key(1);
            used(
                &taken,
                CellId {
                    key,
                    method,
                    outcome,
                },
            )
        };
        let (both, one, session) = (
            cell(3, 1),
            cell(3, 0),
            used(&taken, CellId::session(key(1))),
        );
        assert_eq!(
            (both.requests, both.units, both.bytes_in, both.bytes_out),
            (2, 40, 200, 600)
        );
        assert_eq!((both.latency, one.requests), ([0, 0, 2, 0, 0, 0, 0, 0], 1));
        assert_eq!(
            (session.sessions, session.notifications, session.units),
            (1, 2, 11)
        );
        assert_eq!(taken.cells.len(), 3);
    }

    #[test]
    fn cells_are_bounded() {
        let mut counts = UsageCounts::default();
        let most = CELLS_MAX as u64;
        for number in 0..most + 5 {
            let method = (number % 1_000) as u16;
            counts.request(key(number / 1_000), &RequestUse { method, ..REQUEST });
        }
        // Those that have a cell are counted.
        counts.request(
            key(0),
            &RequestUse {
                method: 0,
                ..REQUEST
            },
        );
        let taken = counts.take();
        assert_eq!((taken.cells.len(), taken.dropped), (CELLS_MAX, 5));
        let first = CellId {
            key: key(0),
            method: 0,
            outcome: 1,
        };
        assert_eq!(used(&taken, first).requests, 2);
    }

    /// A worker that was busy once keeps little room, and one that is busy keeps its room.
    #[test]
    fn room_is_that_of_the_last_tick() {
        let mut counts = UsageCounts::default();
        let mut tick = |requests: u64| {
            (0..requests).for_each(|number| counts.request(key(number), &REQUEST));
            assert_eq!(counts.take().cells.len() as u64, requests);
            counts.cells.capacity()
        };
        let busy = tick(20_000);
        assert!(busy >= 20_000);
        assert_eq!(tick(20_000), busy, "nothing is freed that is used again");
        let room = CELLS_KEPT..4 * CELLS_KEPT;
        let quiet = tick(1);
        assert!(room.contains(&quiet), "{quiet}");
        tick(20_000);
        counts.rest();
        let rested = counts.cells.capacity();
        assert!(room.contains(&rested), "{rested}");
        counts.request(key(1), &REQUEST);
        counts.rest();
        assert_eq!(counts.take().cells.len(), 1, "what was counted stays");
        // A cell has the size of the counts, and those of what it is found by.
        let bytes = size_of::<(CellId, Counted)>();
        assert!(bytes <= 80, "{bytes} bytes");
    }

    #[test]
    fn the_hash_spreads_cells() {
        let hash = |id: CellId| {
            let mut hasher = CellHasher::default();
            std::hash::Hash::hash(&id, &mut hasher);
            hasher.finish()
        };
        let ids = (0..64_u64).flat_map(|number| {
            let key = key(number);
            (0..64).flat_map(move |method| {
                (0..4).map(move |outcome| CellId {
                    key,
                    method,
                    outcome,
                })
            })
        });
        let hashes: HashSet<u64> = ids.map(hash).collect();
        let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0xffff).collect();
        let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        // A random function has 16,384 hashes with some 14,500 different low halves.
        assert_eq!((hashes.len(), high.len()), (16_384, 128));
        assert!(low.len() > 14_000, "{}", low.len());
    }
}
