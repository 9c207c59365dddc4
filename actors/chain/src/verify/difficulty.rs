//! The difficulty of a block before the merge.

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::U256;

use crate::network::Rules;

/// The lowest difficulty.
const DIFFICULTY_MIN: u64 = 131_072;
/// One step is the parent's difficulty divided by this.
const DIFFICULTY_BOUND_DIVISOR: u64 = 2_048;
/// Blocks after which the difficulty bomb doubles.
const BOMB_PERIOD_BLOCKS: u64 = 100_000;
/// Frontier raises the difficulty if a block took fewer seconds than this.
const FRONTIER_DURATION_SECONDS: u64 = 13;
/// Most steps by which the difficulty falls (EIP-2).
const STEPS_DOWN_MAX: u64 = 99;

/// The difficulty of the block after `parent` with this timestamp (seconds, above the parent's).
///
/// It follows Frontier, Homestead (EIP-2), Byzantium (EIP-100) and the bomb delays of EIP-649,
/// 1234, 2384, 3554, 4345 and 5133.
#[must_use]
pub(crate) fn difficulty(rules: &Rules<'_>, parent: &Header, timestamp: u64) -> U256 {
    let elapsed = timestamp.saturating_sub(parent.timestamp);
    let number = parent.number.saturating_add(1);
    let step = parent.difficulty / U256::from(DIFFICULTY_BOUND_DIVISOR);
    let (up, down) = if rules.has(EthereumHardfork::Byzantium) {
        let base = if parent.ommers_hash == EMPTY_OMMER_ROOT_HASH {
            1
        } else {
            2
        };
        steps(base, elapsed / 9)
    } else if rules.has(EthereumHardfork::Homestead) {
        steps(1, elapsed / 10)
    } else if elapsed < FRONTIER_DURATION_SECONDS {
        (1, 0)
    } else {
        (0, 1)
    };
    let moved = (parent
        .difficulty
        .saturating_add(step.saturating_mul(U256::from(up))))
    .saturating_sub(step.saturating_mul(U256::from(down)))
    .max(U256::from(DIFFICULTY_MIN));
    let period = number.saturating_sub(bomb_delay_blocks(rules)) / BOMB_PERIOD_BLOCKS;
    if period > 1 {
        // No chain has come near 2^255; the sum saturates.
        let bomb = usize::try_from(period - 2).map_or(U256::MAX, |shift| {
            if shift < 256 {
                U256::ONE << shift
            } else {
                U256::MAX
            }
        });
        moved.saturating_add(bomb)
    } else {
        moved
    }
}

/// Steps up and down: `base` minus `passed`, at most [`STEPS_DOWN_MAX`] down.
fn steps(base: u64, passed: u64) -> (u64, u64) {
    (
        base.saturating_sub(passed),
        passed.saturating_sub(base).min(STEPS_DOWN_MAX),
    )
}

fn bomb_delay_blocks(rules: &Rules<'_>) -> u64 {
    use EthereumHardfork as Fork;
    const DELAYS: [(Fork, u64); 6] = [
        (Fork::GrayGlacier, 11_400_000),
        (Fork::ArrowGlacier, 10_700_000),
        (Fork::London, 9_700_000),
        (Fork::MuirGlacier, 9_000_000),
        (Fork::Constantinople, 5_000_000),
        (Fork::Byzantium, 3_000_000),
    ];
    DELAYS
        .iter()
        .find(|(fork, _)| rules.has(*fork))
        .map_or(0, |(_, delay)| *delay)
}
