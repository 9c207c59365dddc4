//! Pseudorandom numbers from a seed.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng},
};

/// A pseudorandom generator: equal seeds make equal choices.
pub(crate) struct Rng(ChaCha8Rng);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next_u64() % bound as u64).unwrap()
    }

    /// A number between `from` and `to`, both included.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }

    /// True with probability 1/`n`.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A random element of `of`.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// `N` random bytes.
    #[cfg(feature = "all-tests")]
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
