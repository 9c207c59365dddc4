//! decode, verify, execute, encode: the only way from a raw block to a held one (contract stub).
#![allow(clippy::todo, unused)]
use std::sync::Arc;
use alloy_genesis::Genesis;
use alloy_primitives::Address;
use crate::{block::{Block, RawBlock}, encode::EncodeOptions, execute::{ChainSpec, Executed, SpecError}, trie::NodeStore};

/// Imports blocks of one chain over one node store.
#[derive(Debug)]
pub struct Importer {}

/// Why a block was refused: which check, what was expected, what was found.
#[derive(Debug, thiserror::Error)]
#[error("stub")]
pub struct ImportError;

impl Importer {
    /// An importer for the chain that `genesis` begins.
    pub fn new(genesis: &Genesis, options: EncodeOptions) -> Result<Self, SpecError> { todo!() }
    /// The chain's rules.
    #[must_use]
    pub fn spec(&self) -> &ChainSpec { todo!() }
    /// The node store that all imported blocks share.
    #[must_use]
    pub fn store(&self) -> &Arc<NodeStore> { todo!() }
    /// The genesis block with its state.
    pub fn genesis(&self) -> Result<Arc<Block>, ImportError> { todo!() }
    /// Verifies and executes `raw` on top of `parent`.
    pub fn import(&self, raw: RawBlock, parent: &Block) -> Result<Arc<Block>, ImportError> { todo!() }
    /// Makes a block of what [`crate::execute::assemble`] made, with its `senders`: every promise of the header is
    /// checked against `executed`, nothing is executed again.
    pub fn seal(&self, raw: &RawBlock, senders: &[Address], executed: Executed, parent: &Block) -> Result<Arc<Block>, ImportError> { todo!() }
}
