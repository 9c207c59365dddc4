//! Checks a header against its parent.

use alloy_consensus::Header;
use alloy_eips::{
    eip1559::{BaseFeeParams, INITIAL_BASE_FEE},
    eip7840::BlobParams,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B64, B256, Bytes, U256};

use super::{VerifyError, difficulty};
use crate::network::{Rules, header::FORK_MEMBERS};

/// Most bytes of extra data in a header (yellow paper, 4.3).
const EXTRA_DATA_BYTES_MAX: usize = 32;
/// Lowest gas limit of any block (yellow paper, 4.3.4).
const GAS_LIMIT_MIN: u64 = 5_000;
/// Highest gas limit of any block (EIP-1985).
const GAS_LIMIT_MAX: u64 = i64::MAX as u64;
/// The gas limit changes by less than the parent's divided by this.
const GAS_LIMIT_BOUND_DIVISOR: u64 = 1_024;

/// Checks everything about `header` that follows from the header of its parent.
///
/// # Errors
/// The first check that fails.
pub(crate) fn check_header(
    rules: &Rules<'_>,
    parent: &Header,
    parent_hash: B256,
    header: &Header,
) -> Result<(), VerifyError> {
    ensure_eq(parent_hash, header.parent_hash, |expected, found| {
        VerifyError::ParentHash { expected, found }
    })?;
    check_child(rules, parent, header)
}

/// The checks against the parent that blocks and ommers share.
pub(super) fn check_child(
    rules: &Rules<'_>,
    parent: &Header,
    header: &Header,
) -> Result<(), VerifyError> {
    let number = parent.number.saturating_add(1);
    ensure_eq(number, header.number, |expected, found| {
        VerifyError::Number { expected, found }
    })?;
    if let Some(fork) = rules.fork_before_merge() {
        return Err(VerifyError::ForkBeforeMerge { fork });
    }
    if rules.merged() {
        ensure_eq(B64::ZERO, header.nonce, |expected, found| {
            VerifyError::Nonce { expected, found }
        })?;
    } else {
        check_dao_fork(rules, header)?;
    }
    check_common(rules, parent, header)?;
    check_blob_fields(rules, parent, header)?;
    check_presence(rules, header)
}

/// The checks that blocks of all forks share: time, extra data, difficulty, gas, base fee.
fn check_common(rules: &Rules<'_>, parent: &Header, header: &Header) -> Result<(), VerifyError> {
    if header.timestamp <= parent.timestamp {
        return Err(VerifyError::Timestamp {
            parent: parent.timestamp,
            found: header.timestamp,
        });
    }
    if header.extra_data.len() > EXTRA_DATA_BYTES_MAX {
        return Err(VerifyError::ExtraData {
            max: EXTRA_DATA_BYTES_MAX,
            found: header.extra_data.len(),
        });
    }
    let expected = if rules.merged() {
        U256::ZERO
    } else {
        difficulty(rules, parent, header.timestamp)
    };
    ensure_eq(expected, header.difficulty, |expected, found| {
        VerifyError::Difficulty { expected, found }
    })?;
    check_gas_limit(rules, parent, header)?;
    check_gas_used(header)?;
    ensure_eq(
        base_fee(rules, parent),
        header.base_fee_per_gas,
        |expected, found| VerifyError::BaseFee { expected, found },
    )
}

/// Checks that the gas used is within the block's own limit.
///
/// # Errors
/// [`VerifyError::GasUsedAboveLimit`].
pub(crate) const fn check_gas_used(header: &Header) -> Result<(), VerifyError> {
    if header.gas_used > header.gas_limit {
        return Err(VerifyError::GasUsedAboveLimit {
            limit: header.gas_limit,
            found: header.gas_used,
        });
    }
    Ok(())
}

/// Highest base fee of a parent, in wei: it must have room to rise by an eighth.
const PARENT_BASE_FEE_MAX: u64 = u64::MAX / 2;

/// The base fee of the block after `parent` (EIP-1559), in wei; `None` before London.
///
/// A parent that was never checked may state anything; the result saturates where alloy's
/// computation would overflow.
#[must_use]
pub(crate) fn base_fee(rules: &Rules<'_>, parent: &Header) -> Option<u64> {
    rules
        .has(EthereumHardfork::London)
        .then(|| next_base_fee(parent))
}

/// [`base_fee`], if that block is of London or later.
#[must_use]
pub(crate) fn next_base_fee(parent: &Header) -> u64 {
    if parent.gas_used > parent.gas_limit || parent.base_fee_per_gas > Some(PARENT_BASE_FEE_MAX) {
        return u64::MAX;
    }
    parent
        .next_block_base_fee(BaseFeeParams::ethereum())
        .unwrap_or(INITIAL_BASE_FEE)
}

/// The excess blob gas of the block after `parent` (EIP-4844, 7918); `None` before Cancun.
///
/// The parent of the first block of Cancun has no blob fields; they count as zero. A parent that
/// was never checked may state anything; the result saturates where alloy's computation would
/// overflow.
#[must_use]
pub(crate) fn excess_blob_gas(rules: &Rules<'_>, parent: &Header) -> Option<u64> {
    rules
        .blob_params()
        .map(|params| next_excess_blob_gas(params, parent))
}

/// [`excess_blob_gas`] of a block with these parameters.
#[must_use]
pub(crate) fn next_excess_blob_gas(params: BlobParams, parent: &Header) -> u64 {
    let excess = parent.excess_blob_gas.unwrap_or_default();
    let used = parent.blob_gas_used.unwrap_or_default();
    let overflows =
        excess.checked_add(used).is_none() || used.checked_mul(params.max_blob_count).is_none();
    if overflows {
        return u64::MAX;
    }
    parent
        .next_block_excess_blob_gas(params)
        .unwrap_or_default()
}

fn check_dao_fork(rules: &Rules<'_>, header: &Header) -> Result<(), VerifyError> {
    match rules.dao_fork_extra_data() {
        Some(Ok(mark)) if *header.extra_data != *mark => Err(VerifyError::DaoForkMissing {
            expected: Bytes::from_static(mark),
            found: header.extra_data.clone(),
        }),
        Some(Err(mark)) if *header.extra_data == *mark => Err(VerifyError::DaoForkMark {
            found: header.extra_data.clone(),
        }),
        _ => Ok(()),
    }
}

fn check_gas_limit(rules: &Rules<'_>, parent: &Header, header: &Header) -> Result<(), VerifyError> {
    // The first block of London doubles the limit, so that the gas target stays at the old limit
    // (EIP-1559).
    let first_of_london = rules.has(EthereumHardfork::London) && parent.base_fee_per_gas.is_none();
    let reference = if first_of_london {
        parent.gas_limit.saturating_mul(2)
    } else {
        parent.gas_limit
    };
    let step = (reference / GAS_LIMIT_BOUND_DIVISOR).saturating_sub(1);
    let min = reference.saturating_sub(step).max(GAS_LIMIT_MIN);
    let max = reference.saturating_add(step).min(GAS_LIMIT_MAX);
    if (min..=max).contains(&header.gas_limit) {
        Ok(())
    } else {
        Err(VerifyError::GasLimit {
            min,
            max,
            found: header.gas_limit,
        })
    }
}

fn check_blob_fields(
    rules: &Rules<'_>,
    parent: &Header,
    header: &Header,
) -> Result<(), VerifyError> {
    let Some(params) = rules.blob_params() else {
        ensure_eq(None, header.blob_gas_used, |expected, found| {
            VerifyError::BlobGasUsed { expected, found }
        })?;
        return ensure_eq(None, header.excess_blob_gas, |expected, found| {
            VerifyError::ExcessBlobGas { expected, found }
        });
    };
    if let Some(found) = header.blob_gas_used
        && found > params.max_blob_gas_per_block()
    {
        return Err(VerifyError::BlobGasAboveLimit {
            max: params.max_blob_gas_per_block(),
            found,
        });
    }
    ensure_eq(
        excess_blob_gas(rules, parent),
        header.excess_blob_gas,
        |expected, found| VerifyError::ExcessBlobGas { expected, found },
    )
}

/// Checks that a member that a fork adds is present from that fork on and not before.
fn check_presence(rules: &Rules<'_>, header: &Header) -> Result<(), VerifyError> {
    FORK_MEMBERS.iter().try_for_each(|member| {
        ensure_eq(
            rules.has(member.since),
            (member.is_present)(header),
            member.error,
        )
    })
}

/// Returns `error(expected, found)` unless the two are equal.
pub(super) fn ensure_eq<T: PartialEq>(
    expected: T,
    found: T,
    error: impl FnOnce(T, T) -> VerifyError,
) -> Result<(), VerifyError> {
    if expected == found {
        Ok(())
    } else {
        Err(error(expected, found))
    }
}
