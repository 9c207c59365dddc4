//! A worker that holds only the state root, and upstreams that have the whole state.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access_lists;
mod allowances;
mod following;
mod liars;
mod merges;
mod reads;
mod shared;
mod turns;
mod upstreams;
mod witnesses;

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use alloy_primitives::{Address, Bytes, U256, keccak256};
use nearhead_chain::{
    block::Block,
    encode::{ProofKey, proof},
    log_search::Cancellation,
    test_block::TestBlock,
    trie::{AccountInfo, AccountUpdate, NodeStore, State, StateUpdate},
    window::{BlockId, BlockNumberOrTag, BlockTag, Snapshot, Window},
};

use super::*;
use crate::{
    messages::{ProveAccount, ReadAccount, ReadCode, ReadStorage, ReadStorageValues},
    read::{ReadResources, Worker},
    upstream::{
        client::{
            CallLimits,
            tests::server::{RecordedCall, Reply as UpstreamReply, Script},
        },
        follow::Event,
    },
};

/// Accounts of the state. Every third has code and slots; the first has more slots than one call
/// asks for.
const ACCOUNTS: u64 = 60;
const AT: BlockId = BlockId::Number(BlockNumberOrTag::Tag(BlockTag::Latest));

const LIMITS: CallLimits = CallLimits {
    concurrency: 64,
    timeout: Duration::from_secs(60),
    answer_bytes_max: 64 << 20,
};

static FULL: LazyLock<Arc<State>> = LazyLock::new(|| {
    let account = |number: u64| {
        let (slots, code_hash) = match number {
            0 => (1_100, keccak256(code(0))),
            _ if number.is_multiple_of(3) => (20, keccak256(code(number))),
            _ => (0, alloy_trie::KECCAK_EMPTY),
        };
        let slots = (0..slots).map(|slot| (U256::from(slot), U256::from(number + slot + 1)));
        AccountUpdate {
            info: Some(AccountInfo {
                nonce: 1,
                balance: U256::from(number),
                code_hash,
            }),
            storage_wiped: false,
            storage: slots.collect(),
        }
    };
    let numbers = 0..ACCOUNTS;
    let codes = numbers.clone().map(code);
    let update = StateUpdate {
        accounts: numbers.map(|at| (address(at), account(at))).collect(),
        code: codes.map(|code| (keccak256(&code), code)).collect(),
    };
    let empty = State::empty(&NodeStore::new());
    empty.commit(empty.update(&update).unwrap())
});

/// The address of an account; accounts from number [`ACCOUNTS`] on are absent.
fn address(number: u64) -> Address {
    Address::from_word(keccak256(number.to_be_bytes()))
}

fn code(number: u64) -> Bytes {
    vec![0x60; 32 + usize::try_from(number).unwrap()].into()
}

/// The only block; of its state only the root is held.
fn block(store: &Arc<NodeStore>) -> Arc<Block> {
    let block = TestBlock::default().genesis();
    Arc::new(Block {
        state: Some(State::hold(store, FULL.root())),
        ..(*block).clone()
    })
}

/// The answer of an upstream that has the state of the block.
fn honest(call: &RecordedCall) -> UpstreamReply {
    let read = |at: usize| serde_json::from_value(call.params[at].clone()).unwrap();
    let address: Address = read(0);
    let hash = call.params.as_array().unwrap().last().unwrap();
    assert_eq!(*hash, TestBlock::default().genesis().hash.to_string());
    if call.method == "eth_getCode" {
        let account = FULL.account(&address).unwrap().unwrap();
        return UpstreamReply::Result(format!("\"{}\"", FULL.code(&account.code_hash).unwrap()));
    }
    assert_eq!(call.method, "eth_getProof");
    let slots: Vec<String> = serde_json::from_value(call.params[1].clone()).unwrap();
    let key = |slot: &String| {
        assert_eq!(slot.len(), 66, "a key has 32 bytes");
        ProofKey::Full(slot.parse().unwrap())
    };
    let keys = slots.iter().map(key).collect();
    let json = proof(&FULL, address, keys, usize::MAX).unwrap();
    UpstreamReply::Result(String::from_utf8(json.into_bytes()).unwrap())
}

/// How an upstream answers a call.
type Respond = fn(&RecordedCall) -> UpstreamReply;

struct Scene {
    resources: ReadResources,
    worker: Worker,
    source: StateSource,
    snapshot: Arc<Snapshot>,
    /// That of the tenant whose reads these are.
    budget: CallBudget,
    fault_reports: mpsc::Receiver<FaultReport>,
    upstreams: Vec<Arc<Script>>,
}

impl Scene {
    /// A worker with these upstreams and an unbounded store.
    async fn of(upstreams: &[Respond]) -> Self {
        Self::over(&NodeStore::new(), upstreams).await
    }

    async fn over(store: &Arc<NodeStore>, upstreams: &[Respond]) -> Self {
        let mut served = Vec::new();
        for respond in upstreams {
            served.push(Script::answering(*respond).serve().await);
        }
        Self::with_limits(store, served, LIMITS)
    }

    /// With upstreams that are served, and answers of at most so many bytes.
    fn with(
        store: &Arc<NodeStore>,
        served: Vec<(String, Arc<Script>)>,
        answer_bytes_max: usize,
    ) -> Self {
        let limits = CallLimits {
            answer_bytes_max,
            ..LIMITS
        };
        Self::with_limits(store, served, limits)
    }

    /// With upstreams that are served, and these bounds of the calls to each.
    fn with_limits(
        store: &Arc<NodeStore>,
        served: Vec<(String, Arc<Script>)>,
        limits: CallLimits,
    ) -> Self {
        let client = |(url, script): (String, Arc<Script>)| {
            let client = UpstreamClient::new(url.parse().unwrap(), limits).unwrap();
            (client, script)
        };
        let (clients, scripts): (Vec<_>, Vec<_>) = served.into_iter().map(client).unzip();
        let (report_sender, fault_reports) = mpsc::channel(4);
        let standing = Arc::new(Standing::new(clients.len(), 1));
        let runtime = Handle::current();
        let source = StateSource::new(
            clients,
            Arc::clone(store),
            runtime,
            standing,
            report_sender,
            &Restored::default(),
        );
        let resources = ReadResources::start(1, 1 << 20, Some(source.clone())).unwrap();
        Self {
            worker: Worker::start(&resources),
            resources,
            source,
            snapshot: Window::new(1, block(store)).snapshot(),
            budget: CallBudget::default(),
            fault_reports,
            upstreams: scripts,
        }
    }

    fn read_storage(&self, account: u64, slot: u64) -> ReadStorage {
        ReadStorage {
            snapshot: Arc::clone(&self.snapshot),
            budget: self.budget.clone(),
            at: AT,
            address: address(account),
            slot: U256::from(slot),
        }
    }

    fn read_account(&self, account: u64) -> ReadAccount {
        ReadAccount {
            snapshot: Arc::clone(&self.snapshot),
            budget: self.budget.clone(),
            at: AT,
            address: address(account),
        }
    }

    fn read_code(&self, account: u64) -> ReadCode {
        ReadCode {
            snapshot: Arc::clone(&self.snapshot),
            budget: self.budget.clone(),
            at: AT,
            address: address(account),
        }
    }

    fn read_values(&self, slots: &[(u64, Vec<u64>)]) -> ReadStorageValues {
        let of_account = |(account, slots): &(u64, Vec<u64>)| {
            let slots = slots.iter().copied().map(U256::from);
            (address(*account), slots.collect())
        };
        ReadStorageValues {
            snapshot: Arc::clone(&self.snapshot),
            budget: self.budget.clone(),
            at: AT,
            slots: slots.iter().map(of_account).collect(),
            cancel: Cancellation::default(),
        }
    }

    fn prove(&self, account: u64, keys: u64) -> ProveAccount {
        ProveAccount {
            snapshot: Arc::clone(&self.snapshot),
            budget: self.budget.clone(),
            at: AT,
            address: address(account),
            keys: keys_to(keys),
            built_max: 64 << 10,
            cancel: Cancellation::default(),
        }
    }

    /// Passes on an event of the follower.
    fn record(&self, event: &Event) {
        self.source.shared.standing.record(event, Instant::now());
    }

    /// The number of calls that an upstream received.
    fn calls(&self, upstream: usize) -> usize {
        self.upstreams[upstream].calls.lock().len()
    }

    /// Reads: hits and misses. Calls: verified, refuted, failed.
    fn counts(&self) -> ([u64; 2], [u64; 3]) {
        let counts = self.source.counts();
        let count = |(_, count)| count;
        (counts.reads().map(count), counts.calls().map(count))
    }

    /// Waits until no read and no fetch is in progress.
    async fn wait_until_idle(&self) {
        until("no read waits", || {
            self.source.shared.single_flight.len() == 0
                && self.resources.admission.remote.in_use() == 0
        })
        .await;
    }
}

fn keys_to(keys: u64) -> Vec<ProofKey> {
    (0..keys)
        .map(|key| ProofKey::Full(U256::from(key)))
        .collect()
}

/// The value in the full state.
fn stored(account: u64, slot: u64) -> U256 {
    FULL.storage(&address(account), U256::from(slot)).unwrap()
}

/// Lets other tasks run until the condition holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = tokio::time::timeout(Duration::from_secs(60), async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    });
    assert!(wait.await.is_ok(), "waited in vain until {what}");
}
