//! A geth that stands wherever the test wants it: an honest node to follow.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::head;
use crate::{
    harness::{Connection, check, scratch},
    peers::{Branches, Engine, Forkchoice, Geth, Payload, of_files},
    window,
};

/// A geth that has received blocks.
pub(super) struct Led {
    pub(super) geth: Geth,
    engine: Engine,
}

impl Led {
    /// A geth at the genesis of these branches, which knows all blocks of the trunk and has none of
    /// them.
    pub(super) fn of(name: &str, chain: &Branches) -> Self {
        Self::at(name, &chain.genesis, &chain.trunk)
    }

    pub(super) fn at(name: &str, genesis: &Path, payloads: &[Payload]) -> Self {
        let geth = Geth::at_genesis(&scratch(name), genesis);
        let mut engine = Engine::of(&geth);
        engine.tell(payloads);
        Self { geth, engine }
    }

    /// Ends the process, which is told to end or killed; where it has left its chain.
    pub(super) fn end(self, is_killed: bool) -> PathBuf {
        let Geth {
            folder, process, ..
        } = self.geth;
        if !is_killed {
            process.terminate();
            assert!(process.wait().0.success());
        }
        folder
    }

    /// Another process over what one has left.
    pub(super) fn again(folder: &Path) -> Self {
        let geth = Geth::serve(folder);
        let engine = Engine::of(&geth);
        Self { geth, engine }
    }

    /// Takes it back to a block below its head: the engine API leads to none.
    pub(super) fn set_back(&mut self, number: u64) {
        let params = json!([format!("{number:#x}")]);
        let answer = self.connect().call("debug_setHead", &params);
        check("debug_setHead", &answer["result"], &Value::Null);
        check("set back", &head(&mut self.connect()).0, &number);
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.geth.address
    }

    pub(super) fn connect(&self) -> Connection {
        self.geth.connect()
    }

    /// Tells of blocks that are not of the chain yet.
    pub(super) fn tell(&mut self, payloads: &[Payload]) {
        self.engine.tell(payloads);
    }

    /// Makes a block the head, nothing is safe or finalized; number and hash.
    pub(super) fn go_to(&mut self, payload: &Payload) -> (u64, B256) {
        self.settle(payload, B256::ZERO, B256::ZERO)
    }

    /// Makes a block the head, and these safe and finalized.
    pub(super) fn settle(&mut self, payload: &Payload, safe: B256, finalized: B256) -> (u64, B256) {
        self.engine.choose(Forkchoice {
            head: payload.hash,
            safe,
            finalized,
        });
        (payload.number, payload.hash)
    }
}

/// Genesis and blocks of a dev chain of this seed: every type of transaction, a block a second.
pub(super) fn chain(name: &str, seed: u64, blocks: u64) -> (PathBuf, Vec<Payload>) {
    chain_like(name, seed, blocks, "small")
}

/// The same, of another profile.
pub(super) fn chain_like(
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
