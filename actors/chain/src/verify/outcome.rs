//! Checks a header against the outcome of execution.

use alloy_consensus::{Header, proofs};
use alloy_primitives::{B256, Bloom, keccak256};

use super::{VerifyError, bloom::logs_bloom, header::ensure_eq};
use crate::{block::Receipt, execute::Executed};

/// Checks everything in `header` that depends on execution.
///
/// # Errors
/// The first check that fails. Gas and receipts come before the state root: their errors are more
/// specific.
pub(crate) fn check_outcome(header: &Header, executed: &Executed) -> Result<(), VerifyError> {
    ensure_eq(executed.gas_used, header.gas_used, |expected, found| {
        VerifyError::GasUsed { expected, found }
    })?;
    ReceiptsCommitment::of(&executed.receipts).check(header)?;
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

/// A header's commitment to receipts: their root and the bloom over their logs.
#[derive(Clone, Debug)]
pub struct ReceiptsCommitment {
    root: B256,
    bloom: Bloom,
}

impl ReceiptsCommitment {
    /// The commitment to these receipts.
    #[must_use]
    pub fn of(receipts: &[Receipt]) -> Self {
        Self {
            root: proofs::calculate_receipt_root(receipts),
            bloom: logs_bloom(receipts),
        }
    }

    /// Checks that `header` makes this commitment.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn check(&self, header: &Header) -> Result<(), VerifyError> {
        ensure_eq(self.root, header.receipts_root, |expected, found| {
            VerifyError::ReceiptsRoot { expected, found }
        })?;
        ensure_eq(self.bloom, header.logs_bloom, |expected, found| {
            VerifyError::LogsBloom {
                expected: keccak256(expected),
                found: keccak256(found),
            }
        })
    }
}
