//! Prints the cost of log searches: `cargo bench -p nearhead-chain --bench log_search`.
//!
//! One thread, CPU-bound; on a shared machine only the ratios are meaningful.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, Bytes, Log, keccak256};
use nearhead_chain::{
    block,
    block::Block,
    encode, fees,
    json::Json,
    log_search,
    log_search::{Cancellation, LogFilter, LogPostings, SearchError, search},
    network,
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use test_block::TestBlock;

#[path = "../src/test_block.rs"]
#[allow(dead_code, unreachable_pub, clippy::expect_used)]
mod test_block;

const BLOCKS: u64 = 128;
const LOGS_MAX: usize = 10_000;

/// A distinct address for each number.
fn address(number: u64) -> Address {
    Address::from_word(keccak256(number.to_be_bytes()))
}

/// A distinct topic for each number.
fn topic(number: u64) -> B256 {
    keccak256((number + (1 << 32)).to_be_bytes())
}

/// Emitters and events that only the logs for a certain filter have.
const RARE: u64 = 1 << 20;
const SELDOM: u64 = RARE + 1;
const EVENT: u64 = RARE + 2;
const OTHER_EVENT: u64 = RARE + 3;
/// Accounts that many logs name.
const BUSY: [u64; 2] = [RARE + 4, RARE + 5];
/// Accounts that one log names.
const QUIET: [u64; 2] = [RARE + 6, RARE + 7];

/// A mainnet-like log: most logs are of few emitters and events, and accounts are many.
fn common_log(rng: &mut ChaCha8Rng) -> Log {
    let mut below = |bound: u64| u64::from(rng.next_u32()) % bound;
    let often_small = |one: u64, two: u64| one * two / 200;
    let emitter = often_small(below(200), below(200));
    let event = below(3 + emitter % 5);
    let count = 1 + below(3);
    let accounts = (0..count).map(|_| topic(1_000 + below(2_000)));
    let topics = std::iter::once(topic(event)).chain(accounts).collect();
    let data = vec![below(256) as u8; 32 * (1 + below(3) as usize)];
    Log::new_unchecked(address(emitter), topics, data.into())
}

fn log(emitter: u64, event: u64, accounts: [u64; 2]) -> Log {
    let topics = vec![topic(event), topic(accounts[0]), topic(accounts[1])];
    Log::new_unchecked(address(emitter), topics, Bytes::from(vec![1; 32]))
}

/// Blocks of `common` logs in at most 250 receipts, plus the few logs that selective filters match:
/// the same ones whatever `common` is.
fn chain(common: usize) -> Vec<Arc<Block>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut chain: Vec<Arc<Block>> = Vec::new();
    for number in 0..BLOCKS {
        let mut logs: Vec<Log> = (0..common).map(|_| common_log(&mut rng)).collect();
        logs.push(log(SELDOM, EVENT, [1, 2]));
        if number == BLOCKS / 2 {
            logs.push(log(RARE, EVENT, [1, 2]));
            logs.push(log(EVENT, OTHER_EVENT, QUIET));
        }
        // Emitter, event and accounts: each is common alone, and rare in combination with another.
        for place in 0..common / 10 {
            logs[place * 10] = log(EVENT, OTHER_EVENT, [1, BUSY[1]]);
            logs[place * 10 + 1] = log(OTHER_EVENT, EVENT, [BUSY[0], 2]);
        }
        if number % 10 == 0 {
            logs[2] = log(EVENT, EVENT, BUSY);
        }
        let receipts = logs.chunks(logs.len().div_ceil(250));
        let transactions = (number * 250..)
            .zip(receipts.map(<[Log]>::to_vec))
            .collect();
        let block = TestBlock {
            salt: 0,
            transactions,
        };
        chain.push(match chain.last() {
            Some(parent) => block.child_of(parent),
            None => block.genesis(),
        });
    }
    chain
}

fn filter(addresses: Vec<Address>, topics: Vec<Vec<B256>>) -> LogFilter {
    LogFilter { addresses, topics }
}

/// The time of one run: the 10th percentile of many short rounds, because other work of the machine
/// interrupts some of them.
fn measure(mut run: impl FnMut()) -> Duration {
    let begin = Instant::now();
    run();
    let once = begin.elapsed().max(Duration::from_nanos(50));
    let runs = (300_000 / once.as_nanos()).clamp(1, 5_000) as u32;
    let mut rounds = [(); 101].map(|()| {
        let begin = Instant::now();
        (0..runs).for_each(|_| run());
        begin.elapsed() / runs
    });
    rounds.sort();
    rounds[10]
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1_000.0
}

/// Takes the whole value as a connection does, and returns the number of parts.
fn parts(json: Json) -> usize {
    let mut parts = 0;
    for mut piece in json.into_pieces() {
        while !piece.is_empty() {
            parts += usize::from(black_box(piece.take(120 << 10)).is_ok());
        }
    }
    parts
}

/// Searches, and gathers the answer unless the search is refused.
fn answer(blocks: &[Arc<Block>], filter: &LogFilter) -> (usize, usize, usize) {
    let cancel = Cancellation::default();
    match search(blocks, filter, LOGS_MAX, &cancel) {
        Ok(found) => {
            let count = found.count();
            let json = found.into_json();
            (count, json.len(), parts(json))
        }
        Err(SearchError::TooMany { .. } | SearchError::Cancelled) => (LOGS_MAX + 1, 0, 0),
    }
}

fn filters() -> Vec<(&'static str, LogFilter)> {
    let many = |from: u64| (from..from + 4_900).map(address).collect::<Vec<_>>();
    vec![
        ("no match, address", filter(vec![address(RARE + 9)], vec![])),
        (
            "no match, address and event",
            filter(vec![address(RARE + 9)], vec![vec![topic(0)]]),
        ),
        ("1 match, address", filter(vec![address(RARE)], vec![])),
        (
            "1 match, topic",
            filter(vec![address(RARE)], vec![vec![topic(EVENT)]]),
        ),
        (
            "13 matches, both common alone",
            filter(vec![address(EVENT)], vec![vec![topic(EVENT)]]),
        ),
        (
            "13 matches, with a wildcard",
            filter(vec![address(EVENT)], vec![vec![topic(EVENT)], vec![]]),
        ),
        (
            "13 matches, address and topic 1",
            filter(vec![address(EVENT)], vec![vec![], vec![topic(BUSY[0])]]),
        ),
        (
            "13 matches, topics 0 and 2",
            filter(
                vec![],
                vec![vec![topic(EVENT)], vec![], vec![topic(BUSY[1])]],
            ),
        ),
        (
            "13 matches, topics 1 and 2",
            filter(
                vec![],
                vec![vec![], vec![topic(BUSY[0])], vec![topic(BUSY[1])]],
            ),
        ),
        (
            "1 match, 3 topics",
            filter(
                vec![],
                vec![
                    vec![topic(OTHER_EVENT)],
                    vec![topic(QUIET[0])],
                    vec![topic(QUIET[1])],
                ],
            ),
        ),
        (
            "1 match, address and 3 topics",
            filter(
                vec![address(EVENT)],
                vec![
                    vec![topic(OTHER_EVENT)],
                    vec![topic(QUIET[0])],
                    vec![topic(QUIET[1])],
                ],
            ),
        ),
        (
            "128 matches, address",
            filter(vec![address(SELDOM)], vec![]),
        ),
        (
            "128 matches, 4,900 addresses",
            filter([many(1 << 24), vec![address(SELDOM)]].concat(), vec![]),
        ),
        ("too many, everything", LogFilter::default()),
        ("too many, 4,900 addresses", filter(many(0), vec![])),
    ]
}

fn main() {
    let small = chain(650);
    let large = chain(6_500);
    println!("{BLOCKS} blocks of 650 logs, and the same matches among 6,500 logs per block");
    println!(
        "{:32} {:>7} {:>9} {:>7} {:>10} {:>10} {:>6}",
        "filter", "matches", "bytes", "pieces", "µs", "µs at 10x", "ratio"
    );
    for (name, filter) in filters() {
        let (count, bytes, pieces) = answer(&small, &filter);
        let one = measure(|| _ = black_box(answer(&small, black_box(&filter))));
        let ten = measure(|| _ = black_box(answer(&large, black_box(&filter))));
        let ratio = micros(ten) / micros(one);
        println!(
            "{name:32} {count:>7} {bytes:>9} {pieces:>7} {:>10.2} {:>10.2} {ratio:>6.2}",
            micros(one),
            micros(ten)
        );
    }
    bulk(&small);
    ingest(&small);
    drop((small, large));
    huge();
    crossover();
}

/// Large answers: all logs of a few blocks, and one event's logs of many.
fn bulk(chain: &[Arc<Block>]) {
    println!("\nbulk");
    let all = (&chain[..15], LogFilter::default());
    let event = (&chain[..60], filter(vec![], vec![vec![topic(0)]]));
    for (name, (blocks, filter)) in [("15 whole blocks", all), ("one event in 60 blocks", event)] {
        let cancel = Cancellation::default();
        let (count, bytes, pieces) = answer(blocks, &filter);
        let counting =
            measure(|| _ = black_box(search(blocks, &filter, LOGS_MAX, &cancel).is_ok()));
        let both = measure(|| _ = black_box(answer(blocks, black_box(&filter))));
        let take = micros(both.saturating_sub(counting));
        let speed = bytes as f64 / micros(both) / 1_000.0;
        println!(
            "{name:32} {count:>7} {bytes:>9} {pieces:>7}  count {:.1} µs, take {take:.1} µs, {speed:.1} GB/s",
            micros(counting)
        );
    }
}

/// The cost of indexing a block.
fn ingest(chain: &[Arc<Block>]) {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let logs: Vec<Log> = (0..650).map(|_| common_log(&mut rng)).collect();
    let time = measure(|| _ = black_box(LogPostings::new(logs.iter())));
    println!(
        "\nindexing 650 logs: {:.1} µs, {} bytes of postings per block",
        micros(time),
        chain[1].postings.bytes()
    );
}

/// The adversarial block: 155,000 logs.
fn huge() {
    let logs = (0..155_000).map(|number| {
        // Of three topics, each log has two.
        let mut topics = [0, 1, 2].map(topic);
        topics[number as usize % 3] = topic(3);
        Log::new_unchecked(address(number % 2), topics.into(), Bytes::from(vec![1; 32]))
    });
    let logs: Vec<Log> = logs.collect();
    let time = measure(|| _ = black_box(LogPostings::new(logs.iter())));
    println!(
        "\none block of 155,000 logs: indexed in {:.0} µs",
        micros(time)
    );
    let block = TestBlock {
        salt: 0,
        transactions: vec![(0, logs)],
    }
    .genesis();
    let blocks = std::slice::from_ref(&block);
    let walk = filter(vec![], [0, 1, 2].map(|number| vec![topic(number)]).into());
    let table = [
        ("no match", filter(vec![address(9)], vec![])),
        (
            "too many, counted by adding up",
            filter(vec![address(0)], vec![]),
        ),
        ("no match, 51,666 candidates", walk),
    ];
    for (name, filter) in table {
        let time = measure(|| _ = black_box(answer(blocks, black_box(&filter))));
        println!("{name:32} {:>10.2} µs", micros(time));
    }
    let cancel = Cancellation::default();
    let all = || search(blocks, &LogFilter::default(), usize::MAX, &cancel);
    let Ok(bytes) = all().map(|found| found.into_json().len()) else {
        return;
    };
    let counting = measure(|| _ = black_box(all().is_ok()));
    let both = measure(|| _ = black_box(all().map(|found| parts(found.into_json())).is_ok()));
    println!(
        "all of it, {} MB              count {:.0} µs, take {:.1} µs",
        bytes / 1_000_000,
        micros(counting),
        micros(both.saturating_sub(counting))
    );
}

/// What copying runs into one buffer first costs more than writing each run to the connection. The
/// latter costs the reply's body about 200 ns per run: a step for the slice and one for the
/// comma after it.
fn crossover() {
    const BYTES: usize = 2 << 20;
    println!("\ncopying a run twice instead of once");
    let source = vec![1_u8; 256 << 20];
    for bytes in [512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768] {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut run = || {
            let start = rng.next_u32() as usize % (source.len() - bytes);
            &source[start..start + bytes]
        };
        let mut connection = Vec::with_capacity(64 << 10);
        let mut write = |slice: &[u8]| {
            for chunk in slice.chunks(32 << 10) {
                if connection.len() + chunk.len() > 64 << 10 {
                    connection.clear();
                }
                connection.extend_from_slice(chunk);
                black_box(&connection);
            }
        };
        let runs = BYTES / bytes;
        let once = measure(|| (0..runs).for_each(|_| write(run())));
        let twice = measure(|| {
            let mut copied = Vec::with_capacity(BYTES);
            (0..runs).for_each(|_| copied.extend_from_slice(run()));
            write(&copied);
        });
        let each = |time: Duration| time.as_nanos() as f64 / runs as f64;
        let (once, twice) = (each(once), each(twice));
        println!(
            "{bytes:>6} bytes: once {once:>6.0} ns, twice {twice:>6.0} ns, {:>6.0} ns more",
            twice - once
        );
    }
}
