//! A block as decoded from RLP, and a block as the window holds it.

mod lazy_json;
mod parts;

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{B256, U256};

pub(crate) use self::lazy_json::JsonSource;
pub use self::{
    lazy_json::{JsonError, LazyJson},
    parts::{BlockParts, RawBlock},
};
pub use crate::network::{Receipt, SenderSource, Transaction, TxType, with_bloom};
use crate::{
    encode::{BlockJson, JsonWithoutSenders},
    fees::BlockFees,
    log_search::LogPostings,
    trie::State,
};

/// Number of ancestors whose hashes the EVM's BLOCKHASH returns.
pub const ANCESTORS_MAX: usize = 256;

/// Generations within which an ommer may have branched off (yellow paper, 11.1).
pub(crate) const OMMER_ANCESTORS_MAX: usize = 7;

/// A block before the merge and its own ommers. Ommers of later blocks are checked against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmmerAncestor {
    /// The block's hash.
    pub(crate) hash: B256,
    /// The block's header.
    pub(crate) header: Header,
    /// Hashes of its ommers.
    pub(crate) ommers: Vec<B256>,
}

/// A verified block as the window holds it: facts for look-ups, JSON for answers.
///
/// Only [`crate::import::Importer`] and [`crate::remote::Verifier`] make one, after the last check.
#[derive(Clone, Debug)]
pub struct Block {
    /// The header.
    pub header: Header,
    /// keccak256 of the header's RLP.
    pub hash: B256,
    /// Transaction hashes in block order.
    pub transaction_hashes: Arc<[B256]>,
    /// Sum of difficulties from genesis to this block; `None` if it is not known.
    pub total_difficulty: Option<U256>,
    /// Hashes of up to [`ANCESTORS_MAX`] ancestors, the parent first.
    pub ancestors: Arc<[B256]>,
    /// What later ommers are checked against: the block and its ancestors, at most
    /// `OMMER_ANCESTORS_MAX`, the block first. Empty after the merge: those blocks have no ommers.
    pub ommer_ancestors: Vec<Arc<OmmerAncestor>>,
    /// JSON of block, transactions, receipts, logs and uncles, for [`Self::json`].
    pub lazy_json: LazyJson,
    /// Search structure over the block's logs.
    pub postings: LogPostings,
    /// What its transactions paid, and what the next block asks for.
    pub fees: BlockFees,
    /// State after the block; `None` if it is not held (a genesis outside of the window).
    pub state: Option<Arc<State>>,
}

impl Block {
    /// The hash of the block, or of an ancestor that BLOCKHASH can name; `None` if it is not held.
    #[must_use]
    pub fn hash_of(&self, number: u64) -> Option<B256> {
        match self.number().checked_sub(number)? {
            0 => Some(self.hash),
            distance => {
                let index = usize::try_from(distance - 1).ok()?;
                self.ancestors.get(index).copied()
            }
        }
    }

    /// The block's number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.header.number
    }

    /// JSON of block, transactions, receipts, logs and uncles, for a reader who needs senders.
    ///
    /// It is there, but for a block that was restored: then the first use recovers the senders,
    /// which takes about 35 µs a transaction. If one cannot be recovered, all is null.
    #[must_use]
    pub fn json(&self) -> &BlockJson {
        self.lazy_json.read()
    }

    /// JSON of logs, uncles and the block with hashes. Its first use takes a thirtieth of the first
    /// [`Self::json`]. It is there if a sender cannot be recovered, too: the hash covers it.
    #[must_use]
    pub fn json_without_senders(&self) -> JsonWithoutSenders<'_> {
        self.lazy_json.without_senders()
    }

    /// The JSON for no reader: made now, so that no request has to.
    ///
    /// # Errors
    /// [`JsonError`].
    pub fn make_json(&self) -> Result<&BlockJson, &JsonError> {
        self.lazy_json.make()
    }

    /// Whether [`Self::json`] takes no time.
    #[must_use]
    pub fn has_json(&self) -> bool {
        self.lazy_json.is_made()
    }

    /// Whether [`Self::json_without_senders`] takes no time.
    #[must_use]
    pub fn has_json_without_senders(&self) -> bool {
        self.lazy_json.is_made_without_senders()
    }

    /// Whether a reader called [`Self::json`]; false for a block that was made with its JSON.
    #[must_use]
    pub fn has_been_read(&self) -> bool {
        self.lazy_json.is_read()
    }

    /// Number of logs.
    #[must_use]
    pub const fn log_count(&self) -> usize {
        self.postings.len()
    }

    /// Bytes of memory that the block holds by itself: header, hashes, JSON and log index. Its
    /// state is not counted, because blocks share most of it, and neither are the ancestors that
    /// it shares with its parent for checks of ommers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let own = self.ommer_ancestors.first();
        let own = own.map_or(0, |own| {
            size_of_val(&**own) + own.header.extra_data.len() + size_of_val(&*own.ommers)
        });
        size_of::<Self>()
            + self.header.extra_data.len()
            + size_of_val(&*self.transaction_hashes)
            + size_of_val(&*self.ancestors)
            + size_of_val(&*self.ommer_ancestors)
            + own
            + self.lazy_json.bytes()
            + self.postings.bytes()
            + self.fees.bytes()
    }

    /// The same block without its state.
    #[must_use]
    pub(crate) fn without_state(&self) -> Self {
        Self {
            state: None,
            ..self.clone()
        }
    }
}
