//! A geth that stands wherever the test wants it: an honest node to follow.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use alloy_primitives::B256;

use crate::{
    harness::{Connection, scratch},
    peers::{Branches, Engine, Forkchoice, Geth, Payload, of_files},
    window,
};

/// A geth that has been told of blocks.
pub(super) struct Led {
    pub(super) geth: Geth,
    engine: Engine,
}

impl Led {
    /// A geth at the genesis of these branches, which knows all blocks of the trunk and has none of them.
    pub(super) fn of(name: &str, chain: &Branches) -> Self {
        Self::at(name, &chain.genesis, &chain.trunk)
    }

    pub(super) fn at(name: &str, genesis: &Path, payloads: &[Payload]) -> Self {
        let geth = Geth::at_genesis(&scratch(name), genesis);
        let mut engine = Engine::of(&geth);
        engine.tell(payloads);
        Self { geth, engine }
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
    let (blocks, seed) = (blocks.to_string(), seed.to_string());
    let arguments = ["--blocks", &blocks, "--seed", &seed, "--block-time", "1s"];
    let (genesis, chain) = window::export(name, &arguments);
    let (_, payloads) = of_files(&genesis, &chain);
    (genesis, payloads)
}
