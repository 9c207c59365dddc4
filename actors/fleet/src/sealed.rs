//! The envelope of all that a fleet writes: a version byte, what is sealed, and 32 bytes of MAC
//! over the SHA-256 of both.
//!
//! The MAC is in the same place in every version, so that only who has the key can make a process
//! believe in a newer version.

use alloy_primitives::{B256, Bytes};

use crate::fleet_key::{FleetKey, MAC_BYTES, Purpose, digest};

/// The version that this program writes, and the only one that it reads.
pub const VERSION: u8 = 1;

/// Why bytes are nothing of the fleet that this program can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Longer than it may be, or shorter than it can be.
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

/// Seals what `write` appends, and returns it with its digest. The caller bounds its length.
pub(crate) fn seal(
    key: &FleetKey,
    purpose: Purpose,
    write: impl FnOnce(&mut Vec<u8>),
) -> (Bytes, B256) {
    let mut bytes = vec![VERSION];
    write(&mut bytes);
    let digest = digest(&bytes);
    bytes.extend_from_slice(key.sign(purpose, &digest).as_ref());
    (bytes.into(), digest)
}

/// What is sealed in at most `bytes_max` bytes, with its digest. `checks_mac` is false only where a
/// test takes that rule out.
///
/// # Errors
/// The bytes are not sealed by this fleet, or by a program of another version.
pub(crate) fn open<'a>(
    bytes: &'a [u8],
    bytes_max: usize,
    key: &FleetKey,
    purpose: Purpose,
    checks_mac: bool,
) -> Result<(&'a [u8], B256), OpenError> {
    if bytes.len() <= 1 + MAC_BYTES || bytes.len() > bytes_max {
        return Err(OpenError::Length(bytes.len()));
    }
    let (signed, mac) = bytes.split_at(bytes.len() - MAC_BYTES);
    let digest = digest(signed);
    if checks_mac && !key.verifies(purpose, &digest, mac) {
        return Err(OpenError::Mac);
    }
    match signed[0] {
        VERSION => Ok((&signed[1..], digest)),
        version => Err(OpenError::Version(version)),
    }
}
