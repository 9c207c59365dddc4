//! A block around its transactions, and an uncle.

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, U256};

use super::{EncodeOptions, writer::JsonWriter};
use crate::{
    block::{BlockParts, RawBlock},
    network::header,
};

/// An upper estimate, in bytes, of a block without transactions, uncle hashes or withdrawals.
pub(super) const SIZE_HINT: usize = 2400;
/// Bytes of a hash in an array.
pub(super) const HASH_SIZE_HINT: usize = 69;
/// The most bytes that a withdrawal takes.
const WITHDRAWAL_SIZE_HINT: usize = 160;

/// An upper estimate, in bytes, of a block without its transactions.
pub(super) fn size_hint(block: &RawBlock) -> usize {
    let withdrawals = block.body.withdrawals.as_ref().map_or(0, |list| list.len());
    SIZE_HINT + HASH_SIZE_HINT * block.body.ommers.len() + WITHDRAWAL_SIZE_HINT * withdrawals
}

/// Writes the block; `transactions` writes the array of transactions.
pub(super) fn write(
    w: &mut JsonWriter,
    block: &BlockParts<'_>,
    uncle_hashes: &[B256],
    options: EncodeOptions,
    transactions: impl FnOnce(&mut JsonWriter),
) {
    let header = &block.raw.header;
    header::write(w, header, &block.hash, Some(block.rlp_length));
    total_difficulty(w, block.total_difficulty, options);
    w.raw(r#","transactions":"#);
    transactions(w);
    w.raw(r#","transactionsRoot":"#)
        .data(header.transactions_root);
    w.raw(r#","uncles":"#).array(uncle_hashes, |w, hash| {
        w.data(hash);
    });
    if let Some(list) = &block.raw.body.withdrawals {
        w.raw(r#","withdrawals":"#).array(list.iter(), withdrawal);
    }
    header::write_withdrawals_root(w, header);
    w.raw("}");
}

/// Writes an uncle: a header, with the size of a block that has no body.
pub(super) fn write_uncle(w: &mut JsonWriter, uncle: &Header, hash: &B256, options: EncodeOptions) {
    let rlp_length = RawBlock::rlp_length_for(uncle, &Default::default());
    header::write(w, uncle, hash, Some(rlp_length));
    // The sum of its ancestors' difficulties is not tracked.
    total_difficulty(w, None, options);
    w.raw(r#","transactionsRoot":"#)
        .data(uncle.transactions_root);
    w.raw(r#","uncles":[]"#);
    header::write_withdrawals_root(w, uncle);
    w.raw("}");
}

/// Writes a header as newHeads sends it.
pub(super) fn write_header(w: &mut JsonWriter, header: &Header, hash: &B256) {
    header::write(w, header, hash, None);
    w.raw(r#","transactionsRoot":"#)
        .data(header.transactions_root);
    header::write_withdrawals_root(w, header);
    w.raw("}");
}

fn total_difficulty(w: &mut JsonWriter, total: Option<U256>, options: EncodeOptions) {
    if !options.omit_total_difficulty {
        w.raw(r#","totalDifficulty":"#)
            .or_null(total, JsonWriter::quantity);
    }
}

/// Every member but the address is a QUANTITY; the amount is in Gwei.
fn withdrawal(w: &mut JsonWriter, withdrawal: &Withdrawal) {
    w.raw(r#"{"index":"#).number(withdrawal.index);
    w.raw(r#","validatorIndex":"#)
        .number(withdrawal.validator_index);
    w.raw(r#","address":"#).data(withdrawal.address);
    w.raw(r#","amount":"#).number(withdrawal.amount);
    w.raw("}");
}
