//! A block as decoded, and everything that is known of it at ingest.

use alloy_primitives::{Address, B256, U256};

use crate::network::{HeaderFees, Receipt, Transaction};

/// A block that was decoded and is not verified.
pub type RawBlock = alloy_consensus::Block<Transaction>;

/// Everything about a block that the encoder and the log search need at ingest.
#[derive(Clone, Copy, Debug)]
pub struct BlockParts<'a> {
    /// The decoded block.
    pub raw: &'a RawBlock,
    /// keccak256 of the header's RLP.
    pub hash: B256,
    /// Length of the block's RLP in bytes.
    pub rlp_length: usize,
    /// Recovered senders, one per transaction; empty while they are not recovered.
    pub senders: &'a [Address],
    /// Receipts, one per transaction.
    pub receipts: &'a [Receipt],
    /// What follows from the header by the chain's fee rules.
    pub fees: HeaderFees,
    /// Sum of difficulties from genesis to this block.
    pub total_difficulty: Option<U256>,
}
