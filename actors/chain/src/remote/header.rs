//! A header from a node's JSON, and its hash.

use alloy_consensus::Header;
use alloy_primitives::B256;

use super::{
    fault::{AnswerKind, MemberError, UpstreamFault},
    reader::{Reader, bytes, fixed, u64, u256},
};

/// Reads a header and compares the hash that the node states with the header's own.
pub(super) fn read(
    answer: AnswerKind,
    block: Reader<'_, '_>,
) -> Result<(Header, B256), UpstreamFault> {
    let header = members(block).map_err(|why| why.of(answer))?;
    let stated = block.get("hash", fixed).map_err(|why| why.of(answer))?;
    let derived = header.hash_slow();
    if stated == derived {
        Ok((header, derived))
    } else {
        Err(UpstreamFault::BlockHash { stated, derived })
    }
}

/// A member that a fork brings is part of the header where it is there: the hash says whether it
/// has to be.
fn members(block: Reader<'_, '_>) -> Result<Header, MemberError> {
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
