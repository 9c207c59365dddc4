//! A block as a consensus client sends it: `engine_newPayload` with all its parameters.

use alloy_consensus::{Transaction, Typed2718};
use alloy_eips::{Encodable2718, eip7685::Requests};
use alloy_primitives::{B256, Bytes};
use nearhead_chain::block::RawBlock;
use serde_json::{Value, json};

/// A block that can be sent over the engine API.
pub(crate) struct Payload {
    pub(crate) number: u64,
    pub(crate) hash: B256,
    /// The version of engine_newPayload for the block's fork.
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// The block itself.
    pub(crate) raw: RawBlock,
}

impl Payload {
    /// `requests` come from executing the block: its RLP has only their hash (EIP-7685).
    pub(super) fn of(raw: RawBlock, requests: &Requests) -> Self {
        let header = &raw.header;
        let hash = header.hash_slow();
        let transactions = &raw.body.transactions;
        let encoded = transactions
            .iter()
            .map(|transaction| Bytes::from(transaction.encoded_2718()));
        let mut payload = json!({
            "parentHash": header.parent_hash,
            "feeRecipient": header.beneficiary,
            "stateRoot": header.state_root,
            "receiptsRoot": header.receipts_root,
            "logsBloom": header.logs_bloom,
            "prevRandao": header.mix_hash,
            "blockNumber": format!("{:#x}", header.number),
            "gasLimit": format!("{:#x}", header.gas_limit),
            "gasUsed": format!("{:#x}", header.gas_used),
            "timestamp": format!("{:#x}", header.timestamp),
            "extraData": header.extra_data,
            "baseFeePerGas": header.base_fee_per_gas.map(|fee| format!("{fee:#x}")),
            "blockHash": hash,
            "transactions": encoded.collect::<Vec<_>>(),
        });
        if let Some(withdrawals) = &raw.body.withdrawals {
            let withdrawals = withdrawals.iter().map(|withdrawal| {
                json!({
                    "index": format!("{:#x}", withdrawal.index),
                    "validatorIndex": format!("{:#x}", withdrawal.validator_index),
                    "address": withdrawal.address,
                    "amount": format!("{:#x}", withdrawal.amount),
                })
            });
            payload["withdrawals"] = withdrawals.collect();
        }
        if let Some((used, excess)) = header.blob_gas_used.zip(header.excess_blob_gas) {
            payload["blobGasUsed"] = format!("{used:#x}").into();
            payload["excessBlobGas"] = format!("{excess:#x}").into();
        }
        let blobs = transactions
            .iter()
            .filter_map(Transaction::blob_versioned_hashes)
            .flatten()
            .copied();
        let blobs: Vec<B256> = blobs.collect();
        let root = header.parent_beacon_block_root;
        let (method, params) = if header.requests_hash.is_some() {
            let requests: Vec<&Bytes> = requests
                .iter()
                .filter(|request| request.len() > 1)
                .collect();
            (
                "engine_newPayloadV4",
                json!([payload, blobs, root, requests]),
            )
        } else if header.blob_gas_used.is_some() {
            ("engine_newPayloadV3", json!([payload, blobs, root]))
        } else if header.withdrawals_root.is_some() {
            ("engine_newPayloadV2", json!([payload]))
        } else {
            ("engine_newPayloadV1", json!([payload]))
        };
        Self {
            number: header.number,
            hash,
            method,
            params,
            raw,
        }
    }

    /// The types of the block's transactions.
    pub(crate) fn types(&self) -> impl Iterator<Item = u8> {
        self.raw.body.transactions.iter().map(Typed2718::ty)
    }
}
