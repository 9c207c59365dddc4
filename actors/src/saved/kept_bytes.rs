//! The bytes of blocks near the head, in the form of the saved window.

use std::{collections::BTreeMap, sync::Arc};

use alloy_primitives::{B256, Bytes};
use nearhead_chain::window::WINDOW_BLOCKS;
use parking_lot::Mutex;

/// Bytes that are kept. What makes way is made again from its block, which takes as long as to
/// write its JSON.
const BYTES_MAX: usize = 128 << 20;

/// Blocks below the window that are kept: a reorg to a shorter chain makes room for them.
const BELOW_WINDOW: u64 = 16;

/// What [`Block::save`](nearhead_chain::block::Block::save) made of blocks near the head, for those
/// who need it again. Only a process of a fleet keeps any. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptBytes(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// By number and hash, so that the oldest make way first.
    blocks: BTreeMap<(u64, B256), Bytes>,
    bytes: usize,
}

impl KeptBytes {
    /// Keeps the bytes of a block that was verified.
    pub(crate) fn keep(&self, number: u64, hash: B256, bytes: Bytes) {
        let mut kept = self.0.lock();
        kept.bytes += bytes.len();
        if let Some(before) = kept.blocks.insert((number, hash), bytes) {
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
    pub(crate) fn get(&self, number: u64, hash: B256) -> Option<Bytes> {
        self.0.lock().blocks.get(&(number, hash)).cloned()
    }
}
