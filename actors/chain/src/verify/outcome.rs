//! A header against what its block did.

use alloy_consensus::{Header, TxReceipt, proofs};
use alloy_primitives::{Bloom, keccak256};

use super::{VerifyError, header::ensure_eq};
use crate::{block::Receipt, execute::Executed};

/// Checks everything that `header` promises about execution.
///
/// # Errors
/// The first promise that does not hold; gas and receipts before roots of state, since they say more.
pub fn check_outcome(header: &Header, executed: &Executed) -> Result<(), VerifyError> {
    ensure_eq(executed.gas_used, header.gas_used, |expected, found| {
        VerifyError::GasUsed { expected, found }
    })?;
    check_receipts(header, &executed.receipts)?;
    let requests_hash = header
        .requests_hash
        .map(|_| executed.requests.requests_hash());
    ensure_eq(requests_hash, header.requests_hash, |expected, found| {
        VerifyError::RequestsHash { expected, found }
    })?;
    ensure_eq(
        executed.state_root(),
        header.state_root,
        |expected, found| VerifyError::StateRoot { expected, found },
    )
}

/// Checks receipts, wherever they come from, against the header's receipts root and bloom.
///
/// # Errors
/// The first promise that does not hold.
pub fn check_receipts(header: &Header, receipts: &[Receipt]) -> Result<(), VerifyError> {
    ensure_eq(
        proofs::calculate_receipt_root(receipts),
        header.receipts_root,
        |expected, found| VerifyError::ReceiptsRoot { expected, found },
    )?;
    ensure_eq(
        logs_bloom(receipts),
        header.logs_bloom,
        |expected, found| VerifyError::LogsBloom {
            expected: keccak256(expected),
            found: keccak256(found),
        },
    )
}

/// The bloom over the logs of all receipts.
#[must_use]
pub fn logs_bloom(receipts: &[Receipt]) -> Bloom {
    receipts
        .iter()
        .fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.bloom())
}
