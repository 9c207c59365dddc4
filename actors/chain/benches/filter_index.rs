//! Prints the cost of finding the filters that a block's logs match: `cargo bench -p nearhead-chain
//! --bench filter_index`.
//!
//! A block of 1,000 logs, 100 of which match one filter each, against 100 filters and against
//! 10,000; the latter should cost at most twice as much. One thread, CPU-bound; on a shared machine
//! only the ratios are meaningful.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, Bytes, Log, keccak256};
use nearhead_chain::log_search::{FilterIndex, LogFilter, LogPostings};

const LOGS: u64 = 1_000;
const MATCHES: u64 = 100;

/// A distinct topic for each number.
fn topic(number: u64) -> B256 {
    keccak256(number.to_be_bytes())
}

/// A distinct emitter for each number.
fn address(number: u64) -> Address {
    Address::from_word(topic(number + (1 << 32)))
}

const TRANSFER: u64 = 1 << 40;
/// Accounts that no log names.
const UNUSED_ACCOUNTS: u64 = 1 << 41;

/// Transfers of 50 tokens; log `number` is paid to account `number`.
fn logs() -> Vec<Log> {
    let log = |number: u64| {
        let topics = [TRANSFER, number + LOGS, number].map(topic).to_vec();
        Log::new_unchecked(address(number % 50), topics, Bytes::from(vec![1; 32]))
    };
    (0..LOGS).map(log).collect()
}

/// A filter of one kind, for an account and its token.
type Kind = fn(B256, Address) -> LogFilter;

const KINDS: [(&str, Kind); 3] = [
    ("paid to an account", |account, _| LogFilter {
        addresses: Vec::new(),
        topics: vec![vec![topic(TRANSFER)], Vec::new(), vec![account]],
    }),
    ("a token, paid to an account", |account, token| LogFilter {
        addresses: vec![token],
        topics: vec![vec![topic(TRANSFER)], Vec::new(), vec![account]],
    }),
    ("paid to one of ten accounts", |account, _| LogFilter {
        addresses: Vec::new(),
        topics: vec![
            vec![topic(TRANSFER)],
            Vec::new(),
            (0..10)
                .map(|other| match other {
                    0 => account,
                    _ => keccak256([account.as_slice(), &[other]].concat()),
                })
                .collect(),
        ],
    }),
];

/// An index of `filters` filters; each of the first [`MATCHES`] matches one log.
fn index(kind: Kind, filters: u64) -> FilterIndex<u64> {
    let mut index = FilterIndex::default();
    for number in 0..filters {
        let account = match number {
            0..MATCHES => number * LOGS / MATCHES,
            _ => UNUSED_ACCOUNTS + number,
        };
        index.insert(&kind(topic(account), address(account % 50)), number);
    }
    index
}

/// Looks up all logs of a block in the index; returns the number of filters found.
fn matched(index: &FilterIndex<u64>, postings: &LogPostings) -> u64 {
    let mut found = 0;
    for position in 0..LOGS as u32 {
        index.matches(postings, position, |_, _| found += 1);
    }
    found
}

/// The time of one run: the 10th percentile of many rounds, because other work of the machine
/// interrupts some of them.
fn measure(mut run: impl FnMut()) -> Duration {
    let mut rounds = [(); 501].map(|()| {
        let begin = Instant::now();
        run();
        begin.elapsed()
    });
    rounds.sort();
    rounds[50]
}

fn main() {
    let logs = logs();
    let postings = LogPostings::new(logs.iter());
    println!("{LOGS} logs, {MATCHES} of which match one filter each");
    println!(
        "{:32} {:>12} {:>12} {:>6}",
        "filter", "µs, 100", "µs, 10,000", "ratio"
    );
    for (name, kind) in KINDS {
        let [few, many] = [100, 10_000].map(|filters| {
            let index = index(kind, filters);
            assert_eq!(matched(&index, &postings), MATCHES);
            let time = measure(|| _ = black_box(matched(black_box(&index), &postings)));
            time.as_nanos() as f64 / 1_000.0
        });
        println!("{name:32} {few:>12.1} {many:>12.1} {:>6.2}", many / few);
    }
}
