//! The numbers and times of all blocks, also of those in gaps.

use super::{error_kind::SimulationErrorKind, request::BlockCalls};
use crate::call::error::CallError;

/// The most blocks, with those in gaps.
const BLOCKS_MAX: u64 = 256;
/// The most calls of a block.
const BLOCK_CALLS_MAX: usize = 5_000;
/// The most calls of all blocks.
const CALLS_MAX: usize = 10_000;

/// Seconds between a block and the next one, unless it says its time.
const BLOCK_SECONDS: u64 = 12;

/// A block that will be simulated.
#[derive(Debug)]
pub(super) struct PlannedBlock<'a> {
    pub(super) number: u64,
    pub(super) timestamp: u64,
    /// `None` for a block in a gap.
    pub(super) asked: Option<&'a BlockCalls>,
}

/// All blocks above the block of this number and time.
///
/// # Errors
/// A [`SimulationErrorKind`].
pub(super) fn plan(
    blocks: &[BlockCalls],
    base: u64,
    base_timestamp: u64,
) -> Result<Vec<PlannedBlock<'_>>, CallError> {
    check_counts(blocks)?;
    let (mut number, mut timestamp) = (base, base_timestamp);
    let mut planned = Vec::with_capacity(blocks.len());
    for block in blocks {
        let wanted = block.block.number.unwrap_or(number.saturating_add(1));
        if wanted <= number {
            let message = format!("block numbers must be in order: {wanted} <= {number}");
            return Err(CallError::simulation(
                SimulationErrorKind::BlockNumber,
                message,
            ));
        }
        if wanted - base > BLOCKS_MAX {
            return Err(too_many_blocks());
        }
        while number + 1 < wanted {
            (number, timestamp) = (number + 1, timestamp.saturating_add(BLOCK_SECONDS));
            planned.push(PlannedBlock {
                number,
                timestamp,
                asked: None,
            });
        }
        let next = timestamp.saturating_add(BLOCK_SECONDS);
        let next = block.block.timestamp.unwrap_or(next);
        if next <= timestamp {
            let message = format!("block timestamps must be in order: {next} <= {timestamp}");
            return Err(CallError::simulation(
                SimulationErrorKind::BlockTime,
                message,
            ));
        }
        (number, timestamp) = (wanted, next);
        planned.push(PlannedBlock {
            number,
            timestamp,
            asked: Some(block),
        });
    }
    Ok(planned)
}

fn check_counts(blocks: &[BlockCalls]) -> Result<(), CallError> {
    if blocks.is_empty() {
        return Err(CallError::simulation(
            SimulationErrorKind::InvalidParams,
            "empty input",
        ));
    }
    if blocks.len() as u64 > BLOCKS_MAX {
        return Err(too_many_blocks());
    }
    let mut calls = 0;
    for block in blocks {
        let count = block.calls.len();
        if count > BLOCK_CALLS_MAX {
            let message = format!("too many calls in block: {count} > {BLOCK_CALLS_MAX}");
            return Err(CallError::simulation(SimulationErrorKind::TooMuch, message));
        }
        calls += count;
    }
    if calls > CALLS_MAX {
        let message = format!("too many calls: {calls} > {CALLS_MAX}");
        return Err(CallError::simulation(SimulationErrorKind::TooMuch, message));
    }
    Ok(())
}

fn too_many_blocks() -> CallError {
    CallError::simulation(SimulationErrorKind::TooMuch, "too many blocks")
}
