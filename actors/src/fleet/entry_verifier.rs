//! Verifies the blocks of entries as if a node had stated them.

use std::sync::Arc;

use nearhead_chain::{block::Block, remote::Verifier, window::Snapshot};
use nearhead_fleet::{
    block_id::{BlockId, EntryBlock},
    entry::Content,
    replica::{self, FalseContent},
};

use super::entry_bytes::EntryBytes;
use crate::head::Head;

/// Makes verified blocks of entries. No block of an entry is believed, whoever has its key, except
/// for its total difficulty, which no hash covers. The settled blocks and the newest revision of
/// records are believed.
///
/// Senders are recovered and JSON is made when they are first read, or by the `JsonMaker`.
pub(super) struct EntryVerifier {
    verifier: Arc<Verifier>,
    /// A block that is held is not made again.
    head: Head,
    bytes: EntryBytes,
}

impl EntryVerifier {
    pub(super) const fn new(verifier: Arc<Verifier>, head: Head, bytes: EntryBytes) -> Self {
        Self {
            verifier,
            head,
            bytes,
        }
    }

    /// The block below a window that has room for it, if its bytes are kept: a reorg to a shorter
    /// chain makes room for what had left the window before.
    pub(super) fn below(&self, held: &Snapshot) -> Option<Arc<Block>> {
        let oldest = held.canonical().first().filter(|_| !held.is_filled())?;
        let hash = oldest.header.parent_hash;
        let number = oldest.number().checked_sub(1)?;
        let bytes = self.bytes.get(BlockId { number, hash })?;
        self.verifier.restore(hash, &bytes).ok()
    }

    fn block(
        &self,
        stated: &EntryBlock,
        held: Option<&Snapshot>,
    ) -> Result<Arc<Block>, FalseContent> {
        let hash = stated.id.hash;
        let known = held.and_then(|held| held.by_hash(&hash)).cloned();
        let is_new = known.is_none();
        let block = match known {
            Some(block) => block,
            None => self
                .verifier
                .restore(hash, &stated.bytes)
                .map_err(|error| FalseContent(format!("block {hash}: {error}")))?,
        };
        let (found, parent) = (block.number(), block.header.parent_hash);
        if (found, parent) != (stated.id.number, stated.parent) {
            return Err(FalseContent(format!(
                "block {hash} has number {found} and parent {parent}"
            )));
        }
        if is_new {
            self.bytes.keep(stated.id, stated.bytes.clone());
        }
        Ok(block)
    }
}

impl replica::Verifier for EntryVerifier {
    type Verified = Vec<Arc<Block>>;

    fn verify(&mut self, content: &Content) -> Result<Self::Verified, FalseContent> {
        let held = self.head.load();
        let blocks = content.blocks().iter();
        blocks
            .map(|block| self.block(block, held.as_deref()))
            .collect()
    }
}
