//! The blobs that are sent with a transaction, and their commitments and proofs.

use std::borrow::Cow;

use alloy_eips::eip4844::VERSIONED_HASH_VERSION_KZG;
use alloy_primitives::B256;
use alloy_rlp::{Decodable, Header};
use sha2::{Digest, Sha256};

use super::error::SubmissionError;

/// Bytes of a blob: 4,096 field elements (EIP-4844).
const BLOB_BYTES: usize = 4_096 * 32;

/// Bytes of a commitment or proof, which is a point of BLS12-381.
const POINT_BYTES: usize = 48;

/// Proofs of a blob in a sidecar of version 1, one for each cell of its extension (EIP-7594).
const CELLS_PER_BLOB: usize = 128;

/// What is sent beside a transaction with blobs. Proofs are counted, not verified.
pub(super) struct Sidecar<'a> {
    blobs: usize,
    commitments: Vec<&'a [u8]>,
    proofs: usize,
    proofs_per_blob: usize,
}

/// Splits a transaction of type 3 as it is sent into what is signed, in the form that a block
/// carries, and the sidecar: `type || [signed, (version), blobs, commitments, proofs]`. One that is
/// sent without blobs has the form that a block carries already.
pub(super) fn split(sent: &[u8]) -> Result<(Cow<'_, [u8]>, Option<Sidecar<'_>>), SubmissionError> {
    let [tx_type, list @ ..] = sent else {
        return Err(SubmissionError::TooShort);
    };
    let mut rest = list;
    let mut items = Header::decode_bytes(&mut rest, true)?;
    if !rest.is_empty() {
        return Err(SubmissionError::TrailingBytes);
    }
    let body = items;
    if !is_list(items)? {
        return Ok((Cow::Borrowed(sent), None));
    }
    Header::decode_bytes(&mut items, true)?;
    let body = &body[..body.len() - items.len()];
    let signed = [&[*tx_type], body].concat();
    let proofs_per_blob = if is_list(items)? {
        1
    } else {
        match u8::decode(&mut items)? {
            1 => CELLS_PER_BLOB,
            version => return Err(SubmissionError::SidecarVersion(version)),
        }
    };
    let sidecar = Sidecar {
        blobs: byte_strings(&mut items, BLOB_BYTES)?.len(),
        commitments: byte_strings(&mut items, POINT_BYTES)?,
        proofs: byte_strings(&mut items, POINT_BYTES)?.len(),
        proofs_per_blob,
    };
    match items.is_empty() {
        true => Ok((Cow::Owned(signed), Some(sidecar))),
        false => Err(alloy_rlp::Error::UnexpectedLength.into()),
    }
}

/// Whether the next item is a list.
fn is_list(mut items: &[u8]) -> Result<bool, alloy_rlp::Error> {
    Ok(Header::decode(&mut items)?.list)
}

/// The next item: a list of byte strings of this length.
fn byte_strings<'a>(
    items: &mut &'a [u8],
    length: usize,
) -> Result<Vec<&'a [u8]>, alloy_rlp::Error> {
    let mut list = Header::decode_bytes(items, true)?;
    let mut strings = Vec::with_capacity(list.len() / length);
    while !list.is_empty() {
        let string = Header::decode_bytes(&mut list, false)?;
        if string.len() != length {
            return Err(alloy_rlp::Error::UnexpectedLength);
        }
        strings.push(string);
    }
    Ok(strings)
}

impl Sidecar<'_> {
    /// Checks that it is what these versioned hashes commit to.
    pub(super) fn check(&self, hashes: &[B256]) -> Result<(), SubmissionError> {
        let (blobs, commitments) = (self.blobs, self.commitments.len());
        if hashes.is_empty() {
            return Err(SubmissionError::NoBlobs);
        }
        if blobs != hashes.len() {
            let hashes = hashes.len();
            return Err(SubmissionError::BlobCount { blobs, hashes });
        }
        if commitments != blobs {
            return Err(SubmissionError::CommitmentCount { commitments, blobs });
        }
        let (proofs, expected) = (self.proofs, blobs * self.proofs_per_blob);
        if proofs != expected {
            return Err(SubmissionError::ProofCount { proofs, expected });
        }
        for (index, (commitment, stated)) in self.commitments.iter().zip(hashes).enumerate() {
            let mut computed = B256::new(Sha256::digest(commitment).into());
            computed[0] = VERSIONED_HASH_VERSION_KZG;
            if computed != *stated {
                let stated = *stated;
                return Err(SubmissionError::BlobHash {
                    index,
                    computed,
                    stated,
                });
            }
        }
        Ok(())
    }
}
