//! Merges with witnesses: of nodes that must not be asked for one, and of nodes that lie.

use std::fmt::Write;

use nearhead_chain::encode::{ProofKey, proof};
use serde_json::{Value, json};

use super::{
    merges::{AFTER, CHANGED_SLOTS, honest, merge},
    *,
};
use crate::upstream::state::merge_counts::{ChangesFrom, MergeEnd};

const WITNESS: &str = "debug_executionWitness";

fn of_version(call: &RecordedCall, version: &str) -> UpstreamReply {
    match call.method.as_str() {
        "web3_clientVersion" => UpstreamReply::Result(json!(version).to_string()),
        _ => honest(call),
    }
}

#[actix::test]
async fn an_old_geth_is_never_asked_for_a_witness() {
    let old: [Respond; 3] = [
        |call| of_version(call, "Geth/v1.17.0-stable/linux-amd64/go1.25.1"),
        |call| of_version(call, "Geth/mine/v1.16.4-stable/linux-amd64/go1.25.1"),
        // Without a version, it may be one.
        |call| match call.method.as_str() {
            "web3_clientVersion" => UpstreamReply::Error(-32_601, "method not found"),
            _ => honest(call),
        },
    ];
    for respond in old {
        let mut merged = merge(StateFollow::Witness, &[respond], &[(7, &[])]).await;
        assert_eq!(merged.end, (ChangesFrom::Tracer, MergeEnd::Whole));
        assert_eq!(
            [merged.asked("web3_clientVersion"), merged.asked(WITNESS)],
            [1, 0]
        );
        merged.check_held(3, &[1, 2, 90]);
        merged.check_true("an old geth");
    }
    let good: Respond = |call| of_version(call, "Geth/v1.17.2-stable/linux-amd64/go1.25.1");
    let merged = merge(StateFollow::Witness, &[good], &[(7, &[])]).await;
    assert_eq!(merged.end, (ChangesFrom::Witness, MergeEnd::Whole));
    assert_eq!(merged.asked(WITNESS), 1);
}

/// An upstream that is honest but for its witness, which is the honest one with a change.
fn changed(call: &RecordedCall, change: impl FnOnce(&mut Value)) -> UpstreamReply {
    match honest(call) {
        UpstreamReply::Result(text) if call.method == WITNESS => {
            let mut witness = serde_json::from_str(&text).unwrap();
            change(&mut witness);
            UpstreamReply::Result(witness.to_string())
        }
        reply => reply,
    }
}

/// An upstream whose witness is this HTTP response.
fn responding(call: &RecordedCall, response: impl FnOnce() -> String) -> UpstreamReply {
    match call.method == WITNESS {
        true => UpstreamReply::Raw(response()),
        false => honest(call),
    }
}

/// More bytes than a witness may have, without a stated length.
fn streamed() -> String {
    let mut response = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    let chunk = " ".repeat(1 << 20);
    for _ in 0..17 {
        write!(response, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
    }
    response + "0\r\n\r\n"
}

/// Nodes that have a usual size, and nothing to do with the state.
fn strange_nodes() -> impl Iterator<Item = Value> {
    (0..10_000_u64).map(|at| {
        // RLP of a branch node with 16 children.
        let mut node = vec![0xf9, 0x02, 0x11];
        for child in 0..16_u64 {
            node.push(0xa0);
            node.extend(keccak256((16 * at + child).to_be_bytes()));
        }
        node.push(0x80);
        json!(Bytes::from(node))
    })
}

fn nodes(witness: &mut Value) -> &mut Vec<Value> {
    witness["state"].as_array_mut().unwrap()
}

/// Nodes on the path of an account that changed, in the state after the block.
fn of_the_next_block(witness: &mut Value) {
    let keys = CHANGED_SLOTS.map(|(slot, _)| ProofKey::Full(U256::from(slot)));
    let json = proof(&AFTER, address(3), keys.to_vec(), usize::MAX).unwrap();
    let proof: Value = serde_json::from_slice(&json.into_bytes()).unwrap();
    witness["state"] = proof["accountProof"].clone();
}

/// What a witness is, how the upstream gives it, and whether it is used.
const LIES: [(&str, Respond, bool); 14] = [
    (
        "300 MB by their stated length",
        |call| {
            responding(call, || {
                "HTTP/1.1 200 X\r\ncontent-length: 300000000\r\n\r\n".into()
            })
        },
        false,
    ),
    (
        "17 MiB with their length",
        |call| match call.method == WITNESS {
            true => UpstreamReply::Result(format!("[{}]", " ".repeat(17 << 20))),
            false => honest(call),
        },
        false,
    ),
    ("17 MiB streamed", |call| responding(call, streamed), false),
    (
        "null",
        |call| changed(call, |witness| *witness = Value::Null),
        false,
    ),
    (
        "no nodes",
        |call| changed(call, |witness| witness["state"] = Value::Null),
        false,
    ),
    (
        "no bytes",
        |call| changed(call, |witness| nodes(witness).push(json!("0x1"))),
        false,
    ),
    (
        "an empty list",
        |call| changed(call, |witness| nodes(witness).clear()),
        true,
    ),
    (
        "half of the nodes",
        |call| {
            changed(call, |witness| {
                let half = nodes(witness).len() / 2;
                nodes(witness).truncate(half);
            })
        },
        true,
    ),
    (
        "strange nodes alone",
        |call| changed(call, |witness| *nodes(witness) = strange_nodes().collect()),
        true,
    ),
    (
        "strange nodes too",
        |call| changed(call, |witness| nodes(witness).extend(strange_nodes())),
        true,
    ),
    (
        "a flipped byte in each node",
        |call| {
            changed(call, |witness| {
                for node in nodes(witness) {
                    let text = node.as_str().unwrap().replace('1', "2");
                    *node = json!(text);
                }
            })
        },
        true,
    ),
    (
        "of the next block",
        |call| changed(call, of_the_next_block),
        true,
    ),
    (
        "with headers as objects, and null for keys",
        |call| {
            changed(call, |witness| {
                witness["headers"] = json!([{"number": "0x1", "extraData": "0x"}]);
                witness["keys"] = Value::Null;
                witness["codes"] = Value::Null;
            })
        },
        true,
    ),
    (
        "with headers in RLP, and without keys",
        |call| {
            changed(call, |witness| {
                witness["headers"] = json!(["0xf90200", "0xf90201"]);
                witness["keys"] = json!([]);
            })
        },
        true,
    ),
];

#[actix::test]
async fn a_false_witness_costs_proofs_and_no_answer() {
    for (name, respond, is_used) in LIES {
        let mut merged = merge(StateFollow::Witness, &[respond], &[(7, &[])]).await;
        let from = match is_used {
            true => ChangesFrom::Witness,
            false => ChangesFrom::Tracer,
        };
        assert_eq!(merged.end, (from, MergeEnd::Whole), "{name}");
        assert_eq!(merged.asked(WITNESS), 1, "{name}");
        merged.check_held(3, &[1, 2, 90]);
        merged.check_held(7, &[]);
        merged.check_true(name);
        // What nothing leads to is not stored.
        let entries = merged.source.store().stats().nodes;
        assert!(entries < 1_000, "{name}: {entries}");
        // Proofs take the place of what is missing; a complete one needs only the miner's.
        let proofs: usize = merged.proofs().into_iter().sum();
        let is_complete = name.starts_with("with ") || name == "strange nodes too";
        assert_eq!(proofs == 1, is_complete, "{name}: {proofs}");
    }
}
