//! The priority fee with which a transaction is likely to be included soon.

use std::{collections::VecDeque, sync::Arc};

use super::block_fees::SAMPLES_MAX;
use crate::block::Block;

/// Blocks that are looked at, and twice as many where they are nearly empty.
const BLOCKS: usize = 20;

/// The share of the samples, in percent, that are at most what is suggested.
const PERCENTILE: usize = 60;

/// Highest suggestion.
const TIP_MAX: u128 = 500_000_000_000;

/// The suggestion where nothing was suggested before.
const TIP_WITHOUT_SAMPLES: u128 = 1_000_000;

/// The suggested priority fee at the newest of these blocks, as geth works it out: the 60th
/// percentile of the three lowest tips of each of the latest 20 blocks. A block without tips counts
/// as one tip: `before`, which is what was suggested at the parent.
///
/// Source: go-ethereum 1.17.4, `eth/gasprice/gasprice.go`, with its default settings.
pub(crate) fn suggested_tip(blocks: &[Arc<Block>], before: Option<u128>) -> u128 {
    Sampled::at(blocks).tip(before.unwrap_or(TIP_WITHOUT_SAMPLES))
}

/// The suggestions at all of these blocks.
pub(crate) fn suggested_tips(blocks: &[Arc<Block>]) -> Vec<u128> {
    let mut tips: Vec<u128> = Vec::with_capacity(blocks.len());
    for newest in 0..blocks.len() {
        tips.push(suggested_tip(&blocks[..=newest], tips.last().copied()));
    }
    tips
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::{
        test_block::TestBlock,
        window::{WINDOW_BLOCKS, Window},
    };

    const GWEI: u128 = 1_000_000_000;

    /// A child with these tips.
    fn child(parent: &Block, tips: &[u128]) -> Arc<Block> {
        let mut block = Arc::unwrap_or_clone(TestBlock::default().child_of(parent));
        block.fees.samples = tips.into();
        Arc::new(block)
    }

    #[test]
    fn a_quiet_chain_keeps_its_suggestion_as_the_window_moves() {
        let mut window = Window::new(1, TestBlock::default().genesis());
        let mut suggested = Vec::new();
        for number in 1..=2 * WINDOW_BLOCKS {
            // A transaction in every third block.
            let tips: &[u128] = if number % 3 == 0 { &[GWEI] } else { &[] };
            let block = child(window.snapshot().head(), tips);
            window.apply(block).unwrap();
            suggested.push(window.snapshot().suggested_tip());
        }
        suggested.dedup();
        // A third of the samples is not enough to raise it.
        assert_eq!(suggested, [TIP_WITHOUT_SAMPLES]);
        window.check_invariants().unwrap();
    }

    #[test]
    fn a_window_that_was_filled_downwards_suggests_the_same() {
        let mut blocks = vec![TestBlock::default().genesis()];
        for number in 1..100_u128 {
            let tips = [number * GWEI % 7, number * GWEI % 11 + 2];
            blocks.push(child(
                &blocks[blocks.len() - 1],
                &tips[..number as usize % 3],
            ));
        }
        let mut upwards = Window::new(1, Arc::clone(&blocks[0]));
        for block in &blocks[1..] {
            upwards.apply(Arc::clone(block)).unwrap();
        }
        let mut downwards = Window::new(1, Arc::clone(&blocks[99]));
        for block in blocks[..99].iter().rev() {
            downwards.extend_below(Arc::clone(block)).unwrap();
        }
        let suggested = |window: &Window| window.snapshot().suggested_tip();
        assert_eq!(suggested(&upwards), suggested(&downwards));
        let before = suggested_tips(&blocks[..98])[97];
        upwards.advance(2, Vec::new(), None, None).unwrap();
        assert_eq!(upwards.snapshot().suggested_tip(), before);
        upwards.check_invariants().unwrap();
    }
}
