//! The state that nearhead holds, beside that of the geth that it follows.

use serde_json::{Value, json};

use crate::{
    harness::{BATCH_CALLS_MAX, Connection, Pair, Server, check, wait_until},
    proofs,
    upstreams::Keys,
};

/// The log filter with which a server reports its merges.
pub(super) const REPORTS_MERGES: [&str; 4] = [
    "--metrics-max-age",
    "0",
    "--log-filter",
    "info,nearhead_actors::upstream::state=debug",
];

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
