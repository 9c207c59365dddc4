//! A receipt with its logs.

use alloy_consensus::{Eip658Value, Transaction as _, TxReceipt as _};
use alloy_eips::Typed2718;
use alloy_primitives::Address;

use super::{
    log::{self, LogTail},
    span::Span,
    writer::JsonWriter,
};
use crate::{
    block::{BlockParts, Receipt, Transaction},
    network,
};

/// A receipt's position in its block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    /// Index of the transaction.
    pub(super) transaction_index: u64,
    /// Gas used by the transactions before it.
    pub(super) gas_before: u64,
    /// Index of its first log.
    pub(super) first_log_index: u64,
}

/// Writes the receipt of `transaction` and appends the place of each of its logs to `log_spans`.
pub(super) fn write(
    w: &mut JsonWriter,
    block: &BlockParts<'_>,
    at: Position,
    (transaction, sender, receipt): (&Transaction, &Address, &Receipt),
    log_spans: &mut Vec<Span>,
) {
    let header = &block.raw.header;
    let hash = transaction.tx_hash();
    let cumulative_gas_used = receipt.cumulative_gas_used();
    // geth states the address of a failed creation too.
    let contract = transaction
        .is_create()
        .then(|| sender.create(transaction.nonce()));
    w.raw("{");
    network::receipt::write_type_members(w, block.blob_gas_price, transaction);
    w.raw(r#""blockHash":"#).data(block.hash);
    w.raw(r#","blockNumber":"#).number(header.number);
    w.raw(r#","contractAddress":"#)
        .or_null(contract, JsonWriter::data);
    w.raw(r#","cumulativeGasUsed":"#)
        .number(cumulative_gas_used);
    w.raw(r#","effectiveGasPrice":"#)
        .wide(transaction.effective_gas_price(header.base_fee_per_gas));
    w.raw(r#","from":"#).data(sender);
    w.raw(r#","gasUsed":"#)
        .number(cumulative_gas_used.saturating_sub(at.gas_before));
    w.raw(r#","logs":"#);
    let tail = LogTail::new(block, hash, at.transaction_index);
    w.array(
        (at.first_log_index..).zip(receipt.logs()),
        |w, (index, log)| {
            let start = w.len();
            log::write(w, log, index, &tail);
            log_spans.push(Span::new(start, w.len()));
        },
    );
    w.raw(r#","logsBloom":"#).data(receipt.logs_bloom());
    match receipt.status_or_post_state() {
        Eip658Value::Eip658(success) => w.raw(r#","status":"#).number(success.into()),
        Eip658Value::PostState(root) => w.raw(r#","root":"#).data(root),
    };
    w.raw(r#","to":"#)
        .or_null(transaction.to(), JsonWriter::data);
    w.raw(r#","transactionHash":"#).data(hash);
    w.raw(r#","transactionIndex":"#)
        .number(at.transaction_index);
    w.raw(r#","type":"#).number(transaction.ty().into());
    w.raw("}");
}

/// An upper estimate of a receipt's length in bytes.
pub(super) fn size_hint(receipt: &Receipt) -> usize {
    const FIXED: usize = 1400;
    FIXED + receipt.logs().iter().map(log::size_hint).sum::<usize>()
}
