//! Everything random in the dev chain, equal on every machine: one ChaCha stream per block, and
//! hashes for accounts and keys.

use alloy_primitives::{B256, keccak256};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// A stream of random values, determined by its key.
pub(super) struct Random(ChaCha8Rng);

impl Random {
    /// The stream of one block: a function of the chain's seed, the block's number and its fork
    /// branch.
    pub(super) fn of_block(seed: u64, number: u64, branch: u64) -> Self {
        Self(ChaCha8Rng::from_seed(
            digest("block", &[seed, number, branch]).0,
        ))
    }

    /// The next 64 bits.
    pub(super) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A value below `bound`, zero for a bound of zero; the bias is below `bound / 2^64`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A value in `low..=high`.
    pub(super) fn within(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `times` on average.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// An index into a list of `length` entries.
    pub(super) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// Fills `bytes`.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A random hash.
    pub(super) fn hash(&mut self) -> B256 {
        let mut bytes = B256::ZERO;
        self.fill(bytes.as_mut_slice());
        bytes
    }

    /// Shuffles `items` (Fisher-Yates).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

/// keccak256 of `nearhead dev <purpose>` followed by `numbers`, as 8 bytes each, big-endian.
pub(super) fn digest(purpose: &str, numbers: &[u64]) -> B256 {
    let mut preimage = b"nearhead dev ".to_vec();
    preimage.extend_from_slice(purpose.as_bytes());
    for number in numbers {
        preimage.extend_from_slice(&number.to_be_bytes());
    }
    keccak256(preimage)
}
