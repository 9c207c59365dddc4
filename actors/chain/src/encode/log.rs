//! A log: the same bytes in its receipt and in the result of eth_getLogs.

use alloy_primitives::{B256, Log};

use super::writer::JsonWriter;
use crate::block::BlockParts;

/// The members that all logs of one transaction share, written once and copied into each.
#[derive(Debug)]
pub(super) struct LogTail(JsonWriter);

impl LogTail {
    /// Everything between `data` and the log's index.
    pub(super) fn new(
        block: &BlockParts<'_>,
        transaction_hash: &B256,
        transaction_index: u64,
    ) -> Self {
        let header = &block.raw.header;
        let mut w = JsonWriter::with_capacity(TAIL_BYTES);
        w.raw(r#","blockNumber":"#).number(header.number);
        w.raw(r#","transactionHash":"#).data(transaction_hash);
        w.raw(r#","transactionIndex":"#).number(transaction_index);
        w.raw(r#","blockHash":"#).data(block.hash);
        w.raw(r#","blockTimestamp":"#).number(header.timestamp);
        w.raw(r#","logIndex":"#);
        Self(w)
    }
}

/// Writes one log; `index` is its position in the block.
pub(super) fn write(w: &mut JsonWriter, log: &Log, index: u64, tail: &LogTail) {
    w.raw(r#"{"address":"#).data(log.address);
    w.raw(r#","topics":"#).array(log.topics(), |w, topic| {
        w.data(topic);
    });
    w.raw(r#","data":"#).data(&log.data.data);
    w.raw(tail.0.as_bytes()).number(index);
    w.raw(r#","removed":false}"#);
}

/// The longest [`LogTail`] in bytes: 6 keys, 2 hashes, 3 numbers.
const TAIL_BYTES: usize = 330;

/// An upper estimate of a log's length in bytes.
pub(super) fn size_hint(log: &Log) -> usize {
    const ADDRESS_AND_PUNCTUATION: usize = 110;
    ADDRESS_AND_PUNCTUATION + TAIL_BYTES - 40 + 69 * log.topics().len() + 2 * log.data.data.len()
}
