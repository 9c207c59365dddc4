//! Merges of one block, with upstreams that help, refuse and lie.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use nearhead_chain::trie::{AccountUpdate, TrieError};
use serde_json::{Value, json};

use super::*;
use crate::upstream::{
    client::tests::server::IN_A_BATCH,
    health::{Fault, Verdict},
    state::{
        merge_counts::{ChangesFrom, MergeEnd},
        merging::Step,
    },
};

/// Slots of account 3 that change: one gets another value, one is deleted, one is new.
pub(super) const CHANGED_SLOTS: [(u64, u64); 3] = [(1, 77), (2, 0), (90, 5)];

/// What the block changes: the slots of account 3, the balance of account 4, and a new account.
static UPDATE: LazyLock<StateUpdate> = LazyLock::new(|| {
    let info = |number: u64, balance: u64| {
        let account = FULL.account(&address(number)).unwrap();
        let account = account.unwrap_or_default();
        Some(AccountInfo {
            nonce: account.nonce,
            balance: U256::from(balance),
            code_hash: account.code_hash,
        })
    };
    let slots = CHANGED_SLOTS.map(|(slot, value)| (U256::from(slot), U256::from(value)));
    let contract = AccountUpdate {
        info: info(3, 3),
        storage: slots.to_vec(),
        ..AccountUpdate::default()
    };
    let payer = |number, balance| AccountUpdate {
        info: info(number, balance),
        ..AccountUpdate::default()
    };
    StateUpdate {
        accounts: [
            (address(3), contract),
            (address(4), payer(4, 1)),
            (address(ACCOUNTS), payer(ACCOUNTS, 3)),
        ]
        .into_iter()
        .collect(),
        ..StateUpdate::default()
    }
});

pub(super) static AFTER: LazyLock<Arc<State>> =
    LazyLock::new(|| FULL.commit(FULL.update(&UPDATE).unwrap()));

/// The block before, and the block: of their states only the roots are held.
pub(super) fn blocks(store: &Arc<NodeStore>, access_list_hash: Option<B256>) -> [Arc<Block>; 2] {
    let block = |block: Arc<Block>, state: &State| {
        let mut block = (*block).clone();
        block.state = Some(State::hold(store, state.root()));
        block.header.block_access_list_hash = access_list_hash;
        Arc::new(block)
    };
    let recipe = TestBlock {
        transactions: vec![(1, Vec::new())],
        ..TestBlock::default()
    };
    let parent = TestBlock::default().genesis();
    [
        block(Arc::clone(&parent), &FULL),
        block(recipe.child_of(&parent), &AFTER),
    ]
}

/// What the tracer reports of the block.
pub(super) fn trace() -> Value {
    let word = |value: u64| json!(B256::from(U256::from(value)));
    let slots = |values: &[(u64, u64)]| -> Value {
        let slots = values.iter().filter(|(_, value)| *value > 0);
        let slots =
            slots.map(|(slot, value)| (word(*slot).as_str().unwrap().to_owned(), word(*value)));
        slots.collect::<serde_json::Map<_, _>>().into()
    };
    let [one, two, new] = [3, 4, ACCOUNTS].map(|number| address(number).to_string());
    json!([{"result": {
        "pre": {
            one.clone(): {"balance": "0x3", "nonce": 1, "storage": slots(&[(1, 5), (2, 6)])},
            two.clone(): {"balance": "0x4", "nonce": 1},
        },
        "post": {
            one: {"storage": slots(&CHANGED_SLOTS)},
            two: {"balance": "0x1"},
            new: {"balance": "0x3"},
        },
    }}])
}

/// The answer of an upstream that has the state after the block, and a tracer.
pub(super) fn honest(call: &RecordedCall) -> UpstreamReply {
    match call.method.as_str() {
        "debug_traceBlockByHash" => {
            assert_eq!(call.params[1]["tracerConfig"]["diffMode"], true);
            UpstreamReply::Result(trace().to_string())
        }
        "eth_getProof" => {
            let address: Address = serde_json::from_value(call.params[0].clone()).unwrap();
            let slots: Vec<U256> = serde_json::from_value(call.params[1].clone()).unwrap();
            let keys = slots.into_iter().map(ProofKey::Full).collect();
            let json = proof(&AFTER, address, keys, usize::MAX).unwrap();
            UpstreamReply::Result(String::from_utf8(json.into_bytes()).unwrap())
        }
        "web3_clientVersion" => UpstreamReply::result(r#""reth/v2.3.0""#),
        "debug_executionWitness" => {
            let mut nodes = BTreeSet::new();
            for (address, update) in &UPDATE.accounts {
                let slots: Vec<U256> = update.storage.iter().map(|(slot, _)| *slot).collect();
                let keys = slots.into_iter().map(ProofKey::Full).collect();
                let json = proof(&FULL, *address, keys, usize::MAX).unwrap();
                let proof: Value = serde_json::from_slice(&json.into_bytes()).unwrap();
                let of_slots = proof["storageProof"].as_array().unwrap().iter();
                for path in of_slots
                    .map(|slot| &slot["proof"])
                    .chain([&proof["accountProof"]])
                {
                    let path = path.as_array().unwrap().iter();
                    nodes.extend(path.map(|node| node.as_str().unwrap().to_owned()));
                }
            }
            UpstreamReply::Result(json!({"state": nodes, "codes": [], "headers": []}).to_string())
        }
        method => panic!("{method} was called"),
    }
}

fn without(method: &str, call: &RecordedCall) -> UpstreamReply {
    match call.method == method {
        true => UpstreamReply::Error(-32_601, "method not found"),
        false => honest(call),
    }
}

fn without_tracer(call: &RecordedCall) -> UpstreamReply {
    without("debug_traceBlockByHash", call)
}

fn without_proofs(call: &RecordedCall) -> UpstreamReply {
    without("eth_getProof", call)
}

/// An upstream with this trace.
pub(super) fn telling(call: &RecordedCall, trace: &Value) -> UpstreamReply {
    match call.method.as_str() {
        "debug_traceBlockByHash" => UpstreamReply::Result(trace.to_string()),
        _ => honest(call),
    }
}

fn with_another_tracer(call: &RecordedCall) -> UpstreamReply {
    telling(call, &json!([{"gas": 21_000, "structLogs": []}]))
}

/// Leaves out a slot that changed.
fn leaving_out_a_slot(call: &RecordedCall) -> UpstreamReply {
    let mut trace = trace();
    let account = &mut trace[0]["result"]["post"][address(3).to_string()]["storage"];
    let new = B256::from(U256::from(90)).to_string();
    account.as_object_mut().unwrap().remove(&new).unwrap();
    telling(call, &trace)
}

/// Leaves out an account that changed.
fn leaving_out_an_account(call: &RecordedCall) -> UpstreamReply {
    let mut trace = trace();
    for part in ["pre", "post"] {
        let accounts = trace[0]["result"][part].as_object_mut().unwrap();
        accounts.remove(&address(4).to_string()).unwrap();
    }
    telling(call, &trace)
}

/// States another balance, and an account that did not change.
fn with_false_values(call: &RecordedCall) -> UpstreamReply {
    let mut trace = trace();
    let accounts = &mut trace[0]["result"]["post"];
    accounts[address(4).to_string()]["balance"] = json!("0x99");
    accounts[address(7).to_string()] = json!({"balance": "0x1"});
    telling(call, &trace)
}

/// JSON that is larger than any list, trace or witness.
fn too_large(call: &RecordedCall) -> UpstreamReply {
    match call.method.as_str() {
        "eth_getProof" | "web3_clientVersion" => honest(call),
        _ => UpstreamReply::Result(format!("[{}]", " ".repeat(17 << 20))),
    }
}

pub(super) fn with_another_proof(call: &RecordedCall) -> UpstreamReply {
    match call.method.as_str() {
        "eth_getProof" => {
            let json = proof(&FULL, address(3), Vec::new(), usize::MAX).unwrap();
            UpstreamReply::Result(String::from_utf8(json.into_bytes()).unwrap())
        }
        _ => honest(call),
    }
}

/// Whether [`with_another_proof_once`] has proven another account.
static HAS_LIED: AtomicBool = AtomicBool::new(false);

fn with_another_proof_once(call: &RecordedCall) -> UpstreamReply {
    match call.method.as_str() {
        "eth_getProof" if !HAS_LIED.swap(true, Ordering::Relaxed) => with_another_proof(call),
        _ => honest(call),
    }
}

fn limiting_proofs(call: &RecordedCall) -> UpstreamReply {
    match call.method.as_str() {
        "eth_getProof" => UpstreamReply::http(429, "retry-after: 7\r\n", ""),
        _ => honest(call),
    }
}

pub(super) const NO_BATCHES: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}"#;

pub(super) fn refusing_batches(call: &RecordedCall, status: u16, body: &str) -> UpstreamReply {
    match call.head.contains(IN_A_BATCH) {
        true => UpstreamReply::http(status, "", body),
        false => honest(call),
    }
}

/// A merge of the block, with what was held before it.
pub(super) struct Outcome {
    pub(super) end: (ChangesFrom, MergeEnd),
    pub(super) source: StateSource,
    blocks: [Arc<Block>; 2],
    pub(super) fault_reports: mpsc::Receiver<FaultReport>,
    pub(super) upstreams: Vec<Arc<Script>>,
}

/// What a merge begins with.
pub(super) struct Merging<'a> {
    pub(super) follow: StateFollow,
    pub(super) respond: &'a [Respond],
    /// Accounts and slots that are held before.
    pub(super) held: &'a [(u64, &'a [u64])],
    pub(super) access_list_hash: Option<B256>,
}

pub(super) async fn merge(
    follow: StateFollow,
    respond: &[Respond],
    held: &[(u64, &[u64])],
) -> Outcome {
    let merging = Merging {
        follow,
        respond,
        held,
        access_list_hash: None,
    };
    merging.merge().await
}

/// A merge that has not begun.
pub(super) struct MergeScene {
    pub(super) scene: Scene,
    pub(super) blocks: [Arc<Block>; 2],
}

impl MergeScene {
    /// Merges the block, within a minute.
    pub(super) async fn merge(&self, follow: StateFollow, from: &mut ChangesFrom) -> MergeEnd {
        self.merge_within(Duration::from_secs(60), follow, from)
            .await
    }

    pub(super) async fn merge_within(
        &self,
        budget: Duration,
        follow: StateFollow,
        from: &mut ChangesFrom,
    ) -> MergeEnd {
        let [parent, block] = &self.blocks;
        let step = Step { parent, block };
        let until = Instant::now() + budget;
        let shared = &self.scene.source.shared;
        shared.merge(follow, step, until, from).await
    }

    /// Merges the block within this time.
    pub(super) async fn outcome(self, budget: Duration, follow: StateFollow) -> Outcome {
        let mut from = ChangesFrom::Keys;
        let end = self.merge_within(budget, follow, &mut from).await;
        let Self { scene, blocks } = self;
        Outcome {
            end: (from, end),
            blocks,
            source: scene.source,
            fault_reports: scene.fault_reports,
            upstreams: scene.upstreams,
        }
    }
}

impl Merging<'_> {
    pub(super) async fn scene(&self) -> MergeScene {
        let store = NodeStore::bounded(1 << 30);
        let scene = Scene::over(&store, self.respond).await;
        self.begin(&store, scene)
    }

    /// With upstreams over WebSocket, whose messages have at most a megabyte.
    pub(super) async fn scene_ws(&self) -> MergeScene {
        let store = NodeStore::bounded(1 << 30);
        let mut served = Vec::new();
        for respond in self.respond {
            served.push(Script::answering(*respond).serve_ws().await);
        }
        let scene = Scene::with(&store, served, 1 << 20);
        self.begin(&store, scene)
    }

    fn begin(&self, store: &Arc<NodeStore>, scene: Scene) -> MergeScene {
        let [parent, block] = blocks(store, self.access_list_hash);
        for (number, slots) in self.held {
            let slots: Vec<U256> = slots.iter().copied().map(U256::from).collect();
            store.insert_proof(&FULL.prove(&address(*number), &slots).unwrap());
        }
        let blocks = [parent, block];
        MergeScene { scene, blocks }
    }

    pub(super) async fn merge(self) -> Outcome {
        let scene = self.scene().await;
        scene.outcome(Duration::from_secs(60), self.follow).await
    }
}

impl Outcome {
    pub(super) fn step(&self) -> Step<'_> {
        let [parent, block] = &self.blocks;
        Step { parent, block }
    }

    /// Asserts that these slots can be read, and are as after the block.
    pub(super) fn check_held(&self, number: u64, slots: &[u64]) {
        let address = address(number);
        let after = self.blocks[1].state.as_ref().unwrap();
        let account = after.account(&address).unwrap();
        assert_eq!(account, AFTER.account(&address).unwrap(), "{number}");
        for slot in slots.iter().copied().map(U256::from) {
            let value = after.storage(&address, slot).unwrap();
            assert_eq!(value, AFTER.storage(&address, slot).unwrap(), "{slot}");
        }
    }

    /// Asserts that no fault is reported, that whatever can be read is as after the block, and the
    /// invariants of the store.
    pub(super) fn check_true(&mut self, name: &str) {
        let report = self.fault_reports.try_recv().ok();
        assert!(report.is_none(), "{name}: {report:?}");
        check_state(self.blocks[1].state.as_ref().unwrap(), name);
    }

    /// How often the first upstream was asked this, alone.
    pub(super) fn asked(&self, method: &str) -> usize {
        let methods = self.upstreams[0].methods();
        methods.iter().filter(|asked| *asked == method).count()
    }

    /// Proofs that the first upstream was asked for, alone and in batches.
    pub(super) fn proofs(&self) -> [usize; 2] {
        let script = &self.upstreams[0];
        let is_proof = |call: &&RecordedCall| call.method == "eth_getProof";
        [&script.calls, &script.batched].map(|calls| calls.lock().iter().filter(is_proof).count())
    }
}

/// Asserts that whatever can be read is as after the block, and the invariants of the store.
pub(super) fn check_state(after: &State, name: &str) {
    let is_missing = |error: TrieError| matches!(error, TrieError::MissingNode { .. });
    for number in 0..=ACCOUNTS {
        let address = address(number);
        match after.account(&address) {
            Ok(account) => assert_eq!(account, AFTER.account(&address).unwrap(), "{name}"),
            Err(error) => assert!(is_missing(error), "{name}"),
        }
        for slot in (0..100).map(U256::from) {
            match after.storage(&address, slot) {
                Ok(value) => assert_eq!(value, AFTER.storage(&address, slot).unwrap(), "{name}"),
                Err(error) => assert!(is_missing(error), "{name}"),
            }
        }
    }
    let store = after.store();
    store.check_invariants(store.held_roots()).unwrap();
}

pub(super) const CONTRACT_HELD: (u64, &[u64]) = (3, &[1, 2, 5, 90]);

#[actix::test]
async fn what_is_held_and_told_is_computed() {
    let held = [CONTRACT_HELD, (4, &[]), (7, &[]), (ACCOUNTS, &[])];
    let merged = merge(StateFollow::Auto, &[honest], &held).await;
    assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Whole));
    merged.check_held(3, &[1, 2, 5, 90]);
    for number in [4, 7, ACCOUNTS] {
        merged.check_held(number, &[]);
    }
    // The miner of a block with difficulty is proven.
    assert_eq!(merged.proofs(), [1, 0]);
    assert_eq!(
        merged.source.merges().keys(),
        [("computed", 6), ("proven", 1)]
    );
    assert_eq!(merged.source.merges().requests(), 2);
}

#[actix::test]
async fn what_is_not_held_is_proven_in_a_batch() {
    let merged = merge(StateFollow::Auto, &[honest], &[(7, &[])]).await;
    assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Whole));
    merged.check_held(3, &[1, 2, 90]);
    merged.check_held(7, &[]);
    assert_eq!(merged.proofs(), [0, 4]);
    assert_eq!(merged.source.merges().requests(), 2);
}

#[actix::test]
async fn a_witness_takes_the_place_of_proofs() {
    let merged = merge(StateFollow::Witness, &[honest], &[(7, &[])]).await;
    assert_eq!(merged.end, (ChangesFrom::Witness, MergeEnd::Whole));
    merged.check_held(3, &[1, 2, 90]);
    merged.check_held(7, &[]);
    assert_eq!(merged.proofs(), [1, 0], "only the miner's");
}

#[actix::test]
async fn without_a_tracer_what_the_block_names_is_proven() {
    for respond in [without_tracer as Respond, with_another_tracer] {
        let merged = merge(StateFollow::Auto, &[respond], &[(7, &[])]).await;
        assert_eq!(merged.end, (ChangesFrom::Keys, MergeEnd::Whole));
        merged.check_held(7, &[]);
        assert!(merged.source.merges().keys()[1].1 > 0);
    }
    let asked = merge(StateFollow::Proofs, &[honest], &[]).await;
    assert_eq!(asked.end.0, ChangesFrom::Keys);
    let methods = asked.upstreams[0].methods();
    assert!(
        !methods.contains(&"debug_traceBlockByHash".to_owned()),
        "{methods:?}"
    );
}

#[actix::test]
async fn what_is_too_large_is_not_read() {
    for hash in [None, Some(B256::ZERO)] {
        let merging = Merging {
            follow: StateFollow::Witness,
            respond: &[too_large],
            held: &[(7, &[])],
            access_list_hash: hash,
        };
        let merged = merging.merge().await;
        assert_eq!(merged.end, (ChangesFrom::Keys, MergeEnd::Whole));
        merged.check_held(7, &[]);
    }
}

#[actix::test]
async fn an_upstream_that_refuses_batches_is_asked_one_by_one() {
    let refusals: [Respond; 3] = [
        |call| refusing_batches(call, 200, NO_BATCHES),
        |call| refusing_batches(call, 400, NO_BATCHES),
        |call| refusing_batches(call, 413, "too large"),
    ];
    for respond in refusals {
        let merged = merge(StateFollow::Auto, &[respond], &[]).await;
        assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Whole));
        assert_eq!(merged.proofs()[0], 4);
        merged.check_held(3, &[1, 2, 90]);
    }
}

#[actix::test]
async fn a_false_trace_costs_proofs_and_no_answer() {
    let held = [CONTRACT_HELD, (4, &[]), (7, &[])];
    // What was reported is proven; what was left out is fetched when it is read.
    for (respond, end) in [
        (leaving_out_a_slot as Respond, MergeEnd::Part),
        (leaving_out_an_account, MergeEnd::Part),
        (with_false_values, MergeEnd::Whole),
    ] {
        let mut merged = merge(StateFollow::Auto, &[respond], &held).await;
        assert_eq!(merged.end, (ChangesFrom::Tracer, end));
        merged.check_held(7, &[]);
        assert!(
            merged.fault_reports.try_recv().is_err(),
            "a trace is no fault"
        );
    }
}

#[actix::test]
async fn the_next_upstream_is_asked_after_a_lie_or_a_refusal() {
    for (respond, verdict) in [
        (
            with_another_proof as Respond,
            Some(Verdict::Fault(Fault::BadProof)),
        ),
        // Reads still ask a node that limits merges.
        (limiting_proofs, None),
        (without_proofs, None),
    ] {
        let alone = merge(StateFollow::Auto, &[respond], &[]).await;
        assert_eq!(alone.end.1, MergeEnd::Failed);
        let mut merged = merge(StateFollow::Auto, &[respond, honest], &[]).await;
        assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Whole));
        let report = merged.fault_reports.try_recv().ok();
        assert_eq!(report.map(|report| report.verdict), verdict);
        merged.check_held(3, &[1, 2, 90]);
    }
}

#[actix::test]
async fn a_proof_that_fails_a_check_once_is_no_fault() {
    let mut merged = merge(StateFollow::Auto, &[with_another_proof_once], &[]).await;
    assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Whole));
    assert!(HAS_LIED.load(Ordering::Relaxed));
    assert!(merged.fault_reports.try_recv().is_err());
    merged.check_held(3, &[1, 2, 90]);
}
