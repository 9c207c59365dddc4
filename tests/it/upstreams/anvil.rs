//! anvil as a process: the test decides when blocks are made, reverted and replaced.

use std::{
    net::SocketAddr,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use alloy_primitives::{B256, Bytes, b256};
use serde_json::{Value, json};

use super::quantity;
use crate::harness::{Connection, Process, installed, scratch};

/// The secret key of the first account that anvil gives ether to.
pub(crate) const FIRST_KEY: B256 =
    b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");

/// A running anvil.
pub(crate) struct Anvil {
    /// The address of HTTP and WebSocket.
    pub(crate) address: SocketAddr,
    /// Stops it when dropped.
    pub(crate) process: Process,
    connection: Connection,
    /// How many branches were made.
    branches: u64,
}

impl Anvil {
    /// Starts it on a free port with these additional arguments. Without `--no-mining` or
    /// `--block-time` every transaction makes a block.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::on_port(0, arguments)
    }

    /// The same as [`Self::start`] on this port, or on a free one if it is 0.
    pub(crate) fn on_port(port: u16, arguments: &[&str]) -> Self {
        let mut command = Command::new(installed("tests/.tools/bin/anvil"));
        // Transactions in the order in which they were sent, so that every run makes the same
        // chain.
        command.args(["--port", &port.to_string(), "--order", "fifo"]);
        // anvil writes surplus states to a folder below HOME.
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let started = STARTED.fetch_add(1, Ordering::Relaxed);
        command.env("HOME", scratch(&format!("upstreams-anvil-{started}")));
        let process = Process::start(command.args(arguments));
        let address = process.output.wait_for("anvil's address", |text| {
            let (_, address) = text.split_once("Listening on ")?;
            address.lines().next()?.parse().ok()
        });
        Self {
            address,
            process,
            connection: Connection::open(address, "/"),
            branches: 0,
        }
    }

    /// Opens a connection for calls.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address, "/")
    }

    /// Makes this many blocks.
    pub(crate) fn mine(&mut self, blocks: u64) {
        self.call("anvil_mine", json!([format!("{blocks:#x}")]));
    }

    /// Makes this many blocks; the first has a transaction that no other chain has.
    pub(crate) fn mine_others(&mut self, blocks: u64) {
        let transaction = self.transaction();
        self.call("eth_sendTransaction", json!([transaction]));
        self.mine(blocks);
    }

    /// Replaces the last `depth` blocks by as many others. The first has a transaction that no
    /// other chain has: empty blocks would equal the replaced ones.
    pub(crate) fn reorg(&mut self, depth: u64) {
        let transaction = self.transaction();
        self.call("anvil_reorg", json!([depth, [[transaction, 0]]]));
    }

    /// A transaction that was never sent before.
    fn transaction(&mut self) -> Value {
        self.branches += 1;
        let account = self.call("eth_accounts", json!([]))[0].clone();
        let value = format!("{:#x}", self.branches);
        json!({"from": account, "to": account, "value": value})
    }

    /// Removes the last `depth` blocks: the head is lower afterwards.
    pub(crate) fn roll_back(&mut self, depth: u64) {
        self.call("anvil_rollback", json!([depth]));
    }

    /// Sends a signed transaction; returns its hash.
    pub(crate) fn send(&mut self, raw: &Bytes) -> B256 {
        let hash = self.call("eth_sendRawTransaction", json!([raw]));
        hash.as_str().unwrap().parse().unwrap()
    }

    /// Number and hash of the head.
    pub(crate) fn head(&mut self) -> (u64, B256) {
        let block = self.call("eth_getBlockByNumber", json!(["latest", false]));
        let hash = block["hash"].as_str().unwrap().parse().unwrap();
        (quantity(&block["number"]), hash)
    }

    /// The result of a call. There is no method for batches: anvil executes the calls of a batch in
    /// any order.
    #[track_caller]
    pub(super) fn call(&mut self, method: &str, params: Value) -> Value {
        self.connection.result(method, &params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{check, wait_until};

    #[test]
    fn blocks_are_made_replaced_and_reverted() {
        let mut anvil = Anvil::start(&["--no-mining", "--chain-id", "77", "--hardfork", "prague"]);
        check(
            "chain id",
            &anvil.call("eth_chainId", json!([])),
            &json!("0x4d"),
        );
        anvil.mine(210);
        let (number, _) = anvil.head();
        check("mined", &number, &210);
        let hash_at = |anvil: &mut Anvil, number: u64| {
            let params = json!([format!("{number:#x}"), false]);
            anvil.call("eth_getBlockByNumber", params)["hash"].clone()
        };
        for depth in [1, 5, 5, 60, 127, 200] {
            let before = [210 - depth, 211 - depth, 210].map(|n| hash_at(&mut anvil, n));
            anvil.reorg(depth);
            let after = [210 - depth, 211 - depth, 210].map(|n| hash_at(&mut anvil, n));
            let same = [0, 1, 2].map(|at| before[at] == after[at]);
            check(&format!("a reorg of {depth}"), &same, &[true, false, false]);
        }
        let kept = hash_at(&mut anvil, 207);
        anvil.roll_back(3);
        let (number, hash) = anvil.head();
        check("rolled back", &(number, json!(hash)), &(207, kept));
    }

    #[test]
    fn a_chain_outlives_its_process() {
        let file = scratch("upstreams-anvil-state").join("state.json");
        let arguments = ["--no-mining", "--state", file.to_str().unwrap()];
        let mut anvil = Anvil::start(&arguments);
        anvil.mine(5);
        let head = anvil.head();
        anvil.process.terminate();
        let (status, text) = anvil.process.wait();
        assert!(status.success(), "{text}");
        check("restarted", &Anvil::start(&arguments).head(), &head);
    }

    #[test]
    fn blocks_are_made_at_intervals() {
        let mut anvil = Anvil::start(&["--block-time", "1"]);
        wait_until("a block", || anvil.head().0 > 0);
    }
}
