//! What a merge may ask for: bytes, time, and answers that are too large for a connection.

use std::pin::pin;

use serde_json::{Value, json};

use super::{
    merges::{
        CONTRACT_HELD, Merging, NO_BATCHES, Outcome, check_state, honest, refusing_batches,
        telling, trace,
    },
    *,
};
use crate::{
    read::ask,
    upstream::{
        client::{OptionalMethod, tests::server::IN_A_BATCH},
        health::{Fault, Verdict},
        state::merge_counts::{ChangesFrom, MergeEnd},
    },
};

const TRACE: &str = "debug_traceBlockByHash";
const WITNESS: &str = "debug_executionWitness";

/// Bytes that a merge may ask for, as docs/nodes.md has it.
const BYTES_MAX: usize = 16 << 20;
/// What [`long_trace`] leaves of them.
const LEFT: usize = 100 << 10;

fn merging(respond: &[Respond], follow: StateFollow) -> Merging<'_> {
    Merging {
        follow,
        respond,
        held: &[(7, &[])],
        access_list_hash: None,
    }
}

/// The same JSON with so many bytes in all: spaces after its first character.
fn padded(json: &str, bytes: usize) -> String {
    let padding = " ".repeat(bytes.saturating_sub(json.len()));
    format!("{}{padding}{}", &json[..1], &json[1..])
}

/// The honest answer to `method` with so many bytes.
fn long(call: &RecordedCall, method: &str, bytes: usize) -> UpstreamReply {
    match honest(call) {
        UpstreamReply::Result(json) if call.method == method => {
            UpstreamReply::Result(padded(&json, bytes))
        }
        reply => reply,
    }
}

/// An upstream with a trace that leaves few bytes.
fn long_trace(call: &RecordedCall) -> UpstreamReply {
    long(call, TRACE, BYTES_MAX - LEFT)
}

fn long_trace_and(call: &RecordedCall, method: &str, bytes: usize) -> UpstreamReply {
    match call.method == TRACE {
        true => long_trace(call),
        false => long(call, method, bytes),
    }
}

async fn check_bytes(name: &str, respond: Respond, follow: StateFollow, end: MergeEnd) -> Outcome {
    let mut merged = merging(&[respond], follow).merge().await;
    assert_eq!(merged.end, (ChangesFrom::Tracer, end), "{name}");
    merged.check_true(name);
    let bytes = merged.source.merges().bytes();
    let expected = (BYTES_MAX - LEFT) as u64..=BYTES_MAX as u64;
    assert!(expected.contains(&bytes), "{name}: {bytes}");
    merged
}

#[actix::test]
async fn a_merge_asks_for_no_more_bytes_than_it_may() {
    let (auto, witness) = (StateFollow::Auto, StateFollow::Witness);
    let whole = check_bytes("proofs that fit", long_trace, auto, MergeEnd::Whole).await;
    assert_eq!(whole.source.merges().requests(), 2);

    let respond: Respond = |call| long_trace_and(call, "eth_getProof", LEFT / 2);
    let part = check_bytes("proofs that do not", respond, auto, MergeEnd::Part).await;
    assert_eq!(
        part.source.merges().requests(),
        2,
        "asked with nothing left"
    );

    let respond: Respond = |call| match call.head.contains(IN_A_BATCH) {
        true => refusing_batches(call, 200, NO_BATCHES),
        false => long_trace_and(call, "eth_getProof", LEFT / 2),
    };
    let part = check_bytes("proofs one by one", respond, auto, MergeEnd::Part).await;
    assert!(part.asked("eth_getProof") < 4);

    let respond: Respond = |call| long_trace_and(call, WITNESS, 2 * LEFT);
    let whole = check_bytes(
        "a witness that does not fit",
        respond,
        witness,
        MergeEnd::Whole,
    );
    assert_eq!(whole.await.asked(WITNESS), 1);
}

/// More accounts than one merge may have proven: those beyond are fetched when they are read.
#[actix::test]
async fn a_merge_asks_for_no_more_keys_than_it_may() {
    const KEYS_MAX: u64 = 1_024;
    let respond: Respond = |call| {
        let mut trace = trace();
        let post = trace[0]["result"]["post"].as_object_mut().unwrap();
        let more = (1_000..1_000 + 2 * KEYS_MAX).map(|number| address(number).to_string());
        post.extend(more.map(|address| (address, json!({"balance": "0x1"}))));
        telling(call, &trace)
    };
    let mut merged = merging(&[respond], StateFollow::Auto).merge().await;
    assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Part));
    let merges = merged.source.merges();
    assert_eq!(merges.keys()[1], ("proven", KEYS_MAX));
    assert_eq!(merges.keys_asked(), KEYS_MAX);
    // What was left out is not computed either, but for what the proofs of others show.
    let (_, computed) = merges.keys()[0];
    assert!(computed < KEYS_MAX / 4, "{computed} computed");
    merged.check_true("more keys than it may");
}

/// The bound of honest proofs still tells a liar.
#[actix::test]
async fn proofs_that_are_too_large_for_any_trie_are_a_fault() {
    let upstreams: [Respond; 1] = [|call| long(call, "eth_getProof", 1 << 20)];
    let merging = Merging {
        held: &[CONTRACT_HELD, (4, &[]), (7, &[]), (ACCOUNTS, &[])],
        ..merging(&upstreams, StateFollow::Auto)
    };
    let mut merged = merging.merge().await;
    assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Failed));
    let report = merged.fault_reports.try_recv().unwrap();
    assert_eq!(report.verdict, Verdict::Fault(Fault::Malformed));
    merged.check_true("too large");
}

/// Over WebSocket, a message that is too large ends the connection.
#[actix::test]
async fn what_ends_a_connection_is_not_asked_again() {
    let cases: [(&str, Respond, ChangesFrom, OptionalMethod); 2] = [
        (
            TRACE,
            |call| long(call, TRACE, 2 << 20),
            ChangesFrom::Keys,
            OptionalMethod::Trace,
        ),
        (
            WITNESS,
            |call| long(call, WITNESS, 2 << 20),
            ChangesFrom::Tracer,
            OptionalMethod::Witness,
        ),
    ];
    for (method, respond, from, lacked) in cases {
        let upstreams = [respond];
        let scene = merging(&upstreams, StateFollow::Witness).scene_ws().await;
        for _ in 0..2 {
            let mut found = ChangesFrom::AccessList;
            let end = scene.merge(StateFollow::Witness, &mut found).await;
            assert_eq!((found, end), (from, MergeEnd::Whole), "{method}");
        }
        let client = &scene.scene.source.shared.upstreams[0].client;
        assert!(client.lacks(lacked), "{method}");
        let mut merged = scene
            .outcome(Duration::from_secs(60), StateFollow::Witness)
            .await;
        // A connection that was open may have ended before, so it is asked once more.
        assert_eq!(merged.asked(method), 2);
        merged.check_held(7, &[]);
        merged.check_true(method);
    }
}

#[actix::test]
async fn a_node_that_is_gone_has_not_lost_its_tracer() {
    let gone: Respond = |_| UpstreamReply::Raw(String::new());
    let mut merged = merging(&[gone], StateFollow::Witness).merge().await;
    assert_eq!(merged.end, (ChangesFrom::Keys, MergeEnd::Failed));
    let report = merged.fault_reports.try_recv().unwrap();
    assert_eq!(report.verdict, Verdict::Fault(Fault::Connection));
    let client = &merged.source.shared.upstreams[0].client;
    assert!(!client.lacks(OptionalMethod::Trace));
    merged.check_true("gone");
}

fn silent_to(call: &RecordedCall, method: &str) -> UpstreamReply {
    match call.method == method {
        true => UpstreamReply::Silence,
        false => honest(call),
    }
}

#[actix::test]
async fn a_tracer_or_a_witness_that_stalls_leaves_time_for_proofs() {
    let cases: [(&str, Respond, ChangesFrom); 2] = [
        (TRACE, |call| silent_to(call, TRACE), ChangesFrom::Keys),
        (
            WITNESS,
            |call| silent_to(call, WITNESS),
            ChangesFrom::Tracer,
        ),
    ];
    for (name, respond, from) in cases {
        let upstreams = [respond];
        let scene = merging(&upstreams, StateFollow::Witness).scene().await;
        let budget = Duration::from_secs(4);
        let mut merged = scene.outcome(budget, StateFollow::Witness).await;
        assert_eq!(merged.end, (from, MergeEnd::Whole), "{name}");
        merged.check_true(name);
    }
}

#[actix::test]
async fn nobody_is_asked_once_the_time_is_over() {
    let stalled: Respond = |call| silent_to(call, "eth_getProof");
    let upstreams = [stalled, honest];
    let scene = merging(&upstreams, StateFollow::Auto).scene().await;
    let budget = Duration::from_millis(500);
    let mut merged = scene.outcome(budget, StateFollow::Auto).await;
    assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Late));
    assert!(merged.upstreams[1].methods().is_empty());
    let report = merged.fault_reports.try_recv().unwrap();
    let expected = (0, Verdict::Fault(Fault::Timeout));
    assert_eq!((report.upstream, report.verdict), expected);
    merged.check_true("late");
}

/// Of state that is held, and of state that is not.
#[actix::test]
async fn a_read_during_a_merge_waits_for_nobody() {
    let stalls: [Respond; 2] = [
        |call| silent_to(call, TRACE),
        |call| match call.head.contains(IN_A_BATCH) {
            true => UpstreamReply::Silence,
            false => honest(call),
        },
    ];
    for respond in stalls {
        let upstreams = [respond];
        let merging = Merging {
            held: &[(3, &[1])],
            ..merging(&upstreams, StateFollow::Auto)
        };
        let mut scene = merging.scene().await;
        let [parent, block] = scene.blocks.clone();
        let mut window = Window::new(1, parent);
        window.apply(block).unwrap();
        scene.scene.snapshot = window.snapshot();
        let mut from = ChangesFrom::Keys;
        let reads = async {
            let Scene {
                worker, upstreams, ..
            } = &scene.scene;
            let is_stalled = || match upstreams[0].batched.lock().is_empty() {
                true => {
                    respond as usize == stalls[0] as usize && !upstreams[0].methods().is_empty()
                }
                false => true,
            };
            until("the merge stalls", is_stalled).await;
            let held = ReadStorage {
                at: BlockId::Number(BlockNumberOrTag::Number(0)),
                ..scene.scene.read_storage(3, 1)
            };
            let held = ask(&worker.proofs, held).await.unwrap();
            assert_eq!(held, stored(3, 1));
            let missing = scene.scene.read_storage(3, 1);
            let missing = ask(&worker.proofs, missing).await.unwrap();
            assert_eq!(missing, U256::from(77));
            assert_eq!(scene.scene.counts().0, [1, 1]);
        };
        {
            let mut merge = pin!(scene.merge(StateFollow::Auto, &mut from));
            tokio::select! {
                end = &mut merge => assert_eq!(end, MergeEnd::Late, "before the reads"),
                () = reads => {}
            }
        }
        check_state(scene.blocks[1].state.as_ref().unwrap(), "stalled");
    }
}

#[test]
fn padding_changes_no_json() {
    let json = trace().to_string();
    let long = padded(&json, 1_000_000);
    assert_eq!(long.len(), 1_000_000);
    let read = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    assert_eq!(read(&long), read(&json));
}
