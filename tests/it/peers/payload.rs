//! A block as a consensus client hands it to a node: `engine_newPayload` with everything that it
//! asks for.

use alloy_consensus::Typed2718;
use alloy_eips::{Encodable2718, eip7685::Requests};
use alloy_primitives::{B256, Bytes};
use nearhead_chain::block::RawBlock;
use serde_json::{Value, json};

/// A block that a node can be told of.
pub(crate) struct Payload {
    pub(crate) number: u64,
    pub(crate) hash: B256,
    /// The version of the method that the block's fork wants.
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// What it was made of.
    pub(crate) raw: RawBlock,
}

impl Payload {
    /// `requests` are what executing the block has given: a block's RLP has their hash alone
    /// (EIP-7685).
    pub(super) fn of(raw: RawBlock, requests: &Requests) -> Self {
        let header = &raw.header;
        let hash = header.hash_slow();
        let transactions = &raw.body.transactions;
        let encoded = transactions
            .iter()
            .map(|one| Bytes::from(one.encoded_2718()));
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
            let withdrawals = withdrawals.iter().map(|one| {
                json!({
                    "index": format!("{:#x}", one.index),
                    "validatorIndex": format!("{:#x}", one.validator_index),
                    "address": one.address,
                    "amount": format!("{:#x}", one.amount),
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
            .filter_map(|one| one.as_eip4844())
            .flat_map(|one| one.tx().blob_versioned_hashes.iter().copied());
        let blobs: Vec<B256> = blobs.collect();
        let root = header.parent_beacon_block_root;
        let (method, params) = if header.requests_hash.is_some() {
            let requests: Vec<&Bytes> = requests.iter().filter(|one| one.len() > 1).collect();
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

    /// Types of the block's transactions.
    pub(crate) fn types(&self) -> impl Iterator<Item = u8> {
        self.raw.body.transactions.iter().map(Typed2718::ty)
    }
}
