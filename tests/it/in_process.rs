//! The service without HTTP: importer, head tracker and dispatcher in this process, driven block by
//! block.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use actix::{Addr, Arbiter};
use alloy_genesis::Genesis;
use alloy_primitives::B256;
use nearhead::{
    access::{Access, ActiveKey, ConfiguredKey, Now, ServiceLimits},
    filters::Filters,
    limits::CallLimits,
    metrics::Metrics,
    rpc::{Dispatcher, Via, method_names},
};
use nearhead_actors::{
    freshness::{Freshness, HeadAgeMax},
    head::Head,
    head_tracker::HeadTracker,
    messages::AdvanceHead,
    read::{ReadResources, Worker},
    readiness::Readiness,
};
use nearhead_chain::{
    block::{Block, RawBlock},
    encode::EncodeOptions,
    import::Importer,
    json::Json,
    trie::NodeStore,
    window::WINDOW_BLOCKS,
};
use serde_json::{Value, json};

use crate::harness;

/// One tenant with the key `test`, without limits except that of one session.
pub(crate) fn access() -> Access {
    let limits = ServiceLimits {
        sessions: 1,
        ..ServiceLimits::default()
    };
    let key = ConfiguredKey::new("test", "test").unwrap();
    Access::of_configured(&[key], &limits, SystemTime::now().into())
}

/// The present.
pub(crate) fn now() -> Now {
    Now {
        instant: Instant::now(),
        unix: SystemTime::now().into(),
    }
}

/// The readiness of a service without upstreams whose head may have this age.
pub(crate) fn readiness(head: Head, age_max: HeadAgeMax) -> Readiness {
    Readiness {
        head,
        freshness: Freshness {
            age_max,
            counts_timestamp: false,
        },
        upstreams: None,
        fleet: None,
        has_header_rules: true,
        shutdown: Arc::default(),
    }
}

/// All parts but the server, on one actix system.
pub(crate) struct InProcess {
    importer: Importer,
    /// Canonical blocks that can be extended or reverted to, oldest first.
    window: Vec<Arc<Block>>,
    pub(crate) tracker: Addr<HeadTracker>,
    /// Answers requests; tests may change its options.
    pub(crate) dispatcher: Dispatcher,
    pub(crate) key: Arc<ActiveKey>,
}

impl InProcess {
    /// Starts with the genesis as head.
    pub(crate) fn start(genesis: &Genesis, options: EncodeOptions) -> Self {
        let importer = Importer::new(genesis, options).unwrap();
        let first = importer.genesis(&genesis.alloc).unwrap();
        let head = Head::default();
        let chain = importer.spec().clone().into();
        let arbiter = Arbiter::current();
        let (tracker, _) = HeadTracker::start(&arbiter, head.clone(), chain, Arc::clone(&first));
        let metrics = Metrics::new(method_names()).unwrap();
        let dispatcher = Dispatcher {
            readiness: readiness(head, HeadAgeMax::Off),
            worker: Worker::start(&ReadResources::start(1, 1 << 30, None).unwrap()),
            filters: Filters::new(metrics.clone()),
            metrics,
            usage: Default::default(),
            logs_deadline: Duration::from_secs(10),
            calls: CallLimits::default(),
            waits: Default::default(),
            forwarding: Default::default(),
            openrpc: nearhead::rpc::document(&Default::default()),
        };
        let key = access().resolve("test", now().unix).unwrap();
        Self {
            importer,
            window: vec![first],
            tracker,
            dispatcher,
            key,
        }
    }

    /// Reverts `reverted` blocks, then imports and applies `raw`; returns when they are readable.
    pub(crate) async fn advance<'a>(
        &mut self,
        reverted: usize,
        raw: impl IntoIterator<Item = &'a RawBlock>,
        settled: bool,
    ) {
        self.window.truncate(self.window.len() - reverted);
        let mut applied = Vec::new();
        for raw in raw {
            let block = self
                .importer
                .import(raw.clone(), self.window.last().unwrap())
                .unwrap();
            self.window.push(Arc::clone(&block));
            applied.push(block);
        }
        let head: Option<B256> = settled.then(|| self.window.last().unwrap().hash);
        let change = AdvanceHead {
            reverted,
            applied,
            safe: head,
            finalized: head,
        };
        self.tracker.send(change).await.unwrap().unwrap();
        let surplus = self.window.len().saturating_sub(WINDOW_BLOCKS);
        self.window.drain(..surplus);
    }

    /// The states that something still holds: the window, a snapshot or a leak.
    pub(crate) fn states(&self) -> &NodeStore {
        self.importer.store()
    }

    /// The answer to one body; empty if it gets none.
    pub(crate) async fn answer(&self, body: &str) -> Vec<u8> {
        let answer = self
            .dispatcher
            .answer(&self.key, body.as_bytes(), now(), Via::default())
            .await;
        answer.json.map(Json::into_bytes).unwrap_or_default()
    }

    /// The strictly parsed answer to a call with id 1.
    pub(crate) async fn call(&self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        harness::json(&self.answer(&request.to_string()).await)
    }
}
