//! A receipt from an upstream's JSON. Only what the receipts root covers is read.

use alloy_consensus::{Eip658Value, Receipt as PlainReceipt, ReceiptWithBloom};
use alloy_primitives::Log;

use super::{
    fault::{Flaw, MemberError},
    json::Value,
    reader::{Reader, array, bit, bytes, fixed, u64},
};
use crate::{
    block::{Receipt, with_bloom},
    network::receipt::{TOPICS_MAX, read_own_members, read_type},
};

/// Reads a receipt and computes its bloom.
pub(super) fn read(value: &Value<'_>) -> Result<Receipt, MemberError> {
    let receipt = Reader::new(value)?;
    let tx_type = receipt.get("type", read_type)?;
    let own_members = read_own_members(tx_type, receipt)?;
    Ok(with_bloom(tx_type, plain(receipt)?).with_own_members(own_members))
}

/// Reads a receipt whose bloom is known to be right.
pub(crate) fn read_with_bloom(value: &Value<'_>) -> Result<Receipt, MemberError> {
    let receipt = Reader::new(value)?;
    let tx_type = receipt.get("type", read_type)?;
    let own_members = read_own_members(tx_type, receipt)?;
    let bloomed = ReceiptWithBloom {
        receipt: plain(receipt)?,
        logs_bloom: receipt.get("logsBloom", fixed)?,
    };
    Ok(Receipt::from_typed(tx_type, bloomed).with_own_members(own_members))
}

/// The members that receipts of every type have.
fn plain(receipt: Reader<'_, '_>) -> Result<PlainReceipt, MemberError> {
    let status = receipt.find("status", bit)?.map(Eip658Value::Eip658);
    let root = || receipt.find("root", fixed);
    let status = match status {
        Some(status) => status,
        // Before Byzantium (EIP-658).
        None => root()?
            .map(Eip658Value::PostState)
            .ok_or_else(|| MemberError::new(Flaw::Missing).in_member("status"))?,
    };
    Ok(PlainReceipt {
        status,
        cumulative_gas_used: receipt.get("cumulativeGasUsed", u64)?,
        logs: receipt.get("logs", |logs| array(logs, log))?,
    })
}

fn log(value: &Value<'_>) -> Result<Log, MemberError> {
    let log = Reader::new(value)?;
    let address = log.get("address", fixed)?;
    let topics: Vec<_> = log.get("topics", |topics| array(topics, fixed))?;
    if topics.len() > TOPICS_MAX {
        return Err(MemberError::shape("at most 4 topics").in_member("topics"));
    }
    let data = log.get("data", bytes)?;
    Ok(Log::new_unchecked(address, topics, data))
}
