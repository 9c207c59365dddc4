//! The priority fee with which a transaction is likely to be included soon.

use std::{collections::VecDeque, sync::Arc};

use super::block_fees::SAMPLES_MAX;
use crate::{block::Block, window::Snapshot};

/// Blocks that are looked at, and twice as many where they are nearly empty.
const BLOCKS: usize = 20;

/// The share of the samples, in percent, that are at most what is suggested.
const PERCENTILE: usize = 60;

/// Highest suggestion.
const TIP_MAX: u128 = 500_000_000_000;

/// The suggestion before there was any transaction.
const TIP_WITHOUT_SAMPLES: u128 = 1_000_000;

/// The suggested priority fee at the head, as geth works it out: the 60th percentile of the three
/// lowest tips of each of the latest 20 blocks. A block without tips counts as one tip, which is
/// what was suggested at the block before the head.
///
/// Source: go-ethereum 1.17.4, `eth/gasprice/gasprice.go`, with its default settings.
#[must_use]
pub fn suggested_tip(snapshot: &Snapshot) -> u128 {
    let blocks = snapshot.canonical();
    let depends = |head: &usize| Sampled::at(&blocks[..=*head]).empty > 0;
    // From the newest block whose suggestion depends on no earlier one.
    let first = (0..blocks.len()).rev().find(|head| !depends(head));
    let heads = first.unwrap_or_default()..blocks.len();
    heads.fold(TIP_WITHOUT_SAMPLES, |before, head| {
        Sampled::at(&blocks[..=head]).tip(before)
    })
}

/// The samples of a head's latest blocks.
struct Sampled {
    tips: Vec<u128>,
    /// Blocks without a sample.
    empty: usize,
}

impl Sampled {
    /// The samples at the newest of these blocks. The genesis has none.
    fn at(blocks: &[Arc<Block>]) -> Self {
        let mut older = blocks.iter().rev().filter(|block| block.number() > 0);
        let mut asked: VecDeque<_> = older.by_ref().take(BLOCKS).collect();
        let mut sampled = Self {
            tips: Vec::with_capacity(BLOCKS * SAMPLES_MAX),
            empty: 0,
        };
        while let Some(block) = asked.pop_front() {
            let samples = &block.fees.samples;
            if samples.len() <= 1
                && sampled.count() + 1 + asked.len() < 2 * BLOCKS
                && let Some(further) = older.next()
            {
                asked.push_back(further);
            }
            sampled.empty += usize::from(samples.is_empty());
            sampled.tips.extend(samples);
        }
        sampled
    }

    /// Number of samples, with one for each block that has none.
    fn count(&self) -> usize {
        self.tips.len() + self.empty
    }

    /// The suggestion, if this was the one before it.
    fn tip(mut self, before: u128) -> u128 {
        self.tips.extend(std::iter::repeat_n(before, self.empty));
        self.tips.sort_unstable();
        let place = self.tips.len().saturating_sub(1) * PERCENTILE / 100;
        self.tips.get(place).copied().unwrap_or(before).min(TIP_MAX)
    }
}
