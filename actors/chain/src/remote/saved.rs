//! A verified block as bytes that it can be verified from again.

use std::{io, sync::Arc};

use alloy_eips::Encodable2718;
use alloy_primitives::{B256, Bytes, U256};
use alloy_rlp::{Decodable, Header, RlpEncodable};

use super::{UpstreamFault, Verifier};
use crate::{
    block::{Block, RawBlock, Receipt},
    chain_file::decode_block,
    raw,
};

/// The zstd level. Level 1 makes a third of the size in a few milliseconds, and others little less.
const LEVEL: i32 = 1;

/// Largest size of a saved block before compression, in bytes: twice what a block and its logs can
/// have with 100 million gas.
const BYTES_MAX: usize = 48 << 20;

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
#[derive(RlpEncodable)]
struct Saved {
    block: RawBlock,
    /// Each in its EIP-2718 encoding.
    receipts: Vec<Bytes>,
    /// A list of one if it is known, or of none.
    total_difficulty: Vec<U256>,
}

impl Block {
    /// The block without its state, for [`Verifier::restore`]: zstd of an RLP list of the block,
    /// its receipts, and its total difficulty. `None` if it is too large, or has no JSON.
    #[must_use]
    pub fn save(&self) -> Option<Vec<u8>> {
        let (block, receipts) = raw::read_block(self).ok()?;
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
        let (block, receipts, total_difficulty) =
            decode(&list).map_err(|error| RestoreError::Malformed(error.to_string()))?;
        Ok(self.verify_saved(hash, block, receipts, total_difficulty)?)
    }
}

/// Decodes a [`Saved`]. Transactions are counted before they are decoded, and there are no more
/// receipts than transactions.
fn decode(mut saved: &[u8]) -> alloy_rlp::Result<(RawBlock, Vec<Receipt>, Option<U256>)> {
    let mut members = Header::decode_bytes(&mut saved, true)?;
    let block =
        decode_block(&mut members)?.ok_or(alloy_rlp::Error::Custom("too many transactions"))?;
    let mut receipts = Header::decode_bytes(&mut members, true)?;
    let mut decoded = Vec::with_capacity(block.body.transactions.len());
    while !receipts.is_empty() && decoded.len() < block.body.transactions.len() {
        let receipt = Header::decode_bytes(&mut receipts, false)?;
        decoded.push(Receipt::decode(receipt)?);
    }
    let mut total_difficulty = Header::decode_bytes(&mut members, true)?;
    let known = match total_difficulty.is_empty() {
        true => None,
        false => Some(U256::decode(&mut total_difficulty)?),
    };
    let left = [saved, members, receipts, total_difficulty];
    match left.iter().all(|left| left.is_empty()) {
        true => Ok((block, decoded, known)),
        false => Err(alloy_rlp::Error::UnexpectedLength),
    }
}
