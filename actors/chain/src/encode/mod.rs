//! JSON bytes of block, transaction, receipt, log and uncle, made once at ingest (contract stub).
#![allow(clippy::todo, unused)]
use bytes::Bytes;
use std::ops::Range;
use crate::block::BlockParts;

/// How blocks are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Leave out `totalDifficulty`, as execution-apis has it.
    pub omit_total_difficulty: bool,
}

/// A block's JSON, in buffers that every answer is a slice of.
#[derive(Clone, Debug)]
pub struct BlockJson {}

impl BlockJson {
    /// Encodes a verified block.
    #[must_use]
    pub fn encode(parts: &BlockParts<'_>, options: EncodeOptions) -> Self { todo!() }
    /// The block with full transactions, or with their hashes.
    #[must_use]
    pub fn block(&self, full: bool) -> Bytes { todo!() }
    /// Transaction `index`.
    #[must_use]
    pub fn transaction(&self, index: usize) -> Option<Bytes> { todo!() }
    /// Receipt of transaction `index`.
    #[must_use]
    pub fn receipt(&self, index: usize) -> Option<Bytes> { todo!() }
    /// The array of all receipts.
    #[must_use]
    pub fn receipts(&self) -> Bytes { todo!() }
    /// Number of logs in the block.
    #[must_use]
    pub fn log_count(&self) -> usize { todo!() }
    /// Where log `index` (position in the block) stands in [`Self::receipts`]; logs of one receipt that follow each
    /// other are one comma apart.
    #[must_use]
    pub fn log_range(&self, index: usize) -> Option<Range<usize>> { todo!() }
    /// Uncle `index`.
    #[must_use]
    pub fn uncle(&self, index: usize) -> Option<Bytes> { todo!() }
    /// Number of uncles.
    #[must_use]
    pub fn uncle_count(&self) -> usize { todo!() }
    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize { todo!() }
}

/// Writers of the small values that are made when they are asked for.
pub mod value {
    use alloy_primitives::{Address, B256, U256};
    use crate::trie::AccountProof;
    use crate::json::Json;
    /// `"0x…"` as QUANTITY.
    #[must_use]
    pub fn quantity(value: U256) -> Json { todo!() }
    /// `"0x…"` as DATA.
    #[must_use]
    pub fn data(bytes: &[u8]) -> Json { todo!() }
    /// EIP-1186 proof; `keys` are echoed as given (already in the form to echo), one an entry.
    #[must_use]
    pub fn proof(address: &Address, proof: &AccountProof, keys: &[ProofKey]) -> Json { todo!() }
    /// How a storage key of eth_getProof is echoed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProofKey {
        /// The input had 32 bytes: it comes back as 32 bytes.
        Full(U256),
        /// The input was shorter: it comes back as QUANTITY.
        Short(U256),
    }
}
