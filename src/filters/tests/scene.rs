//! A chain of test blocks, and a dispatcher that serves it.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use actix::{Addr, Arbiter};
use alloy_primitives::{Address, B256, Bytes, Log};
use nearhead_actors::{
    freshness::{Freshness, HeadAgeMax},
    head::Head,
    head_tracker::HeadTracker,
    messages::AdvanceHead,
    read::{ReadResources, Worker},
    readiness::Readiness,
};
use nearhead_chain::{
    block::Block, json::Json, log_search::LogFilter, test_block::TestBlock, window::Snapshot,
};
use serde_json::{Value, json};

use super::keys;
use crate::{
    access::{ActiveKey, Now},
    filters::Filters,
    limits::CallLimits,
    metrics::Metrics,
    rpc::{Answer, Dispatcher, Via, method_names},
    tenants::UsageMeter,
};

/// The chain, the service, and its keys.
pub(super) struct Scene {
    tracker: Addr<HeadTracker>,
    pub(super) dispatcher: Dispatcher,
    pub(super) keys: [Arc<ActiveKey>; 2],
    /// All canonical blocks, the genesis first.
    pub(super) chain: Vec<Arc<Block>>,
    salt: u64,
}

/// The present.
pub(super) fn now() -> Now {
    Now {
        instant: Instant::now(),
        unix: SystemTime::now().into(),
    }
}

/// Read actors whose replies may hold this many bytes.
pub(super) fn worker(reply_bytes: usize) -> Worker {
    Worker::start(&ReadResources::start(1, reply_bytes, None).unwrap())
}

impl Scene {
    /// A chain that is only its genesis.
    pub(super) async fn start() -> Self {
        let genesis = TestBlock::default().genesis();
        let head = Head::default();
        let first = Arc::clone(&genesis);
        let (tracker, _) = HeadTracker::start(&Arbiter::current(), head.clone(), 1.into(), first);
        let metrics = Metrics::new(method_names()).unwrap();
        let dispatcher = Dispatcher {
            forwarding: Default::default(),
            readiness: Readiness {
                head,
                freshness: Freshness {
                    age_max: HeadAgeMax::Off,
                    counts_timestamp: false,
                },
                upstreams: None,
                fleet: None,
                has_header_rules: false,
                shutdown: Arc::default(),
            },
            worker: worker(1 << 30),
            filters: Filters::new(metrics.clone()),
            metrics,
            usage: UsageMeter::default(),
            logs_deadline: Duration::from_secs(60),
            calls: CallLimits::default(),
            waits: Default::default(),
            openrpc: bytes::Bytes::new(),
        };
        let mut this = Self {
            tracker,
            dispatcher,
            keys: keys(),
            chain: vec![genesis],
            salt: 0,
        };
        // Its answer comes after the first block is readable.
        this.advance(0, vec![Vec::new()]).await;
        this
    }

    /// Reverts blocks and applies one with each of these lists of logs.
    pub(super) async fn advance(&mut self, reverted: usize, blocks: Vec<Vec<Log>>) {
        self.chain.truncate(self.chain.len() - reverted);
        let mut applied = Vec::new();
        for logs in blocks {
            self.salt += 1;
            let block = TestBlock {
                salt: self.salt,
                transactions: vec![(self.salt, logs)],
            };
            let block = block.child_of(self.chain.last().unwrap());
            applied.push(Arc::clone(&block));
            self.chain.push(block);
        }
        let change = AdvanceHead {
            reverted,
            applied,
            safe: None,
            finalized: None,
        };
        self.tracker.send(change).await.unwrap().unwrap();
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.dispatcher.readiness.head.load().unwrap()
    }

    /// The answer to a body with the first key.
    pub(super) async fn answer(&self, body: &Value) -> Value {
        let body = body.to_string();
        let (key, body) = (&self.keys[0], body.as_bytes());
        parsed(
            self.dispatcher
                .answer(key, body, now(), Via::default())
                .await,
        )
    }

    /// The answer to a call.
    pub(super) async fn call(&self, method: &str, params: Value) -> Value {
        self.answer(&request(method, &params)).await
    }

    /// The result of a call.
    pub(super) async fn result(&self, method: &str, params: Value) -> Value {
        let mut answer = self.call(method, params).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The result of eth_getFilterChanges.
    pub(super) async fn changes(&self, id: &Value) -> Vec<Value> {
        let changes = self.result("eth_getFilterChanges", json!([id])).await;
        changes.as_array().unwrap().clone()
    }
}

pub(super) fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

pub(super) fn parsed(answer: Answer) -> Value {
    let json = answer.json.map(Json::into_bytes).unwrap();
    serde_json::from_slice(&json).unwrap()
}

pub(super) fn word(value: usize) -> B256 {
    B256::with_last_byte(value as u8)
}

pub(super) fn address(value: usize) -> Address {
    Address::with_last_byte(value as u8)
}

/// A log with this much data.
pub(super) fn log(emitter: usize, topics: &[usize], data: usize) -> Log {
    let topics = topics.iter().map(|topic| word(*topic)).collect();
    Log::new_unchecked(address(emitter), topics, Bytes::from(vec![1; data]))
}

/// The logs of a block that match, as they are added.
pub(super) fn matches(block: &Block, filter: &LogFilter) -> Vec<Value> {
    let receipts = block.json().receipts();
    let log = |at| &receipts[block.json_without_senders().log_range(at).unwrap()];
    let logs = (0..block.json().log_count()).map(|at| serde_json::from_slice(log(at)).unwrap());
    logs.filter(|log| is_match(log, filter)).collect()
}

fn is_match(log: &Value, filter: &LogFilter) -> bool {
    let text = |word: &B256| word.to_string();
    let is_of = filter.addresses.is_empty()
        || filter
            .addresses
            .iter()
            .any(|address| log["address"] == format!("{address:#x}"));
    let topics = log["topics"].as_array().unwrap();
    let each = filter.topics.iter().enumerate();
    is_of
        && each.into_iter().all(|(at, any_of)| {
            topics.get(at).is_some_and(|topic| {
                any_of.is_empty() || any_of.iter().any(|word| *topic == text(word))
            })
        })
}
