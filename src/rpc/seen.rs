//! What a snapshot says about blocks that a client has seen at another process.

use alloy_primitives::B256;
use nearhead_actors::fleet::id_of;
use nearhead_chain::window::Snapshot;
use nearhead_fleet::{block_id::BlockId, min_block::SeenBlocks};

/// A snapshot, as one that is asked for blocks that it has seen.
pub(crate) struct Seen<'a>(pub(crate) &'a Snapshot);

impl SeenBlocks for Seen<'_> {
    fn head(&self) -> Option<BlockId> {
        Some(id_of(self.0.head()))
    }

    fn has_seen(&self, hash: &B256) -> bool {
        self.0.has_seen(hash)
    }
}
