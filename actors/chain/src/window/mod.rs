//! The 128-block ring (contract stub; split into snapshot.rs and mod.rs as the code asks).
#![allow(clippy::todo, unused)]
use std::sync::Arc;
use alloy_primitives::{B256, map::B256Map};
use crate::block::Block;

/// Blocks that are served: the head and 127 below it.
pub const WINDOW_BLOCKS: usize = 128;
/// Replaced blocks that are held at most; the ones replaced first go first.
pub const REPLACED_BLOCKS_MAX: usize = 512;

/// A named block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockTag {
    /// The head.
    Latest,
    /// As latest.
    Pending,
    /// The oldest block of the window.
    Earliest,
    /// The safe block.
    Safe,
    /// The finalized block.
    Finalized,
}

/// A number or a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockNumberOrTag {
    /// By number.
    Number(u64),
    /// By name.
    Tag(BlockTag),
}

/// Block parameter of the state methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockId {
    /// By number or tag.
    Number(BlockNumberOrTag),
    /// By hash.
    Hash {
        /// The hash.
        hash: B256,
        /// Whether a replaced block is refused.
        require_canonical: bool,
    },
}

/// Why a block parameter names no block that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The number is above the head.
    #[error("block {number} is above the head")]
    AboveHead {
        /// What was asked for.
        number: u64,
    },
    /// The number is below the window.
    #[error("block {number} is below the window, oldest is {oldest}")]
    BelowWindow {
        /// What was asked for.
        number: u64,
        /// The oldest block that is served.
        oldest: u64,
    },
    /// No held block has this hash.
    #[error("unknown block hash")]
    UnknownHash,
    /// The block was replaced and the caller wants a canonical one.
    #[error("block is not canonical")]
    NotCanonical,
    /// safe or finalized is not known.
    #[error("tag is not known")]
    UnknownTag,
}

/// One consistent, immutable view of the window: what a request, and every item of a batch, reads.
#[derive(Debug)]
pub struct Snapshot {}

impl Snapshot {
    /// The chain id (EIP-155).
    #[must_use]
    pub fn chain_id(&self) -> u64 { todo!() }
    /// The newest block.
    #[must_use]
    pub fn head(&self) -> &Arc<Block> { todo!() }
    /// Number of the oldest canonical block that is served.
    #[must_use]
    pub fn oldest(&self) -> u64 { todo!() }
    /// Canonical blocks, oldest first.
    #[must_use]
    pub fn canonical(&self) -> &[Arc<Block>] { todo!() }
    /// Canonical blocks `from..=to`, both inside the window.
    #[must_use]
    pub fn range(&self, from: u64, to: u64) -> &[Arc<Block>] { todo!() }
    /// The genesis block, held for ever for those who check it at start (JSON only; its state goes with the window).
    #[must_use]
    pub fn genesis(&self) -> Option<&Arc<Block>> { todo!() }
    /// Any held block: canonical, replaced, or the genesis.
    #[must_use]
    pub fn by_hash(&self, hash: &B256) -> Option<&Arc<Block>> { todo!() }
    /// Whether the block is on the canonical chain of the window.
    #[must_use]
    pub fn is_canonical(&self, block: &Block) -> bool { todo!() }
    /// A canonical transaction by its hash: its block and index.
    #[must_use]
    pub fn transaction(&self, hash: &B256) -> Option<(&Arc<Block>, usize)> { todo!() }
    /// Resolves a number or tag to a canonical block of the window.
    pub fn resolve(&self, at: BlockNumberOrTag) -> Result<&Arc<Block>, ResolveError> { todo!() }
    /// Resolves a block parameter of the state methods.
    pub fn resolve_id(&self, at: BlockId) -> Result<&Arc<Block>, ResolveError> { todo!() }
}

/// Why the window refused a change.
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
    /// Nothing is left that could be reverted.
    #[error("the oldest block of the window cannot be reverted")]
    NothingToRevert,
    /// The hash is neither canonical nor below the window.
    #[error("block {hash} is not canonical")]
    NotCanonical {
        /// The hash.
        hash: B256,
    },
}

/// Owner of the ring; `snapshot` is what others read.
#[derive(Debug)]
pub struct Window {}

impl Window {
    /// A window that begins with `first` (the genesis, or a node's oldest backfilled block).
    #[must_use]
    pub fn new(chain_id: u64, first: Arc<Block>) -> Self { todo!() }
    /// Applies a child of the head.
    pub fn apply(&mut self, block: Arc<Block>) -> Result<(), WindowError> { todo!() }
    /// Reverts the head; it stays readable by hash while its number is in the window.
    pub fn revert(&mut self) -> Result<Arc<Block>, WindowError> { todo!() }
    /// Sets the safe block.
    pub fn set_safe(&mut self, hash: B256) -> Result<(), WindowError> { todo!() }
    /// Sets the finalized block.
    pub fn set_finalized(&mut self, hash: B256) -> Result<(), WindowError> { todo!() }
    /// The present view; made once a change and shared.
    pub fn snapshot(&mut self) -> Arc<Snapshot> { todo!() }
    /// Every invariant of the window, each violation with its numbers.
    pub fn check_invariants(&self) -> Result<(), String> { todo!() }
}
