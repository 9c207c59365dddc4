//! A log: the same bytes in its receipt and in the result of eth_getLogs.

use alloy_primitives::{B256, Log};

use super::writer::JsonWriter;
use crate::block::BlockParts;

/// The members that all logs of one transaction share, written once and copied into each.
#[derive(Debug)]
pub(crate) struct LogTail(JsonWriter);

impl LogTail {
    /// Everything between `data` and the log's index.
    pub(crate) fn new(
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

/// How the JSON of every log in a block ends: `removed` is its last member.
pub const LOG_ADDED: &[u8] = b"false}";

/// How it ends instead where the log's block was reverted.
pub const LOG_REMOVED: &[u8] = b"true}";

/// Writes one log; `index` is its position in the block.
pub(crate) fn write(w: &mut JsonWriter, log: &Log, index: u64, tail: &LogTail) {
    w.raw(r#"{"address":"#).data(log.address);
    w.raw(r#","topics":"#).array(log.topics(), |w, topic| {
        w.data(topic);
    });
    w.raw(r#","data":"#).data(&log.data.data);
    w.raw(tail.0.as_bytes()).number(index);
    w.raw(r#","removed":false}"#);
}

/// The longest [`LogTail`] in bytes: 97 of keys, 2 hashes of 68, 3 numbers of up to 20.
const TAIL_BYTES: usize = 97 + 2 * 68 + 3 * 20;

/// Upper bound on a log's length in bytes.
pub(super) fn size_hint(log: &Log) -> usize {
    // The address, the index, and everything around the topics and the data.
    const FIXED: usize = 44 + 20 + 52;
    // A topic and its comma.
    const TOPIC: usize = 68 + 1;
    FIXED + TAIL_BYTES + TOPIC * log.topics().len() + 2 * log.data.data.len()
}

#[cfg(test)]
mod tests {
    use alloy_consensus::Header;
    use alloy_primitives::{Address, Bytes};

    use super::*;
    use crate::{block::RawBlock, network::HeaderFees};

    #[test]
    fn the_longest_log_has_the_estimated_size() {
        let header = Header {
            number: u64::MAX,
            timestamp: u64::MAX,
            ..Header::default()
        };
        let raw = RawBlock {
            header,
            body: Default::default(),
        };
        let block = BlockParts {
            raw: &raw,
            hash: B256::ZERO,
            rlp_length: 0,
            senders: &[],
            receipts: &[],
            fees: HeaderFees::default(),
            total_difficulty: None,
        };
        let tail = LogTail::new(&block, &B256::ZERO, u64::MAX);
        assert_eq!(tail.0.len(), TAIL_BYTES);
        for topics in 0..=4 {
            let data = Bytes::from(vec![7; 100]);
            let log = Log::new_unchecked(Address::ZERO, vec![B256::ZERO; topics], data);
            let mut w = JsonWriter::with_capacity(0);
            write(&mut w, &log, u64::MAX, &tail);
            // No comma follows the last topic.
            assert_eq!(w.len() + topics.min(1), size_hint(&log));
        }
    }
}
