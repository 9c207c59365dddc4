//! Blocks as entries have them.

use alloy_primitives::Bytes;
use nearhead_chain::{block::Block, window::Snapshot};
use nearhead_fleet::{
    block_id::{BlockId, EntryBlock},
    bounds::ENTRY_BYTES_MAX,
};

use crate::saved::KeptBytes;

/// Bytes of an entry besides those of its blocks: numbers and hashes.
const ENTRY_FRAME_BYTES: usize = 64 << 10;

/// The bytes of blocks near the head, as entries have them: those of the saved window, which are
/// compressed RLP of block, receipts and total difficulty. A replica keeps what it has verified, so
/// that it need not make a snapshot when it leads.
#[derive(Clone, Debug)]
pub(super) struct EntryBytes {
    kept: KeptBytes,
    /// Bytes of one block: more do not fit an entry.
    block_bytes_max: usize,
}

#[cfg(test)]
impl Default for EntryBytes {
    fn default() -> Self {
        Self::new(KeptBytes::default())
    }
}

/// A block cannot be put into an entry: it is larger than an entry or a saved block may be, or has
/// no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {} {} does not fit an entry", .0.number, .0.hash)]
pub(super) struct Unfit(pub(super) BlockId);

impl EntryBytes {
    /// The bytes that are kept here.
    pub(super) const fn new(kept: KeptBytes) -> Self {
        Self {
            kept,
            block_bytes_max: ENTRY_BYTES_MAX - ENTRY_FRAME_BYTES,
        }
    }

    /// Nothing yet, of blocks with at most so many bytes.
    #[cfg(test)]
    pub(super) fn bounded(block_bytes_max: usize) -> Self {
        Self {
            block_bytes_max,
            ..Self::default()
        }
    }

    /// Keeps the bytes of a block that was verified.
    pub(super) fn keep(&self, id: BlockId, bytes: Bytes) {
        self.kept.keep(id.number, id.hash, bytes);
    }

    /// The bytes of this block, if they are kept.
    pub(super) fn get(&self, id: BlockId) -> Option<Bytes> {
        self.kept.get(id.number, id.hash)
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
