//! A saved block whose senders are not recovered yet.

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use alloy_rlp::Encodable;

use crate::{
    block::{BlockParts, JsonError, JsonSource, LazyJson, RawBlock, Receipt},
    encode::{BlockJson, EncodeOptions},
    network::{HeaderFees, transaction},
    verify::VerifyError,
};

/// A saved block whose senders are not recovered yet: signatures are most of the work of a block.
/// All else is verified.
#[derive(Debug)]
pub(super) struct RestoredBlock {
    pub(super) chain_id: u64,
    pub(super) options: EncodeOptions,
    pub(super) raw: RawBlock,
    pub(super) hash: B256,
    pub(super) receipts: Vec<Receipt>,
    pub(super) fees: HeaderFees,
    pub(super) total_difficulty: Option<U256>,
}

impl RestoredBlock {
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

    /// Its JSON. The first use of what needs them recovers the senders.
    pub(super) fn json_at_first_use(self: Arc<Self>) -> LazyJson {
        let bytes = BlockJson::bytes_max(&self.raw, &self.receipts);
        LazyJson::at_first_use(bytes, self)
    }

    /// On one core: the others have blocks of their own, or requests.
    fn senders(&self) -> Result<Vec<Address>, VerifyError> {
        let transactions = self.raw.body.transactions.iter().enumerate();
        transactions
            .map(|(index, one)| transaction::sender(self.chain_id, index, one))
            .collect()
    }
}

impl JsonSource for RestoredBlock {
    fn whole(&self) -> Result<BlockJson, JsonError> {
        let senders = self.senders().map_err(JsonError::new)?;
        BlockJson::encode(&self.parts(&senders), self.options).map_err(JsonError::new)
    }

    fn without_senders(&self) -> Result<BlockJson, JsonError> {
        BlockJson::encode_without_senders(&self.parts(&[]), self.options).map_err(JsonError::new)
    }
}
