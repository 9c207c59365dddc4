//! The bloom of a block's logs.

use alloy_consensus::TxReceipt;
use alloy_primitives::Bloom;

use crate::block::Receipt;

/// The bloom over the logs of all receipts.
#[must_use]
pub(crate) fn logs_bloom(receipts: &[Receipt]) -> Bloom {
    receipts
        .iter()
        .fold(Bloom::ZERO, |bloom, receipt| bloom | receipt.bloom())
}
