//! The block whose state is read.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::{block::Block, trie::State};

/// The block whose state is read. Upstreams are asked by its hash: after a reorg, its number names
/// another block.
#[derive(Clone, Debug)]
pub struct BlockRef {
    /// Its hash.
    pub hash: B256,
    /// Its number, for log lines.
    pub number: u64,
    /// Its state, of which a part is resident; fetched parts are added to it.
    pub state: Arc<State>,
}

impl BlockRef {
    /// The block, if its state may be held.
    pub(crate) fn of(block: &Block) -> Option<Self> {
        Some(Self {
            hash: block.hash,
            number: block.number(),
            state: Arc::clone(block.state.as_ref()?),
        })
    }
}
