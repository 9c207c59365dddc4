//! A verified block as bytes that it can be verified from again.

use std::{io, sync::Arc};

use alloy_eips::Encodable2718;
use alloy_primitives::{B256, Bytes, U256};
use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};

use super::{UpstreamFault, Verifier};
use crate::{
    block::{Block, RawBlock, Receipt},
    chain_file::BLOCK_TRANSACTIONS_MAX,
    raw,
};

/// The zstd level. Level 1 makes a third of the size in a few milliseconds, and others little less.
const LEVEL: i32 = 1;

/// Largest size of a saved block before compression, in bytes. Blocks of 100 million gas have less
/// than a tenth of it.
const BYTES_MAX: usize = 128 << 20;

/// Why a block cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are not those of [`Block::save`].
    #[error("it is not a saved block: {0}")]
    Malformed(String),
    /// It fails a check that the answers of an upstream have to pass as well.
    #[error(transparent)]
    Refuted(#[from] UpstreamFault),
}

/// What is saved of a block, as an RLP list of these members.
#[derive(Debug, RlpDecodable, RlpEncodable)]
struct Saved {
    block: RawBlock,
    /// Each in its EIP-2718 encoding.
    receipts: Vec<Bytes>,
    /// A list of one if it is known, or of none.
    total_difficulty: Vec<U256>,
}

impl Block {
    /// The block without its state, for [`Verifier::restore`]: zstd of an RLP list of the block,
    /// its receipts, and its total difficulty. `None` if it is too large.
    #[must_use]
    pub fn save(&self) -> Option<Vec<u8>> {
        let (block, receipts) = raw::read_back(self).ok()?;
        let saved = Saved {
            block,
            receipts: receipts
                .iter()
                .map(|one| one.encoded_2718().into())
                .collect(),
            total_difficulty: self.total_difficulty.into_iter().collect(),
        };
        let list = alloy_rlp::encode(&saved);
        let fits = list.len() <= BYTES_MAX;
        fits.then(|| compress(&list).ok()).flatten()
    }
}

/// With a checksum: no hash covers the total difficulty.
fn compress(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(plain)
}

impl Verifier {
    /// The block with this hash from what [`Block::save`] made of it, verified as if an upstream
    /// had stated it; its senders follow from it, and are recovered when they are needed.
    ///
    /// # Errors
    /// [`RestoreError`]: it is damaged, or it is another block.
    pub fn restore(&self, hash: B256, saved: &[u8]) -> Result<Arc<Block>, RestoreError> {
        let list = zstd::bulk::decompress(saved, BYTES_MAX)
            .map_err(|error| RestoreError::Malformed(error.to_string()))?;
        let (saved, receipts) =
            decode(&list).map_err(|error| RestoreError::Malformed(error.to_string()))?;
        let total_difficulty = saved.total_difficulty.first().copied();
        Ok(self.verify_encoded(hash, saved.block, receipts, total_difficulty)?)
    }
}

fn decode(mut list: &[u8]) -> alloy_rlp::Result<(Saved, Vec<Receipt>)> {
    let saved = Saved::decode(&mut list)?;
    if !list.is_empty()
        || saved.total_difficulty.len() > 1
        || saved.block.body.transactions.len() > BLOCK_TRANSACTIONS_MAX
    {
        return Err(alloy_rlp::Error::UnexpectedLength);
    }
    let receipts = saved.receipts.iter().map(|one| Receipt::decode(one));
    let receipts = receipts.collect::<Result<_, _>>()?;
    Ok((saved, receipts))
}
