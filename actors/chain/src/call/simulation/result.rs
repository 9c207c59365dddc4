//! The simulated blocks as JSON.

use alloy_primitives::{Address, B256, Bytes};

use super::tracer::TracedLog;
use crate::{
    block::{BlockParts, RawBlock, Receipt},
    call::error::CallError,
    encode::{LogTail, simulated_block, write_log, writer::JsonWriter},
    json::Json,
    network::HeaderFees,
};

/// Code of a call that the EVM ended (execution-apis, `eth_simulateV1`).
const VM_ERROR: i32 = -32015;
/// Code of a call that reverted.
const REVERTED: i32 = 3;

/// A simulated block.
#[derive(Debug)]
pub(super) struct SimulatedBlock {
    pub(super) raw: RawBlock,
    pub(super) hash: B256,
    pub(super) senders: Vec<Address>,
    pub(super) receipts: Vec<Receipt>,
    pub(super) fees: HeaderFees,
    pub(super) calls: Vec<SimulatedCall>,
}

/// What a call of a simulated block did.
#[derive(Debug)]
pub(super) struct SimulatedCall {
    /// What it returned; nothing if it failed.
    pub(super) output: Bytes,
    pub(super) logs: Vec<TracedLog>,
    /// Gas that it paid for.
    pub(super) gas_used: u64,
    /// Gas that it needed: what it used before some was given back.
    pub(super) gas_needed: u64,
    /// Why it failed, if it did.
    pub(super) error: Option<CallError>,
    /// What is said after that reason.
    pub(super) remark: &'static str,
}

/// The array of all blocks.
pub(super) fn json(blocks: &[SimulatedBlock], full_transactions: bool) -> Json {
    let mut w = JsonWriter::with_capacity(0);
    w.array(blocks, |w, block| write(w, block, full_transactions));
    Json::own(w.finish())
}

fn write(w: &mut JsonWriter, block: &SimulatedBlock, full_transactions: bool) {
    let parts = BlockParts {
        raw: &block.raw,
        hash: block.hash,
        rlp_length: RawBlock::rlp_length_for(&block.raw.header, &block.raw.body),
        senders: &block.senders,
        receipts: &block.receipts,
        fees: block.fees,
        total_difficulty: None,
    };
    simulated_block(w, &parts, full_transactions, |w| {
        let calls = (0..).zip(&block.raw.body.transactions).zip(&block.calls);
        w.array(calls, |w, ((index, transaction), call)| {
            let tail = LogTail::new(&parts, transaction.tx_hash(), index);
            write_call(w, call, &tail);
        });
    });
}

fn write_call(w: &mut JsonWriter, call: &SimulatedCall, tail: &LogTail) {
    w.raw("{");
    w.member("returnData").data(&call.output);
    w.member("logs").array(&call.logs, |w, traced| {
        write_log(w, &traced.log, traced.index, tail);
    });
    w.member("gasUsed").number(call.gas_used);
    w.member("maxUsedGas").number(call.gas_needed);
    w.member("status").number(call.error.is_none().into());
    if let Some(error) = &call.error {
        let (code, data) = match error {
            CallError::Reverted(data) => (REVERTED, Some(data)),
            _ => (VM_ERROR, None),
        };
        let message = format!("{error}{}", call.remark);
        w.member("error").raw("{");
        w.member("message")
            .raw(serde_json::Value::from(message).to_string());
        w.member("code").raw(code.to_string());
        if let Some(data) = data {
            w.member("data").data(data);
        }
        w.raw("}");
    }
    w.raw("}");
}
