//! Header members: their JSON in both directions, and the fork from which each is present.
//!
//! Their order in RLP is alloy's ([`Header`]).

use alloy_consensus::Header;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::B256;

use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::MemberError,
        reader::{Reader, bytes, fixed, u64, u256},
    },
    verify::VerifyError,
};

/// A member of which only the presence is checked: its value comes from outside the chain, or from
/// execution.
pub(crate) struct ForkMember {
    /// The fork that adds the member; `None` where that fork is not supported.
    pub(crate) since: Option<EthereumHardfork>,
    pub(crate) is_present: fn(&Header) -> bool,
    /// Makes the error from whether the member was expected and whether it was found.
    pub(crate) error: fn(bool, bool) -> VerifyError,
}

/// Members that forks add. Base fee, blob gas and withdrawals root are not in this table: their
/// expected values decide whether they must be present.
pub(crate) const FORK_MEMBERS: [ForkMember; 4] = [
    ForkMember {
        since: Some(EthereumHardfork::Cancun),
        is_present: |header| header.parent_beacon_block_root.is_some(),
        error: |expected, found| VerifyError::ParentBeaconBlockRoot { expected, found },
    },
    ForkMember {
        since: Some(EthereumHardfork::Prague),
        is_present: |header| header.requests_hash.is_some(),
        error: |expected, found| VerifyError::RequestsHashPresence { expected, found },
    },
    ForkMember {
        since: None,
        is_present: |header| header.block_access_list_hash.is_some(),
        error: |_, _| VerifyError::UnknownField {
            field: "block access list hash",
        },
    },
    ForkMember {
        since: None,
        is_present: |header| header.slot_number.is_some(),
        error: |_, _| VerifyError::UnknownField {
            field: "slot number",
        },
    },
];

/// Reads a header from an upstream's JSON.
///
/// A member that a fork adds is read if it is present. The header's hash then shows whether
/// it belongs there.
pub(crate) fn read(block: Reader<'_, '_>) -> Result<Header, MemberError> {
    Ok(Header {
        parent_hash: block.get("parentHash", fixed)?,
        ommers_hash: block.get("sha3Uncles", fixed)?,
        beneficiary: block.get("miner", fixed)?,
        state_root: block.get("stateRoot", fixed)?,
        transactions_root: block.get("transactionsRoot", fixed)?,
        receipts_root: block.get("receiptsRoot", fixed)?,
        logs_bloom: block.get("logsBloom", fixed)?,
        difficulty: block.get("difficulty", u256)?,
        number: block.get("number", u64)?,
        gas_limit: block.get("gasLimit", u64)?,
        gas_used: block.get("gasUsed", u64)?,
        timestamp: block.get("timestamp", u64)?,
        extra_data: block.get("extraData", bytes)?,
        mix_hash: block.get("mixHash", fixed)?,
        nonce: block.get("nonce", fixed)?,
        base_fee_per_gas: block.find("baseFeePerGas", u64)?,
        withdrawals_root: block.find("withdrawalsRoot", fixed)?,
        blob_gas_used: block.find("blobGasUsed", u64)?,
        excess_blob_gas: block.find("excessBlobGas", u64)?,
        parent_beacon_block_root: block.find("parentBeaconBlockRoot", fixed)?,
        requests_hash: block.find("requestsHash", fixed)?,
        ..Header::default()
    })
}

/// Writes the members up to `timestamp` as geth orders them, by name. A member of a later fork is
/// left out, not null. `withdrawalsRoot` follows the body: [`write_withdrawals_root`].
///
/// `rlp_length` is the block's, in bytes; newHeads has none.
pub(crate) fn write(w: &mut JsonWriter, header: &Header, hash: &B256, rlp_length: Option<usize>) {
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

/// Writes `withdrawalsRoot`, which geth puts after a block's withdrawals.
pub(crate) fn write_withdrawals_root(w: &mut JsonWriter, header: &Header) {
    if let Some(root) = header.withdrawals_root {
        w.raw(r#","withdrawalsRoot":"#).data(root);
    }
}
