//! Writes a transaction of a block as JSON.

use alloy_consensus::{Transaction as _, transaction::to_eip155_value};
use alloy_eips::{Typed2718, eip2930::AccessList, eip7702::SignedAuthorization};
use alloy_primitives::Address;

use super::Transaction;
use crate::{block::BlockParts, encode::writer::JsonWriter};

/// Writes transaction `index` of `block`.
pub(crate) fn write(
    w: &mut JsonWriter,
    block: &BlockParts<'_>,
    index: u64,
    transaction: &Transaction,
    sender: &Address,
) {
    let header = &block.raw.header;
    w.raw(r#"{"blockHash":"#).data(block.hash);
    w.raw(r#","blockNumber":"#).number(header.number);
    w.raw(r#","blockTimestamp":"#).number(header.timestamp);
    w.raw(r#","from":"#).data(sender);
    w.raw(r#","gas":"#).number(transaction.gas_limit());
    fees(w, transaction, header.base_fee_per_gas);
    w.raw(r#","hash":"#).data(transaction.tx_hash());
    w.raw(r#","input":"#).data(transaction.input());
    w.raw(r#","nonce":"#).number(transaction.nonce());
    w.raw(r#","to":"#)
        .or_null(transaction.to(), JsonWriter::data);
    w.raw(r#","transactionIndex":"#).number(index);
    w.raw(r#","value":"#).quantity(transaction.value());
    w.raw(r#","type":"#).number(transaction.ty().into());
    if let Some(list) = transaction.access_list() {
        w.raw(r#","accessList":"#);
        access_list(w, list);
    }
    // A typed transaction names its chain, a legacy one only if it is replay-protected (EIP-155).
    if let Some(chain_id) = transaction.chain_id() {
        w.raw(r#","chainId":"#).number(chain_id);
    }
    if let Some(hashes) = transaction.blob_versioned_hashes() {
        w.raw(r#","blobVersionedHashes":"#)
            .array(hashes, |w, hash| {
                w.data(hash);
            });
    }
    if let Some(list) = transaction.authorization_list() {
        w.raw(r#","authorizationList":"#).array(list, authorization);
    }
    signature(w, transaction);
    w.raw("}");
}

/// The price paid, and the fee members that the transaction's type adds.
fn fees(w: &mut JsonWriter, transaction: &Transaction, base_fee_per_gas: Option<u64>) {
    w.raw(r#","gasPrice":"#)
        .wide(transaction.effective_gas_price(base_fee_per_gas));
    if let Some(tip) = transaction.max_priority_fee_per_gas() {
        w.raw(r#","maxFeePerGas":"#)
            .wide(transaction.max_fee_per_gas());
        w.raw(r#","maxPriorityFeePerGas":"#).wide(tip);
    }
    if let Some(fee) = transaction.max_fee_per_blob_gas() {
        w.raw(r#","maxFeePerBlobGas":"#).wide(fee);
    }
}

fn access_list(w: &mut JsonWriter, list: &AccessList) {
    w.array(list.iter(), |w, item| {
        w.raw(r#"{"address":"#).data(item.address);
        w.raw(r#","storageKeys":"#)
            .array(&item.storage_keys, |w, key| {
                w.data(key);
            });
        w.raw("}");
    });
}

fn authorization(w: &mut JsonWriter, authorization: &SignedAuthorization) {
    w.raw(r#"{"chainId":"#).quantity(*authorization.chain_id());
    w.raw(r#","address":"#).data(authorization.address());
    w.raw(r#","nonce":"#).number(authorization.nonce());
    w.raw(r#","yParity":"#)
        .number(authorization.y_parity().into());
    w.raw(r#","r":"#).quantity(authorization.r());
    w.raw(r#","s":"#).quantity(authorization.s());
    w.raw("}");
}

/// `v` is the signed value of a legacy transaction, and the parity of a typed one, which also has
/// `yParity`.
fn signature(w: &mut JsonWriter, transaction: &Transaction) {
    let signature = transaction.signature();
    let parity = u128::from(signature.v());
    let v = match transaction {
        Transaction::Legacy(legacy) => to_eip155_value(signature.v(), legacy.tx().chain_id),
        _ => parity,
    };
    w.raw(r#","v":"#).wide(v);
    w.raw(r#","r":"#).quantity(signature.r());
    w.raw(r#","s":"#).quantity(signature.s());
    if !transaction.is_legacy() {
        w.raw(r#","yParity":"#).wide(parity);
    }
}

/// An upper estimate of a transaction's length in bytes.
pub(crate) fn size_hint(transaction: &Transaction) -> usize {
    const FIXED: usize = 970;
    const ACCESS_LIST_ITEM: usize = 80;
    const HASH: usize = 69;
    const AUTHORIZATION: usize = 310;
    let access_list: usize = transaction.access_list().map_or(0, |list| {
        list.iter()
            .map(|item| ACCESS_LIST_ITEM + HASH * item.storage_keys.len())
            .sum()
    });
    FIXED
        + 2 * transaction.input().len()
        + access_list
        + HASH * transaction.blob_versioned_hashes().map_or(0, <[_]>::len)
        + AUTHORIZATION * transaction.authorization_list().map_or(0, <[_]>::len)
}
