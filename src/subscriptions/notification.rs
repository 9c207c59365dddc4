//! The JSON of notifications.

use bytes::Bytes;
use nearhead_chain::{block::Block, encode::value};

use crate::ws::{Opcode, header};

/// A notification without what only one subscription has: its id.
#[derive(Clone, Debug)]
pub(super) struct Notification {
    /// The header of the frame that carries it, the same for every subscription.
    header: Bytes,
    /// The value of `result`, and the end of the message.
    rest: Bytes,
}

/// The message up to the value of `result`: all that differs between subscriptions, and always of
/// one length.
#[derive(Clone, Debug)]
pub(super) struct Start(Bytes);

/// Bytes of a subscription's id: `0x` and 32 digits.
const ID_BYTES: usize = 34;

const BEFORE_ID: &str =
    r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":""#;
const AFTER_ID: &str = r#"","result":"#;

impl Start {
    const LEN: usize = BEFORE_ID.len() + ID_BYTES + AFTER_ID.len();

    /// Of the subscription with this id.
    pub(super) fn of(id: &str) -> Self {
        debug_assert_eq!(id.len(), ID_BYTES);
        Self([BEFORE_ID, id, AFTER_ID].concat().into())
    }
}

impl Notification {
    /// With the value of `result` in two parts.
    fn of(result: [&[u8]; 2]) -> Self {
        let rest = Bytes::from([result[0], result[1], b"}}"].concat());
        let header = header(Opcode::Text, Start::LEN + rest.len());
        Self { header, rest }
    }

    /// A new head.
    pub(super) fn head(block: &Block) -> Self {
        Self::of([&value::header(&block.header, &block.hash), b""])
    }

    /// A log of a block, by its position; `None` where there is none.
    pub(super) fn log(block: &Block, position: usize, is_removed: bool) -> Option<Self> {
        let range = block.json.log_range(position)?;
        let log = &block.json.receipts()[range];
        // A log is written as it is when it is added, and ends with saying so.
        const ADDED: &[u8] = b"false}";
        debug_assert!(log.ends_with(ADDED));
        let (start, is_added) = log.split_at(log.len() - ADDED.len());
        Some(Self::of([
            start,
            if is_removed { b"true}" } else { is_added },
        ]))
    }

    /// What a reorg replaced, newest first, and by what, oldest first; `None` where it replaced
    /// nothing.
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
        Some(Self::of([text.as_bytes(), b""]))
    }

    /// The frame for one subscription; nothing is copied.
    pub(super) fn pieces(&self, start: &Start) -> [Bytes; 3] {
        [self.header.clone(), start.0.clone(), self.rest.clone()]
    }
}
