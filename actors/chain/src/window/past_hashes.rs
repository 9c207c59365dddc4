//! The hashes of blocks that are not held any more.

use std::collections::VecDeque;

use alloy_primitives::B256;

/// Hashes of blocks that were canonical and are not held any more: a client may have seen them at
/// another process, and asks whether this one has got as far.
///
/// A change of the window copies them, 32 KB at most.
#[derive(Clone, Debug, Default)]
pub(super) struct PastHashes(VecDeque<B256>);

impl PastHashes {
    /// How many are remembered, the latest ones: at 12 s a block, those of three hours.
    const MOST: usize = 1_024;

    /// Adds one.
    pub(super) fn add(&mut self, hash: B256) {
        if self.0.len() >= Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(hash);
    }

    /// Whether it is remembered.
    pub(super) fn contains(&self, hash: &B256) -> bool {
        // The latest ones are asked about most.
        self.0.iter().rev().any(|past| past == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_hashes_are_remembered() {
        let hash = |number: usize| B256::left_padding_from(&number.to_be_bytes());
        let mut past = PastHashes::default();
        let added = PastHashes::MOST + 2;
        (0..added).for_each(|number| past.add(hash(number)));
        let kept: Vec<_> = (0..=added)
            .filter(|number| past.contains(&hash(*number)))
            .collect();
        assert_eq!(kept, (2..added).collect::<Vec<_>>());
    }
}
