//! Transactions that clients send: decoded, and checked as far as bytes and signature go.
//!
//! What depends on the state or on the rules of the next block (nonce, balance, fees, forks) is
//! left to the nodes that take the transaction, and so are the KZG proofs of blobs. Errors have the
//! words of geth, which clients know.

mod error;
mod sidecar;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use alloy_consensus::{
    Transaction as _, TxLegacy, crypto::SECP256K1N_HALF, transaction::RlpEcdsaDecodableTx,
};
use alloy_eips::{
    Decodable2718, Encodable2718,
    eip2718::{EIP4844_TX_TYPE_ID, Eip2718Error},
};
use alloy_primitives::{B256, keccak256};

pub use error::SubmissionError;

use crate::network::{SenderSource, Transaction, TxType};

/// Largest transaction without blobs, in bytes, as in geth's pool.
pub const TRANSACTION_BYTES_MAX: usize = 128 << 10;

/// Largest transaction with its blobs, in bytes, as in geth's pool: six blobs with their proofs
/// fit.
pub const BLOB_TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// Largest first byte of a typed transaction (EIP-2718).
const TYPE_MAX: u8 = 0x7f;

/// Smallest first byte of a list in RLP, which is a transaction without a type.
const LIST_MIN: u8 = 0xc0;

/// The hash of a transaction in the form in which it is sent: one with blobs has its sidecar
/// (EIP-4844, EIP-7594).
///
/// # Errors
/// [`SubmissionError`]: no node of this chain would take it.
pub fn check(sent: &[u8], chain_id: u64) -> Result<B256, SubmissionError> {
    let first = match sent {
        [] => return Err(SubmissionError::TooShort),
        [first, ..] => *first,
    };
    let limit = match first {
        EIP4844_TX_TYPE_ID => BLOB_TRANSACTION_BYTES_MAX,
        _ => TRANSACTION_BYTES_MAX,
    };
    if sent.len() > limit {
        let size = sent.len();
        return Err(SubmissionError::TooLarge { size, limit });
    }
    if first <= TYPE_MAX {
        let is_known = |known: &TxType| *known != TxType::Legacy && u8::from(*known) == first;
        match sent {
            [_] => return Err(SubmissionError::TooShort),
            _ if !TxType::ALL.iter().any(is_known) => return Err(SubmissionError::UnknownType),
            _ => {}
        }
    } else if first < LIST_MIN {
        return Err(alloy_rlp::Error::UnexpectedString.into());
    }
    let (signed, sidecar) = match first {
        EIP4844_TX_TYPE_ID => sidecar::split(sent)?,
        _ => (Cow::Borrowed(sent), None),
    };
    let transaction = decode(&signed)?;
    check_signature(&transaction, chain_id)?;
    if let Some(hashes) = transaction.blob_versioned_hashes() {
        let sidecar = sidecar.ok_or(SubmissionError::NoSidecar)?;
        sidecar.check(hashes)?;
    }
    Ok(keccak256(&signed))
}

/// Decodes the form that a block carries.
fn decode(signed: &[u8]) -> Result<Transaction, SubmissionError> {
    let mut rest = signed;
    let decoded = match signed.first() {
        // What the table of types says of another list is only that it has no type.
        Some(LIST_MIN..) => TxLegacy::rlp_decode_signed(&mut rest)?.into(),
        _ => Transaction::decode_2718(&mut rest).map_err(|error| match error {
            Eip2718Error::RlpError(error) => SubmissionError::Rlp(error),
            _ => SubmissionError::UnknownType,
        })?,
    };
    if !rest.is_empty() {
        return Err(SubmissionError::TrailingBytes);
    }
    // The decoder may forgive what nodes do not, and the hash is of what was sent.
    match decoded.encoded_2718() == signed {
        true => Ok(decoded),
        false => Err(SubmissionError::NotCanonical),
    }
}

/// Checks that somebody signed it, for this chain.
fn check_signature(transaction: &Transaction, expected: u64) -> Result<(), SubmissionError> {
    match transaction.chain_id() {
        None => return Err(SubmissionError::Unprotected),
        Some(found) if found != expected => {
            return Err(SubmissionError::ChainId { found, expected });
        }
        Some(_) => {}
    }
    let source = transaction.sender_source();
    let is_sound = match &source {
        SenderSource::Signature { signature, .. } => signature.s() <= SECP256K1N_HALF,
        // Nobody signs one that states its sender.
        SenderSource::Stated(_) => false,
    };
    let sender = source.address().filter(|_| is_sound);
    sender.map(|_| ()).ok_or(SubmissionError::Signature)
}
