//! A geth whose calls are counted, and a nearhead that saves the window.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use alloy_primitives::B256;
use serde_json::json;

use super::{
    WINDOW, arguments,
    comparison::{Comparison, GETH},
    counted,
    driven_geth::DrivenGeth,
    held_state::REPORTS_MERGES,
    http,
};
use crate::{
    harness::{Server, scratch, serving, wait_until},
    upstreams::{Keys, Payload, proxy::Proxy},
};

/// A geth behind a proxy that counts calls, and the folder of the nearhead that follows it.
pub(super) struct Scene {
    pub(super) geth: DrivenGeth,
    pub(super) proxy: Proxy,
    url: String,
    pub(super) data: PathBuf,
}

impl Scene {
    pub(super) fn of(name: &str, genesis: &Path, payloads: &[Payload]) -> Self {
        let geth = DrivenGeth::at(&format!("{name}-geth"), genesis, payloads);
        let proxy = Proxy::to(&[geth.address()]);
        Self {
            url: http(proxy.address),
            geth,
            proxy,
            data: scratch(&format!("{name}-data")),
        }
    }

    pub(super) fn command(&self) -> Command {
        let data = ["--data-dir", self.data.to_str().unwrap()];
        let upstreams = [self.url.clone()];
        serving(&[&arguments(&upstreams)[..], &data, &REPORTS_MERGES].concat())
    }

    /// Starts nearhead; returns when the window is filled.
    pub(super) fn start(&self) -> Server {
        Server::of(&mut self.command())
    }

    /// The file with the window.
    pub(super) fn file(&self) -> PathBuf {
        let [chain] = fs::read_dir(&self.data)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        chain.join("window.sqlite")
    }

    /// Waits until the file or its log has all blocks of the window of this server.
    pub(super) fn wait_saved(&self, server: &Server, head: u64) {
        let mut connection = server.connect();
        let mut hash = |number: u64| -> B256 {
            let block = [json!(format!("{number:#x}")), json!(false)];
            let block = connection.result("eth_getBlockByNumber", &json!(block));
            block["hash"].as_str().unwrap().parse().unwrap()
        };
        let oldest = head.saturating_sub(WINDOW - 1);
        let hashes: Vec<B256> = (oldest..=head).map(&mut hash).collect();
        let file = self.file();
        let log = file.with_extension("sqlite-wal");
        wait_until("the window is saved", || {
            let mut missing: HashSet<&[u8]> = hashes.iter().map(|hash| &hash[..8]).collect();
            for path in [&file, &log] {
                let bytes = fs::read(path).unwrap_or_default();
                for found in bytes.windows(8) {
                    missing.remove(found);
                }
            }
            missing.is_empty()
        });
    }

    /// Blocks that the upstream was asked for so far.
    pub(super) fn blocks_fetched(&self) -> usize {
        self.proxy.calls("eth_getBlockReceipts")
    }

    pub(super) fn proofs_fetched(&self) -> usize {
        self.proxy.calls("eth_getProof")
    }

    /// Checks that these blocks are served as the upstream has them.
    pub(super) fn compare(&self, server: &Server, numbers: std::ops::RangeInclusive<u64>) {
        let mut comparison = Comparison::between(server, self.geth.address());
        comparison.chain();
        comparison.blocks(numbers);
        comparison.finish(GETH);
    }
}

/// Accounts of the genesis with a slot of each.
pub(super) fn keys(genesis: &Path) -> Keys {
    let genesis: serde_json::Value = serde_json::from_slice(&fs::read(genesis).unwrap()).unwrap();
    let alloc = genesis["alloc"].as_object().unwrap().iter().take(200);
    let keys = alloc.map(|(address, account)| {
        let storage = account["storage"].as_object().into_iter().flatten();
        let slots = storage.map(|(slot, _)| slot.clone()).take(2);
        (
            format!("0x{}", address.trim_start_matches("0x")),
            slots.collect(),
        )
    });
    keys.collect()
}

/// Writes of the window that ended so: `written` or `failed`.
pub(super) fn writes(server: &Server, outcome: &str) -> u64 {
    let series = format!("nearhead_saved_writes_total{{outcome=\"{outcome}\"}} ");
    counted(server, &series)
}
