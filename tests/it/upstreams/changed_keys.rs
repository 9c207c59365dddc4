//! The accounts and slots that a block changed.

use std::collections::{BTreeMap, BTreeSet};

use alloy_eips::{
    eip2935::{HISTORY_SERVE_WINDOW, HISTORY_STORAGE_ADDRESS},
    eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
};
use serde_json::{Value, json};

use crate::harness::{Connection, quantity};

/// Blocks whose beacon roots EIP-4788 keeps.
const BEACON_ROOTS: u64 = 8_191;
/// The slots in which a queue of requests counts: excess, count, head, tail.
const QUEUE_SLOTS: usize = 4;

/// An account and slots of it.
pub(crate) type Keys = BTreeMap<String, BTreeSet<String>>;

/// Adds what a block changed, as geth reports it: its transactions by the tracer; what no
/// transaction does by the block, and queues of requests by their slots before and after it.
pub(crate) fn add_changed(theirs: &mut Connection, hash: &str, keys: &mut Keys) {
    let tracer = json!({"tracer": "prestateTracer", "tracerConfig": {"diffMode": true}});
    let params = json!([hash, tracer]);
    for trace in theirs
        .result("debug_traceBlockByHash", &params)
        .as_array()
        .unwrap()
    {
        for part in ["pre", "post"] {
            for (address, account) in trace["result"][part].as_object().unwrap() {
                let slots = keys.entry(address.clone()).or_default();
                let storage = account["storage"].as_object();
                slots.extend(storage.into_iter().flatten().map(|(slot, _)| slot.clone()));
            }
        }
    }
    let block = theirs.result("eth_getBlockByHash", &json!([hash, false]));
    let [number, timestamp] = ["number", "timestamp"].map(|member| quantity(&block[member]));
    // In every block: time and root (EIP-4788), and the parent's hash (EIP-2935).
    let at = timestamp % BEACON_ROOTS;
    for (address, slot) in [
        (BEACON_ROOTS_ADDRESS, at),
        (BEACON_ROOTS_ADDRESS, at + BEACON_ROOTS),
        (
            HISTORY_STORAGE_ADDRESS,
            (number - 1) % HISTORY_SERVE_WINDOW as u64,
        ),
    ] {
        let slots = keys.entry(format!("{address:#x}")).or_default();
        slots.insert(format!("{slot:#066x}"));
    }
    for withdrawal in block["withdrawals"].as_array().into_iter().flatten() {
        let recipient = withdrawal["address"].as_str().unwrap();
        keys.entry(recipient.to_owned()).or_default();
    }
    for queue in [
        WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
        CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    ] {
        let mut slots_at = |hash: &Value| {
            let at = json!({"blockHash": hash});
            let params = json!([queue, ["0x0", "0x1", "0x2", "0x3"], at]);
            theirs.result("eth_getProof", &params)["storageProof"].take()
        };
        let [before, after] = [&block["parentHash"], &block["hash"]].map(&mut slots_at);
        for slot in 0..QUEUE_SLOTS {
            if before[slot]["value"] != after[slot]["value"] {
                let slots = keys.entry(format!("{queue:#x}")).or_default();
                slots.insert(format!("{slot:#066x}"));
            }
        }
    }
}
