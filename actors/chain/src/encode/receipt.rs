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
    network::transaction::Inclusion,
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
    let inclusion = Inclusion {
        blob_gas_price: block.fees.blob_gas_price,
        receipt_members: receipt.own_members(),
    };
    let hash = transaction.tx_hash();
    let cumulative_gas_used = receipt.cumulative_gas_used();
    // geth states the address of a failed creation too.
    let contract = transaction
        .is_create()
        .then(|| sender.create(transaction.executed_nonce(inclusion)));
    let own = transaction.receipt_quantities(inclusion);
    let mut object = ReceiptWriter::open(w, &own);
    object.member("blockHash").data(block.hash);
    object.member("blockNumber").number(header.number);
    object
        .member("contractAddress")
        .or_null(contract, JsonWriter::data);
    object
        .member("cumulativeGasUsed")
        .number(cumulative_gas_used);
    object
        .member("effectiveGasPrice")
        .wide(transaction.effective_gas_price(header.base_fee_per_gas));
    object.member("from").data(sender);
    object
        .member("gasUsed")
        .number(cumulative_gas_used.saturating_sub(at.gas_before));
    let tail = LogTail::new(block, hash, at.transaction_index);
    object.member("logs").array(
        (at.first_log_index..).zip(receipt.logs()),
        |w, (index, log)| {
            let start = w.len();
            log::write(w, log, index, &tail);
            log_spans.push(Span::new(start, w.len()));
        },
    );
    object.member("logsBloom").data(receipt.logs_bloom());
    match receipt.status_or_post_state() {
        Eip658Value::Eip658(success) => object.member("status").number(success.into()),
        Eip658Value::PostState(root) => object.member("root").data(root),
    };
    object
        .member("to")
        .or_null(transaction.to(), JsonWriter::data);
    object.member("transactionHash").data(hash);
    object
        .member("transactionIndex")
        .number(at.transaction_index);
    object.member("type").number(transaction.ty().into());
    object.close();
}

/// Writes a receipt's object. geth orders the members by name, together with those that the type
/// adds.
struct ReceiptWriter<'w, 'o> {
    w: &'w mut JsonWriter,
    own: &'o [(&'static str, u128)],
}

impl<'w, 'o> ReceiptWriter<'w, 'o> {
    /// Begins the object; `own` has the members that the type adds, by name.
    fn open(w: &'w mut JsonWriter, own: &'o [(&'static str, u128)]) -> Self {
        debug_assert!(own.is_sorted());
        w.raw("{");
        Self { w, own }
    }

    /// Begins a member that every type has, after writing the type's own members that sort before
    /// it.
    fn member(&mut self, name: &str) -> &mut JsonWriter {
        while let Some(((own, value), rest)) = self.own.split_first()
            && *own < name
        {
            self.w.member(own).wide(*value);
            self.own = rest;
        }
        self.w.member(name)
    }

    /// Writes the rest and ends the object.
    fn close(self) {
        for (own, value) in self.own {
            self.w.member(own).wide(*value);
        }
        self.w.raw("}");
    }
}

/// Upper bound on a receipt's length in bytes.
pub(super) fn size_hint(receipt: &Receipt) -> usize {
    const FIXED: usize = 1400;
    const OWN_MEMBER: usize = 70;
    FIXED
        + OWN_MEMBER * receipt.own_members().len()
        + receipt.logs().iter().map(log::size_hint).sum::<usize>()
}
