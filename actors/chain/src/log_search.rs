//! Postings per block; count first, gather after (contract stub).
#![allow(clippy::todo, unused)]
use crate::{block::Block, json::Json};
use alloy_primitives::{Address, B256, Log};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A filter as eth_getLogs means it: AND over members, OR within each; empty means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// Emitters; empty = any.
    pub addresses: Vec<Address>,
    /// Up to four positions; an empty position matches any topic that is there.
    pub topics: Vec<Vec<B256>>,
}

/// Tells running work to stop; cheap to look at, shared by whoever may cancel.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Cancels.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Search structure over one block's logs.
#[derive(Clone, Debug)]
pub struct LogPostings {}

impl LogPostings {
    /// Indexes a block's logs, in block order.
    #[must_use]
    pub fn new<'a>(logs: impl Iterator<Item = &'a Log>) -> Self {
        todo!()
    }
}

/// Why a search gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// More logs match than may be returned.
    #[error("more than {limit} logs match")]
    TooMany {
        /// The bound.
        limit: usize,
        /// The last block of the largest range from the first block that fits; `None` if the first block alone does not.
        fits_to: Option<u64>,
    },
    /// Cancelled through the token.
    #[error("cancelled")]
    Cancelled,
}

/// Matches that were counted and not gathered yet.
#[derive(Debug)]
pub struct Found<'a> {
    blocks: &'a [Arc<Block>],
}

/// Counts the matches in `blocks` (ascending); `Found::gather` then builds the JSON array.
pub fn search<'a>(
    blocks: &'a [Arc<Block>],
    filter: &LogFilter,
    limit: usize,
    cancel: &Cancellation,
) -> Result<Found<'a>, SearchError> {
    todo!()
}

impl Found<'_> {
    /// Number of matches.
    #[must_use]
    pub fn count(&self) -> usize {
        todo!()
    }
    /// Bytes of the JSON array, known before it is built.
    #[must_use]
    pub fn bytes(&self) -> usize {
        todo!()
    }
    /// The JSON array, ordered by block, then log index.
    pub fn gather(&self, cancel: &Cancellation) -> Result<Json, SearchError> {
        todo!()
    }
}
