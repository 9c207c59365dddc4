//! Entries of the stream: what they say, and how they are written.
//!
//! An entry is a version byte, an RLP list, and 32 bytes of MAC over the SHA-256 of both. The MAC
//! is in the same place in every version, so that only who has the key can make a replica believe
//! in a newer version.

mod content;
mod wire;

use alloy_primitives::{B256, Bytes};

pub use content::{Content, HeadChange, Settled, SnapshotPart};

use crate::{
    bounds::{ENTRY_BYTES_MAX, EPOCH_MAX},
    fleet_key::{FleetKey, MAC_BYTES, Purpose, digest},
    policy::{Policy, Rule},
    position::Position,
};

/// The version of entries that this program writes, and the only one that it reads.
pub const VERSION: u8 = 1;

/// One entry of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub position: Position,
    /// The digest of the entry before it in its epoch; zero for the first one.
    pub previous: B256,
    /// What it says.
    pub content: Content,
}

/// An entry as it is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedEntry {
    /// Where it is.
    pub position: Position,
    /// Its digest, which the next entry names.
    pub digest: B256,
    /// Its bytes.
    pub bytes: Bytes,
}

/// An entry has more bytes than replicas accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an entry of {0} bytes is larger than {ENTRY_BYTES_MAX}")]
pub struct EntryTooLarge(pub usize);

/// Why bytes are no entry that this program can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Longer than an entry may be, or shorter than one can be.
    #[error("it has {0} bytes")]
    Length(usize),
    /// The fleet's key has not made its MAC.
    #[error("its MAC is not the fleet's")]
    Mac,
    /// The fleet has made it, by a program of another version.
    #[error("it has version {0}: this program knows {VERSION}")]
    Version(u8),
    /// The fleet has made it, and it breaks the format.
    #[error("it cannot be decoded: {0}")]
    Malformed(alloy_rlp::Error),
}

impl Entry {
    /// Writes the entry, with its MAC.
    ///
    /// # Errors
    /// It has more than [`ENTRY_BYTES_MAX`] bytes.
    pub fn seal(&self, key: &FleetKey) -> Result<SealedEntry, EntryTooLarge> {
        let mut bytes = vec![VERSION];
        wire::encode(self.position, self.previous, &self.content, &mut bytes);
        let digest = digest(&bytes);
        bytes.extend_from_slice(key.sign(Purpose::Entry, &digest).as_ref());
        if bytes.len() > ENTRY_BYTES_MAX {
            return Err(EntryTooLarge(bytes.len()));
        }
        Ok(SealedEntry {
            position: self.position,
            digest,
            bytes: bytes.into(),
        })
    }

    /// Reads an entry, and returns it with its digest.
    ///
    /// # Errors
    /// The bytes are no entry of this fleet, or none that this program can read.
    pub fn open(bytes: &[u8], key: &FleetKey) -> Result<(Self, B256), OpenError> {
        Self::open_by(bytes, key, Policy::default())
    }

    pub(crate) fn open_by(
        bytes: &[u8],
        key: &FleetKey,
        policy: Policy,
    ) -> Result<(Self, B256), OpenError> {
        if bytes.len() <= 1 + MAC_BYTES || bytes.len() > ENTRY_BYTES_MAX {
            return Err(OpenError::Length(bytes.len()));
        }
        let (signed, mac) = bytes.split_at(bytes.len() - MAC_BYTES);
        let digest = digest(signed);
        if policy.holds(Rule::Mac) && !key.verifies(Purpose::Entry, &digest, mac) {
            return Err(OpenError::Mac);
        }
        if signed[0] != VERSION {
            return Err(OpenError::Version(signed[0]));
        }
        let (position, previous, content) =
            wire::decode(&signed[1..]).map_err(OpenError::Malformed)?;
        if position.epoch == 0 || position.epoch > EPOCH_MAX {
            return Err(OpenError::Malformed(alloy_rlp::Error::Overflow));
        }
        let entry = Self {
            position,
            previous,
            content,
        };
        Ok((entry, digest))
    }
}

#[cfg(test)]
mod tests;
