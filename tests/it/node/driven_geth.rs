//! A geth whose head the test chooses: an honest upstream to follow.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::head;
use crate::{
    harness::{Connection, check, scratch},
    upstreams::{Branches, Engine, Forkchoice, Geth, Payload, of_files},
    window,
};

/// A geth and the engine API that drives it.
pub(crate) struct DrivenGeth {
    pub(crate) geth: Geth,
    engine: Engine,
}

impl DrivenGeth {
    /// A geth at the genesis of these branches, which has received all blocks of the trunk. None of
    /// them is its head.
    pub(crate) fn of(name: &str, chain: &Branches) -> Self {
        Self::at(name, &chain.genesis, &chain.trunk)
    }

    /// The same for a chain without branches.
    pub(crate) fn at(name: &str, genesis: &Path, payloads: &[Payload]) -> Self {
        let geth = Geth::at_genesis(&scratch(name), genesis);
        let mut engine = Engine::of(&geth);
        engine.send_blocks(payloads);
        Self { geth, engine }
    }

    /// Terminates the process, or kills it by dropping it; returns the folder of its chain.
    pub(crate) fn end(self, kill: bool) -> PathBuf {
        let Geth {
            folder, process, ..
        } = self.geth;
        if !kill {
            process.terminate();
            assert!(process.wait().0.success());
        }
        folder
    }

    /// Starts another process over the chain that an ended one left.
    pub(crate) fn restart(folder: &Path) -> Self {
        let geth = Geth::serve(folder);
        let engine = Engine::of(&geth);
        Self { geth, engine }
    }

    /// Sets the head back to an older block, which the engine API cannot do.
    pub(crate) fn set_back(&mut self, number: u64) {
        let params = json!([format!("{number:#x}")]);
        let answer = self.connect().call("debug_setHead", &params);
        check("debug_setHead", &answer["result"], &Value::Null);
        check("set back", &head(&mut self.connect()).0, &number);
    }

    /// What drives the same geth beside this.
    pub(crate) fn engine(&self) -> Engine {
        Engine::of(&self.geth)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.geth.address
    }

    pub(crate) fn connect(&self) -> Connection {
        self.geth.connect()
    }

    /// Sends blocks without making any of them the head.
    pub(crate) fn send_blocks(&mut self, payloads: &[Payload]) {
        self.engine.send_blocks(payloads);
    }

    /// Makes a block the head, with no safe or finalized block; returns its number and hash.
    pub(crate) fn go_to(&mut self, payload: &Payload) -> (u64, B256) {
        self.settle(payload, B256::ZERO, B256::ZERO)
    }

    /// Makes a block the head, with these safe and finalized blocks.
    pub(crate) fn settle(&mut self, payload: &Payload, safe: B256, finalized: B256) -> (u64, B256) {
        self.engine.set_forkchoice(Forkchoice {
            head: payload.hash,
            safe,
            finalized,
        });
        (payload.number, payload.hash)
    }
}

/// Genesis and blocks of a dev chain with this seed: every type of transaction, a block a second.
pub(crate) fn chain(name: &str, seed: u64, blocks: u64) -> (PathBuf, Vec<Payload>) {
    chain_like(name, seed, blocks, "small")
}

/// The same as [`chain`], with another profile.
pub(crate) fn chain_like(
    name: &str,
    seed: u64,
    blocks: u64,
    profile: &str,
) -> (PathBuf, Vec<Payload>) {
    let (blocks, seed) = (blocks.to_string(), seed.to_string());
    let [blocks, seed] = [["--blocks", &blocks], ["--seed", &seed]];
    let fixed = ["--block-time", "1s", "--profile", profile];
    let (genesis, chain) = window::export(name, &[&blocks[..], &seed, &fixed].concat());
    let (_, payloads) = of_files(&genesis, &chain);
    (genesis, payloads)
}
