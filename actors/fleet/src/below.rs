//! What a leader says of blocks below its window: the genesis, which clients read when they start,
//! and which blocks are settled there.
//!
//! It is one sealed record in the store, beside the entries, which name settled blocks by their
//! numbers alone: a process knows the hashes of those that its window has. The genesis proves
//! itself by its hash, which each process of a fleet knows. An old record that is put back says
//! nothing of a newer number.

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Error, Header};

use crate::{
    block_id::BlockId,
    bounds::BELOW_BYTES_MAX,
    fleet_key::{FleetKey, MAC_BYTES, Purpose},
    rlp::list,
    sealed::{self, OpenError},
};

/// Bytes of a record besides the genesis: version, MAC, two blocks, and lengths.
const BESIDES: usize = 1 + MAC_BYTES + 2 * 48 + 16;

/// What is below a leader's window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BelowRecord {
    /// The genesis, as entries have blocks; empty if the leader does not have it.
    pub genesis: Bytes,
    /// The safe block, if it is below the window.
    pub safe: Option<BlockId>,
    /// The finalized block, if it is below the window.
    pub finalized: Option<BlockId>,
}

impl BelowRecord {
    /// Writes the record, with its MAC. A genesis that does not fit [`BELOW_BYTES_MAX`] is left
    /// out.
    #[must_use]
    pub fn seal(&self, key: &FleetKey) -> Bytes {
        let fits = self.genesis.len() <= BELOW_BYTES_MAX - BESIDES;
        let genesis: &[u8] = if fits { &self.genesis } else { &[] };
        let (bytes, _) = sealed::seal(key, Purpose::Below, |out| {
            list(out, |out| {
                genesis.encode(out);
                for block in [self.safe, self.finalized] {
                    list(out, |out| {
                        if let Some(BlockId { number, hash }) = block {
                            number.encode(out);
                            hash.encode(out);
                        }
                    });
                }
            });
        });
        bytes
    }

    /// Reads a record. A later version may append to it.
    ///
    /// # Errors
    /// The bytes are no record of this fleet, or none that this program can read.
    pub fn open(bytes: &[u8], key: &FleetKey) -> Result<Self, OpenError> {
        let (mut content, _) = sealed::open(bytes, BELOW_BYTES_MAX, key, Purpose::Below, true)?;
        let mut read = || -> Result<_, Error> {
            let mut rest = Header::decode_bytes(&mut content, true)?;
            Ok(Self {
                genesis: Bytes::decode(&mut rest)?,
                safe: block(&mut rest)?,
                finalized: block(&mut rest)?,
            })
        };
        read().map_err(OpenError::Malformed)
    }

    /// The settled block of this number, if it is below the window.
    #[must_use]
    pub fn settled(&self, number: u64) -> Option<BlockId> {
        let mut blocks = self.safe.into_iter().chain(self.finalized);
        blocks.find(|block| block.number == number)
    }
}

fn block(bytes: &mut &[u8]) -> Result<Option<BlockId>, Error> {
    let mut block = Header::decode_bytes(bytes, true)?;
    if block.is_empty() {
        return Ok(None);
    }
    Ok(Some(BlockId {
        number: u64::decode(&mut block)?,
        hash: B256::decode(&mut block)?,
    }))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn key(byte: u8) -> FleetKey {
        FleetKey::new(&[byte; 32], b"fleet").unwrap()
    }

    fn some_block(number: u64) -> Option<BlockId> {
        let hash = B256::repeat_byte(0xff);
        Some(BlockId { number, hash })
    }

    #[test]
    fn what_is_written_is_read() {
        for genesis_bytes in [0, 1, 600, BELOW_BYTES_MAX - BESIDES] {
            for [safe, finalized] in [
                [None, None],
                [some_block(0), None],
                [None, some_block(7)],
                [some_block(u64::MAX); 2],
            ] {
                let below = BelowRecord {
                    genesis: vec![0xee; genesis_bytes].into(),
                    safe,
                    finalized,
                };
                let bytes = below.seal(&key(1));
                assert!(bytes.len() <= BELOW_BYTES_MAX, "{} bytes", bytes.len());
                assert_eq!(BelowRecord::open(&bytes, &key(1)), Ok(below));
            }
        }
        let large = BelowRecord {
            genesis: vec![0; BELOW_BYTES_MAX].into(),
            safe: some_block(3),
            finalized: some_block(2),
        };
        let read = BelowRecord::open(&large.seal(&key(1)), &key(1)).unwrap();
        assert!(read.genesis.is_empty());
        assert_eq!(
            [3, 2, 1].map(|number| read.settled(number)),
            [some_block(3), some_block(2), None]
        );
    }

    #[test]
    fn what_the_fleet_has_not_written_is_refused() {
        let below = BelowRecord::default();
        let bytes = below.seal(&key(1));
        assert_eq!(BelowRecord::open(&bytes, &key(2)), Err(OpenError::Mac));
        assert_eq!(BelowRecord::open(b"", &key(1)), Err(OpenError::Length(0)));
        // A record of another kind.
        let (other, _) = sealed::seal(&key(1), Purpose::Record, |out| out.push(0xc0));
        assert_eq!(BelowRecord::open(&other, &key(1)), Err(OpenError::Mac));
        for malformed in [
            &[][..],
            &[0xc0],
            &[0x80],
            &[0xc3, 0x80, 0xc0, 0x80],
            &[0xc4, 0x80, 0xc1, 0x80, 0xc0],
        ] {
            let (bytes, _) = sealed::seal(&key(1), Purpose::Below, |out| out.extend(malformed));
            let read = BelowRecord::open(&bytes, &key(1));
            assert!(
                matches!(read, Err(OpenError::Malformed(_) | OpenError::Length(_))),
                "{read:?}"
            );
        }
    }

    /// Processes of two versions are in one fleet while it is upgraded.
    #[test]
    fn a_later_version_may_append() {
        let (bytes, _) = sealed::seal(&key(1), Purpose::Below, |out| {
            list(out, |out| {
                [1_u8, 2].as_slice().encode(out);
                out.extend([0xc0, 0xc0]);
                out.extend([0xc2, 1, 2]);
            });
        });
        let read = BelowRecord::open(&bytes, &key(1)).unwrap();
        let expected = BelowRecord {
            genesis: Bytes::from_static(&[1, 2]),
            ..BelowRecord::default()
        };
        assert_eq!(read, expected);
    }
}
