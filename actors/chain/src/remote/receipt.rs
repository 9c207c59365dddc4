//! A receipt from a node's JSON. What its root does not cover is not read here.

use alloy_consensus::{Eip658Value, Receipt as PlainReceipt};
use alloy_primitives::Log;

use super::{
    fault::{Flaw, Wrong},
    json::Value,
    reader::{Reader, array, bit, bytes, fixed, u64},
};
use crate::block::{Receipt, Transaction};

/// Topics that a log may have (LOG4).
const TOPICS_MAX: usize = 4;

/// Reads the receipt of `transaction`, whose type it has; its bloom is made here.
pub(super) fn read(value: &Value<'_>, transaction: &Transaction) -> Result<Receipt, Wrong> {
    let receipt = Reader::new(value)?;
    let status = receipt.find("status", bit)?.map(Eip658Value::Eip658);
    let root = || receipt.find("root", fixed);
    let status = match status {
        Some(status) => status,
        // Before Byzantium (EIP-658).
        None => root()?
            .map(Eip658Value::PostState)
            .ok_or_else(|| Wrong::new(Flaw::Missing).in_member("status"))?,
    };
    let plain = PlainReceipt {
        status,
        cumulative_gas_used: receipt.get("cumulativeGasUsed", u64)?,
        logs: receipt.get("logs", |logs| array(logs, log))?,
    };
    Ok(Receipt::from_typed(
        transaction.tx_type(),
        plain.with_bloom(),
    ))
}

fn log(value: &Value<'_>) -> Result<Log, Wrong> {
    let log = Reader::new(value)?;
    let address = log.get("address", fixed)?;
    let topics: Vec<_> = log.get("topics", |topics| array(topics, fixed))?;
    if topics.len() > TOPICS_MAX {
        return Err(Wrong::shape("at most 4 topics").in_member("topics"));
    }
    let data = log.get("data", bytes)?;
    Ok(Log::new_unchecked(address, topics, data))
}
