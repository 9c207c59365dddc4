//! Matches that were counted, and the JSON made of them.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use super::{Cancellation, SearchError, cancellation::Pace, search::Matches};
use crate::{block::Block, json::Json};

/// Matches that were counted and not gathered yet.
#[derive(Debug)]
pub struct Found<'a> {
    blocks: &'a [Arc<Block>],
    /// In block order, then log order.
    runs: Vec<Run>,
    count: usize,
    bytes: usize,
}

/// Matching logs that stand next to each other in a block's receipts, the commas between them included.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Index of the block.
    block: usize,
    start: usize,
    end: usize,
}

/// Shorter runs are copied into one buffer, longer ones are shared slices. A slice costs the reply's body about 200 ns (a
/// step for itself, another for the comma after it); the copy of a run of this size, in a cache by then when it is
/// written, costs the same (`benches/log_search.rs`).
const SHARED_BYTES_MIN: usize = 4 * 1024;

/// Bytes that count as one unit of work, page faults of a new buffer included.
const BYTES_PER_UNIT: usize = 256;

impl Run {
    const fn len(self) -> usize {
        self.end - self.start
    }

    const fn is_shared(self) -> bool {
        self.len() >= SHARED_BYTES_MIN
    }
}

impl<'a> Found<'a> {
    pub(super) fn new(
        blocks: &'a [Arc<Block>],
        matches: &Matches,
        pace: &mut Pace<'_>,
    ) -> Result<Self, SearchError> {
        let mut runs: Vec<Run> = Vec::new();
        for (block, positions) in matches.by_block() {
            let json = &blocks[block].json;
            for position in positions {
                pace.spend(1)?;
                // Postings and JSON are made of the same receipts.
                let Some(Range { start, end }) = json.log_range(*position as usize) else {
                    continue;
                };
                match runs.last_mut() {
                    // One comma apart. Between logs of two receipts there is more.
                    Some(run) if run.block == block && run.end + 1 == start => run.end = end,
                    _ => runs.push(Run { block, start, end }),
                }
            }
        }
        let brackets = 2;
        let commas = runs.len().saturating_sub(1);
        let bytes = brackets + commas + runs.iter().map(|run| run.len()).sum::<usize>();
        let count = matches.len();
        Ok(Self {
            blocks,
            runs,
            count,
            bytes,
        })
    }

    /// Number of matches.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the JSON array, known before it is built.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The JSON array, ordered by block, then log index.
    ///
    /// # Errors
    /// [`SearchError::Cancelled`].
    pub fn gather(&self, cancel: &Cancellation) -> Result<Json, SearchError> {
        let mut pace = Pace::begin(cancel)?;
        let shared = self.runs.iter().filter(|run| run.is_shared());
        let copied_bytes = self.bytes - shared.map(|run| run.len()).sum::<usize>();
        let mut copied = Vec::with_capacity(copied_bytes);
        // Shared slices, and how much of `copied` goes before each.
        let mut shared = Vec::new();
        copied.push(b'[');
        for runs in self.runs.chunk_by(|one, next| one.block == next.block) {
            let receipts = self.blocks[runs[0].block].json.receipts();
            for run in runs {
                if copied.len() > 1 || !shared.is_empty() {
                    copied.push(b',');
                }
                if run.is_shared() {
                    pace.spend(1)?;
                    shared.push((copied.len(), receipts.slice(run.start..run.end)));
                } else {
                    pace.spend(1 + run.len() / BYTES_PER_UNIT)?;
                    copied.extend_from_slice(&receipts[run.start..run.end]);
                }
            }
        }
        copied.push(b']');
        Ok(interleave(copied.into(), shared))
    }
}

/// `copied`, with each shared slice at its place.
fn interleave(copied: Bytes, shared: Vec<(usize, Bytes)>) -> Json {
    if shared.is_empty() {
        return Json::Slice(copied);
    }
    let mut pieces = Vec::with_capacity(2 * shared.len() + 1);
    let mut start = 0;
    for (end, slice) in shared {
        // Never empty: a bracket or a comma goes before every slice.
        pieces.push(copied.slice(start..end));
        pieces.push(slice);
        start = end;
    }
    pieces.push(copied.slice(start..));
    Json::Pieces(pieces)
}
