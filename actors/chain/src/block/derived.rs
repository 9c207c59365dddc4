//! What the senders of a block's transactions are needed for: made with the block, or at the first
//! use.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use super::BlockParts;
use crate::{
    encode::{BlockJson, EncodeError, EncodeOptions},
    fees::tip_samples,
};

/// What the senders of a block's transactions are needed for.
#[derive(Debug)]
pub struct Derived {
    /// JSON of block, transactions, receipts, logs and uncles.
    pub(crate) json: BlockJson,
    /// The lowest tips that count for a suggestion.
    pub(crate) tip_samples: Box<[u128]>,
}

impl Derived {
    /// Encodes a verified block.
    ///
    /// # Errors
    /// [`EncodeError`]: its JSON is too large.
    pub fn new(parts: &BlockParts<'_>, options: EncodeOptions) -> Result<Self, EncodeError> {
        Ok(Self {
            json: BlockJson::encode(parts, options)?,
            tip_samples: tip_samples(parts),
        })
    }
}

/// Why nothing can be derived from a block, although its hash covers all of it: no sender follows
/// from a transaction, or the JSON is too large. No client accepts such a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeriveError(String);

impl DeriveError {
    /// For this reason.
    pub(crate) fn new(reason: &impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

type Made = Result<Derived, DeriveError>;

/// [`Derived`], made at the first use if not before. Clones share it.
#[derive(Clone, Debug)]
pub struct LazyDerived {
    made: Arc<LazyLock<Made, Box<dyn FnOnce() -> Made + Send>>>,
    bytes: usize,
}

impl From<Derived> for LazyDerived {
    fn from(derived: Derived) -> Self {
        let bytes = derived.json.bytes() + size_of_val(&*derived.tip_samples);
        let this = Self::later(bytes, || Ok(derived));
        LazyLock::force(&this.made);
        this
    }
}

impl LazyDerived {
    /// What `make` returns, which is called at the first use. At most `bytes` of memory will be
    /// held, and are now.
    pub(crate) fn later(bytes: usize, make: impl FnOnce() -> Made + Send + 'static) -> Self {
        Self {
            made: Arc::new(LazyLock::new(Box::new(make))),
            bytes,
        }
    }

    pub(super) fn get(&self) -> Result<&Derived, &DeriveError> {
        LazyLock::force(&self.made).as_ref()
    }

    /// Bytes of memory that it holds, or at most will hold. They do not change when it is made.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
