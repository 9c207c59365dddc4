#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use alloy_primitives::{Address, B256};
use nearhead_chain::{
    block::Block, encode::EncodeOptions, network::FeeRules, remote::Verifier, trie::NodeStore,
    window::Window,
};

use super::*;
use crate::{read::ask, share::Share, test_chain::Chain};

impl Chain {
    fn find(&self, filter: LogFilter) -> FindLogs {
        FindLogs {
            snapshot: Arc::clone(&self.snapshot),
            range: LogRange::Numbers {
                from: 0,
                to: self.snapshot.head().number(),
            },
            filter,
            limit: 10_000,
            share: Share::default(),
            deadline: Instant::now() + Duration::from_secs(60),
            cancel: Cancellation::default(),
        }
    }

    fn waiting(&self) -> usize {
        let queues = self.resources.pool.usage();
        queues.iter().map(|queue| queue.waiting).sum()
    }
}

/// A filter for these addresses and 4,000 that do not exist: more look-ups than a worker makes
/// itself.
fn large(any: &[Address]) -> LogFilter {
    let unknown = (0..4_000_u64)
        .map(|salt| Address::from_word(B256::from(alloy_primitives::U256::from(salt))));
    LogFilter {
        addresses: any.iter().copied().chain(unknown).collect(),
        topics: Vec::new(),
    }
}

#[actix::test]
async fn the_pool_answers_as_the_worker_does() {
    let chain = Chain::start();
    let all = chain
        .worker
        .logs
        .send(chain.find(LogFilter::default()))
        .await
        .unwrap()
        .unwrap();
    assert!(all.len() > 10_000, "{} bytes", all.len());
    let emitter: Address = "0x7dcd17433742f4c0ca53122ab541d0ba67fc27df"
        .parse()
        .unwrap();
    let small = LogFilter {
        addresses: vec![emitter],
        topics: Vec::new(),
    };
    let on_worker = ask(&chain.worker.logs, chain.find(small)).await.unwrap();
    let on_pool = ask(&chain.worker.logs, chain.find(large(&[emitter])))
        .await
        .unwrap();
    assert!(on_worker.len() > 2);
    let bytes = |json: Json| {
        let mut bytes = Vec::new();
        json.write(&mut bytes).map(|()| bytes)
    };
    assert_eq!(bytes(on_worker), bytes(on_pool));
    assert_eq!(chain.waiting(), 0);
}

/// A worker would make the JSON of every block in turn.
#[actix::test]
async fn the_pool_answers_while_blocks_have_no_json() {
    let chain = Chain::start();
    // That of the vectors' genesis file.
    let chain_id = 3_503_995_874_084_926;
    let rules = FeeRules::of_chain(chain_id);
    let options = EncodeOptions::default();
    let verifier = Verifier::new(chain_id, rules, options, NodeStore::new());
    let blocks = &chain.snapshot.canonical()[1..20];
    let restore = |block: &Arc<Block>| {
        let saved = block.save().unwrap();
        verifier.restore(block.hash, &saved).unwrap()
    };
    let restored: Vec<_> = blocks.iter().map(restore).collect();
    let mut window = Window::new(chain_id, Arc::clone(&restored[0]));
    window
        .advance(0, restored[1..].to_vec(), None, None)
        .unwrap();
    let find = || FindLogs {
        snapshot: window.snapshot(),
        ..chain.find(LogFilter::default())
    };
    let occupied = chain.occupy();
    let reply = actix::spawn(chain.worker.logs.send(find()));
    while chain.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    occupied.release().await;
    let found = reply.await.unwrap().unwrap().unwrap();
    assert!(found.len() > 1_000, "{} bytes", found.len());
    for block in &restored {
        block.make_json().unwrap();
    }
    let occupied = chain.occupy();
    let again = ask(&chain.worker.logs, find()).await.unwrap();
    assert_eq!(again.len(), found.len());
    occupied.release().await;
}

#[actix::test]
async fn a_deadline_ends_a_queued_query_and_cancels_it() {
    let chain = Chain::start();
    let occupied = chain.occupy();
    let mut find = chain.find(large(&[]));
    find.deadline = Instant::now() + Duration::from_millis(500);
    let cancel = find.cancel.clone();
    let reply = ask(&chain.worker.logs, find).await;
    assert!(matches!(reply, Err(QueryError::Timeout)));
    assert!(cancel.is_cancelled(), "a running query would stop");
    assert_eq!(chain.waiting(), 0, "it has left the queue");
    occupied.release().await;
}

#[actix::test]
async fn a_late_or_cancelled_query_does_not_start() {
    let chain = Chain::start();
    for filter in [LogFilter::default(), large(&[])] {
        let mut late = chain.find(filter.clone());
        late.deadline = Instant::now();
        assert!(matches!(
            ask(&chain.worker.logs, late).await,
            Err(QueryError::Timeout)
        ));
        let cancelled = chain.find(filter);
        cancelled.cancel.cancel();
        assert!(matches!(
            ask(&chain.worker.logs, cancelled).await,
            Err(QueryError::Cancelled)
        ));
    }
    // Cancelled while queued.
    let occupied = chain.occupy();
    let find = chain.find(large(&[]));
    let cancel = find.cancel.clone();
    let reply = chain.worker.logs.send(find);
    let reply = actix::spawn(reply);
    tokio::task::yield_now().await;
    cancel.cancel();
    occupied.release().await;
    assert!(matches!(
        reply.await.unwrap().unwrap(),
        Err(QueryError::Cancelled)
    ));
    assert_eq!(chain.waiting(), 0);
}

/// One tenant has as much work in the queue as may wait there; small queries and those of another
/// tenant are answered.
#[actix::test]
async fn too_much_work_of_one_tenant_is_refused_and_that_of_others_is_not() {
    let chain = Chain::start();
    let occupied = chain.occupy();
    let flood = Share::default();
    let query = |share| FindLogs {
        share,
        ..chain.find(large(&[]))
    };
    let mut flooding = Vec::new();
    let refused = loop {
        let reply = actix::spawn(chain.worker.logs.send(query(flood)));
        let before = chain.waiting();
        while chain.waiting() == before && !reply.is_finished() {
            tokio::task::yield_now().await;
        }
        if reply.is_finished() {
            break reply.await.unwrap().unwrap();
        }
        flooding.push(reply);
    };
    let Err(QueryError::Overloaded { retry_after }) = refused else {
        panic!("{refused:?}")
    };
    assert!(retry_after > Duration::from_secs(1), "{retry_after:?}");
    let small = LogFilter {
        addresses: vec![Address::ZERO],
        topics: Vec::new(),
    };
    assert!(ask(&chain.worker.logs, chain.find(small)).await.is_ok());
    let other = actix::spawn(chain.worker.logs.send(query(Share::default())));
    while chain.waiting() == flooding.len() {
        tokio::task::yield_now().await;
    }
    occupied.release().await;
    assert!(other.await.unwrap().unwrap().is_ok());
    for reply in flooding {
        drop(reply.await.unwrap().unwrap());
    }
    assert!(ask(&chain.worker.logs, query(flood)).await.is_ok());
}

#[actix::test]
async fn too_many_logs_are_an_error_with_the_range_that_fits() {
    let chain = Chain::start();
    let mut find = chain.find(LogFilter::default());
    find.limit = 2;
    let reply = ask(&chain.worker.logs, find).await;
    let Err(QueryError::TooManyLogs {
        from: 0,
        fits_to: Some(fits_to),
        limit: 2,
    }) = reply
    else {
        panic!("{reply:?}")
    };
    let mut find = chain.find(LogFilter::default());
    find.range = LogRange::Numbers {
        from: 0,
        to: fits_to,
    };
    find.limit = 2;
    assert!(ask(&chain.worker.logs, find).await.is_ok());
}

#[actix::test]
async fn several_conditions_are_charged_for_the_logs_they_may_check() {
    let chain = Chain::start();
    // The few logs of the chain, repeated.
    let blocks = chain.snapshot.range(0, chain.snapshot.head().number());
    let blocks: Vec<_> = blocks.iter().cycle().take(10_000).cloned().collect();
    let logs: usize = blocks.iter().map(|block| block.json().log_count()).sum();
    let candidates = logs / (WORKER_CANDIDATES_MAX / WORKER_LOOKUPS_MAX);
    assert!(candidates > 0, "{logs} logs");
    let (address, topic) = (Address::ZERO, B256::ZERO);
    /// Addresses, topics by position, the values looked up in each block, and whether candidate
    /// logs are checked.
    type Row = (Vec<Address>, Vec<Vec<B256>>, usize, bool);
    let table: [Row; 8] = [
        (vec![], vec![], 0, false),
        (vec![], vec![vec![]], 0, false),
        (vec![address], vec![], 1, false),
        (vec![], vec![vec![], vec![topic]], 1, false),
        (vec![address], vec![vec![topic, topic]], 3, true),
        (vec![address], vec![vec![]], 1, true),
        (vec![], vec![vec![topic], vec![]], 1, true),
        (vec![address], vec![vec![topic], vec![]], 2, true),
    ];
    for (addresses, topics, values, checks_logs) in table {
        let filter = LogFilter { addresses, topics };
        let work = blocks.len() * values + usize::from(checks_logs) * candidates;
        let blocks = blocks.iter().map(|block| &**block);
        assert_eq!(count_work(blocks, &filter), work, "{filter:?}");
    }
}
