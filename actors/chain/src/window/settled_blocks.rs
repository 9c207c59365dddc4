//! The safe and the finalized block of a chain.

use alloy_primitives::B256;

/// A safe and a finalized block, number and hash, each if it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettledBlocks {
    /// The safe block.
    pub safe: Option<(u64, B256)>,
    /// The finalized block.
    pub finalized: Option<(u64, B256)>,
}
