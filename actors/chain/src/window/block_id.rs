//! How a request names a block, and why a name cannot be resolved.

use alloy_primitives::B256;

/// Block parameter of the state methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockId {
    /// By number or tag.
    Number(BlockNumberOrTag),
    /// By hash (EIP-1898).
    Hash {
        /// The hash.
        hash: B256,
        /// Whether a replaced block is refused.
        require_canonical: bool,
    },
}

/// A number or a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockNumberOrTag {
    /// By number.
    Number(u64),
    /// By tag.
    Tag(BlockTag),
}

/// A block tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockTag {
    /// The head.
    Latest,
    /// Served as latest.
    Pending,
    /// The oldest block of the window.
    Earliest,
    /// The safe block.
    Safe,
    /// The finalized block.
    Finalized,
}

/// Why a block parameter does not name a block that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The number is above the head.
    #[error("block {number} is above the head")]
    AboveHead {
        /// The requested number.
        number: u64,
    },
    /// The number is below the window.
    #[error("block {number} is below the window, oldest is {oldest}")]
    BelowWindow {
        /// The requested number.
        number: u64,
        /// The oldest block that is served.
        oldest: u64,
    },
    /// No held block has this hash.
    #[error("unknown block hash")]
    UnknownHash,
    /// Nothing held has this hash, and the window is not filled yet.
    #[error("unknown hash, and the window is not filled yet")]
    NotFilled,
    /// The block was replaced and the caller wants a canonical one.
    #[error("block is not canonical")]
    NotCanonical,
    /// The safe or finalized block is not known.
    #[error("tag is not known")]
    UnknownTag,
}
