//! A block as decoded, and everything that is known of it at ingest.

use alloy_primitives::{Address, B256, U256};

use crate::network::{Receipt, Transaction};

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
    /// Recovered senders, one per transaction.
    pub senders: &'a [Address],
    /// Receipts, one per transaction.
    pub receipts: &'a [Receipt],
    /// Price of a unit of blob gas in wei (EIP-4844), from Cancun on.
    pub blob_gas_price: Option<u128>,
    /// Sum of difficulties from genesis to this block.
    pub total_difficulty: Option<U256>,
}
