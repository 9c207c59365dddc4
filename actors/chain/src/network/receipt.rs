//! Receipts: the envelope, its type, and the members that the type adds.

use alloy_consensus::{
    Receipt as PlainReceipt, ReceiptEnvelope, ReceiptWithBloom, Transaction as _, TxType,
};
use alloy_primitives::{Bloom, utils::keccak256_cached};

use super::Transaction;
use crate::{
    encode::writer::JsonWriter,
    remote::{fault::MemberError, json::Value, reader::u8},
};

/// A receipt of any type, with its bloom; `status` is a state root before Byzantium (EIP-658).
pub type Receipt = ReceiptEnvelope;

/// The receipt of a transaction of this type, with the bloom of its logs (yellow paper, 4.3.1).
///
/// Logs repeat contracts, events and accounts, so most of the hashes are cached.
#[must_use]
pub fn with_bloom(tx_type: TxType, receipt: PlainReceipt) -> Receipt {
    let mut logs_bloom = Bloom::ZERO;
    for log in &receipt.logs {
        logs_bloom.m3_2048_hashed(&keccak256_cached(log.address));
        for topic in log.topics() {
            logs_bloom.m3_2048_hashed(&keccak256_cached(topic));
        }
    }
    let receipt = ReceiptWithBloom {
        receipt,
        logs_bloom,
    };
    Receipt::from_typed(tx_type, receipt)
}

/// Reads the type of a receipt.
pub(crate) fn read_type(value: &Value<'_>) -> Result<TxType, MemberError> {
    TxType::try_from(u8(value)?).map_err(|_| MemberError::shape("a type of transaction"))
}

/// Writes the members that the type of `transaction` adds to its receipt, each followed by a comma.
pub(crate) fn write_type_members(
    w: &mut JsonWriter,
    blob_gas_price: Option<u128>,
    transaction: &Transaction,
) {
    if let Some(blob_gas_used) = transaction.blob_gas_used() {
        w.raw(r#""blobGasPrice":"#)
            .wide(blob_gas_price.unwrap_or_default());
        w.raw(r#","blobGasUsed":"#).number(blob_gas_used).raw(",");
    }
}
