//! Why the window refuses a change.

use alloy_primitives::B256;

/// Why the window refused a change. A refused change has no effect on what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The block is not a child of the head.
    #[error("block {number} {hash} does not continue the head {head}")]
    NotAChild {
        /// Its number.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The head's hash.
        head: B256,
    },
    /// The block is not the parent of the oldest block.
    #[error("block {number} {hash} is not the parent {parent} of the oldest block")]
    NotTheParent {
        /// Its number.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The hash that the oldest block names.
        parent: B256,
    },
    /// The window has no room for an older block: it has all its blocks, or this one does not fit
    /// its budget of bytes.
    #[error("the window is full")]
    Full,
    /// The head is the only block.
    #[error("the oldest block of the window cannot be reverted")]
    NothingToRevert,
    /// The block is not canonical, as far as the window shows.
    #[error("block {hash} is not canonical")]
    NotCanonical {
        /// The hash.
        hash: B256,
    },
    /// The change would revert a finalized block, which no change may.
    #[error("block {number} {hash} is finalized and cannot be reverted")]
    Finalized {
        /// The finalized block's number.
        number: u64,
        /// The finalized block's hash.
        hash: B256,
    },
}
