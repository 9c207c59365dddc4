//! Blocks as entries have them.

use std::{collections::BTreeMap, sync::Arc};

use alloy_primitives::{B256, Bytes};
use nearhead_chain::{
    block::Block,
    window::{Snapshot, WINDOW_BLOCKS},
};
use nearhead_fleet::{
    block_id::{BlockId, EntryBlock},
    bounds::ENTRY_BYTES_MAX,
};
use parking_lot::Mutex;

/// Bytes that are kept. What makes way is made again from its block, which takes as long as to
/// write its JSON.
const BYTES_MAX: usize = 128 << 20;

/// Bytes of an entry besides those of its blocks: numbers and hashes.
const ENTRY_FRAME_BYTES: usize = 64 << 10;

/// Blocks below the window that are kept: a reorg to a shorter chain makes room for them.
const BELOW_WINDOW: u64 = 16;

/// The bytes of blocks near the head, in the form of the saved window: compressed RLP of block,
/// receipts and total difficulty. A replica keeps what it has verified, so that it need not make a
/// snapshot when it leads.
#[derive(Clone, Debug)]
pub(super) struct EntryBytes {
    kept: Arc<Mutex<Kept>>,
    /// Bytes of one block: more do not fit an entry.
    block_bytes_max: usize,
}

impl Default for EntryBytes {
    fn default() -> Self {
        Self::bounded(ENTRY_BYTES_MAX - ENTRY_FRAME_BYTES)
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// By number and hash, so that the oldest make way first.
    blocks: BTreeMap<(u64, B256), Bytes>,
    bytes: usize,
}

/// A block cannot be put into an entry: it is larger than an entry or a saved block may be, or has
/// no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {} {} does not fit an entry", .0.number, .0.hash)]
pub(super) struct Unfit(pub(super) BlockId);

impl EntryBytes {
    /// Nothing yet, of blocks with at most so many bytes.
    pub(super) fn bounded(block_bytes_max: usize) -> Self {
        Self {
            kept: Arc::default(),
            block_bytes_max,
        }
    }

    /// Keeps the bytes of a block that was verified.
    pub(super) fn keep(&self, id: BlockId, bytes: Bytes) {
        let mut kept = self.kept.lock();
        kept.bytes += bytes.len();
        if let Some(before) = kept.blocks.insert((id.number, id.hash), bytes) {
            kept.bytes -= before.len();
        }
        let newest = kept.blocks.last_key_value().map_or(0, |(key, _)| key.0);
        let oldest = newest.saturating_sub(WINDOW_BLOCKS as u64 + BELOW_WINDOW);
        while let Some(entry) = kept.blocks.first_entry() {
            let (number, _) = *entry.key();
            if number >= oldest && kept.bytes <= BYTES_MAX {
                break;
            }
            if let Some((_, bytes)) = kept.blocks.pop_first() {
                kept.bytes -= bytes.len();
            }
        }
    }

    /// The bytes of this block, if they are kept.
    pub(super) fn get(&self, id: BlockId) -> Option<Bytes> {
        self.kept.lock().blocks.get(&(id.number, id.hash)).cloned()
    }

    /// How many bytes this block has; if they are not kept, an upper bound.
    pub(super) fn length(&self, id: BlockId, held: &Snapshot) -> usize {
        let kept = self.get(id).map(|bytes| bytes.len());
        kept.or_else(|| Some(held.by_hash(&id.hash)?.bytes()))
            .unwrap_or_default()
    }

    /// These blocks for an entry; those whose bytes are not kept are made of what is held.
    ///
    /// # Errors
    /// [`Unfit`].
    pub(super) fn blocks(
        &self,
        ids: &[BlockId],
        held: &Snapshot,
    ) -> Result<Vec<EntryBlock>, Unfit> {
        ids.iter().map(|id| self.block(*id, held)).collect()
    }

    fn block(&self, id: BlockId, held: &Snapshot) -> Result<EntryBlock, Unfit> {
        let unfit = Unfit(id);
        let block = held.by_hash(&id.hash).ok_or(unfit)?;
        let bytes = match self.get(id) {
            Some(bytes) => bytes,
            None => {
                let bytes = Bytes::from(Block::save(block).ok_or(unfit)?);
                self.keep(id, bytes.clone());
                bytes
            }
        };
        if bytes.len() > self.block_bytes_max {
            return Err(unfit);
        }
        Ok(EntryBlock {
            id,
            parent: block.header.parent_hash,
            bytes,
        })
    }
}
