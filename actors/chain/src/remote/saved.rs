//! A verified block as bytes that it can be verified from again.

use std::{io, sync::Arc};

use alloy_primitives::{B256, Bytes};
use alloy_rlp::Decodable;

use super::{
    BlockAnswers, RequestedBlock, StatedBlock, StatedReceipts, UpstreamFault, Verified, Verifier,
};
use crate::block::Block;

/// The zstd level. Level 1 makes a sixth of the size in a few milliseconds, and others little less.
const LEVEL: i32 = 1;

/// Largest size of a saved block before compression, in bytes. Blocks of 100 million gas have less
/// than half of it.
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

impl Block {
    /// The block without its state, for [`Verifier::restore`]: zstd of an RLP list of byte strings,
    /// which are its JSON, that of its receipts, and that of each ommer. `None` if it is too large.
    #[must_use]
    pub fn save(&self) -> Option<Vec<u8>> {
        let json = &self.json;
        let ommers = (0..json.uncle_count()).filter_map(|index| json.uncle(index));
        let parts: Vec<Bytes> = [json.block(true), json.receipts()]
            .into_iter()
            .chain(ommers)
            .map(Bytes::from)
            .collect();
        let list = alloy_rlp::encode(&parts);
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
    /// had stated it.
    ///
    /// # Errors
    /// [`RestoreError`]: it is damaged, or it is another block.
    pub fn restore(&self, hash: B256, saved: &[u8]) -> Result<Arc<Block>, RestoreError> {
        let malformed = |error: &dyn ToString| RestoreError::Malformed(error.to_string());
        let list = zstd::bulk::decompress(saved, BYTES_MAX).map_err(|error| malformed(&error))?;
        let parts = Vec::<Bytes>::decode(&mut &*list).map_err(|error| malformed(&error))?;
        let [block, receipts, ommers @ ..] = &*parts else {
            return Err(malformed(&"it has fewer than two parts"));
        };
        let ommers: Vec<&[u8]> = ommers.iter().map(|ommer| ommer.as_ref()).collect();
        let answers = BlockAnswers {
            block,
            receipts,
            ommers: &ommers,
        };
        let stated = StatedBlock::read(block)?;
        let body = self.verify_body(RequestedBlock::Hash(hash), stated, &ommers)?;
        let stated = StatedReceipts::read(receipts)?;
        let Verified { block, .. } = self.verify_receipts(body, stated, &answers)?;
        Ok(block)
    }
}
