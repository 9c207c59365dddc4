//! The path from the held chain to an upstream's head.

use alloy_primitives::B256;
use nearhead_chain::window::WINDOW_BLOCKS;

use super::descent::{Ask, Descent, FetchedBlock};
use crate::upstream::chain::Chain;

/// The blocks from an upstream's head down to the first one that is held.
///
/// Every method takes the held chain as `held`. It may grow below its oldest block; its head must
/// not change before the path is complete.
#[derive(Clone, Debug)]
pub(crate) struct SyncPath<T> {
    descent: Descent<T>,
    /// The upstream's head first.
    applied: Vec<FetchedBlock<T>>,
    /// Whether no path can lead to the upstream's head: it is a window or more above the held head,
    /// or not above the oldest block.
    is_too_far: bool,
}

/// What a complete path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathOutcome<T> {
    /// The head advances.
    Advance {
        /// Number of blocks to revert.
        reverted: usize,
        /// Blocks to apply, in order.
        applied: Vec<T>,
    },
    /// No held block is an ancestor of the upstream's head, or none would stay in the window. The
    /// window starts again at that head.
    Reset,
}

impl<T> SyncPath<T> {
    /// The path to this head, which is not a held block.
    pub(crate) fn to(number: u64, hash: B256, held: &impl Chain) -> Self {
        let ahead = number.saturating_sub(held.head().0);
        Self {
            descent: Descent::from(number, hash),
            applied: Vec::new(),
            is_too_far: ahead >= WINDOW_BLOCKS as u64 || number <= held.oldest(),
        }
    }

    /// The same path, which takes these blocks where it comes to them.
    pub(crate) fn knowing(self, blocks: impl IntoIterator<Item = FetchedBlock<T>>) -> Self {
        Self {
            descent: self.descent.knowing(blocks),
            ..self
        }
    }

    /// The blocks that were fetched or known: those of the path first, from the head down.
    pub(crate) fn into_blocks(self) -> impl Iterator<Item = FetchedBlock<T>> {
        self.applied.into_iter().chain(self.descent.into_blocks())
    }

    /// How many blocks it has at least: those that were taken, and those down to the held head.
    pub(crate) fn length(&self, held: &impl Chain) -> u64 {
        let next = self.descent.next().map_or(0, |(number, _)| number);
        self.applied.len() as u64 + next.saturating_sub(held.head().0)
    }

    /// What to ask for so that up to `width` calls are in progress.
    ///
    /// Every path needs the blocks above the held head. Below it, as many blocks are guessed as the
    /// path has already descended. So an ordinary block costs no extra call, a short reorg few, and
    /// a deep reorg takes few round trips.
    pub(crate) fn ask(&mut self, width: usize, held: &impl Chain) -> Vec<Ask> {
        let (head, _) = held.head();
        let lowest = match self.descent.next() {
            Some((next, _)) if next <= head => next.saturating_sub(head - next),
            _ => head.saturating_add(1),
        };
        if self.is_too_far {
            return Vec::new();
        }
        self.descent
            .ask(width, lowest.max(held.oldest().saturating_add(1)))
    }

    /// Records a verified block, and returns whether the path asked for it.
    pub(crate) fn got(&mut self, ask: Ask, fetched: FetchedBlock<T>) -> bool {
        self.descent.got(ask, fetched)
    }

    /// Records that a call failed, and returns whether it was one of this path's. The block is
    /// asked for again.
    pub(crate) fn failed(&mut self, ask: Ask) -> bool {
        self.descent.failed(ask)
    }

    /// The outcome, once the path is complete. The path must not be used after that.
    pub(crate) fn outcome(&mut self, held: &impl Chain) -> Option<PathOutcome<T>> {
        loop {
            let next = self.descent.next();
            let Some((number, hash)) = next.filter(|(number, _)| *number >= held.oldest()) else {
                return Some(PathOutcome::Reset);
            };
            if self.is_too_far {
                return Some(PathOutcome::Reset);
            }
            if held.has(number, hash) {
                let reverted = held.head().0.saturating_sub(number);
                let applied = std::mem::take(&mut self.applied).into_iter().rev();
                return Some(PathOutcome::Advance {
                    reverted: reverted as usize,
                    applied: applied.map(|fetched| fetched.block).collect(),
                });
            }
            // Its parent would be below the window.
            if number == held.oldest() {
                return Some(PathOutcome::Reset);
            }
            let fetched = self.descent.take()?;
            self.applied.push(fetched);
        }
    }
}
