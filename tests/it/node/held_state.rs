//! The state that nearhead holds, beside that of the geth that it follows.

use std::collections::{BTreeMap, BTreeSet};

use alloy_eips::{
    eip2935::{HISTORY_SERVE_WINDOW, HISTORY_STORAGE_ADDRESS},
    eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
};
use serde_json::{Value, json};

use crate::{
    harness::{BATCH_CALLS_MAX, Connection, Pair, Server, check, wait_until},
    proofs,
};

/// The log filter with which a server reports its merges.
pub(super) const REPORTS_MERGES: [&str; 4] = [
    "--metrics-max-age",
    "0",
    "--log-filter",
    "info,nearhead_actors::upstream::state=debug",
];

/// Blocks whose beacon roots EIP-4788 keeps.
const BEACON_ROOTS: u64 = 8_191;
/// The slots in which a queue of requests counts: excess, count, head, tail.
const QUEUE_SLOTS: usize = 4;

/// An account and slots of it.
pub(super) type Keys = BTreeMap<String, BTreeSet<String>>;

/// A server that was started with [`REPORTS_MERGES`], and a geth.
pub(super) struct HeldState {
    pub(super) server: Server,
    pub(super) pair: Pair,
    /// Reads so far.
    pub(super) reads: usize,
}

impl HeldState {
    pub(super) fn of(server: Server, theirs: Connection) -> Self {
        Self {
            pair: Pair {
                ours: server.connect(),
                theirs,
            },
            server,
            reads: 0,
        }
    }

    /// Returns when the block with this hash is merged.
    pub(super) fn wait_merged(&self, hash: &str) {
        let merged = format!("hash={hash}");
        let is_merged = |log: &str| {
            let mut lines = log.lines();
            lines
                .any(|line| line.contains("state merged") && line.contains(&merged))
                .then_some(())
        };
        self.server.process.output.wait_for(&merged, is_merged);
    }

    /// What a block changed, as geth reports it: its transactions by the tracer; what no
    /// transaction does by the block, and queues of requests by their slots before and after it.
    pub(super) fn add_changed(&mut self, hash: &str, number: u64, timestamp: u64, keys: &mut Keys) {
        let tracer = json!({"tracer": "prestateTracer", "tracerConfig": {"diffMode": true}});
        let params = json!([hash, tracer]);
        for trace in self
            .pair
            .theirs
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
        let theirs = &mut self.pair.theirs;
        let block = theirs.result("eth_getBlockByHash", &json!([hash, false]));
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

    /// Asserts that both answer the same for these keys at the head, by every method that reads
    /// them but eth_getCode.
    pub(super) fn compare(&mut self, keys: &Keys) {
        self.compare_proofs(keys);
        let mut calls = Vec::new();
        for (address, slots) in keys {
            for method in ["eth_getBalance", "eth_getTransactionCount"] {
                calls.push((method, json!([address, "latest"])));
            }
            for slot in slots {
                calls.push(("eth_getStorageAt", json!([address, slot, "latest"])));
            }
        }
        self.compare_calls(&calls);
    }

    /// Asserts that both have the same codes at the head, and returns how many were not held: a
    /// merge fetches none.
    pub(super) fn compare_codes(&mut self, keys: &Keys) -> u64 {
        let before = self.missed();
        let code = |address| ("eth_getCode", json!([address, "latest"]));
        let calls: Vec<_> = keys.keys().map(code).collect();
        self.compare_calls(&calls);
        self.missed() - before
    }

    /// Asserts that both prove the same for these keys at the head. A proof states all there is:
    /// balance, nonce, hash of the code, slots.
    pub(super) fn compare_proofs(&mut self, keys: &Keys) {
        let proof = |(address, slots)| ("eth_getProof", json!([address, slots, "latest"]));
        let calls: Vec<_> = keys.iter().map(proof).collect();
        self.compare_calls(&calls);
    }

    fn compare_calls(&mut self, calls: &[(&str, Value)]) {
        for calls in calls.chunks(BATCH_CALLS_MAX) {
            let answers = calls.iter().map(|(method, params)| (*method, params));
            let answers = self.pair.batch(answers);
            for ((method, params), answers) in calls.iter().zip(answers) {
                let [ours, mut theirs] = answers.map(|mut answer| answer["result"].take());
                proofs::name_hashes_of_nothing(&mut theirs);
                assert!(!ours.is_null(), "{method} {params}");
                check(&format!("{method} {params}"), &ours, &theirs);
            }
            self.reads += calls.len();
        }
    }

    /// The value of a metric with these words in its name or labels, once all reads are counted.
    pub(super) fn counted(&self, words: &[&str]) -> u64 {
        let mut value = 0;
        wait_until("all reads are counted", || {
            let page = self.server.get_admin("/metrics").text().to_owned();
            let sum = |words: &[&str]| -> u64 {
                let lines = page.lines().filter(|line| !line.starts_with('#'));
                let lines = lines.filter(|line| words.iter().all(|word| line.contains(word)));
                lines
                    .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64)
                    .sum()
            };
            value = sum(words);
            sum(&["nearhead_state_reads_total"]) >= self.reads as u64
        });
        value
    }

    pub(super) fn missed(&self) -> u64 {
        self.counted(&["nearhead_state_reads_total", "miss"])
    }
}
