//! Searches of changed blocks, compared with a scan of every log.

use serde_json::Value;

use super::*;
use crate::log_search::{ChangedBlock, search_changes};

/// The matches of each block by a scan, as a reader learns of them.
fn scan_changes(
    changes: &[ChangedBlock],
    logs: &[Vec<Vec<Log>>],
    filter: &LogFilter,
) -> Vec<Vec<Value>> {
    let matches = changes.iter().zip(logs).map(|(change, logs)| {
        let json = change.block.json();
        let all = logs.iter().flatten().enumerate();
        let mut found: Vec<Value> = all
            .filter(|(_, log)| is_match(filter, log))
            .map(|(index, _)| {
                let log = &json.receipts()[json.log_range(index).unwrap()];
                let mut log: Value = serde_json::from_slice(log).unwrap();
                log["removed"] = change.is_reverted.into();
                log
            })
            .collect();
        if change.is_reverted {
            found.reverse();
        }
        found
    });
    matches.collect()
}

/// Reads all changes, with as many searches as this limit asks for.
fn check_changes(logs: &[Vec<Vec<Log>>], reverted: &[bool], filter: &LogFilter, limit: usize) {
    let blocks = chain(logs).into_iter();
    let changes = blocks.zip(reverted).map(|(block, reverted)| ChangedBlock {
        block,
        is_reverted: *reverted,
    });
    let changes: Vec<_> = changes.collect();
    let expected = scan_changes(&changes, logs, filter);
    let cancel = Cancellation::default();
    let mut at = 0;
    while at < changes.len() {
        let found = search_changes(&changes[at..], filter, limit, &cancel).unwrap();
        let end = at + found.blocks;
        let wanted: Vec<Value> = expected[at..end].concat();
        assert_eq!(found.logs.count(), wanted.len(), "{filter:?}");
        // No more than the limit, unless one block alone has more.
        let blocks = expected[at..end].iter().filter(|logs| !logs.is_empty());
        assert!(wanted.len() <= limit || blocks.count() == 1, "{filter:?}");
        // The next block had no room.
        let next = expected.get(end).map_or(usize::MAX, Vec::len);
        assert!(wanted.len().saturating_add(next) > limit, "{filter:?}");
        let max = [64, 1_000, usize::MAX][at % 3];
        let json = taken(found.logs.into_json(), max);
        let json: Vec<Value> = serde_json::from_slice(&json).unwrap();
        assert!(json == wanted, "{filter:?}");
        assert!(end > at, "a reader would never come to the end");
        at = end;
    }
}

proptest! {
    #[test]
    fn a_reader_comes_to_the_end_with_every_limit(
        logs in vec(vec(vec(any_log(), 0..5), 0..4), 1..6),
        reverted in vec(any::<bool>(), 6),
        filter in any_filter(),
        limit in 0..12_usize,
    ) {
        check_changes(&logs, &reverted, &filter, limit);
        check_changes(&logs, &reverted, &filter, 1 << 20);
    }
}

/// All logs of large blocks, removed and added: runs that are slices and runs that are copied.
#[test]
fn large_logs_are_removed_too() {
    let block = |bytes: usize| vec![vec![log(1, &[2], bytes); 40]; 3];
    let logs = [block(10), block(5_000), block(10), block(5_000)];
    let all = LogFilter::default();
    for reverted in [[true; 4], [true, true, false, false], [false; 4]] {
        check_changes(&logs, &reverted, &all, 1 << 20);
        check_changes(&logs, &reverted, &all, 150);
    }
}

#[test]
fn a_cancelled_search_of_changes_finds_nothing() {
    let logs = [vec![vec![log(1, &[2], 10); 5_000]]];
    let changes: Vec<_> = chain(&logs)
        .into_iter()
        .map(|block| ChangedBlock {
            block,
            is_reverted: true,
        })
        .collect();
    let token = Cancellation::default();
    search_changes(&changes, &LogFilter::default(), 1, &token).unwrap();
    let all = checks(&token);
    assert!(all > 5, "{all} checks");
    for check_number in 1..=all {
        let token = cancelled_at(check_number);
        let refused = search_changes(&changes, &LogFilter::default(), 1, &token);
        assert_eq!(refused.unwrap_err(), SearchError::Cancelled);
    }
}
