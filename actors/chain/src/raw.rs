//! Blocks, receipts and transactions of held blocks: decoded from their JSON, and as consensus
//! encodes them, which is RLP, typed by EIP-2718.
//!
//! Of a block's RLP, only the header's is at hand. The rest is encoded from the block's JSON, which
//! was made from verified values, and has every value that a hash covers. How long the RLP is was
//! counted then, so that a large value can be made item by item as its client takes it.

use std::sync::Arc;

use alloy_consensus::{BlockBody, Header};
use alloy_eips::{Encodable2718, eip4895::Withdrawals};
use alloy_rlp::{Encodable, Header as RlpHeader};
use bytes::Bytes;

use crate::{
    block::{Block, RawBlock, Receipt, Transaction},
    encode::{value, writer::JsonWriter},
    json::{Json, LazyBytes, Truncated},
    network::{self, transaction::ReadError},
    remote::{
        AnswerKind, UpstreamFault,
        fault::MemberError,
        json::{Value, parse},
        read_withdrawals,
        reader::Reader,
        receipt,
    },
};

/// The JSON of a held block cannot be read: a defect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSON of a held block cannot be read: {0}")]
pub struct RawError(String);

impl From<UpstreamFault> for RawError {
    fn from(fault: UpstreamFault) -> Self {
        Self(fault.to_string())
    }
}

impl From<MemberError> for RawError {
    fn from(error: MemberError) -> Self {
        error.of(AnswerKind::Block).into()
    }
}

impl From<ReadError> for RawError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Member(error) => error.into(),
            ReadError::Type(unknown) => Self(format!("type {unknown}")),
        }
    }
}

/// What is wanted as consensus encodes it.
#[derive(Clone, Debug)]
pub enum RawItem {
    /// A block, in RLP: DATA.
    Block(Arc<Block>),
    /// All receipts of a block: an array of DATA.
    Receipts(Arc<Block>),
    /// A block's transaction at this index, without blobs, which no block has: DATA.
    Transaction(Arc<Block>, usize),
}

impl RawItem {
    /// Its JSON. One of more than `built_max` bytes is made as it is taken.
    ///
    /// # Errors
    /// [`RawError`], also if the block has no transaction of this index.
    pub fn json(&self, built_max: usize) -> Result<Json, RawError> {
        let (Self::Block(block) | Self::Receipts(block) | Self::Transaction(block, _)) = self;
        check_whole(block)?;
        match self {
            Self::Block(block) => block_json(block, built_max),
            Self::Receipts(block) => {
                LazyItems::new(block, ItemKind::Receipt, &[], &[]).json(built_max)
            }
            Self::Transaction(block, index) => {
                let transaction = read_transaction(block, *index)?;
                Ok(value::own_data(
                    transaction.encoded_2718().into(),
                    built_max,
                ))
            }
        }
    }

    /// Bytes of JSON that it is made from, and of the largest transaction or receipt of it, which
    /// is read at once.
    #[must_use]
    pub fn read_bytes(&self) -> (usize, usize) {
        match self {
            Self::Block(block) => (
                block.json().block(true).len(),
                ItemKind::Transaction.largest(block),
            ),
            Self::Receipts(block) => (
                block.json().receipts().len(),
                ItemKind::Receipt.largest(block),
            ),
            Self::Transaction(block, index) => {
                let bytes = block.json().transaction(*index).unwrap_or_default().len();
                (bytes, bytes)
            }
        }
    }
}

/// Decodes the block and its receipts from its JSON.
///
/// # Errors
/// [`RawError`].
pub(crate) fn read_block(block: &Block) -> Result<(RawBlock, Vec<Receipt>), RawError> {
    check_whole(block)?;
    let indices = 0..block.json().transaction_count();
    let body = BlockBody {
        transactions: indices
            .clone()
            .map(|index| read_transaction(block, index))
            .collect::<Result<_, _>>()?,
        ommers: ommers(block)?,
        withdrawals: withdrawals(block)?,
    };
    let receipts = indices.map(|index| read_receipt(block, index));
    let raw = RawBlock {
        header: block.header.clone(),
        body,
    };
    Ok((raw, receipts.collect::<Result<_, _>>()?))
}

/// Whether the block's JSON has its transactions and receipts: a block without a sender has null.
fn check_whole(block: &Block) -> Result<(), RawError> {
    let whole = block.make_json();
    whole
        .map(|_| ())
        .map_err(|error| RawError(error.to_string()))
}

fn block_json(block: &Arc<Block>, built_max: usize) -> Result<Json, RawError> {
    let transactions = list(block.json().transactions_rlp());
    let mut after = Vec::new();
    ommers(block)?.encode(&mut after);
    if let Some(withdrawals) = withdrawals(block)? {
        withdrawals.encode(&mut after);
    }
    let length = block.header.length() + transactions.length_with_payload() + after.len();
    let mut before = Vec::new();
    list(length).encode(&mut before);
    block.header.encode(&mut before);
    transactions.encode(&mut before);
    LazyItems::new(block, ItemKind::Transaction, &before, &after).json(built_max)
}

/// The prefix of a list.
const fn list(payload_length: usize) -> RlpHeader {
    RlpHeader {
        list: true,
        payload_length,
    }
}

fn read<T, E: Into<RawError>>(
    json: &[u8],
    read: impl FnOnce(&Value<'_>) -> Result<T, E>,
) -> Result<T, RawError> {
    read(&parse(AnswerKind::Block, json)?).map_err(Into::into)
}

fn read_transaction(block: &Block, index: usize) -> Result<Transaction, RawError> {
    let json = block.json().transaction(index).unwrap_or_default();
    read(&json, network::transaction::read)
}

fn read_receipt(block: &Block, index: usize) -> Result<Receipt, RawError> {
    let json = block.json().receipt(index).unwrap_or_default();
    read(&json, receipt::read_with_bloom)
}

fn ommers(block: &Block) -> Result<Vec<Header>, RawError> {
    let json = block.json_without_senders();
    let ommers = (0..json.uncle_count()).filter_map(|index| json.uncle(index));
    let header = |value: &Value<'_>| network::header::read(Reader::new(value)?);
    ommers.map(|json| read(&json, header)).collect()
}

fn withdrawals(block: &Block) -> Result<Option<Withdrawals>, RawError> {
    let withdrawals = |value: &Value<'_>| read_withdrawals(Reader::new(value)?);
    let json = block.json_without_senders();
    read(&json.block_with_hashes(), withdrawals)
}

/// What the items of a value are.
#[derive(Clone, Copy, Debug)]
enum ItemKind {
    /// The transactions, as items of the list in a block's RLP: digits of one DATA.
    Transaction,
    /// The receipts: one DATA each.
    Receipt,
}

impl ItemKind {
    /// Bytes of the largest item's JSON, which has more digits than its RLP.
    fn largest(self, block: &Block) -> usize {
        let json = block.json();
        let items = (0..json.transaction_count()).filter_map(|index| match self {
            Self::Transaction => json.transaction(index),
            Self::Receipt => json.receipt(index),
        });
        items.map(|item| item.len()).max().unwrap_or_default()
    }
}

/// The JSON of a block's transactions or receipts in RLP, made item by item.
#[derive(Debug)]
struct LazyItems {
    block: Arc<Block>,
    kind: ItemKind,
    /// The item to make next.
    next: usize,
    /// What follows the last item; empty when it was made.
    after: Bytes,
    /// Bytes made but not taken yet.
    made: Bytes,
    /// Bytes left to take.
    left: usize,
}

/// The size at which a part is complete.
const PART_BYTES: usize = 32 << 10;

impl LazyItems {
    /// All items of this kind, between the digits of `before` and those of `after`.
    fn new(block: &Arc<Block>, kind: ItemKind, before: &[u8], after: &[u8]) -> Self {
        let json = block.json();
        let (mut begin, mut end) = (JsonWriter::with_capacity(0), JsonWriter::with_capacity(0));
        let items = match kind {
            ItemKind::Transaction => {
                begin.raw("\"0x").digits(before);
                end.digits(after).raw("\"");
                2 * json.transactions_rlp()
            }
            ItemKind::Receipt => {
                begin.raw("[");
                end.raw("]");
                let count = json.transaction_count();
                r#""0x""#.len() * count + count.saturating_sub(1) + 2 * json.receipts_rlp()
            }
        };
        let (made, after) = (begin.finish(), end.finish());
        Self {
            left: made.len() + items + after.len(),
            block: Arc::clone(block),
            kind,
            next: 0,
            after,
            made,
        }
    }

    /// The value: made now, or as it is taken if it has more than `built_max` bytes.
    fn json(mut self, built_max: usize) -> Result<Json, RawError> {
        if self.left > built_max {
            return Ok(Json::lazy(self));
        }
        let mut built = Vec::with_capacity(self.left);
        while !self.made.is_empty() {
            built.extend_from_slice(&self.made);
            self.made = self.make()?;
        }
        match built.len() == self.left {
            true => Ok(built.into()),
            false => Err(RawError(format!(
                "{} bytes, not {}",
                built.len(),
                self.left
            ))),
        }
    }

    /// Makes the next part; it is empty after the last one.
    fn make(&mut self) -> Result<Bytes, RawError> {
        let count = self.block.json().transaction_count();
        let mut w = JsonWriter::with_capacity(PART_BYTES);
        let mut encoded = Vec::new();
        while w.len() < PART_BYTES && self.next < count {
            encoded.clear();
            match self.kind {
                ItemKind::Transaction => {
                    read_transaction(&self.block, self.next)?.encode(&mut encoded);
                    w.digits(&encoded);
                }
                ItemKind::Receipt => {
                    read_receipt(&self.block, self.next)?.encode_2718(&mut encoded);
                    w.raw(if self.next > 0 { "," } else { "" }).data(&encoded);
                }
            }
            self.next += 1;
        }
        if self.next == count {
            w.raw(std::mem::take(&mut self.after));
        }
        Ok(w.finish())
    }
}

impl LazyBytes for LazyItems {
    fn len(&self) -> usize {
        self.left
    }

    fn held(&self) -> usize {
        size_of::<Self>() + self.after.len() + PART_BYTES + self.kind.largest(&self.block)
    }

    fn take(&mut self, max: usize) -> Result<Bytes, Truncated> {
        if self.made.is_empty() {
            self.made = self.make().map_err(|_| Truncated)?;
        }
        let part = self.made.split_to(max.min(self.made.len()));
        self.left = self.left.checked_sub(part.len()).ok_or(Truncated)?;
        let is_whole = self.made.is_empty() && self.after.is_empty();
        match part.is_empty() || (self.left == 0 && !is_whole) {
            true => Err(Truncated),
            false => Ok(part),
        }
    }
}

#[cfg(test)]
mod tests;
