//! What identifies a block, and a block as bytes.

use alloy_primitives::{B256, Bytes};

/// What identifies a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
}

/// A block in an entry. Nothing of this is believed: a [`Verifier`](crate::replica::Verifier)
/// compares it with what the bytes hash to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryBlock {
    /// Its number and hash.
    pub id: BlockId,
    /// Its parent's hash.
    pub parent: B256,
    /// Header, body and receipts. This package does not know in which form.
    pub bytes: Bytes,
}
