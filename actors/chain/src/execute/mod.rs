//! One block through revm (contract stub; spec.rs, block.rs, state.rs).
#![allow(clippy::todo, unused)]
use alloy_primitives::{Address, B256, U256};
use alloy_consensus::Header;
use alloy_eips::{eip4895::Withdrawals, eip7685::Requests};
use alloy_genesis::Genesis;
use crate::{block::{Block, RawBlock, Receipt, Transaction}, trie::{Changes, State}};

/// The rules of a chain: forks, blob schedule, deposit contract, chain id.
#[derive(Clone, Debug)]
pub struct ChainSpec {}

impl ChainSpec {
    /// Reads the rules from a genesis.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, SpecError> { todo!() }
    /// The chain id.
    #[must_use]
    pub fn chain_id(&self) -> u64 { todo!() }
}

/// Why a genesis cannot be followed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub String);

/// What a block was found to do.
#[derive(Debug)]
pub struct Executed {
    /// Receipts in order.
    pub receipts: Vec<Receipt>,
    /// Gas used by the block.
    pub gas_used: u64,
    /// Blob gas used by the block.
    pub blob_gas_used: u64,
    /// Execution requests (EIP-7685).
    pub requests: Requests,
    /// The state afterwards, not stored yet.
    pub changes: Changes,
}
