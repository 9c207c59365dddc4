//! Filters without a server: their owners, their time, and what their answers leave.
//!
//! | file | content |
//! |---|---|
//! | `scene` | a chain of test blocks, and a dispatcher that serves it |
//! | `walk` | random histories, against clients that keep what they get |
//! | `refused` | answers that are refused or given up lose nothing |

#![expect(clippy::unwrap_used, reason = "tests")]

mod refused;
mod scene;
mod walk;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{B256, Bytes};
use nearhead_chain::{
    test_block::TestBlock,
    window::{Cursor, WINDOW_BLOCKS, Window},
};
use nearhead_tenants::{UnixMillis, id::KeyId};

use super::{Advance, Advances, Filter, FilterId, FilterKind, Filters, Place, place::StoredPlace};
use crate::{
    access::{Access, ActiveKey, ConfiguredKey, ServiceLimits},
    limits::FILTER_LIFETIME,
    metrics::{ForgottenReason, Metrics},
};

const SECOND: Duration = Duration::from_secs(1);

/// Two keys of one tenant.
fn keys() -> [Arc<ActiveKey>; 2] {
    let configured: Vec<_> = ["one", "other"]
        .into_iter()
        .filter_map(|key| ConfiguredKey::new("tenant", key).ok())
        .collect();
    let time = UnixMillis(0);
    let access = Access::of_configured(&configured, &ServiceLimits::default(), time);
    ["one", "other"].map(|key| access.resolve(key, time).unwrap())
}

/// Filters of one service, the window, and a key.
struct Case {
    filters: Filters,
    metrics: Metrics,
    window: Window,
    keys: [Arc<ActiveKey>; 2],
    now: Instant,
}

impl Case {
    fn new() -> Self {
        let metrics = Metrics::new([]).unwrap();
        Self {
            filters: Filters::new(metrics.clone()),
            metrics,
            window: Window::new(1, TestBlock::default().genesis()),
            keys: keys(),
            now: Instant::now(),
        }
    }

    fn install(&self) -> FilterId {
        let (key, snapshot) = (&self.keys[0], self.window.snapshot());
        let made = self
            .filters
            .install(FilterKind::Blocks, key, &snapshot, self.now);
        made.unwrap()
    }

    fn key(&self, at: usize) -> KeyId {
        self.keys[at].record.id
    }

    fn find(&self, id: FilterId) -> Option<Arc<Filter>> {
        self.filters.find(id, self.key(0), self.now)
    }

    /// Applies a block to the window, and moves a filter to it.
    fn advance(&mut self, filter: &Arc<Filter>) -> Option<Advance> {
        let place = filter.place()?;
        self.apply();
        let snapshot = self.window.snapshot();
        Advance::make_here(filter, &place, Cursor::after(snapshot.head()), &snapshot)
    }

    fn apply(&mut self) {
        let head = Arc::clone(self.window.snapshot().head());
        let block = TestBlock::default().child_of(&head);
        self.window.apply(block).unwrap();
    }

    /// Open filters, and those that were forgotten for each reason.
    fn counts(&self) -> [u64; 3] {
        let metrics = &self.metrics.filters;
        let forgotten = |reason| metrics.forgotten(reason).get();
        [
            u64::try_from(metrics.count()).unwrap(),
            forgotten(ForgottenReason::Idle),
            forgotten(ForgottenReason::Key),
        ]
    }
}

#[test]
fn a_filter_is_forgotten_unless_somebody_asks() {
    let mut case = Case::new();
    let [asked, unasked] = [(); 2].map(|()| case.install());
    let always = |_: KeyId| true;
    case.now += FILTER_LIFETIME - SECOND;
    assert!(case.find(asked).is_some());
    case.filters.forget(always, case.now);
    assert_eq!(case.counts(), [2, 0, 0]);

    case.now += SECOND;
    // It is forgotten before it is removed.
    assert!(case.find(unasked).is_none());
    assert!(!case.filters.uninstall(unasked, case.key(0), case.now));
    case.filters.forget(always, case.now);
    assert_eq!(case.counts(), [1, 1, 0]);

    // A question with an earlier time, which another worker took, does not shorten its life.
    case.now += FILTER_LIFETIME - 2 * SECOND;
    assert!(case.find(asked).is_some());
    case.now -= 100 * SECOND;
    assert!(case.find(asked).is_some());
    case.now += 100 * SECOND + FILTER_LIFETIME - SECOND;
    assert!(case.find(asked).is_some());
    assert!(case.filters.uninstall(asked, case.key(0), case.now));
    assert_eq!(case.counts(), [0, 1, 0]);
    assert!(case.find(asked).is_none());
}

#[test]
fn a_filter_exists_for_its_key_alone() {
    let case = Case::new();
    let id = case.install();
    let (owner, other) = (case.key(0), case.key(1));
    assert!(case.filters.find(id, other, case.now).is_none());
    assert!(!case.filters.uninstall(id, other, case.now));
    assert!(case.find(id).is_some());
    case.filters.forget(|key| key == owner, case.now);
    assert_eq!(case.counts(), [1, 0, 0]);
    case.filters.forget(|key| key == other, case.now);
    assert_eq!(case.counts(), [0, 0, 1]);
    assert!(case.find(id).is_none());
}

/// A filter that is removed while it is asked about is counted until the answer is made.
#[test]
fn a_filter_counts_until_nobody_has_it() {
    let case = Case::new();
    let id = case.install();
    let held = case.find(id).unwrap();
    assert!(case.filters.uninstall(id, case.key(0), case.now));
    assert_eq!(case.counts(), [1, 0, 0]);
    drop(held);
    assert_eq!(case.counts(), [0, 0, 0]);
}

#[test]
fn a_move_is_taken_back_unless_it_is_kept() {
    let mut case = Case::new();
    let id = case.install();
    let filter = case.find(id).unwrap();
    let at = || filter.place().unwrap().cursor.number();

    drop(case.advance(&filter).unwrap());
    assert_eq!(at(), 0);
    case.advance(&filter).unwrap().keep();
    assert_eq!(at(), 2);

    // Of two answers from one place, one has moved the filter.
    let place = filter.place().unwrap();
    case.apply();
    let snapshot = case.window.snapshot();
    let head = Cursor::after(snapshot.head());
    let first = Advance::make_here(&filter, &place, head, &snapshot).unwrap();
    assert!(Advance::make_here(&filter, &place, head, &snapshot).is_none());
    // Once that is taken back, the other one can.
    let moved = filter.place().unwrap();
    drop(first);
    assert_eq!(at(), 2);
    let other = Advance::make_here(&filter, &place, head, &snapshot).unwrap();
    // What was found from the place of the first is not the same.
    assert!(Advance::make_here(&filter, &moved, head, &snapshot).is_none());
    drop(other);

    // What came after a move keeps it.
    let first = case.advance(&filter).unwrap();
    let second = case.advance(&filter).unwrap();
    drop(first);
    assert_eq!(at(), 5);
    drop(second);
    assert_eq!(at(), 4);
}

#[actix::test]
async fn all_moves_of_a_request_are_kept_or_taken_back() {
    let mut case = Case::new();
    let id = case.install();
    let filter = case.find(id).unwrap();
    let at = || filter.place().unwrap().cursor.number();
    // Each move is to the head, which goes on by three blocks in each round.
    for (kept, expected) in [(None, 0), (Some(1), 4), (Some(3), 9)] {
        let advances = Advances::default();
        for _ in 0..3 {
            advances.push(case.advance(&filter).unwrap());
        }
        if let Some(kept) = kept {
            advances.take_back(kept).await;
            assert_eq!(advances.len(), kept);
            advances.keep();
        }
        drop(advances);
        assert_eq!(at(), expected);
    }
}

/// A request that began before a change of the head does not lead a filter back.
#[test]
fn a_filter_is_beyond_older_snapshots() {
    let mut case = Case::new();
    let id = case.install();
    let filter = case.find(id).unwrap();
    let older = case.window.snapshot();
    case.advance(&filter).unwrap().keep();
    let place = filter.place().unwrap();
    assert!(place.is_beyond(&older));
    assert!(!place.is_beyond(&case.window.snapshot()));
}

/// A place that another process has moved to is beyond a process that is behind, by number, by
/// hash, and for some time if its head has a higher number.
#[test]
fn a_place_of_another_process_is_beyond_one_that_is_behind() {
    let mut case = Case::new();
    (0..WINDOW_BLOCKS + 5).for_each(|_| case.apply());
    let snapshot = case.window.snapshot();
    let head = Cursor::after(snapshot.head());
    let (number, other) = (head.number(), B256::repeat_byte(7));
    for (cursor, is_recent, is_beyond) in [
        (head, true, false),
        (Cursor::after(&snapshot.canonical()[3]), true, false),
        (Cursor::at(number + 1, other), false, true),
        (Cursor::at(number, other), false, true),
        (Cursor::at(number - 1, other), true, true),
        (Cursor::at(number - 1, other), false, false),
        (Cursor::at(snapshot.oldest() - 1, other), true, false),
        (Cursor::before(&snapshot.canonical()[0]), true, false),
    ] {
        let stored = StoredPlace {
            bytes: Bytes::new(),
            is_recent,
        };
        let place = Place::stored(cursor, stored);
        let case = format!("{cursor:?}, recent: {is_recent}");
        assert_eq!(place.is_beyond(&snapshot), is_beyond, "{case}");
    }
}
