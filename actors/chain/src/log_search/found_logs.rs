//! Matches that were counted, and their JSON array, made as it is taken.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use super::{SearchError, cancellation::CancelChecker};
use crate::{
    block::Block,
    encode::{JsonWithoutSenders, LOG_ADDED, LOG_REMOVED, Span},
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

    /// Takes back the positions that were added since the last block ended.
    pub(super) fn undo_block(&mut self) {
        let end = self.blocks.last().map_or(0, |(_, end)| *end);
        self.positions.truncate(end);
    }

    /// Number of matches.
    pub(super) const fn len(&self) -> usize {
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
///
/// A *run* is the place of matching logs that are adjacent there, with the commas between them.
#[derive(Debug)]
struct LogArray {
    /// The runs of all blocks but those with [`Runs::Whole`], in block order, then log order; a
    /// removed block's logs come newest first.
    runs: Vec<Span>,
    /// The blocks that have runs.
    blocks: Vec<RunsOfBlock>,
    /// The block to take from next, the number of its run, and how many bytes of that were taken.
    block: usize,
    run: usize,
    taken: usize,
    /// Whether the text before the run to take next was taken.
    is_begun: bool,
    /// Whether the run before is a removed log, whose end differs from the block's JSON.
    follows_removed: bool,
    /// Bytes left to take.
    left: usize,
}

/// The runs of one block.
#[derive(Debug)]
struct RunsOfBlock {
    receipts: Bytes,
    runs: Runs,
    /// Whether its logs are removed; then each run is one log without [`LOG_ADDED`].
    is_removed: bool,
}

#[derive(Debug)]
enum Runs {
    /// All logs of the block match, and none is removed: the block's own list.
    Whole(Arc<[Span]>),
    /// A part of [`LogArray::runs`].
    Part(Range<usize>),
}

impl RunsOfBlock {
    /// Its runs; `found` are those of [`LogArray::runs`].
    fn runs<'a>(&'a self, found: &'a [Span]) -> &'a [Span] {
        match &self.runs {
            Runs::Whole(runs) => runs,
            Runs::Part(range) => &found[range.clone()],
        }
    }
}

/// Runs of this size or more are shared slices, shorter ones are copied into one buffer.
///
/// A slice costs the reply's body about 200 ns: one step for itself, one for the comma after it.
/// Copying a run of this size costs the same (`benches/log_search.rs`).
const SHARED_BYTES_MIN: usize = 4 * 1024;

/// Most bytes that are copied into one buffer.
const COPIED_BYTES_MAX: usize = 64 * 1024;

impl FoundLogs {
    /// `block` gives the block of each index in `matches`, and whether its logs are removed.
    pub(super) fn new<'a>(
        block: impl Fn(usize) -> (&'a Block, bool),
        matches: &Matches,
        checker: &mut CancelChecker<'_>,
    ) -> Result<Self, SearchError> {
        let (mut found, mut blocks) = (Vec::new(), Vec::new());
        // How many runs, and the bytes of the brackets and of all runs.
        let (mut count, mut bytes) = (0_usize, 2);
        for (index, positions) in matches.by_block() {
            let (block, is_removed) = block(index);
            let json = block.json_without_senders();
            let runs = if positions.len() == block.log_count() && !is_removed {
                let runs = json.log_runs();
                debug_assert!(!runs.is_empty(), "no JSON of the logs of block {index}");
                checker.count(runs.len())?;
                Runs::Whole(runs)
            } else {
                let first = found.len();
                add_runs(&mut found, &json, (positions, is_removed), checker)?;
                Runs::Part(first..found.len())
            };
            let block = RunsOfBlock {
                receipts: json.logs(),
                runs,
                is_removed,
            };
            let runs = block.runs(&found);
            count += runs.len();
            bytes += runs.iter().map(Span::len).sum::<usize>();
            bytes += usize::from(is_removed) * runs.len() * LOG_REMOVED.len();
            if !runs.is_empty() {
                blocks.push(block);
            }
        }
        found.shrink_to_fit();
        blocks.shrink_to_fit();
        let commas = count.saturating_sub(1);
        Ok(Self {
            count: matches.len(),
            array: LogArray {
                runs: found,
                blocks,
                block: 0,
                run: 0,
                taken: 0,
                is_begun: false,
                follows_removed: false,
                left: bytes + commas,
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
        match self.array.blocks.is_empty() {
            true => Json::fixed("[]"),
            false => Json::lazy(self.array),
        }
    }
}

/// Adds the runs of the logs at these positions of a block, which ascend. Each removed log is a run
/// of its own, the newest first.
fn add_runs(
    runs: &mut Vec<Span>,
    json: &JsonWithoutSenders<'_>,
    (positions, are_removed): (&[u32], bool),
    checker: &mut CancelChecker<'_>,
) -> Result<(), SearchError> {
    let first = runs.len();
    for place in 0..positions.len() {
        checker.count(1)?;
        let position = match are_removed {
            true => positions[positions.len() - 1 - place],
            false => positions[place],
        };
        // Postings and JSON are made from the same receipts.
        let span = json.log_span(position as usize);
        debug_assert!(span.is_some(), "no JSON of log {position}");
        let Some(span) = span else {
            continue;
        };
        match runs[first..].last_mut() {
            _ if are_removed => runs.push(span.without_end(LOG_ADDED.len() as u32)),
            // Logs of one receipt are one comma apart, logs of two receipts further apart.
            Some(run) if run.range().end + 1 == span.range().start => {
                *run = Span::from_to(*run, span);
            }
            _ => runs.push(span),
        }
    }
    Ok(())
}

impl LogArray {
    /// The rest of the run to take next.
    fn rest(&self) -> Option<(&Bytes, Range<usize>)> {
        let block = self.blocks.get(self.block)?;
        let run = block.runs(&self.runs).get(self.run)?.range();
        Some((&block.receipts, run.start + self.taken..run.end))
    }

    /// Records that `bytes` of the next run were taken.
    fn advance(&mut self, bytes: usize) {
        self.left -= bytes;
        self.taken += bytes;
        let Some(block) = self.blocks.get(self.block) else {
            return;
        };
        let runs = block.runs(&self.runs);
        if runs
            .get(self.run)
            .is_some_and(|run| self.taken == run.len())
        {
            (self.run, self.taken) = (self.run + 1, 0);
            self.follows_removed = block.is_removed;
            if self.run == runs.len() {
                (self.block, self.run) = (self.block + 1, 0);
            }
        }
    }

    /// The text before the run to take next, or after the last one: the end of a removed log, and a
    /// bracket or a comma.
    fn text_before(&self) -> [&'static [u8]; 2] {
        let end_of_log = match self.follows_removed {
            true => LOG_REMOVED,
            false => b"",
        };
        let mark: &[u8] = match (self.block, self.run) {
            (0, 0) => b"[",
            (block, _) if block == self.blocks.len() => b"]",
            _ => b",",
        };
        [end_of_log, mark]
    }

    /// Copies the next bytes, up to `max` of them or to a run that is long enough for a slice of
    /// its own.
    fn copy(&mut self, max: usize) -> Bytes {
        let mut copied = Vec::with_capacity(max.min(self.left));
        while copied.len() < max && self.left > 0 {
            if self.taken == 0 && !self.is_begun {
                let text = self.text_before();
                let len = text.iter().map(|part| part.len()).sum::<usize>();
                // It is shorter than the shortest piece that may be asked for.
                if copied.len() + len > max {
                    break;
                }
                text.iter().for_each(|part| copied.extend_from_slice(part));
                self.left -= len;
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
