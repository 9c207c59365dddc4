//! Compares searches with a scan of every log, tests limits at their boundary, and cancels at exact
//! checks.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod changes;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use alloy_primitives::{Address, B256, Bytes, Log};
use proptest::{collection::vec, prelude::*};

use super::{
    Cancellation, LogFilter, LogPostings, SearchError, cancellation::UNITS_PER_CHECK, search,
};
use crate::{block::Block, json::Json, test_block::TestBlock};

/// Counts the checks of a token, and cancels it at a chosen one.
#[derive(Debug)]
pub(crate) struct Checks {
    seen: AtomicUsize,
    cancel_at: AtomicUsize,
}

impl Default for Checks {
    fn default() -> Self {
        let (seen, cancel_at) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        Self { seen, cancel_at }
    }
}

impl Checks {
    pub(super) fn count(&self, token: &Cancellation) {
        let check_number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if check_number == self.cancel_at.load(Ordering::Relaxed) {
            token.cancel();
        }
    }
}

/// A token that is cancelled at the given check.
fn cancelled_at(check_number: usize) -> Cancellation {
    let token = Cancellation::default();
    token
        .checks
        .cancel_at
        .store(check_number, Ordering::Relaxed);
    token
}

fn checks(token: &Cancellation) -> usize {
    token.checks.seen.load(Ordering::Relaxed)
}

/// Blocks of one branch, each a list of receipts, each a list of logs.
fn chain(blocks: &[Vec<Vec<Log>>]) -> Vec<Arc<Block>> {
    let mut chain: Vec<Arc<Block>> = Vec::new();
    for receipts in blocks {
        let block = TestBlock {
            salt: 0,
            transactions: (0..).zip(receipts.clone()).collect(),
        };
        chain.push(match chain.last() {
            Some(parent) => block.child_of(parent),
            None => block.genesis(),
        });
    }
    chain
}

fn log(address: u8, topics: &[u8], data_bytes: usize) -> Log {
    let topics = topics.iter().map(|topic| B256::repeat_byte(*topic));
    Log::new_unchecked(
        Address::repeat_byte(address),
        topics.collect(),
        Bytes::from(vec![7; data_bytes]),
    )
}

fn filter(addresses: &[u8], topics: &[&[u8]]) -> LogFilter {
    let words = |bytes: &&[u8]| bytes.iter().map(|byte| B256::repeat_byte(*byte)).collect();
    LogFilter {
        addresses: addresses
            .iter()
            .map(|byte| Address::repeat_byte(*byte))
            .collect(),
        topics: topics.iter().map(words).collect(),
    }
}

/// The matching rule of eth_getLogs, written as it is specified.
fn is_match(filter: &LogFilter, log: &Log) -> bool {
    let address = filter.addresses.is_empty() || filter.addresses.contains(&log.address);
    let topics = log.topics();
    let each = filter.topics.iter().zip(topics);
    address
        && topics.len() >= filter.topics.len()
        && each
            .into_iter()
            .all(|(any_of, topic)| any_of.is_empty() || any_of.contains(topic))
}

/// The JSON of all matches by a scan of every log, and their number block by block.
fn scan(chain: &[Arc<Block>], logs: &[Vec<Vec<Log>>], filter: &LogFilter) -> (Vec<u8>, Vec<usize>) {
    let mut found = Vec::new();
    let mut counts = Vec::new();
    for (block, logs) in chain.iter().zip(logs) {
        let before = found.len();
        for (index, log) in logs.iter().flatten().enumerate() {
            if is_match(filter, log) {
                let range = block.json().log_range(index).unwrap();
                found.push(block.json().receipts()[range].to_vec());
            }
        }
        counts.push(found.len() - before);
    }
    ([&b"["[..], &found.join(&b","[..]), b"]"].concat(), counts)
}

/// The whole value, taken in parts of at most `max` bytes.
fn taken(json: Json, max: usize) -> Vec<u8> {
    let len = json.len();
    let mut out = Vec::new();
    for mut piece in json.into_pieces() {
        while !piece.is_empty() {
            let part = piece.take(max).unwrap();
            assert!((1..=max).contains(&part.len()));
            out.extend_from_slice(&part);
            assert_eq!(piece.len(), len - out.len());
        }
    }
    out
}

/// Searches with every interesting limit and compares with the scan.
fn check(logs: &[Vec<Vec<Log>>], filter: &LogFilter) {
    let chain = chain(logs);
    let (json, counts) = scan(&chain, logs, filter);
    let count: usize = counts.iter().sum();
    let cancel = Cancellation::default();
    for (limit, max) in [(count, 64), (count + 1, 1_000), (usize::MAX, usize::MAX)] {
        let found = search(&chain, filter, limit, &cancel).unwrap();
        assert_eq!(found.count(), count, "{filter:?}");
        assert!(taken(found.into_json(), max) == json, "{filter:?}");
    }
    for limit in [count.saturating_sub(1), count / 2, 0] {
        if limit == count {
            continue;
        }
        let mut sum = 0;
        let fits = |count: &&usize| {
            sum += **count;
            sum <= limit
        };
        let fitting = counts.iter().take_while(fits).count() as u64;
        let fits_to = fitting.checked_sub(1);
        let refused = search(&chain, filter, limit, &cancel).unwrap_err();
        assert_eq!(
            refused,
            SearchError::TooMany { limit, fits_to },
            "{filter:?}"
        );
    }
}

fn any_log() -> impl Strategy<Value = Log> {
    // Few values, so that filters match; some topics equal addresses, or each other at other
    // positions.
    let data_bytes = prop_oneof![8 => 0..100_usize, 1 => 3_000..6_000_usize];
    (0..4_u8, vec(0..4_u8, 0..=4), data_bytes)
        .prop_map(|(address, topics, data)| log(address, &topics, data))
}

fn any_filter() -> impl Strategy<Value = LogFilter> {
    let values = || vec(0..6_u8, 0..4);
    (values(), vec(values(), 0..=5)).prop_map(|(addresses, topics)| {
        let topics: Vec<&[u8]> = topics.iter().map(Vec::as_slice).collect();
        filter(&addresses, &topics)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_search_finds_what_a_scan_finds(
        blocks in vec(vec(vec(any_log(), 0..6), 0..6), 1..5),
        filters in vec(any_filter(), 8),
    ) {
        for filter in &filters {
            check(&blocks, filter);
        }
    }

    #[test]
    fn a_large_filter_finds_what_a_scan_finds(
        blocks in vec(vec(vec(any_log(), 0..4), 0..3), 1..4),
        addresses in vec(0..=255_u8, 200..300),
        topics in vec(vec(0..=255_u8, 0..300), 0..3),
    ) {
        let topics: Vec<&[u8]> = topics.iter().map(Vec::as_slice).collect();
        check(&blocks, &filter(&addresses, &topics));
        check(&blocks, &filter(&[], &topics));
        check(&blocks, &filter(&addresses, &[]));
        check(&blocks, &filter(&addresses, &[&[1]]));
    }
}

#[test]
fn filters_match_as_specified() {
    // One receipt of five logs, each an emitter and topics.
    let logs = [
        log(1, &[], 9),
        log(1, &[5], 9),
        log(1, &[5, 6], 9),
        log(2, &[5, 6, 7], 9),
        log(2, &[6, 6, 6, 6], 9),
    ];
    let chain = chain(&[vec![logs.to_vec()]]);
    /// Addresses, topics by position, and which logs match.
    type Row = (&'static [u8], &'static [&'static [u8]], &'static [usize]);
    let table: &[Row] = &[
        // An empty filter matches every log.
        (&[], &[], &[0, 1, 2, 3, 4]),
        (&[1], &[], &[0, 1, 2]),
        (&[1, 2], &[], &[0, 1, 2, 3, 4]),
        // A duplicate value counts once.
        (&[1, 1], &[], &[0, 1, 2]),
        (&[1, 1], &[&[5, 5]], &[1, 2]),
        (&[3], &[], &[]),
        // A wildcard requires a topic at its position.
        (&[], &[&[]], &[1, 2, 3, 4]),
        (&[], &[&[], &[], &[]], &[3, 4]),
        (&[], &[&[], &[], &[], &[]], &[4]),
        (&[1], &[&[], &[]], &[2]),
        (&[1], &[&[5], &[]], &[2]),
        (&[], &[&[5], &[]], &[2, 3]),
        // A topic matches at its position only.
        (&[], &[&[6]], &[4]),
        (&[], &[&[], &[6]], &[2, 3, 4]),
        (&[], &[&[], &[], &[6]], &[4]),
        (&[], &[&[5], &[6]], &[2, 3]),
        (&[2], &[&[5, 6], &[6]], &[3, 4]),
        (&[2], &[&[5], &[], &[7]], &[3]),
        (&[2], &[&[5], &[7]], &[]),
        // The block has this address and this topic, but no log has both.
        (&[1], &[&[6]], &[]),
        (
            &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            &[&[1, 2, 3, 4, 5, 7, 8, 9]],
            &[1, 2, 3],
        ),
        // No log has five topics.
        (&[], &[&[], &[], &[], &[], &[]], &[]),
    ];
    for (addresses, topics, want) in table {
        let filter = filter(addresses, topics);
        let by_scan = (0..logs.len()).filter(|index| is_match(&filter, &logs[*index]));
        assert_eq!(
            by_scan.collect::<Vec<_>>(),
            *want,
            "the scan itself: {filter:?}"
        );
        let found = search(&chain, &filter, 10, &Cancellation::default()).unwrap();
        assert_eq!(found.count(), want.len(), "{filter:?}");
        check(&[vec![logs.to_vec()]], &filter);
    }
}

#[test]
fn an_empty_search_gives_an_empty_array() {
    let cancel = Cancellation::default();
    let found = search(&[], &LogFilter::default(), 0, &cancel).unwrap();
    assert_eq!(found.count(), 0);
    assert_eq!(taken(found.into_json(), 64), b"[]");
    check(&[vec![], vec![vec![]]], &LogFilter::default());
}

#[test]
fn a_search_may_find_as_many_logs_as_its_limit() {
    let log = log(1, &[2], 0);
    let block = |count: usize| vec![vec![log.clone(); count]];
    for filter in [
        LogFilter::default(),
        filter(&[1], &[&[2]]),
        filter(&[1], &[&[], &[]]),
    ] {
        let second = usize::from(filter.topics.len() < 2) * 4_000;
        let logs = [block(6_000), block(second), block(1)];
        let chain = chain(&logs);
        let cancel = Cancellation::default();
        let found = search(&chain[..2], &filter, 10_000, &cancel).map(|found| found.count());
        if second == 0 {
            // A log with one topic has no second one.
            assert_eq!(found, Ok(0));
            continue;
        }
        assert_eq!(found, Ok(10_000));
        let refused = search(&chain, &filter, 10_000, &cancel).unwrap_err();
        assert_eq!(
            refused,
            SearchError::TooMany {
                limit: 10_000,
                fits_to: Some(1)
            }
        );
        let refused = search(&chain, &filter, 5_999, &cancel).unwrap_err();
        assert_eq!(
            refused,
            SearchError::TooMany {
                limit: 5_999,
                fits_to: None
            }
        );
    }
}

#[test]
fn large_runs_are_slices_and_small_ones_are_copied_together() {
    let large = || log(1, &[], 3_000);
    let receipts = vec![
        vec![large(), large(), log(2, &[], 0), log(2, &[], 0)],
        vec![large(), large()],
    ];
    let chain = chain(&[receipts]);
    let cancel = Cancellation::default();
    let json = |filter: &LogFilter| search(&chain, filter, 10, &cancel).unwrap().into_json();
    let parts = |filter: &LogFilter| {
        let mut parts = Vec::new();
        for mut piece in json(filter).into_pieces() {
            while !piece.is_empty() {
                parts.push(piece.take(usize::MAX).unwrap());
            }
        }
        parts
    };
    // Bracket, first receipt, comma, second receipt, bracket.
    assert_eq!(parts(&LogFilter::default()).len(), 5);
    assert_eq!(parts(&filter(&[1], &[])).len(), 5);
    assert_eq!(parts(&filter(&[2], &[])).len(), 1);
    // Shared slices are not copies.
    let receipts = chain[0].json().receipts();
    let start = chain[0].json().log_range(0).unwrap().start;
    assert_eq!(
        parts(&filter(&[1], &[]))[1].as_ptr(),
        receipts[start..].as_ptr()
    );
}

#[test]
fn an_unread_answer_holds_little_memory() {
    let logs = (0..20_000_usize).map(|index| vec![log((index % 2) as u8, &[], 100)]);
    let chain = chain(&[logs.collect()]);
    let check = |filter: LogFilter, len_min: usize, held_max: usize| {
        let found = search(&chain, &filter, 20_000, &Cancellation::default()).unwrap();
        let json = found.into_json();
        assert!(json.len() > len_min, "{} bytes", json.len());
        assert!(json.held() < held_max, "{} bytes are held", json.held());
    };
    // Every other log matches: a run for each.
    check(filter(&[1], &[]), 4_000_000, 90_000);
    // All match: the block has their places.
    check(LogFilter::default(), 8_000_000, 500);
}

#[test]
fn cancelled_work_does_not_begin() {
    let chain = chain(&[vec![vec![log(1, &[2], 0)]]]);
    let cancel = Cancellation::default();
    cancel.cancel();
    let refused = search(&chain, &LogFilter::default(), 10, &cancel).unwrap_err();
    assert_eq!(refused, SearchError::Cancelled);
}

#[test]
fn cancellation_takes_effect_anywhere_in_a_huge_block() {
    // A third of the logs has each pair of the topics 1, 3 and 5, and none has all three: to search
    // the list of any pair takes long and finds nothing.
    let logs = (0..155_001_usize).map(|index| {
        let topics = [[1, 3, 6], [1, 4, 5], [2, 3, 5]];
        log(7, &topics[index % 3], 0)
    });
    // With this one, not all logs of the block match.
    let other = log(8, &[], 0);
    let chain = chain(&[vec![logs.chain([other]).collect()]]);
    let most = filter(&[7], &[]);
    let walked = filter(&[], &[&[1, 2], &[3, 4]]);
    let many_candidates = filter(&[], &[&[1], &[3], &[5]]);
    let table = [
        // The list is copied in chunks, and each match is looked up in the JSON.
        (most, 155_001, 2 * 155_001),
        (walked, 155_001, 2 * 155_001),
        (many_candidates, 0, 51_667),
    ];
    for (filter, count, units) in table {
        let token = Cancellation::default();
        let found = search(&chain, &filter, 155_001, &token).unwrap();
        assert_eq!(found.count(), count);
        let in_search = checks(&token);
        assert!(
            in_search >= units / UNITS_PER_CHECK,
            "{in_search} checks for {units} units"
        );
        for check_number in [1, 2, in_search / 2, in_search] {
            let token = cancelled_at(check_number);
            let cancelled = search(&chain, &filter, 155_001, &token).unwrap_err();
            assert_eq!(
                (cancelled, checks(&token)),
                (SearchError::Cancelled, check_number)
            );
        }
    }
}

#[test]
fn postings_have_only_the_keys_of_their_logs() {
    let logs = [log(1, &[2, 3], 0), log(1, &[2, 4], 0), log(5, &[], 0)];
    let postings = LogPostings::new(logs.iter());
    assert_eq!(postings.len(), 3);
    let keys = [1, 2, 3, 4].map(|field| {
        postings
            .keys(super::postings::Field::TOPICS[field - 1])
            .len()
    });
    assert_eq!(keys, [1, 2, 0, 0]);
    assert_eq!(postings.keys(super::postings::Field::Address).len(), 2);
    let pairs = super::postings::Field::PAIRS.map(|(field, _)| postings.keys(field).len());
    assert_eq!(pairs, [1, 2, 0, 0, 2, 0, 0, 0, 0, 0]);
}
