//! genesis.json and chain.rlp as bytes (contract stub).
#![allow(clippy::todo, unused)]
use std::io::{Read, Write};

use alloy_genesis::Genesis;

use crate::block::RawBlock;

/// Bytes of RLP that one block may have.
pub const BLOCK_RLP_BYTES_MAX: usize = 128 << 20;

/// Why a genesis or a chain file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("stub")]
pub enum ChainFileError {}

/// Reads genesis.json (plain or gzip).
pub fn read_genesis(bytes: &[u8]) -> Result<Genesis, ChainFileError> {
    todo!()
}

/// Blocks of a chain.rlp, in file order: concatenated RLP as `geth export` writes it, plain or gzip.
#[derive(Debug)]
pub struct ChainReader<R> {
    input: R,
}

impl<R: Read> ChainReader<R> {
    /// Reads the first bytes to tell gzip from RLP.
    pub fn new(input: R) -> Result<Self, ChainFileError> {
        todo!()
    }
}

impl<R: Read> Iterator for ChainReader<R> {
    type Item = Result<RawBlock, ChainFileError>;
    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

/// Writes one block in the form that [`ChainReader`] reads.
pub fn write_block(output: &mut impl Write, block: &RawBlock) -> std::io::Result<()> {
    todo!()
}

/// Writes genesis.json in the form that [`read_genesis`] and geth read.
pub fn write_genesis(output: &mut impl Write, genesis: &Genesis) -> std::io::Result<()> {
    todo!()
}
