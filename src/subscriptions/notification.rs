//! The JSON of notifications.

use bytes::Bytes;
use nearhead_chain::{
    block::Block,
    encode::{LOG_ADDED, LOG_REMOVED, value},
};

/// The part of a notification that is the same for all subscriptions.
///
/// It holds the value of `result` and the end of the message.
#[derive(Clone, Debug)]
pub(super) struct Notification(Bytes);

/// The message up to the value of `result`: it holds the subscription's id, and has the same length
/// for every subscription.
#[derive(Clone, Debug)]
pub(super) struct MessagePrefix(Bytes);

/// Bytes of a subscription's id: `0x` and 32 digits.
const ID_BYTES: usize = 34;

const BEFORE_ID: &str =
    r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":""#;
const AFTER_ID: &str = r#"","result":"#;

impl MessagePrefix {
    /// The prefix for the subscription with this id.
    pub(super) fn new(id: &str) -> Self {
        debug_assert_eq!(id.len(), ID_BYTES);
        Self([BEFORE_ID, id, AFTER_ID].concat().into())
    }
}

impl Notification {
    /// A notification whose `result` is given in two parts.
    fn new(result: [&[u8]; 2]) -> Self {
        Self([result[0], result[1], b"}}"].concat().into())
    }

    /// A new head.
    pub(super) fn head(block: &Block) -> Self {
        Self::new([&value::header(&block.header, &block.hash), b""])
    }

    /// The log at this position of a block; `None` if there is no such log.
    pub(super) fn log(block: &Block, position: usize, is_removed: bool) -> Option<Self> {
        let json = block.json_without_senders();
        let (logs, range) = (json.logs(), json.log_range(position)?);
        let log = &logs[range];
        // A block's logs are encoded as added.
        debug_assert!(log.ends_with(LOG_ADDED));
        let (start, is_added) = log.split_at(log.len() - LOG_ADDED.len());
        Some(Self::new([
            start,
            if is_removed { LOG_REMOVED } else { is_added },
        ]))
    }

    /// A reorg: the reverted blocks, newest first, and the applied ones, oldest first. `None` if
    /// nothing was reverted.
    pub(super) fn reorg<'a>(
        reverted: impl Iterator<Item = &'a Block> + Clone,
        applied: impl Iterator<Item = &'a Block>,
    ) -> Option<Self> {
        let oldest = reverted.clone().last()?;
        let ancestor = (oldest.number().saturating_sub(1), oldest.header.parent_hash);
        let id = |(number, hash)| format!(r#"{{"number":"{number:#x}","hash":"{hash}"}}"#);
        let ids = |blocks: Vec<String>| blocks.join(",");
        let of = |block: &Block| id((block.number(), block.hash));
        let text = format!(
            r#"{{"commonAncestor":{},"reverted":[{}],"applied":[{}]}}"#,
            id(ancestor),
            ids(reverted.map(of).collect()),
            ids(applied.map(of).collect()),
        );
        Some(Self::new([text.as_bytes(), b""]))
    }

    /// The message for one subscription, in two parts that share their bytes.
    pub(super) fn message(&self, prefix: &MessagePrefix) -> [Bytes; 2] {
        [prefix.0.clone(), self.0.clone()]
    }
}
