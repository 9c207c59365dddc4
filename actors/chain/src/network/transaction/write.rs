//! Writes a transaction of a block as JSON.

use alloy_consensus::Transaction as _;
use alloy_eips::Typed2718;
use alloy_primitives::Address;

use super::{Transaction, type_rules::Inclusion};
use crate::{block::BlockParts, encode::writer::JsonWriter, network::Receipt};

/// The members of transactions of every type that hold a number.
pub(crate) const QUANTITIES: &[&str] = &[
    "blockNumber",
    "blockTimestamp",
    "gas",
    "gasPrice",
    "nonce",
    "transactionIndex",
    "type",
    "value",
];

/// Writes transaction `index` of `block`.
pub(crate) fn write(
    w: &mut JsonWriter,
    block: &BlockParts<'_>,
    index: u64,
    (transaction, sender, receipt): (&Transaction, &Address, &Receipt),
) {
    let header = &block.raw.header;
    let inclusion = Inclusion {
        blob_gas_price: block.fees.blob_gas_price,
        receipt_members: receipt.own_members(),
    };
    w.raw(r#"{"blockHash":"#).data(block.hash);
    w.raw(r#","blockNumber":"#).number(header.number);
    w.raw(r#","blockTimestamp":"#).number(header.timestamp);
    w.raw(r#","from":"#).data(sender);
    w.raw(r#","gas":"#).number(transaction.gas_limit());
    w.raw(r#","gasPrice":"#)
        .wide(transaction.effective_gas_price(header.base_fee_per_gas));
    transaction.write_fees(w);
    w.raw(r#","hash":"#).data(transaction.tx_hash());
    w.raw(r#","input":"#).data(transaction.input());
    w.raw(r#","nonce":"#)
        .number(transaction.executed_nonce(inclusion));
    w.raw(r#","to":"#)
        .or_null(transaction.to(), JsonWriter::data);
    w.raw(r#","transactionIndex":"#).number(index);
    w.raw(r#","value":"#).quantity(transaction.value());
    w.raw(r#","type":"#).number(transaction.ty().into());
    transaction.write_own(w, inclusion);
    w.raw("}");
}

/// Upper bound on a transaction's length in bytes.
pub(crate) fn size_hint(transaction: &Transaction) -> usize {
    const FIXED: usize = 970;
    FIXED + 2 * transaction.input().len() + transaction.own_size_hint()
}
