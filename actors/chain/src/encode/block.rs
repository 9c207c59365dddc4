//! A block around its transactions, and an uncle.

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, U256};

use super::{EncodeOptions, writer::JsonWriter};
use crate::{
    block::{BlockParts, RawBlock},
    network::header::HeaderWriter,
};

/// Enough bytes for a block without transactions, uncle hashes or withdrawals.
pub(super) const SIZE_HINT: usize = 2400;
/// Bytes of a hash in an array.
pub(super) const HASH_SIZE_HINT: usize = 69;
/// The most bytes that a withdrawal takes.
const WITHDRAWAL_SIZE_HINT: usize = 160;

/// Enough bytes for a block without its transactions.
pub(super) fn size_hint(block: &RawBlock) -> usize {
    let withdrawals = block.body.withdrawals.as_ref().map_or(0, |list| list.len());
    let extra_data = 2 * block.header.extra_data.len();
    SIZE_HINT
        + extra_data
        + HASH_SIZE_HINT * block.body.ommers.len()
        + WITHDRAWAL_SIZE_HINT * withdrawals
}

/// Writes the block; `transactions` writes the array of transactions.
pub(super) fn write(
    w: &mut JsonWriter,
    block: &BlockParts<'_>,
    uncle_hashes: &[B256],
    options: EncodeOptions,
    transactions: impl FnOnce(&mut JsonWriter),
) {
    let mut object = open(w, &block.raw.header, &block.hash, Some(block.rlp_length));
    total_difficulty(&mut object, block.total_difficulty, options);
    write_body(object, block, uncle_hashes, transactions);
}

/// Writes a block that does not exist; `calls` writes what its calls did.
pub(super) fn write_simulated(
    w: &mut JsonWriter,
    block: &BlockParts<'_>,
    calls: impl FnOnce(&mut JsonWriter),
    transactions: impl FnOnce(&mut JsonWriter),
) {
    let mut object = HeaderWriter::open(w, &block.raw.header);
    calls(object.member("calls"));
    hash_and_size(&mut object, &block.hash, Some(block.rlp_length));
    write_body(object, block, &[], transactions);
}

fn write_body(
    mut object: HeaderWriter<'_, '_>,
    block: &BlockParts<'_>,
    uncle_hashes: &[B256],
    transactions: impl FnOnce(&mut JsonWriter),
) {
    transactions(object.member("transactions"));
    object.member("uncles").array(uncle_hashes, |w, hash| {
        w.data(hash);
    });
    if let Some(list) = &block.raw.body.withdrawals {
        object.member("withdrawals").array(list.iter(), withdrawal);
    }
    object.close();
}

/// Writes an uncle: a header, with the size of a block that has no body.
pub(super) fn write_uncle(w: &mut JsonWriter, uncle: &Header, hash: &B256, options: EncodeOptions) {
    let rlp_length = RawBlock::rlp_length_for(uncle, &Default::default());
    let mut object = open(w, uncle, hash, Some(rlp_length));
    // The sum of its ancestors' difficulties is not tracked.
    total_difficulty(&mut object, None, options);
    object.member("uncles").raw("[]");
    object.close();
}

/// Writes a header as newHeads sends it.
pub(super) fn write_header(w: &mut JsonWriter, header: &Header, hash: &B256) {
    open(w, header, hash, None).close();
}

/// Begins the object of a header; `rlp_length` is the block's, in bytes.
fn open<'w, 'h>(
    w: &'w mut JsonWriter,
    header: &'h Header,
    hash: &B256,
    rlp_length: Option<usize>,
) -> HeaderWriter<'w, 'h> {
    let mut object = HeaderWriter::open(w, header);
    hash_and_size(&mut object, hash, rlp_length);
    object
}

fn hash_and_size(object: &mut HeaderWriter<'_, '_>, hash: &B256, rlp_length: Option<usize>) {
    object.member("hash").data(hash);
    if let Some(length) = rlp_length {
        object.member("size").number(length as u64);
    }
}

fn total_difficulty(
    object: &mut HeaderWriter<'_, '_>,
    total: Option<U256>,
    options: EncodeOptions,
) {
    if !options.omit_total_difficulty {
        let w = object.member("totalDifficulty");
        w.or_null(total, JsonWriter::quantity);
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
