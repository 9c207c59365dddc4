//! A deterministic chain made here (contract stub).
#![allow(clippy::todo, unused)]
use std::{sync::Arc, time::Duration};
use alloy_genesis::Genesis;
use crate::{block::{Block, RawBlock}, encode::EncodeOptions, import::Importer, trie::NodeStore};

/// Size of the dev chain's blocks and state (PERFORMANCE: "a mainnet-like window").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// A few transactions a block.
    #[default]
    Small,
    /// 250 transactions and 650 logs a block, a million accounts.
    Mainnet,
    /// 700 transactions and 1,500 to 2,000 logs a block.
    P99,
    /// Small blocks and one of 155,000 logs without topics.
    Adversarial,
}

/// What the dev chain is made from; equal values give equal chains, byte for byte.
#[derive(Clone, Debug)]
pub struct DevConfig {
    /// Seed of everything random.
    pub seed: u64,
    /// Sizes.
    pub profile: Profile,
    /// Seconds between the timestamps of two blocks.
    pub block_time_seconds: u64,
    /// A reorg after every so many blocks; `None` for none.
    pub reorg_every: Option<u64>,
    /// Blocks that a reorg replaces.
    pub reorg_depth: u64,
}

/// One step of the chain: `reverted` blocks are taken off the head, then `applied` are put on.
#[derive(Debug)]
pub struct Step {
    /// Blocks to take off the head.
    pub reverted: usize,
    /// Blocks to apply, with their raw form for export.
    pub applied: Vec<(RawBlock, Arc<Block>)>,
}

/// Makes the chain.
#[derive(Debug)]
pub struct Producer {}

/// Why a block could not be made (a defect of this program).
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DevError(pub String);

impl Producer {
    /// A producer that stands at genesis; `progress` is told (done, total) accounts while a large state is made.
    pub fn new(config: DevConfig, options: EncodeOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<Self, DevError> { todo!() }
    /// The genesis that the chain begins with, in the form of genesis.json.
    #[must_use]
    pub fn genesis(&self) -> &Genesis { todo!() }
    /// The block that the producer stands at.
    #[must_use]
    pub fn head(&self) -> &Arc<Block> { todo!() }
    /// The next step: one block, or a scripted reorg.
    pub fn step(&mut self) -> Result<Step, DevError> { todo!() }
}
