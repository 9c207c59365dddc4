//! Matches that were counted, and their JSON array, made as it is taken.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use super::{SearchError, cancellation::CancelChecker};
use crate::{
    block::Block,
    json::{Json, LazyBytes, Truncated},
};

/// The matches of a search: counted, but not yet gathered from the blocks' JSON.
#[derive(Debug)]
pub struct FoundLogs {
    count: usize,
    array: LogArray,
}

/// Positions of the matching logs, block by block.
#[derive(Debug, Default)]
pub(super) struct Matches {
    pub(super) positions: Vec<u32>,
    /// Indices of the blocks that have matches, and the end of each one's positions.
    blocks: Vec<(usize, usize)>,
}

impl Matches {
    pub(super) fn end_block(&mut self, index: usize) {
        let end = self.positions.len();
        if end > self.blocks.last().map_or(0, |(_, end)| *end) {
            self.blocks.push((index, end));
        }
    }

    /// Number of matches.
    const fn len(&self) -> usize {
        self.positions.len()
    }

    /// Indices of the blocks that have matches, each with its logs' positions, ascending.
    fn by_block(&self) -> impl Iterator<Item = (usize, &[u32])> {
        let mut start = 0;
        self.blocks.iter().map(move |(index, end)| {
            let positions = &self.positions[start..*end];
            start = *end;
            (*index, positions)
        })
    }
}

/// The JSON array of matching logs, as byte ranges of their blocks' receipts.
#[derive(Debug)]
struct LogArray {
    /// In block order, then log order.
    runs: Vec<Run>,
    /// The receipts of each block that has runs, and the end of its runs.
    blocks: Vec<(Bytes, usize)>,
    /// The run to take next, how many of its bytes were taken, and its block.
    run: usize,
    taken: usize,
    block: usize,
    /// Whether the bracket or comma before the run to take next was taken.
    is_begun: bool,
    /// Bytes left to take.
    left: usize,
}

/// Matching logs that are adjacent in a block's receipts, with the commas between them.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    end: u32,
}

/// Runs of this size or more are shared slices, shorter ones are copied into one buffer.
///
/// A slice costs the reply's body about 200 ns: one step for itself, one for the comma after it.
/// Copying a run of this size costs the same (`benches/log_search.rs`).
const SHARED_BYTES_MIN: usize = 4 * 1024;

/// Most bytes that are copied into one buffer.
const COPIED_BYTES_MAX: usize = 64 * 1024;

impl Run {
    const fn len(self) -> usize {
        (self.end - self.start) as usize
    }
}

impl FoundLogs {
    pub(super) fn new(
        blocks: &[Arc<Block>],
        matches: &Matches,
        checker: &mut CancelChecker<'_>,
    ) -> Result<Self, SearchError> {
        let mut runs: Vec<Run> = Vec::new();
        let mut receipts = Vec::new();
        let mut bytes = 0;
        for (block, positions) in matches.by_block() {
            let json = &blocks[block].json;
            let first = runs.len();
            for position in positions {
                checker.count(1)?;
                // Postings and JSON are made from the same receipts, and the encoder checked that
                // byte offsets fit in 32 bits.
                let range = json.log_range(*position as usize);
                debug_assert!(range.is_some(), "no JSON of log {position}");
                let Some(Range { start, end }) = range else {
                    continue;
                };
                let (start, end) = (start as u32, end as u32);
                match runs[first..].last_mut() {
                    // Logs of one receipt are one comma apart, logs of two receipts further apart.
                    Some(run) if run.end + 1 == start => run.end = end,
                    _ => runs.push(Run { start, end }),
                }
            }
            if runs.len() > first {
                bytes += runs[first..].iter().map(|run| run.len()).sum::<usize>();
                receipts.push((json.receipts(), runs.len()));
            }
        }
        runs.shrink_to_fit();
        let brackets = 2;
        let commas = runs.len().saturating_sub(1);
        Ok(Self {
            count: matches.len(),
            array: LogArray {
                runs,
                blocks: receipts,
                run: 0,
                taken: 0,
                block: 0,
                is_begun: false,
                left: brackets + commas + bytes,
            },
        })
    }

    /// Number of matches.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The JSON array, ordered by block, then by log index.
    #[must_use]
    pub fn into_json(self) -> Json {
        match self.array.runs.is_empty() {
            true => Json::fixed("[]"),
            false => Json::lazy(self.array),
        }
    }
}

impl LogArray {
    /// The rest of the run to take next.
    fn rest(&self) -> Option<(&Bytes, Range<usize>)> {
        let run = self.runs.get(self.run)?;
        let receipts = &self.blocks[self.block].0;
        Some((receipts, run.start as usize + self.taken..run.end as usize))
    }

    /// Records that `bytes` of the next run were taken.
    fn advance(&mut self, bytes: usize) {
        self.left -= bytes;
        self.taken += bytes;
        if self
            .runs
            .get(self.run)
            .is_some_and(|run| self.taken == run.len())
        {
            (self.run, self.taken) = (self.run + 1, 0);
            if self.run == self.blocks[self.block].1 && self.run < self.runs.len() {
                self.block += 1;
            }
        }
    }

    /// Copies the next bytes, up to `max` of them or to a run that is long enough for a slice of
    /// its own.
    fn copy(&mut self, max: usize) -> Bytes {
        let mut copied = Vec::with_capacity(max.min(self.left));
        while copied.len() < max && self.left > 0 {
            // A bracket or a comma precedes every run, and a bracket follows the last.
            if self.taken == 0 && !self.is_begun {
                copied.push(match self.run {
                    0 => b'[',
                    run if run == self.runs.len() => b']',
                    _ => b',',
                });
                self.left -= 1;
                self.is_begun = true;
                continue;
            }
            let Some((receipts, rest)) = self.rest() else {
                break;
            };
            if rest.len() >= SHARED_BYTES_MIN {
                break;
            }
            let bytes = rest.len().min(max - copied.len());
            copied.extend_from_slice(&receipts[rest.start..rest.start + bytes]);
            self.advance(bytes);
            self.is_begun = self.taken > 0;
        }
        copied.into()
    }
}

impl LazyBytes for LogArray {
    fn len(&self) -> usize {
        self.left
    }

    fn held(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.runs[..]) + size_of_val(&self.blocks[..])
    }

    fn take(&mut self, max: usize) -> Result<Bytes, Truncated> {
        let large = self
            .rest()
            .filter(|(_, rest)| self.is_begun && rest.len() >= SHARED_BYTES_MIN);
        let Some((receipts, rest)) = large else {
            return Ok(self.copy(max.min(COPIED_BYTES_MAX)));
        };
        let slice = receipts.slice(rest.start..rest.start + rest.len().min(max));
        self.advance(slice.len());
        self.is_begun = self.taken > 0;
        Ok(slice)
    }
}
