//! One block through alloy-evm (contract stub).
#![allow(clippy::todo, unused)]
use std::sync::Arc;

use alloy_consensus::transaction::Recovered;
use alloy_eips::{eip4895::Withdrawal, eip7685::Requests};
use alloy_primitives::{Address, B256, Bytes};

use super::ChainSpec;
use crate::{
    block::{Block, RawBlock, Receipt, Transaction},
    trie::{Changes, State},
};

/// What a block was found to do. Its state is not stored until [`Self::commit`]; dropping it forgets everything.
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
    base: Arc<State>,
    changes: Changes,
}

impl Executed {
    /// The state root after the block.
    #[must_use]
    pub fn state_root(&self) -> B256 {
        self.changes.root()
    }
    /// Stores the state and returns a handle to it.
    #[must_use]
    pub fn commit(self) -> Arc<State> {
        self.base.commit(self.changes)
    }
}

/// Why a block could not be executed.
#[derive(Debug, thiserror::Error)]
#[error("stub")]
pub enum ExecuteError {}

/// What a producer decides about a block; everything else follows from its parent and from execution.
///
/// Only for blocks after the merge: there is no ommer, no difficulty and no seal to choose.
#[derive(Clone, Debug, Default)]
pub struct BlockTemplate {
    /// Seconds since 1970; above the parent's.
    pub timestamp: u64,
    /// Receiver of the tips.
    pub beneficiary: Address,
    /// Gas limit; within 1/1024 of the parent's.
    pub gas_limit: u64,
    /// PREVRANDAO (EIP-4399).
    pub prev_randao: B256,
    /// At most 32 bytes.
    pub extra_data: Bytes,
    /// Withdrawals; from Shanghai on.
    pub withdrawals: Vec<Withdrawal>,
    /// Parent beacon block root (EIP-4788); from Cancun on.
    pub parent_beacon_block_root: B256,
    /// Transactions in order, each one valid where it stands.
    pub transactions: Vec<Recovered<Transaction>>,
}

/// Executes `raw` on top of `parent`. The header's promises are not compared here ([`crate::verify`]).
pub fn execute(
    spec: &ChainSpec,
    parent: &Block,
    raw: &RawBlock,
    senders: &[Address],
) -> Result<Executed, ExecuteError> {
    todo!()
}

/// Makes the block that `template` describes on top of `parent`: executes it and fills in the whole header.
///
/// A transaction that cannot be included is an error. [`crate::import::Importer::seal`] then makes a
/// [`Block`] of it without executing it again.
pub fn assemble(
    spec: &ChainSpec,
    parent: &Block,
    template: BlockTemplate,
) -> Result<(RawBlock, Executed), ExecuteError> {
    todo!()
}
