//! How long an upstream is backed off.

use std::time::Duration;

/// Longest backoff for a fault, before its random part: up to a quarter more or less.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Bounds of the first wait, which is a quarter of a block time.
const FIRST_MIN: Duration = Duration::from_millis(100);
const FIRST_MAX: Duration = Duration::from_secs(3);

/// Doublings that a lie starts with if another upstream can be asked: sixteen times the first wait.
const LIE_DOUBLINGS: u32 = 4;

/// Waits that double with every strike. Each is up to a quarter longer or shorter, so that several
/// services do not return to an upstream at the same moment. Equal seeds give equal waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    seed: u64,
}

impl Backoff {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The wait after this many strikes in a row (at least 1) of this upstream.
    pub(super) fn wait(
        self,
        upstream: usize,
        strikes: u32,
        is_grave: bool,
        block_time: Duration,
    ) -> Duration {
        let lie = if is_grave { LIE_DOUBLINGS } else { 0 };
        let doublings = (strikes.saturating_sub(1)).saturating_add(lie).min(20);
        let first = (block_time / 4).clamp(FIRST_MIN, FIRST_MAX);
        let wait = first.saturating_mul(1 << doublings).min(BACKOFF_MAX);
        let chance = mixed(self.seed ^ mixed(upstream as u64 ^ u64::from(strikes) << 32));
        // 0.75 to 1.25 of it, in 1024ths.
        wait * (768 + (chance % 512) as u32) / 1_024
    }
}

/// A number of which every bit depends on every bit of `value` (SplitMix64).
const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
