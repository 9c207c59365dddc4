//! Where in the chain a subscription continues.

use std::sync::Arc;

use nearhead_chain::{block::Block, window::Cursor};

/// Where in the chain a subscription continues.
#[derive(Clone, Debug)]
pub(crate) struct Bookmark {
    pub(super) cursor: Cursor,
    /// A block whose logs were sent in part.
    pub(super) partial: Option<PartialBlock>,
}

/// A block, and the position of the log that is sent next.
#[derive(Clone, Debug)]
pub(super) struct PartialBlock {
    pub(super) block: Arc<Block>,
    pub(super) is_removed: bool,
    pub(super) position: u32,
}

impl Bookmark {
    /// Everything up to the cursor was sent.
    pub(super) const fn at(cursor: Cursor) -> Self {
        Self {
            cursor,
            partial: None,
        }
    }
}
