//! Every answer about a block, as JSON in a few buffers.

use std::{ops::Range, sync::Arc};

use alloy_eips::Encodable2718;
use alloy_primitives::{Address, B256};
use alloy_rlp::Encodable;
use bytes::Bytes;

use super::{
    EncodeOptions, block,
    error::EncodeError,
    receipt::{self, Position},
    span::Span,
    writer::JsonWriter,
};
use crate::{
    block::{BlockParts, RawBlock, Receipt},
    network::transaction,
};

/// A block's JSON in a few buffers; answers are slices of them.
///
/// A transaction is a slice of the full block, a receipt of the array of all receipts, a log of its
/// receipt: each is held once. Only the header's members are held twice, once for each form of the
/// block.
#[derive(Clone, Debug)]
pub struct BlockJson {
    /// The block with full transactions.
    full: Bytes,
    /// The transactions' places in `full`.
    transaction_spans: Box<[Span]>,
    /// The block with transaction hashes.
    hashes: Bytes,
    /// The array of all receipts.
    receipts: Bytes,
    /// The receipts' places in `receipts`.
    receipt_spans: Box<[Span]>,
    /// The logs' places in `receipts`.
    log_spans: Box<[Span]>,
    /// For each receipt that has logs, the place of all of them in `receipts`, with the commas
    /// between them.
    log_runs: Arc<[Span]>,
    /// The array of all uncles.
    uncles: Bytes,
    /// The uncles' places in `uncles`.
    uncle_spans: Box<[Span]>,
    /// Bytes of all transactions in the list of the block's RLP.
    transactions_rlp: usize,
    /// Bytes of all receipts in their EIP-2718 encodings.
    receipts_rlp: usize,
}

impl BlockJson {
    /// Encodes a verified block; `parts` has one sender and one receipt per transaction.
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] if a buffer would exceed 4 GiB.
    pub fn encode(parts: &BlockParts<'_>, options: EncodeOptions) -> Result<Self, EncodeError> {
        let body = &parts.raw.body;
        debug_assert_eq!(parts.senders.len(), body.transactions.len());
        debug_assert_eq!(parts.receipts.len(), body.transactions.len());
        let uncle_hashes: Vec<B256> = body.ommers_hashes().collect();
        let (full, transaction_spans) = full_block(parts, &uncle_hashes, options);
        let receipts = parts.receipts.iter();
        Self {
            full,
            transaction_spans: transaction_spans.into(),
            transactions_rlp: body.transactions.iter().map(Encodable::length).sum(),
            receipts_rlp: receipts.map(|receipt| receipt.encode_2718_len()).sum(),
            ..Self::part(parts, &uncle_hashes, options)
        }
        .checked()
    }

    /// What [`JsonWithoutSenders`] has, of a block whose senders are not recovered. The full
    /// block is null, and receipts have blank senders of the same length: logs have their places.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub(crate) fn encode_without_senders(
        parts: &BlockParts<'_>,
        options: EncodeOptions,
    ) -> Result<Self, EncodeError> {
        let senders = vec![Address::ZERO; parts.raw.body.transactions.len()];
        let blank = BlockParts {
            senders: &senders,
            ..*parts
        };
        let uncle_hashes: Vec<B256> = parts.raw.body.ommers_hashes().collect();
        Self::part(&blank, &uncle_hashes, options).checked()
    }

    /// All but the full block.
    fn part(parts: &BlockParts<'_>, uncle_hashes: &[B256], options: EncodeOptions) -> Self {
        let (receipts, receipt_spans, log_spans) = all_receipts(parts);
        let (uncles, uncle_spans) = all_uncles(parts, uncle_hashes, options);
        Self {
            hashes: block_with_hashes(parts, uncle_hashes, options),
            receipts,
            receipt_spans: receipt_spans.into(),
            log_runs: log_runs(parts.receipts, &log_spans),
            log_spans: log_spans.into(),
            uncles,
            uncle_spans: uncle_spans.into(),
            ..Self::null()
        }
    }

    /// Places are 32 bits wide.
    fn checked(self) -> Result<Self, EncodeError> {
        // `hashes` has no places.
        let buffers = [&self.full, &self.receipts, &self.uncles];
        let bytes = buffers
            .into_iter()
            .map(Bytes::len)
            .max()
            .unwrap_or_default();
        match u32::try_from(bytes) {
            Ok(_) => Ok(self),
            Err(_) => Err(EncodeError::TooLarge { bytes }),
        }
    }

    /// The JSON of a block of which only the place of a log matters.
    #[cfg(test)]
    pub(crate) fn of_one_log() -> Self {
        Self {
            log_spans: [Span::new(0, 1)].into(),
            log_runs: [Span::new(0, 1)].into(),
            ..Self::null()
        }
    }

    /// The JSON of a block that has none: all of it is null.
    pub(crate) fn null() -> Self {
        const NULL: Bytes = Bytes::from_static(b"null");
        Self {
            full: NULL,
            transaction_spans: Box::default(),
            hashes: NULL,
            receipts: NULL,
            receipt_spans: Box::default(),
            log_spans: Box::default(),
            log_runs: Arc::default(),
            uncles: NULL,
            uncle_spans: Box::default(),
            transactions_rlp: 0,
            receipts_rlp: 0,
        }
    }

    /// Upper bound on the bytes held for this block, before its JSON is made and after. Decoded
    /// receipts take less than half of their JSON, decoded transactions less than theirs.
    pub(crate) fn bytes_max(raw: &RawBlock, receipts: &[Receipt]) -> usize {
        let transactions = &raw.body.transactions;
        let logs: usize = receipts.iter().map(|receipt| receipt.logs().len()).sum();
        let runs = receipts.len();
        let spans = transactions.len() + receipts.len() + logs + runs + raw.body.ommers.len();
        full_size_max(raw)
            + hashes_size_max(raw)
            + receipts_size_max(receipts) * 3 / 2
            + uncles_size_max(raw)
            + spans * size_of::<Span>()
    }

    /// The block with full transactions, or with their hashes.
    #[must_use]
    pub fn block(&self, full: bool) -> Bytes {
        if full {
            self.full.clone()
        } else {
            self.hashes.clone()
        }
    }

    /// Transaction `index`.
    #[must_use]
    pub fn transaction(&self, index: usize) -> Option<Bytes> {
        let span = self.transaction_spans.get(index)?;
        Some(self.full.slice(span.range()))
    }

    /// Number of transactions, and of receipts.
    pub(crate) fn transaction_count(&self) -> usize {
        self.transaction_spans.len()
    }

    /// Receipt of transaction `index`.
    #[must_use]
    pub fn receipt(&self, index: usize) -> Option<Bytes> {
        let span = self.receipt_spans.get(index)?;
        Some(self.receipts.slice(span.range()))
    }

    /// The array of all receipts.
    #[must_use]
    pub fn receipts(&self) -> Bytes {
        self.receipts.clone()
    }

    /// The place of log `index` in [`Self::receipts`], as [`JsonWithoutSenders::log_range`].
    #[must_use]
    pub fn log_range(&self, index: usize) -> Option<Range<usize>> {
        self.log_spans.get(index).map(Span::range)
    }

    /// Number of logs in the block.
    #[must_use]
    pub fn log_count(&self) -> usize {
        self.log_spans.len()
    }

    /// Uncle `index`.
    #[must_use]
    pub fn uncle(&self, index: usize) -> Option<Bytes> {
        let span = self.uncle_spans.get(index)?;
        Some(self.uncles.slice(span.range()))
    }

    /// Number of uncles.
    #[must_use]
    pub fn uncle_count(&self) -> usize {
        self.uncle_spans.len()
    }

    /// Bytes of all transactions in the list of the block's RLP.
    pub(crate) const fn transactions_rlp(&self) -> usize {
        self.transactions_rlp
    }

    /// Bytes of all receipts in their EIP-2718 encodings.
    pub(crate) const fn receipts_rlp(&self) -> usize {
        self.receipts_rlp
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let buffers = [&self.full, &self.hashes, &self.receipts, &self.uncles];
        let spans = [
            &*self.transaction_spans,
            &self.receipt_spans,
            &self.log_spans,
            &self.log_runs,
            &self.uncle_spans,
        ];
        buffers.into_iter().map(Bytes::len).sum::<usize>()
            + spans.into_iter().map(size_of_val).sum::<usize>()
    }
}

/// The part of a block's JSON for which no sender is needed: logs, uncles, and the block with the
/// hashes of its transactions.
#[derive(Debug)]
pub struct JsonWithoutSenders<'a>(Held<'a>);

#[derive(Debug)]
enum Held<'a> {
    Whole(&'a BlockJson),
    /// Made by [`BlockJson::encode_without_senders`].
    Part(Arc<BlockJson>),
}

impl<'a> JsonWithoutSenders<'a> {
    /// That of a block whose JSON was made.
    pub(crate) const fn of(whole: &'a BlockJson) -> Self {
        Self(Held::Whole(whole))
    }

    /// That which [`BlockJson::encode_without_senders`] made.
    pub(crate) const fn before_whole(part: Arc<BlockJson>) -> Self {
        Self(Held::Part(part))
    }

    fn json(&self) -> &BlockJson {
        match &self.0 {
            Held::Whole(json) => json,
            Held::Part(json) => json,
        }
    }

    /// The block with transaction hashes.
    #[must_use]
    pub fn block_with_hashes(&self) -> Bytes {
        self.json().block(false)
    }

    /// What [`Self::log_range`] gives places in. Outside of the logs, senders may be blank.
    #[must_use]
    pub fn logs(&self) -> Bytes {
        self.json().receipts()
    }

    /// The place of log `index` in [`Self::logs`], as [`Self::log_range`].
    pub(crate) fn log_span(&self, index: usize) -> Option<Span> {
        self.json().log_spans.get(index).copied()
    }

    /// For each receipt that has logs, the place of all of them in [`Self::logs`].
    pub(crate) fn log_runs(&self) -> Arc<[Span]> {
        Arc::clone(&self.json().log_runs)
    }

    /// The byte range of log `index` (its position in the block) in [`Self::logs`]. Between
    /// adjacent logs of one receipt there is exactly one comma.
    #[must_use]
    pub fn log_range(&self, index: usize) -> Option<Range<usize>> {
        self.log_span(index).as_ref().map(Span::range)
    }

    /// Uncle `index`.
    #[must_use]
    pub fn uncle(&self, index: usize) -> Option<Bytes> {
        self.json().uncle(index)
    }

    /// Number of uncles.
    #[must_use]
    pub fn uncle_count(&self) -> usize {
        self.json().uncle_count()
    }
}

/// Writes a block that does not exist; `calls` writes what its calls did.
pub(crate) fn simulated_block(
    w: &mut JsonWriter,
    parts: &BlockParts<'_>,
    full: bool,
    calls: impl FnOnce(&mut JsonWriter),
) {
    block::write_simulated(w, parts, calls, |w| match full {
        true => full_transactions(w, parts, |_| {}),
        false => transaction_hashes(w, parts),
    });
}

fn full_size_max(raw: &RawBlock) -> usize {
    let transactions = raw.body.transactions.iter();
    block::size_hint(raw) + transactions.map(transaction::size_hint).sum::<usize>()
}

fn hashes_size_max(raw: &RawBlock) -> usize {
    block::size_hint(raw) + block::HASH_SIZE_HINT * raw.body.transactions.len()
}

fn receipts_size_max(receipts: &[Receipt]) -> usize {
    2 + receipts.iter().map(receipt::size_hint).sum::<usize>()
}

fn uncles_size_max(raw: &RawBlock) -> usize {
    let ommers = raw.body.ommers.iter();
    let sizes = ommers.map(|ommer| 1 + block::SIZE_HINT + 2 * ommer.extra_data.len());
    2 + sizes.sum::<usize>()
}

fn full_block(
    parts: &BlockParts<'_>,
    uncle_hashes: &[B256],
    options: EncodeOptions,
) -> (Bytes, Vec<Span>) {
    let mut w = JsonWriter::with_capacity(full_size_max(parts.raw));
    let mut spans = Vec::with_capacity(parts.raw.body.transactions.len());
    block::write(&mut w, parts, uncle_hashes, options, |w| {
        full_transactions(w, parts, |span| spans.push(span));
    });
    (w.finish(), spans)
}

/// The array of transactions; `visit` sees each one's place.
fn full_transactions(w: &mut JsonWriter, parts: &BlockParts<'_>, mut visit: impl FnMut(Span)) {
    let transactions = &parts.raw.body.transactions;
    let each = transactions.iter().zip(parts.senders).zip(parts.receipts);
    w.array(
        (0..).zip(each),
        |w, (index, ((transaction, sender), receipt))| {
            let start = w.len();
            transaction::write(w, parts, index, (transaction, sender, receipt));
            visit(Span::new(start, w.len()));
        },
    );
}

fn block_with_hashes(
    parts: &BlockParts<'_>,
    uncle_hashes: &[B256],
    options: EncodeOptions,
) -> Bytes {
    let mut w = JsonWriter::with_capacity(hashes_size_max(parts.raw));
    block::write(&mut w, parts, uncle_hashes, options, |w| {
        transaction_hashes(w, parts);
    });
    w.finish()
}

fn transaction_hashes(w: &mut JsonWriter, parts: &BlockParts<'_>) {
    w.array(&parts.raw.body.transactions, |w, transaction| {
        w.data(transaction.tx_hash());
    });
}

/// The array of receipts, each receipt's place in it, and each log's.
fn all_receipts(parts: &BlockParts<'_>) -> (Bytes, Vec<Span>, Vec<Span>) {
    let mut w = JsonWriter::with_capacity(receipts_size_max(parts.receipts));
    let mut spans = Vec::with_capacity(parts.receipts.len());
    let log_count = parts
        .receipts
        .iter()
        .map(|receipt| receipt.logs().len())
        .sum();
    let mut log_spans = Vec::with_capacity(log_count);
    let mut at = Position::default();
    let transactions = parts.raw.body.transactions.iter().zip(parts.senders);
    w.array(
        transactions.zip(parts.receipts),
        |w, ((transaction, sender), receipt)| {
            let start = w.len();
            receipt::write(w, parts, at, (transaction, sender, receipt), &mut log_spans);
            spans.push(Span::new(start, w.len()));
            at = Position {
                transaction_index: at.transaction_index + 1,
                gas_before: receipt.cumulative_gas_used(),
                first_log_index: log_spans.len() as u64,
            };
        },
    );
    (w.finish(), spans, log_spans)
}

/// [`BlockJson::log_runs`] of these receipts, whose logs have these places.
fn log_runs(receipts: &[Receipt], mut log_spans: &[Span]) -> Arc<[Span]> {
    let runs = receipts.iter().filter_map(|receipt| {
        let (own, later) = log_spans.split_at_checked(receipt.logs().len())?;
        log_spans = later;
        Some(Span::from_to(*own.first()?, *own.last()?))
    });
    runs.collect()
}

fn all_uncles(
    parts: &BlockParts<'_>,
    hashes: &[B256],
    options: EncodeOptions,
) -> (Bytes, Vec<Span>) {
    let mut w = JsonWriter::with_capacity(uncles_size_max(parts.raw));
    let mut spans = Vec::with_capacity(hashes.len());
    w.array(
        parts.raw.body.ommers.iter().zip(hashes),
        |w, (uncle, hash)| {
            let start = w.len();
            block::write_uncle(w, uncle, hash, options);
            spans.push(Span::new(start, w.len()));
        },
    );
    (w.finish(), spans)
}
