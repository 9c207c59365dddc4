//! Access lists: read by clients, and as the changes of a block that is merged.

use alloy_primitives::B256;
use nearhead_chain::{changes::AccessList, json::Json, remote::UpstreamFault};
use serde_json::{Value, json};

use super::{
    merges::{AFTER, CHANGED_SLOTS, CONTRACT_HELD, Merging, honest as following},
    *,
};
use crate::{
    messages::{BlockAt, FindAccessList, QueryError, Reply},
    read::ask,
    upstream::{
        health::{Fault, Verdict},
        state::merge_counts::{ChangesFrom, MergeEnd},
    },
};

/// The access list of the block that is merged in these tests.
pub(super) fn list() -> Value {
    let word = |value: u64| B256::from(U256::from(value));
    let slots = CHANGED_SLOTS.map(|(slot, value)| {
        let changes = [("0x1", word(3)), ("0x2", word(value))];
        let changes = changes.map(|(index, value)| json!({"index": index, "value": value}));
        json!({"key": word(slot), "changes": changes})
    });
    let account = |number: u64, slots: Value, balances: Value| {
        json!({
            "address": address(number),
            "storageChanges": slots,
            "storageReads": [word(7)],
            "balanceChanges": balances,
            "nonceChanges": [],
            "codeChanges": [],
        })
    };
    let balance = |value: &str| json!([{"index": "0x1", "value": value}]);
    json!([
        account(3, json!(slots), json!([])),
        account(4, json!([]), balance("0x1")),
        account(7, json!([]), json!([])),
        account(ACCOUNTS, json!([]), balance("0x3")),
    ])
}

pub(super) fn hash_of(list: &Value) -> B256 {
    match AccessList::verify(list.to_string().as_bytes(), B256::ZERO) {
        Err(UpstreamFault::AccessListHash { found, .. }) => found,
        other => panic!("{other:?}"),
    }
}

/// An upstream that also gives this list.
fn giving(call: &RecordedCall, list: &Value) -> UpstreamReply {
    match call.method.as_str() {
        "eth_getBlockAccessList" => {
            assert_eq!(call.params.as_array().unwrap().len(), 1);
            UpstreamReply::Result(list.to_string())
        }
        _ => following(call),
    }
}

pub(super) fn honest(call: &RecordedCall) -> UpstreamReply {
    giving(call, &list())
}

/// Without the lists that are empty, as some nodes give it.
fn leaving_out_what_is_empty(call: &RecordedCall) -> UpstreamReply {
    let mut list = list();
    for account in list.as_array_mut().unwrap() {
        let members = account.as_object_mut().unwrap();
        members.retain(|_, value| !value.as_array().is_some_and(Vec::is_empty));
    }
    giving(call, &list)
}

/// With null for what is empty, and the names that geth 1.17.4 has in its engine API.
fn with_null_and_other_names(call: &RecordedCall) -> UpstreamReply {
    let mut text = list().to_string().replace("[]", "null");
    for (ours, theirs) in [
        ("index", "blockAccessIndex"),
        ("key", "slot"),
        ("changes", "slotChanges"),
    ] {
        text = text.replace(&format!("\"{ours}\""), &format!("\"{theirs}\""));
    }
    giving(call, &serde_json::from_str(&text).unwrap())
}

fn with_a_flipped_bit(call: &RecordedCall) -> UpstreamReply {
    let mut list = list();
    list[1]["balanceChanges"][0]["value"] = json!("0x0");
    giving(call, &list)
}

fn leaving_out_an_account(call: &RecordedCall) -> UpstreamReply {
    let mut list = list();
    list.as_array_mut().unwrap().remove(1);
    giving(call, &list)
}

/// The list of another block.
fn of_another_block(call: &RecordedCall) -> UpstreamReply {
    let mut list = list();
    list.as_array_mut().unwrap().truncate(1);
    list[0]["address"] = json!(address(9));
    giving(call, &list)
}

fn in_another_form(call: &RecordedCall) -> UpstreamReply {
    giving(call, &json!({"accountChanges": list()}))
}

fn with_numbers(call: &RecordedCall) -> UpstreamReply {
    let mut list = list();
    list[0]["storageReads"] = json!([7]);
    giving(call, &list)
}

fn empty(call: &RecordedCall) -> UpstreamReply {
    giving(call, &json!([]))
}

fn without_the_method(call: &RecordedCall) -> UpstreamReply {
    match call.method.as_str() {
        "eth_getBlockAccessList" => UpstreamReply::Error(-32_601, "method not found"),
        _ => following(call),
    }
}

fn without_the_list(call: &RecordedCall) -> UpstreamReply {
    match call.method.as_str() {
        "eth_getBlockAccessList" => UpstreamReply::Error(-32_001, "resource not found"),
        _ => following(call),
    }
}

fn having_pruned_it(call: &RecordedCall) -> UpstreamReply {
    match call.method.as_str() {
        "eth_getBlockAccessList" => UpstreamReply::Error(4_445, "not available"),
        _ => following(call),
    }
}

const HELD: [(u64, &[u64]); 4] = [CONTRACT_HELD, (4, &[]), (7, &[]), (ACCOUNTS, &[])];

fn merging(respond: &[Respond], follow: StateFollow) -> Merging<'_> {
    Merging {
        follow,
        respond,
        held: &HELD,
        access_list_hash: Some(hash_of(&list())),
    }
}

#[actix::test]
async fn a_list_says_all_that_a_block_changed() {
    for respond in [
        honest as Respond,
        leaving_out_what_is_empty,
        with_null_and_other_names,
    ] {
        let merged = merging(&[respond], StateFollow::Auto).merge().await;
        assert_eq!(merged.end, (ChangesFrom::AccessList, MergeEnd::Whole));
        merged.check_held(3, &[1, 2, 5, 90]);
        for number in [4, 7, ACCOUNTS] {
            merged.check_held(number, &[]);
        }
        assert_eq!(merged.upstreams[0].methods(), ["eth_getBlockAccessList"]);
        let keys = merged.source.merges().keys();
        assert_eq!(keys, [("computed", 6), ("proven", 0)]);
        // Clients are given it too.
        let held = merged.source.held_access_list(&hash_of(&list())).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&held).unwrap(), list());
    }
}

#[actix::test]
async fn a_witness_goes_with_a_list() {
    let merging = Merging {
        held: &[(7, &[])],
        ..merging(&[honest], StateFollow::Witness)
    };
    let merged = merging.merge().await;
    assert_eq!(merged.end, (ChangesFrom::Witness, MergeEnd::Whole));
    merged.check_held(3, &[1, 2, 90]);
    assert_eq!(merged.proofs(), [0, 0]);
}

#[actix::test]
async fn without_a_list_a_tracer_is_asked() {
    for respond in [
        without_the_method as Respond,
        without_the_list,
        having_pruned_it,
        in_another_form,
        with_numbers,
        empty,
    ] {
        let mut merged = merging(&[respond], StateFollow::Auto).merge().await;
        assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Whole));
        merged.check_held(3, &[1, 2, 5, 90]);
        assert!(merged.fault_reports.try_recv().is_err(), "it is no fault");
    }
    // A node that gives it goes first, once that is known of another one.
    let upstreams = [without_the_method as Respond, honest];
    let scene = merging(&upstreams, StateFollow::Auto).merge().await;
    assert_eq!(scene.end, (ChangesFrom::Tracer, MergeEnd::Whole));
    let step = scene.step();
    let order = scene
        .source
        .shared
        .merge_order(StateFollow::Auto, step.block);
    assert_eq!(order, [1, 0]);
}

#[actix::test]
async fn a_false_list_is_a_fault_and_no_answer() {
    for respond in [
        with_a_flipped_bit as Respond,
        leaving_out_an_account,
        of_another_block,
    ] {
        let mut merged = merging(&[respond], StateFollow::Auto).merge().await;
        assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Whole));
        merged.check_held(4, &[]);
        let report = merged.fault_reports.try_recv().unwrap();
        assert_eq!(report.verdict, Verdict::Fault(Fault::BadProof));
        assert_eq!(merged.source.held_access_list(&hash_of(&list())), None);
        // Another node is asked before the liar's trace is.
        let merged = merging(&[respond, honest], StateFollow::Auto).merge().await;
        assert_eq!(merged.end, (ChangesFrom::AccessList, MergeEnd::Whole));
        assert_eq!(merged.upstreams[0].methods(), ["eth_getBlockAccessList"]);
        let step = merged.step();
        let order = merged
            .source
            .shared
            .merge_order(StateFollow::Auto, step.block);
        assert_eq!(order, [1, 0], "the liar is not asked for lists any more");
    }
}

/// A merge that takes too long is counted under what it waited for.
#[actix::test]
async fn the_source_is_known_before_it_answers() {
    let silent: [(Respond, ChangesFrom); 3] = [
        (
            |call| silent_to("eth_getBlockAccessList", call),
            ChangesFrom::AccessList,
        ),
        (
            |call| match call.method.as_str() {
                "eth_getBlockAccessList" => UpstreamReply::Error(-32_601, "method not found"),
                _ => silent_to("debug_traceBlockByHash", call),
            },
            ChangesFrom::Tracer,
        ),
        (
            |call| silent_to("debug_executionWitness", call),
            ChangesFrom::Witness,
        ),
    ];
    for (respond, expected) in silent {
        let upstreams = [respond];
        let merging = merging(&upstreams, StateFollow::Witness);
        let mut from = ChangesFrom::Keys;
        let scene = merging.scene().await;
        let merge = scene.merge(StateFollow::Witness, &mut from);
        let late = tokio::time::timeout(Duration::from_millis(200), merge).await;
        assert!(late.is_err());
        assert_eq!(from, expected);
    }
}

fn silent_to(method: &str, call: &RecordedCall) -> UpstreamReply {
    match call.method == method {
        true => UpstreamReply::Silence,
        false => honest(call),
    }
}

/// A worker whose only block has this hash of its access list.
pub(super) async fn reading(upstreams: &[Respond], hash: Option<B256>) -> Scene {
    let store = NodeStore::new();
    let mut block = (*block(&store)).clone();
    block.header.block_access_list_hash = hash;
    let mut scene = Scene::over(&store, upstreams).await;
    scene.snapshot = Window::new(1, Arc::new(block)).snapshot();
    scene
}

impl Scene {
    pub(super) async fn find_access_list(&self) -> Reply<Option<Json>> {
        let find = FindAccessList {
            snapshot: Arc::clone(&self.snapshot),
            budget: self.budget.clone(),
            at: BlockAt::Number(BlockNumberOrTag::Tag(BlockTag::Latest)),
        };
        ask(&self.worker.blocks, find).await
    }
}

#[actix::test]
async fn a_list_is_fetched_once_for_many() {
    let scene = reading(&[leaving_out_what_is_empty], Some(hash_of(&list()))).await;
    for _ in 0..2 {
        let reads = (0..20).map(|_| scene.find_access_list());
        for read in futures_util::future::join_all(reads).await {
            let json = read.unwrap().unwrap().into_bytes();
            assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), list());
        }
    }
    assert_eq!(scene.upstreams[0].methods(), ["eth_getBlockAccessList"]);
    assert_eq!(scene.counts().1, [1, 0, 0]);
    scene.wait_until_idle().await;
}

#[actix::test]
async fn a_block_before_amsterdam_has_no_list() {
    let scene = reading(&[honest], None).await;
    let error = scene.find_access_list().await.unwrap_err();
    assert!(matches!(error, QueryError::NoAccessList { number: 0 }));
    assert_eq!(scene.calls(0), 0);
}

#[actix::test]
async fn the_next_node_is_asked_for_a_list() {
    let hash = Some(hash_of(&list()));
    // What a node may have later is worth another attempt.
    for (respond, is_lasting) in [
        (without_the_method as Respond, true),
        (having_pruned_it, true),
        (in_another_form, true),
        (without_the_list, false),
        (with_a_flipped_bit, false),
    ] {
        let alone = reading(&[respond], hash).await;
        let error = alone.find_access_list().await.unwrap_err();
        match is_lasting {
            true => assert!(matches!(error, QueryError::StateUnavailable), "{error}"),
            false => assert!(matches!(error, QueryError::Unavailable), "{error}"),
        }
        let scene = reading(&[respond, honest], hash).await;
        assert!(scene.find_access_list().await.unwrap().is_some());
        assert_eq!(scene.calls(1), 1);
    }
}

/// The list leads to the state that these tests compare with.
#[actix::test]
async fn the_list_of_these_tests_is_that_of_their_block() {
    let json = list().to_string();
    let list = AccessList::verify(json.as_bytes(), hash_of(&list())).unwrap();
    for (address, change) in list.changes().accounts {
        let account = AFTER.account(&address).unwrap().unwrap();
        assert!(
            change
                .balance
                .is_none_or(|balance| balance == account.balance)
        );
        for (slot, value) in change.storage {
            assert_eq!(AFTER.storage(&address, slot).unwrap(), value);
        }
    }
}
