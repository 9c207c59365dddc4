//! A worker over a state of which only the root is known, and upstreams that know all of it.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod reads;
mod upstreams;

use std::{
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
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
            tests::server::{Asked, Reply as UpstreamReply, Script},
        },
        follow::Event,
    },
};

/// Accounts of the state; every third has code and slots of its own, the first more of them than
/// are asked for at once.
const ACCOUNTS: u64 = 60;
const AT: BlockId = BlockId::Number(BlockNumberOrTag::Tag(BlockTag::Latest));

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

/// An account; it is absent from [`ACCOUNTS`] on.
fn address(number: u64) -> Address {
    Address::from_word(keccak256(number.to_be_bytes()))
}

fn code(number: u64) -> Bytes {
    vec![0x60; 32 + usize::try_from(number).unwrap()].into()
}

/// The one block, whose state is held in part.
fn block(store: &Arc<NodeStore>) -> Arc<Block> {
    let block = TestBlock::default().genesis();
    Arc::new(Block {
        state: Some(State::hold(store, FULL.root())),
        ..(*block).clone()
    })
}

/// What an upstream answers that knows the state of the block.
fn honest(asked: &Asked) -> UpstreamReply {
    let read = |at: usize| serde_json::from_value(asked.params[at].clone()).unwrap();
    let address: Address = read(0);
    let hash = asked.params.as_array().unwrap().last().unwrap();
    assert_eq!(*hash, TestBlock::default().genesis().hash.to_string());
    if asked.method == "eth_getCode" {
        let account = FULL.account(&address).unwrap().unwrap();
        return UpstreamReply::Result(format!("\"{}\"", FULL.code(&account.code_hash).unwrap()));
    }
    assert_eq!(asked.method, "eth_getProof");
    let slots: Vec<String> = serde_json::from_value(asked.params[1].clone()).unwrap();
    let key = |slot: &String| {
        assert_eq!(slot.len(), 66, "a key has 32 bytes");
        ProofKey::Full(slot.parse().unwrap())
    };
    let keys = slots.iter().map(key).collect();
    let json = proof(&FULL, address, keys, usize::MAX).unwrap();
    UpstreamReply::Result(String::from_utf8(json.into_bytes()).unwrap())
}

/// What happens when an upstream is asked.
type Answers = fn(&Asked) -> UpstreamReply;

struct Scene {
    resources: ReadResources,
    worker: Worker,
    source: StateSource,
    snapshot: Arc<Snapshot>,
    fault_reports: mpsc::Receiver<FaultReport>,
    upstreams: Vec<Arc<Script>>,
}

impl Scene {
    /// Upstreams that answer so, and a store without a bound.
    async fn of(upstreams: &[Answers]) -> Self {
        Self::over(&NodeStore::new(), upstreams).await
    }

    async fn over(store: &Arc<NodeStore>, upstreams: &[Answers]) -> Self {
        let limits = CallLimits {
            concurrency: 64,
            timeout: Duration::from_secs(60),
            answer_bytes_max: 64 << 20,
        };
        let (mut scripts, mut clients) = (Vec::new(), Vec::new());
        for answers in upstreams {
            let (url, script) = Script::answering(*answers).serve().await;
            clients.push(UpstreamClient::new(url.parse().unwrap(), limits).unwrap());
            scripts.push(script);
        }
        let (complain, fault_reports) = mpsc::channel(4);
        let standing = Arc::new(Standing::new(upstreams.len()));
        let source = StateSource::new(clients, Handle::current(), standing, complain);
        let resources = ReadResources::start(1, Some(source.clone()));
        Self {
            worker: Worker::start(&resources),
            resources,
            source,
            snapshot: Window::new(1, block(store)).snapshot(),
            fault_reports,
            upstreams: scripts,
        }
    }

    fn read_storage(&self, account: u64, slot: u64) -> ReadStorage {
        ReadStorage {
            snapshot: Arc::clone(&self.snapshot),
            at: AT,
            address: address(account),
            slot: U256::from(slot),
        }
    }

    fn read_account(&self, account: u64) -> ReadAccount {
        ReadAccount {
            snapshot: Arc::clone(&self.snapshot),
            at: AT,
            address: address(account),
        }
    }

    fn read_code(&self, account: u64) -> ReadCode {
        ReadCode {
            snapshot: Arc::clone(&self.snapshot),
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
            at: AT,
            slots: slots.iter().map(of_account).collect(),
            cancel: Cancellation::default(),
        }
    }

    fn prove(&self, account: u64, keys: u64) -> ProveAccount {
        ProveAccount {
            snapshot: Arc::clone(&self.snapshot),
            at: AT,
            address: address(account),
            keys: keys_to(keys),
            kept_max: 64 << 10,
            cancel: Cancellation::default(),
        }
    }

    /// What the follower says of the upstreams.
    fn note(&self, event: &Event) {
        self.source.shared.standing.note(event, Instant::now());
    }

    /// Calls that were made to an upstream.
    fn calls(&self, upstream: usize) -> usize {
        self.upstreams[upstream].asked.lock().len()
    }

    /// Hits and misses, and calls that were verified, refuted, failed.
    fn counts(&self) -> ([u64; 2], [u64; 3]) {
        let counts = self.source.counts();
        let count = |(_, count)| count;
        (counts.reads().map(count), counts.fetches().map(count))
    }

    /// That nothing is under way any more.
    async fn is_idle(&self) {
        until("nobody waits", || {
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

/// The value that the chain has.
fn stored(account: u64, slot: u64) -> U256 {
    FULL.storage(&address(account), U256::from(slot)).unwrap()
}

/// Lets the others go on until it is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waits = tokio::time::timeout(Duration::from_secs(60), async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    });
    assert!(waits.await.is_ok(), "waited in vain until {what}");
}
