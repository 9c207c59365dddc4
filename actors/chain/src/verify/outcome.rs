//! A header against what its block did.

use alloy_consensus::{Header, proofs};
use alloy_primitives::{B256, Bloom, keccak256};

use super::{VerifyError, bloom::logs_bloom, header::ensure_eq};
use crate::{block::Receipt, execute::Executed};

/// Checks everything that `header` promises about execution.
///
/// # Errors
/// The first promise that does not hold; gas and receipts before roots of state, since they say
/// more.
pub(crate) fn check_outcome(header: &Header, executed: &Executed) -> Result<(), VerifyError> {
    ensure_eq(executed.gas_used, header.gas_used, |expected, found| {
        VerifyError::GasUsed { expected, found }
    })?;
    ReceiptsPromise::of(&executed.receipts).check(header)?;
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

/// What a header promises about receipts: their root and the bloom over their logs.
#[derive(Clone, Debug)]
pub struct ReceiptsPromise {
    root: B256,
    bloom: Bloom,
}

impl ReceiptsPromise {
    /// What the header of these receipts promises, wherever they come from.
    #[must_use]
    pub fn of(receipts: &[Receipt]) -> Self {
        Self {
            root: proofs::calculate_receipt_root(receipts),
            bloom: logs_bloom(receipts),
        }
    }

    /// Checks that `header` promises this.
    ///
    /// # Errors
    /// The first promise that does not hold.
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
