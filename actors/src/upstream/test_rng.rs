//! The random numbers of simulations.

/// Pseudorandom numbers (xorshift): equal seeds give equal numbers.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        // SplitMix, so that neighbouring seeds have nothing in common.
        let seed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((seed ^ (seed >> 27)) | 1)
    }

    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    pub(crate) const fn is_one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}
