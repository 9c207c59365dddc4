//! From our head to an upstream's.

use alloy_primitives::B256;
use nearhead_chain::window::WINDOW_BLOCKS;

use super::{Ask, FetchedBlock, descent::Descent};
use crate::upstream::Chain;

/// The way from our chain to a head that an upstream named, found from that head down to the first block
/// that is ours.
///
/// Our chain must not change until it is found.
#[derive(Clone, Debug)]
pub struct SyncPath<T> {
    descent: Descent<T>,
    /// The head first.
    applied: Vec<T>,
    is_too_far: bool,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathOutcome<T> {
    /// From here on, as the head tracker is told.
    Advance {
        /// How many blocks to take off our head.
        reverted: usize,
        /// Blocks to apply, in order.
        applied: Vec<T>,
    },
    /// No block that we hold is an ancestor, or none would be left in the window: it begins anew at
    /// the upstream's head.
    Reset,
}

/// How a route leaves our chain, other than at our head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// Below our head.
    Below,
    /// It begins too far away for that to be known.
    Far,
}

impl<T> SyncPath<T> {
    /// The way to this head, which is not one of our blocks.
    #[must_use]
    pub fn to(number: u64, hash: B256, ours: &impl Chain) -> Self {
        let ahead = number.saturating_sub(ours.head().0);
        Self {
            descent: Descent::from(number, hash),
            applied: Vec::new(),
            is_too_far: ahead >= WINDOW_BLOCKS as u64 || number <= ours.oldest(),
        }
    }

    /// What to ask for so that up to `width` questions are open.
    ///
    /// Blocks above our head are needed whatever the way is. Of those below, as many are guessed as
    /// the way has gone down already: nothing for the usual block, few more than needed for any
    /// reorg, and a deep one in few rounds.
    pub fn ask(&mut self, width: usize, ours: &impl Chain) -> Vec<Ask> {
        let (head, _) = ours.head();
        let lowest = match self.descent.next() {
            Some((next, _)) if next <= head => next.saturating_sub(head - next),
            _ => head + 1,
        };
        if self.is_too_far {
            return Vec::new();
        }
        self.descent.ask(width, lowest.max(ours.oldest() + 1))
    }

    /// A question was answered by a verified block.
    pub fn got(&mut self, ask: Ask, found: FetchedBlock<T>) {
        self.descent.got(ask, found);
    }

    /// A question was not answered: it is asked again.
    pub fn lost(&mut self, ask: Ask) {
        self.descent.lost(ask);
    }

    /// Whether it is known to leave our chain below our head, and if so, whether because no block
    /// that we hold is near it. To be asked after [`Self::outcome`].
    #[must_use]
    pub fn divergence(&self, ours: &impl Chain) -> Option<Divergence> {
        if self.is_too_far {
            return Some(Divergence::Far);
        }
        let (head, hash) = ours.head();
        match self.descent.next() {
            Some((number, _)) if number > head => None,
            next if next == Some((head, hash)) => None,
            _ => Some(Divergence::Below),
        }
    }

    /// Where it leads, once that is known; the route is at its end then.
    pub fn outcome(&mut self, ours: &impl Chain) -> Option<PathOutcome<T>> {
        loop {
            let next = self.descent.next();
            let Some((number, hash)) = next.filter(|(number, _)| *number >= ours.oldest()) else {
                return Some(PathOutcome::Reset);
            };
            if self.is_too_far {
                return Some(PathOutcome::Reset);
            }
            if ours.has(number, hash) {
                let reverted = ours.head().0 - number;
                let mut applied = std::mem::take(&mut self.applied);
                applied.reverse();
                return Some(PathOutcome::Advance {
                    reverted: reverted as usize,
                    applied,
                });
            }
            // Its parent would be below what we hold.
            if number == ours.oldest() {
                return Some(PathOutcome::Reset);
            }
            let found = self.descent.take()?;
            self.applied.push(found.block);
        }
    }
}
