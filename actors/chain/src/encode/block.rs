//! A block around its transactions, and an uncle.

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, U256};

use super::{EncodeOptions, writer::JsonWriter};
use crate::block::{BlockParts, RawBlock};

/// An upper estimate, in bytes, of a block without transactions, uncle hashes and withdrawals.
pub(super) const SIZE_HINT: usize = 2400;
/// Bytes of a hash in an array.
pub(super) const HASH_SIZE_HINT: usize = 69;
/// Bytes of a withdrawal at most.
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
    header_to_timestamp(w, header, &block.hash, Some(block.rlp_length));
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
    withdrawals_root(w, header);
    w.raw("}");
}

/// Writes an uncle: a header, with the size of a block that has no body.
pub(super) fn write_uncle(w: &mut JsonWriter, uncle: &Header, hash: &B256, options: EncodeOptions) {
    let rlp_length = RawBlock::rlp_length_for(uncle, &Default::default());
    header_to_timestamp(w, uncle, hash, Some(rlp_length));
    // The sum of its ancestors' difficulties is not tracked.
    total_difficulty(w, None, options);
    w.raw(r#","transactionsRoot":"#)
        .data(uncle.transactions_root);
    w.raw(r#","uncles":[]"#);
    withdrawals_root(w, uncle);
    w.raw("}");
}

/// Writes a header as newHeads sends it.
pub(super) fn write_header(w: &mut JsonWriter, header: &Header, hash: &B256) {
    header_to_timestamp(w, header, hash, None);
    w.raw(r#","transactionsRoot":"#)
        .data(header.transactions_root);
    withdrawals_root(w, header);
    w.raw("}");
}

/// The members up to `timestamp`, in alphabetical order; members of a later fork are absent, not
/// null.
fn header_to_timestamp(
    w: &mut JsonWriter,
    header: &Header,
    hash: &B256,
    rlp_length: Option<usize>,
) {
    w.raw("{");
    if let Some(fee) = header.base_fee_per_gas {
        w.raw(r#""baseFeePerGas":"#).number(fee).raw(",");
    }
    if let Some(gas) = header.blob_gas_used {
        w.raw(r#""blobGasUsed":"#).number(gas).raw(",");
    }
    w.raw(r#""difficulty":"#).quantity(header.difficulty);
    if let Some(gas) = header.excess_blob_gas {
        w.raw(r#","excessBlobGas":"#).number(gas);
    }
    w.raw(r#","extraData":"#).data(&header.extra_data);
    w.raw(r#","gasLimit":"#).number(header.gas_limit);
    w.raw(r#","gasUsed":"#).number(header.gas_used);
    w.raw(r#","hash":"#).data(hash);
    w.raw(r#","logsBloom":"#).data(header.logs_bloom);
    w.raw(r#","miner":"#).data(header.beneficiary);
    w.raw(r#","mixHash":"#).data(header.mix_hash);
    w.raw(r#","nonce":"#).data(header.nonce);
    w.raw(r#","number":"#).number(header.number);
    if let Some(root) = header.parent_beacon_block_root {
        w.raw(r#","parentBeaconBlockRoot":"#).data(root);
    }
    w.raw(r#","parentHash":"#).data(header.parent_hash);
    w.raw(r#","receiptsRoot":"#).data(header.receipts_root);
    if let Some(hash) = header.requests_hash {
        w.raw(r#","requestsHash":"#).data(hash);
    }
    w.raw(r#","sha3Uncles":"#).data(header.ommers_hash);
    if let Some(length) = rlp_length {
        w.raw(r#","size":"#).number(length as u64);
    }
    w.raw(r#","stateRoot":"#).data(header.state_root);
    w.raw(r#","timestamp":"#).number(header.timestamp);
}

fn total_difficulty(w: &mut JsonWriter, total: Option<U256>, options: EncodeOptions) {
    if !options.omit_total_difficulty {
        w.raw(r#","totalDifficulty":"#)
            .or_null(total, JsonWriter::quantity);
    }
}

fn withdrawals_root(w: &mut JsonWriter, header: &Header) {
    if let Some(root) = header.withdrawals_root {
        w.raw(r#","withdrawalsRoot":"#).data(root);
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
