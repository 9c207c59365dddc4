//! Entries of the stream: what they say, and how they are written.
//!
//! An entry is an RLP list, [`sealed`].

mod content;
mod wire;

use alloy_primitives::{B256, Bytes};

pub use content::{Content, HeadChange, Settled, SnapshotPart};

pub use crate::sealed::{OpenError, VERSION};

use crate::{
    bounds::{ENTRY_BYTES_MAX, EPOCH_MAX},
    fleet_key::{FleetKey, Purpose},
    policy::{Policy, Rule},
    position::Position,
    sealed,
};

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

impl Entry {
    /// Writes the entry, with its MAC.
    ///
    /// # Errors
    /// It has more than [`ENTRY_BYTES_MAX`] bytes.
    pub fn seal(&self, key: &FleetKey) -> Result<SealedEntry, EntryTooLarge> {
        let (bytes, digest) = sealed::seal(key, Purpose::Entry, |out| {
            wire::encode(self.position, self.previous, &self.content, out);
        });
        if bytes.len() > ENTRY_BYTES_MAX {
            return Err(EntryTooLarge(bytes.len()));
        }
        Ok(SealedEntry {
            position: self.position,
            digest,
            bytes,
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
        let checks_mac = policy.holds(Rule::Mac);
        let (content, digest) =
            sealed::open(bytes, ENTRY_BYTES_MAX, key, Purpose::Entry, checks_mac)?;
        let (position, previous, content) = wire::decode(content).map_err(OpenError::Malformed)?;
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
