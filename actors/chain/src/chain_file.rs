//! Reads and writes genesis.json and chain.rlp, as bytes: the caller opens files.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read, Write};

use alloy_genesis::Genesis;
use alloy_primitives::B256;
use alloy_rlp::Decodable;
use flate2::bufread::MultiGzDecoder;

use crate::block::RawBlock;

/// The largest RLP of a block in bytes: what the networks carry. Messages of devp2p's eth protocol
/// and payloads of the beacon chain are no larger, and from Osaka on blocks are smaller still
/// (EIP-7934).
pub(crate) const BLOCK_RLP_BYTES_MAX: usize = 10 << 20;

/// Maximum number of transactions in a block: each has a signature of 64 bytes. They are counted
/// before they are decoded, because an unsigned transaction of 10 bytes takes 30 times as much
/// memory.
pub(crate) const BLOCK_TRANSACTIONS_MAX: usize = BLOCK_RLP_BYTES_MAX / 64;

/// Maximum size of genesis.json in bytes, after decompression: twice a genesis of a million
/// accounts.
pub(crate) const GENESIS_BYTES_MAX: u64 = 256 << 20;

/// The first two bytes of gzip (RFC 1952); no RLP list of a block begins with 0x1f.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why a genesis or a chain file cannot be read. Offsets count bytes after decompression.
#[derive(Debug, thiserror::Error)]
pub enum ChainFileError {
    /// The bytes cannot be read or decompressed.
    #[error("item {index} at byte {offset}: {source}")]
    Io {
        /// Number of blocks before this one.
        index: u64,
        /// Offset of the block.
        offset: u64,
        /// The reader's error.
        source: io::Error,
    },
    /// The bytes end inside a block.
    #[error("item {index} at byte {offset} is truncated: expected {expected} bytes, found {found}")]
    Truncated {
        /// Number of blocks before this one.
        index: u64,
        /// Offset of the block.
        offset: u64,
        /// Length that the block states.
        expected: u64,
        /// Bytes available.
        found: u64,
    },
    /// The bytes at the start of a block are not an RLP list.
    #[error("item {index} at byte {offset}: expected an RLP list, found byte {found:#04x}")]
    NotABlock {
        /// Number of blocks before this one.
        index: u64,
        /// Offset where the block should begin.
        offset: u64,
        /// The byte found.
        found: u8,
    },
    /// A block whose RLP states more than the maximum length.
    #[error("item {index} at byte {offset}: expected at most {max} bytes, found {found}")]
    TooLarge {
        /// Number of blocks before this one.
        index: u64,
        /// Offset of the block.
        offset: u64,
        /// The maximum.
        max: usize,
        /// Length that the block states.
        found: u64,
    },
    /// A block with more transactions than fit with their signatures.
    #[error("item {index} at byte {offset}: expected at most {max} transactions, found more")]
    Transactions {
        /// Number of blocks before this one.
        index: u64,
        /// Offset of the block.
        offset: u64,
        /// The maximum.
        max: usize,
    },
    /// An RLP list that is not a block.
    #[error("item {index} at byte {offset} is malformed: {source}")]
    Malformed {
        /// Number of blocks before this one.
        index: u64,
        /// Offset of the block.
        offset: u64,
        /// The decoder's error.
        source: alloy_rlp::Error,
    },
    /// The file begins with a genesis of another chain.
    #[error("the chain's genesis is {expected}, the file begins with {found}")]
    Genesis {
        /// Hash of the chain's genesis.
        expected: B256,
        /// Hash of the file's block 0.
        found: B256,
    },
    /// genesis.json is malformed.
    #[error("genesis: {0}")]
    GenesisJson(#[from] serde_json::Error),
    /// genesis.json cannot be decompressed.
    #[error("genesis: {0}")]
    GenesisGzip(io::Error),
    /// genesis.json is larger than the maximum.
    #[error("genesis: expected at most {max} bytes, found more")]
    GenesisTooLarge {
        /// The maximum.
        max: u64,
    },
}

/// Reads genesis.json (plain or gzip).
///
/// # Errors
/// [`ChainFileError::GenesisJson`] with line and column, [`ChainFileError::GenesisGzip`], or
/// [`ChainFileError::GenesisTooLarge`] beyond `GENESIS_BYTES_MAX`.
pub fn read_genesis(bytes: &[u8]) -> Result<Genesis, ChainFileError> {
    read_genesis_within(GENESIS_BYTES_MAX, bytes)
}

fn read_genesis_within(max: u64, bytes: &[u8]) -> Result<Genesis, ChainFileError> {
    let mut inflated = Vec::new();
    let json = if bytes.starts_with(&GZIP_MAGIC) {
        MultiGzDecoder::new(bytes)
            .take(max.saturating_add(1))
            .read_to_end(&mut inflated)
            .map_err(ChainFileError::GenesisGzip)?;
        &inflated
    } else {
        bytes
    };
    if json.len() as u64 > max {
        return Err(ChainFileError::GenesisTooLarge { max });
    }
    Ok(serde_json::from_slice(json)?)
}

/// Writes one block in the form that [`ChainReader`] reads.
///
/// # Errors
/// The error of `output`.
pub fn write_block(output: &mut impl Write, block: &RawBlock) -> io::Result<()> {
    output.write_all(&alloy_rlp::encode(block))
}

/// Blocks of a chain.rlp, in file order: concatenated RLP as `geth export` writes it, plain or
/// gzip.
///
/// Holds one block at a time. An error ends the iteration, because the start of the next block is
/// unknown.
#[derive(Debug)]
pub struct ChainReader<R: Read> {
    input: Input<R>,
    /// Hash of the genesis, which is skipped if the file begins with it.
    genesis: Option<B256>,
    buffer: Vec<u8>,
    index: u64,
    offset: u64,
    done: bool,
}

/// The bytes that were read to detect gzip, then the rest.
type Peeked<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

#[derive(Debug)]
enum Input<R: Read> {
    Plain(Peeked<R>),
    Gzip(Box<BufReader<MultiGzDecoder<Peeked<R>>>>),
}

impl<R: Read> ChainReader<R> {
    /// Makes a reader; reads the first two bytes to detect gzip.
    ///
    /// # Errors
    /// [`ChainFileError::Io`].
    pub fn new(mut input: R) -> Result<Self, ChainFileError> {
        let mut magic = Vec::new();
        let mut head = input.by_ref().take(GZIP_MAGIC.len() as u64);
        head.read_to_end(&mut magic)
            .map_err(|source| ChainFileError::Io {
                index: 0,
                offset: 0,
                source,
            })?;
        let gzip = magic == GZIP_MAGIC;
        let input = BufReader::new(Cursor::new(magic).chain(input));
        let input = if gzip {
            Input::Gzip(Box::new(BufReader::new(MultiGzDecoder::new(input))))
        } else {
            Input::Plain(input)
        };
        Ok(Self {
            input,
            genesis: None,
            buffer: Vec::new(),
            index: 0,
            offset: 0,
            done: false,
        })
    }

    /// Skips the first block if it is the genesis with this hash: files of `geth export` begin with
    /// it, files of Hive do not.
    #[must_use]
    pub fn after_genesis(mut self, genesis: B256) -> Self {
        self.genesis = Some(genesis);
        self
    }

    fn read_block(&mut self) -> Result<Option<RawBlock>, ChainFileError> {
        let Some(length) = self.read_rlp()? else {
            return Ok(None);
        };
        let (index, offset) = (self.index, self.offset);
        let mut rlp = self.buffer.as_slice();
        let malformed = |source| ChainFileError::Malformed {
            index,
            offset,
            source,
        };
        let Some(block) = decode_block(&mut rlp).map_err(malformed)? else {
            return Err(ChainFileError::Transactions {
                index,
                offset,
                max: BLOCK_TRANSACTIONS_MAX,
            });
        };
        if !rlp.is_empty() {
            return Err(malformed(alloy_rlp::Error::UnexpectedLength));
        }
        self.index += 1;
        self.offset += length;
        Ok(Some(block))
    }

    /// Reads the RLP of the next block into the buffer and returns its length; `None` at the end.
    fn read_rlp(&mut self) -> Result<Option<u64>, ChainFileError> {
        let (index, offset) = (self.index, self.offset);
        self.buffer.clear();
        self.fill(1)?;
        let Some(&first) = self.buffer.first() else {
            return Ok(None);
        };
        // The RLP of a list begins with 0xc0 + length up to 55 bytes, else with 0xf7 + length of
        // the length.
        let payload = match first {
            0xc0..=0xf7 => u64::from(first - 0xc0),
            0xf8..=0xff => {
                let header = 1 + u64::from(first - 0xf7);
                self.fill(header)?;
                let big_endian = &self.buffer[1..];
                big_endian
                    .iter()
                    .fold(0_u64, |length, byte| length << 8 | u64::from(*byte))
            }
            found => {
                return Err(ChainFileError::NotABlock {
                    index,
                    offset,
                    found,
                });
            }
        };
        let expected = payload.saturating_add(self.buffer.len() as u64);
        if expected > BLOCK_RLP_BYTES_MAX as u64 {
            return Err(ChainFileError::TooLarge {
                index,
                offset,
                max: BLOCK_RLP_BYTES_MAX,
                found: expected,
            });
        }
        self.fill(expected)?;
        Ok(Some(expected))
    }

    /// Reads until the buffer has `expected` bytes. The end of the input is an error, except before
    /// the first byte.
    fn fill(&mut self, expected: u64) -> Result<(), ChainFileError> {
        let (index, offset) = (self.index, self.offset);
        let missing = expected.saturating_sub(self.buffer.len() as u64);
        let at_end = self.buffer.is_empty();
        // The buffer grows with the bytes read, not with the stated length.
        self.input
            .reader()
            .take(missing)
            .read_to_end(&mut self.buffer)
            .map_err(|source| ChainFileError::Io {
                index,
                offset,
                source,
            })?;
        let found = self.buffer.len() as u64;
        if found < expected && !(at_end && found == 0) {
            return Err(ChainFileError::Truncated {
                index,
                offset,
                expected,
                found,
            });
        }
        Ok(())
    }

    fn next_block(&mut self) -> Result<Option<RawBlock>, ChainFileError> {
        let block = self.read_block()?;
        let (Some(first), Some(expected)) = (&block, self.genesis.take()) else {
            return Ok(block);
        };
        if first.header.number != 0 {
            return Ok(block);
        }
        let found = first.header.hash_slow();
        if found == expected {
            self.read_block()
        } else {
            Err(ChainFileError::Genesis { expected, found })
        }
    }
}

/// Decodes a block from the front of `rlp`, after counting its transactions; `None` if it has more
/// than [`BLOCK_TRANSACTIONS_MAX`].
pub(crate) fn decode_block(rlp: &mut &[u8]) -> Result<Option<RawBlock>, alloy_rlp::Error> {
    match too_many_transactions(rlp)? {
        true => Ok(None),
        false => RawBlock::decode(rlp).map(Some),
    }
}

/// Whether the block in `rlp` (a list of header, transactions, ommers, …) has more than
/// [`BLOCK_TRANSACTIONS_MAX`] transactions.
fn too_many_transactions(mut rlp: &[u8]) -> Result<bool, alloy_rlp::Error> {
    let mut block = alloy_rlp::Header::decode_bytes(&mut rlp, true)?;
    alloy_rlp::Header::decode_bytes(&mut block, true)?;
    let mut transactions = alloy_rlp::Header::decode_bytes(&mut block, true)?;
    for _ in 0..=BLOCK_TRANSACTIONS_MAX {
        if transactions.is_empty() {
            return Ok(false);
        }
        let length = alloy_rlp::Header::decode(&mut transactions)?.payload_length;
        transactions = &transactions[length..];
    }
    Ok(true)
}

impl<R: Read> Input<R> {
    fn reader(&mut self) -> &mut dyn BufRead {
        match self {
            Self::Plain(reader) => reader,
            Self::Gzip(reader) => reader,
        }
    }
}

impl<R: Read> Iterator for ChainReader<R> {
    type Item = Result<RawBlock, ChainFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_block().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

#[cfg(test)]
mod tests;
