//! A client's filter, as all processes of a fleet know it.
//!
//! The store has two sealed records of each: what the filter is for ([`FilterCriteria`]), which
//! never changes, and its place in the chain ([`FilterPlace`]), which moves with each answer. Both
//! are bound to the filter's name ([`FilterName`]), so that neither can be copied to another
//! filter, or passed for the other one. Who can write into the store can remove a filter, or put
//! an old place of it back.
//!
//! A move compares the place with what it was. So no two places are the same, even of one block:
//! each has a random tag.

use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Error, Header};

use crate::{
    block_id::BlockId,
    bounds::{FILTER_CRITERIA_BYTES_MAX, FILTER_PLACE_BYTES_MAX},
    fleet_key::{FleetKey, Purpose},
    record::RecordError,
    rlp::list,
    sealed::{self, OpenError},
};

/// Positions of topics: a log has no more.
const TOPICS_MAX: usize = 4;

/// Identifies a filter among all of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterName {
    /// The tenant that it counts for. It is in no record: the key that asks says it.
    pub tenant: [u8; 8],
    /// The key that made it: for all others, it does not exist.
    pub owner: [u8; 8],
    /// Random.
    pub id: [u8; 16],
}

/// What a filter is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterCriteria {
    /// Hashes of blocks.
    Blocks,
    /// Logs.
    Logs {
        /// Of which blocks.
        blocks: FilterBlocks,
        /// Emitters.
        addresses: Vec<Address>,
        /// Topics by position.
        topics: Vec<Vec<B256>>,
    },
}

/// Which blocks a filter of logs names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterBlocks {
    /// One block.
    Hash(B256),
    /// From one block to the other.
    Range(FilterBound, FilterBound),
}

/// A bound of a range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterBound {
    /// A number.
    Number(u64),
    /// The head.
    Latest,
    /// The oldest block.
    Earliest,
    /// The next block.
    Pending,
    /// The safe block.
    Safe,
    /// The finalized block.
    Finalized,
}

/// Where in the chain a filter goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterPlace {
    /// The last block whose changes its client has got.
    pub block: BlockId,
    /// When it came there, in milliseconds of the store's clock; 0 if that was not known.
    pub moved_at: u64,
    /// Random: another one for each move.
    pub tag: u64,
}

/// What a record is, which its content begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Criteria = 1,
    Place = 2,
}

impl FilterName {
    /// The key of its records in the store, without the fleet's prefix.
    #[must_use]
    pub fn key(&self) -> String {
        format!("filter:{}", self.member())
    }

    /// What the key has after `filter:`, and counts name it by.
    #[must_use]
    pub fn member(&self) -> String {
        let id = u128::from_be_bytes(self.id);
        let owner = u64::from_be_bytes(self.owner);
        format!("{owner:016x}:{id:032x}")
    }

    /// The tenant, as the keys of counts have it.
    #[must_use]
    pub fn tenant(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.tenant))
    }

    /// Seals what `write` appends, as a record of this filter.
    fn seal(&self, kind: Kind, key: &FleetKey, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let (bytes, _) = sealed::seal(key, Purpose::Filter, |out| {
            list(out, |out| {
                (kind as u8).encode(out);
                self.owner.encode(out);
                self.id.encode(out);
                write(out);
            });
        });
        bytes
    }

    /// Reads a record of this filter by `read`. A later version may append to it.
    fn open<T>(
        &self,
        kind: Kind,
        (bytes, bytes_max): (&[u8], usize),
        key: &FleetKey,
        read: impl FnOnce(&mut &[u8]) -> Result<T, Error>,
    ) -> Result<T, RecordError> {
        let (mut content, _) = sealed::open(bytes, bytes_max, key, Purpose::Filter, true)?;
        let mut rest = Header::decode_bytes(&mut content, true).map_err(OpenError::Malformed)?;
        let mut name = || -> Result<_, Error> {
            let kind = u8::decode(&mut rest)?;
            let owner = <[u8; 8]>::decode(&mut rest)?;
            Ok((kind, owner, <[u8; 16]>::decode(&mut rest)?))
        };
        let found = name().map_err(OpenError::Malformed)?;
        if found != (kind as u8, self.owner, self.id) {
            return Err(RecordError::Name);
        }
        Ok(read(&mut rest).map_err(OpenError::Malformed)?)
    }
}

impl FilterCriteria {
    /// The record of what the filter of this name is for.
    ///
    /// # Errors
    /// It is too long for one.
    pub fn seal(&self, name: &FilterName, key: &FleetKey) -> Result<Bytes, RecordError> {
        let bytes = name.seal(Kind::Criteria, key, |out| self.encode(out));
        match bytes.len() <= FILTER_CRITERIA_BYTES_MAX {
            true => Ok(bytes),
            false => Err(RecordError::Length(bytes.len())),
        }
    }

    /// Reads such a record.
    ///
    /// # Errors
    /// The fleet has not written it for this filter.
    pub fn open(name: &FilterName, bytes: &[u8], key: &FleetKey) -> Result<Self, RecordError> {
        let bytes = (bytes, FILTER_CRITERIA_BYTES_MAX);
        name.open(Kind::Criteria, bytes, key, Self::decode)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let Self::Logs {
            blocks,
            addresses,
            topics,
        } = self
        else {
            return 0_u8.encode(out);
        };
        match blocks {
            FilterBlocks::Hash(hash) => {
                1_u8.encode(out);
                hash.encode(out);
            }
            FilterBlocks::Range(from, to) => {
                2_u8.encode(out);
                from.encode(out);
                to.encode(out);
            }
        }
        addresses.encode(out);
        list(out, |out| {
            topics.iter().for_each(|any_of| any_of.encode(out))
        });
    }

    fn decode(rest: &mut &[u8]) -> Result<Self, Error> {
        let blocks = match u8::decode(rest)? {
            0 => return Ok(Self::Blocks),
            1 => FilterBlocks::Hash(B256::decode(rest)?),
            2 => FilterBlocks::Range(FilterBound::decode(rest)?, FilterBound::decode(rest)?),
            _ => return Err(Error::Custom("an unknown kind of filter")),
        };
        let addresses = Vec::decode(rest)?;
        let mut positions = Header::decode_bytes(rest, true)?;
        let mut topics = Vec::new();
        while !positions.is_empty() {
            if topics.len() == TOPICS_MAX {
                return Err(Error::UnexpectedLength);
            }
            topics.push(Vec::decode(&mut positions)?);
        }
        Ok(Self::Logs {
            blocks,
            addresses,
            topics,
        })
    }
}

impl FilterBound {
    fn encode(self, out: &mut Vec<u8>) {
        let (kind, number) = match self {
            Self::Number(number) => (0_u8, number),
            Self::Latest => (1, 0),
            Self::Earliest => (2, 0),
            Self::Pending => (3, 0),
            Self::Safe => (4, 0),
            Self::Finalized => (5, 0),
        };
        kind.encode(out);
        number.encode(out);
    }

    fn decode(rest: &mut &[u8]) -> Result<Self, Error> {
        let kind = u8::decode(rest)?;
        let number = u64::decode(rest)?;
        match kind {
            0 => Ok(Self::Number(number)),
            1 => Ok(Self::Latest),
            2 => Ok(Self::Earliest),
            3 => Ok(Self::Pending),
            4 => Ok(Self::Safe),
            5 => Ok(Self::Finalized),
            _ => Err(Error::Custom("an unknown bound")),
        }
    }
}

impl FilterPlace {
    /// The record of this place of the filter of this name.
    #[must_use]
    pub fn seal(&self, name: &FilterName, key: &FleetKey) -> Bytes {
        name.seal(Kind::Place, key, |out| {
            self.block.number.encode(out);
            self.block.hash.encode(out);
            self.moved_at.encode(out);
            self.tag.encode(out);
        })
    }

    /// Reads such a record.
    ///
    /// # Errors
    /// The fleet has not written it for this filter.
    pub fn open(name: &FilterName, bytes: &[u8], key: &FleetKey) -> Result<Self, RecordError> {
        let bytes = (bytes, FILTER_PLACE_BYTES_MAX);
        name.open(Kind::Place, bytes, key, |rest| {
            Ok(Self {
                block: BlockId {
                    number: u64::decode(rest)?,
                    hash: B256::decode(rest)?,
                },
                moved_at: u64::decode(rest)?,
                tag: u64::decode(rest)?,
            })
        })
    }
}

#[cfg(test)]
mod tests;
