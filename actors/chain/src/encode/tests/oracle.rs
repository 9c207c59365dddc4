//! The expected JSON, built with serde_json from the fields of the alloy types.

use alloy_consensus::{Eip658Value, Header, TxReceipt as _};
use alloy_eips::{eip2930::AccessList, eip7702::SignedAuthorization};
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256, keccak256};
use alloy_rlp::Encodable;
use serde_json::{Value, json};

use crate::{
    block::{BlockParts, Transaction},
    encode::EncodeOptions,
};

fn hex(value: impl std::fmt::LowerHex) -> Value {
    json!(format!("{value:#x}"))
}

/// Adds the members of `more` to `object`.
fn extend(object: &mut Value, more: Value) {
    let Value::Object(more) = more else {
        panic!("not an object")
    };
    object.as_object_mut().unwrap().extend(more);
}

fn header(header: &Header, rlp_length: usize) -> Value {
    let mut rlp = Vec::new();
    header.encode(&mut rlp);
    let mut object = json!({
        "difficulty": hex(header.difficulty),
        "extraData": hex(&header.extra_data),
        "gasLimit": hex(header.gas_limit),
        "gasUsed": hex(header.gas_used),
        "hash": hex(keccak256(rlp)),
        "logsBloom": hex(header.logs_bloom),
        "miner": hex(header.beneficiary),
        "mixHash": hex(header.mix_hash),
        "nonce": hex(header.nonce),
        "number": hex(header.number),
        "parentHash": hex(header.parent_hash),
        "receiptsRoot": hex(header.receipts_root),
        "sha3Uncles": hex(header.ommers_hash),
        "size": hex(rlp_length),
        "stateRoot": hex(header.state_root),
        "timestamp": hex(header.timestamp),
        "transactionsRoot": hex(header.transactions_root),
    });
    let optional = [
        ("baseFeePerGas", header.base_fee_per_gas.map(hex)),
        ("withdrawalsRoot", header.withdrawals_root.map(hex)),
        ("blobGasUsed", header.blob_gas_used.map(hex)),
        ("excessBlobGas", header.excess_blob_gas.map(hex)),
        (
            "parentBeaconBlockRoot",
            header.parent_beacon_block_root.map(hex),
        ),
        ("requestsHash", header.requests_hash.map(hex)),
        (
            "blockAccessListHash",
            header.block_access_list_hash.map(hex),
        ),
        ("slotNumber", header.slot_number.map(hex)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            object[name] = value;
        }
    }
    object
}

/// The block without its transactions.
pub(super) fn block(parts: &BlockParts<'_>, options: EncodeOptions) -> Value {
    let body = &parts.raw.body;
    let mut object = header(&parts.raw.header, parts.raw.length());
    if !options.omit_total_difficulty {
        object["totalDifficulty"] = parts.total_difficulty.map_or(Value::Null, hex);
    }
    object["uncles"] = body
        .ommers
        .iter()
        .map(|uncle| hex(uncle.hash_slow()))
        .collect();
    if let Some(list) = &body.withdrawals {
        object["withdrawals"] = list
            .iter()
            .map(|withdrawal| {
                json!({
                    "index": hex(withdrawal.index),
                    "validatorIndex": hex(withdrawal.validator_index),
                    "address": hex(withdrawal.address),
                    "amount": hex(withdrawal.amount),
                })
            })
            .collect();
    }
    object
}

pub(super) fn uncles(parts: &BlockParts<'_>, options: EncodeOptions) -> Vec<Value> {
    let of_each = parts.raw.body.ommers.iter().map(|uncle| {
        // RLP([header, [], []]): two empty lists of one byte each.
        let payload_length = uncle.length() + 2;
        let list = alloy_rlp::Header {
            list: true,
            payload_length,
        };
        let mut object = header(uncle, list.length_with_payload());
        object["uncles"] = json!([]);
        if !options.omit_total_difficulty {
            object["totalDifficulty"] = Value::Null;
        }
        object
    });
    of_each.collect()
}

fn access_list(list: &AccessList) -> Value {
    let item = |item: &alloy_eips::eip2930::AccessListItem| {
        let keys: Value = item.storage_keys.iter().map(hex).collect();
        json!({"address": hex(item.address), "storageKeys": keys})
    };
    list.0.iter().map(item).collect()
}

fn authorization(authorization: &SignedAuthorization) -> Value {
    json!({
        "chainId": hex(authorization.inner().chain_id),
        "address": hex(authorization.inner().address),
        "nonce": hex(authorization.inner().nonce),
        "yParity": hex(authorization.y_parity()),
        "r": hex(authorization.r()),
        "s": hex(authorization.s()),
    })
}

/// The members read from each type's own fields; `more` has those that the type adds.
struct ByType<'a> {
    to: Option<Address>,
    nonce: u64,
    gas: u64,
    value: U256,
    input: &'a Bytes,
    price: u128,
    signature: &'a Signature,
    more: Value,
}

const fn callee(kind: TxKind) -> Option<Address> {
    match kind {
        TxKind::Create => None,
        TxKind::Call(to) => Some(to),
    }
}

/// The price paid if the sender offers a tip and a maximum.
fn paid(tip: u128, max: u128, base_fee: Option<u64>) -> u128 {
    base_fee.map_or(max, |base_fee| max.min(u128::from(base_fee) + tip))
}

/// The fields that transactions of all types have.
macro_rules! by_type {
    ($signed:expr, $to:expr, $price:expr, $more:expr) => {
        ByType {
            to: $to,
            nonce: $signed.tx().nonce,
            gas: $signed.tx().gas_limit,
            value: $signed.tx().value,
            input: &$signed.tx().input,
            price: $price,
            signature: $signed.signature(),
            more: $more,
        }
    };
}

fn by_type(transaction: &Transaction, base_fee: Option<u64>) -> ByType<'_> {
    let parity = |signature: &Signature| hex(u8::from(signature.v()));
    match transaction {
        Transaction::Legacy(signed) => {
            let parity = U256::from(u8::from(signed.signature().v()));
            let chain_id = signed.tx().chain_id;
            let v = match chain_id {
                // Nobody signed a transaction of a simulated block.
                _ if signed.signature().r().is_zero() => U256::ZERO,
                None => U256::from(27) + parity,
                Some(id) => U256::from(id) * U256::from(2) + U256::from(35) + parity,
            };
            let more = match chain_id {
                None => json!({"v": hex(v)}),
                Some(id) => json!({"chainId": hex(id), "v": hex(v)}),
            };
            by_type!(signed, callee(signed.tx().to), signed.tx().gas_price, more)
        }
        Transaction::Eip2930(signed) => {
            let tx = signed.tx();
            let more = json!({
                "accessList": access_list(&tx.access_list), "chainId": hex(tx.chain_id),
                "v": parity(signed.signature()), "yParity": parity(signed.signature()),
            });
            by_type!(signed, callee(tx.to), tx.gas_price, more)
        }
        Transaction::Eip1559(signed) => {
            let tx = signed.tx();
            let (tip, max) = (tx.max_priority_fee_per_gas, tx.max_fee_per_gas);
            let more = json!({
                "accessList": access_list(&tx.access_list), "chainId": hex(tx.chain_id),
                "maxFeePerGas": hex(max), "maxPriorityFeePerGas": hex(tip),
                "v": parity(signed.signature()), "yParity": parity(signed.signature()),
            });
            by_type!(signed, callee(tx.to), paid(tip, max, base_fee), more)
        }
        Transaction::Eip4844(signed) => {
            let tx = signed.tx();
            let (tip, max) = (tx.max_priority_fee_per_gas, tx.max_fee_per_gas);
            let hashes: Value = tx.blob_versioned_hashes.iter().map(hex).collect();
            let more = json!({
                "accessList": access_list(&tx.access_list), "chainId": hex(tx.chain_id),
                "maxFeePerGas": hex(max), "maxPriorityFeePerGas": hex(tip),
                "maxFeePerBlobGas": hex(tx.max_fee_per_blob_gas), "blobVersionedHashes": hashes,
                "v": parity(signed.signature()), "yParity": parity(signed.signature()),
            });
            by_type!(signed, Some(tx.to), paid(tip, max, base_fee), more)
        }
        Transaction::Eip7702(signed) => {
            let tx = signed.tx();
            let (tip, max) = (tx.max_priority_fee_per_gas, tx.max_fee_per_gas);
            let authorizations: Value = tx.authorization_list.iter().map(authorization).collect();
            let more = json!({
                "accessList": access_list(&tx.access_list), "chainId": hex(tx.chain_id),
                "maxFeePerGas": hex(max), "maxPriorityFeePerGas": hex(tip),
                "authorizationList": authorizations,
                "v": parity(signed.signature()), "yParity": parity(signed.signature()),
            });
            by_type!(signed, Some(tx.to), paid(tip, max, base_fee), more)
        }
    }
}

fn transaction_type(transaction: &Transaction) -> u8 {
    match transaction {
        Transaction::Legacy(_) => 0,
        Transaction::Eip2930(_) => 1,
        Transaction::Eip1559(_) => 2,
        Transaction::Eip4844(_) => 3,
        Transaction::Eip7702(_) => 4,
    }
}

pub(super) fn transactions(parts: &BlockParts<'_>) -> Vec<Value> {
    let block = &parts.raw.header;
    let each = parts
        .raw
        .body
        .transactions
        .iter()
        .zip(parts.senders)
        .enumerate();
    let of_each = each.map(|(index, (transaction, sender))| {
        let own = by_type(transaction, block.base_fee_per_gas);
        let mut object = json!({
            "blockHash": hex(parts.hash),
            "blockNumber": hex(block.number),
            "blockTimestamp": hex(block.timestamp),
            "from": hex(sender),
            "gas": hex(own.gas),
            "gasPrice": hex(own.price),
            "hash": hex(transaction.tx_hash()),
            "input": hex(own.input),
            "nonce": hex(own.nonce),
            "to": own.to.map_or(Value::Null, hex),
            "transactionIndex": hex(index),
            "value": hex(own.value),
            "type": hex(transaction_type(transaction)),
            "r": hex(own.signature.r()),
            "s": hex(own.signature.s()),
        });
        extend(&mut object, own.more);
        object
    });
    of_each.collect()
}

/// keccak256(RLP([sender, nonce])), the last 20 bytes.
fn created(sender: &Address, nonce: u64) -> Address {
    let mut rlp = Vec::new();
    let fields: [&dyn Encodable; 2] = [sender, &nonce];
    alloy_rlp::encode_list::<_, dyn Encodable>(&fields, &mut rlp);
    Address::from_slice(&keccak256(rlp)[12..])
}

pub(super) fn receipts(parts: &BlockParts<'_>) -> Vec<Value> {
    let mut gas_before = 0;
    let mut log_index = 0;
    let transactions = parts.raw.body.transactions.iter().zip(parts.senders);
    let each = transactions.zip(parts.receipts).enumerate();
    let of_each = each.map(|(index, ((transaction, sender), receipt))| {
        let own = by_type(transaction, parts.raw.header.base_fee_per_gas);
        let logs: Vec<Value> = receipt
            .logs()
            .iter()
            .map(|log| {
                log_index += 1;
                json!({
                    "address": hex(log.address),
                    "topics": log.data.topics().iter().map(hex).collect::<Value>(),
                    "data": hex(&log.data.data),
                    "blockNumber": hex(parts.raw.header.number),
                    "transactionHash": hex(transaction.tx_hash()),
                    "transactionIndex": hex(index),
                    "blockHash": hex(parts.hash),
                    "blockTimestamp": hex(parts.raw.header.timestamp),
                    "logIndex": hex(log_index - 1),
                    "removed": false,
                })
            })
            .collect();
        let cumulative = receipt.cumulative_gas_used();
        let mut object = json!({
            "blockHash": hex(parts.hash),
            "blockNumber": hex(parts.raw.header.number),
            "contractAddress": if own.to.is_none() { hex(created(sender, own.nonce)) } else { Value::Null },
            "cumulativeGasUsed": hex(cumulative),
            "effectiveGasPrice": hex(own.price),
            "from": hex(sender),
            "gasUsed": hex(cumulative - gas_before),
            "logs": logs,
            "logsBloom": hex(receipt.logs_bloom()),
            "to": own.to.map_or(Value::Null, hex),
            "transactionHash": hex(transaction.tx_hash()),
            "transactionIndex": hex(index),
            "type": hex(transaction_type(transaction)),
        });
        match receipt.status_or_post_state() {
            Eip658Value::Eip658(success) => object["status"] = hex(u8::from(success)),
            Eip658Value::PostState(root) => object["root"] = hex(root),
        }
        if let Transaction::Eip4844(signed) = transaction {
            object["blobGasUsed"] = hex(0x20000 * signed.tx().blob_versioned_hashes.len());
            object["blobGasPrice"] = hex(parts.fees.blob_gas_price.unwrap());
        }
        gas_before = cumulative;
        object
    });
    of_each.collect()
}
