//! A verified block whose senders are still to be recovered.

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use alloy_rlp::Encodable;

use crate::{
    block::{BlockParts, DeriveError, Derived, LazyDerived, RawBlock, Receipt},
    encode::{BlockJson, EncodeOptions},
    network::HeaderFees,
    verify,
};

/// A block of which all is verified but that its transactions have senders, which takes most of the
/// time of verifying one.
#[derive(Debug)]
pub(super) struct WithoutSenders {
    pub(super) chain_id: u64,
    pub(super) options: EncodeOptions,
    pub(super) raw: RawBlock,
    pub(super) hash: B256,
    pub(super) receipts: Vec<Receipt>,
    pub(super) fees: HeaderFees,
    pub(super) total_difficulty: Option<U256>,
}

impl WithoutSenders {
    /// The block with these senders.
    pub(super) fn parts<'a>(&'a self, senders: &'a [Address]) -> BlockParts<'a> {
        BlockParts {
            raw: &self.raw,
            hash: self.hash,
            rlp_length: self.raw.length(),
            senders,
            receipts: &self.receipts,
            fees: self.fees,
            total_difficulty: self.total_difficulty,
        }
    }

    /// Recovers the senders at the first use of what they are needed for.
    pub(super) fn derive_later(self: Arc<Self>) -> LazyDerived {
        let bytes = BlockJson::bytes_max(&self.raw, &self.receipts);
        LazyDerived::later(bytes, move || self.derive())
    }

    fn derive(&self) -> Result<Derived, DeriveError> {
        let transactions = &self.raw.body.transactions;
        let senders = verify::recover_senders_of(self.chain_id, transactions)
            .map_err(|error| DeriveError::new(&error))?;
        Derived::new(&self.parts(&senders), self.options).map_err(|error| DeriveError::new(&error))
    }
}
