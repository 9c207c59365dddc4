//! The members of a signature.

use alloy_consensus::{SignableTransaction, Signed};
use alloy_primitives::Signature;

use super::type_rules::SenderSource;
use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::MemberError,
        reader::{Reader, bit, u256},
    },
};

/// The members that hold a number; the chain id is signed too.
pub(super) const QUANTITIES: &[&str] = &["chainId", "r", "s", "v", "yParity"];

/// Members of a typed transaction that some clients leave out. Each implies the other; a
/// transaction without both cannot be read.
pub(super) const TYPED_OMITTED: &[&str] = &["v", "yParity"];

/// Reads the signature of a typed transaction, whose parity is in `yParity`, in `v`, or in both. If
/// they disagree, the comparison with the derived JSON finds it.
pub(super) fn read_typed(tx: Reader<'_, '_>) -> Result<Signature, MemberError> {
    let parity = match tx.find("yParity", bit)? {
        Some(parity) => parity,
        None => tx.get("v", bit)?,
    };
    read(tx, parity)
}

/// Reads a signature whose parity is known.
pub(super) fn read(tx: Reader<'_, '_>, parity: bool) -> Result<Signature, MemberError> {
    let (r, s) = (tx.get("r", u256)?, tx.get("s", u256)?);
    Ok(Signature::new(r, s, parity))
}

/// Writes the signature of a typed transaction: `v` is the parity, like `yParity`.
pub(super) fn write_typed(w: &mut JsonWriter, signature: &Signature) {
    let parity = u128::from(signature.v());
    write(w, signature, parity);
    w.raw(r#","yParity":"#).wide(parity);
}

/// Writes a signature whose `v` is known.
pub(super) fn write(w: &mut JsonWriter, signature: &Signature, v: u128) {
    w.raw(r#","v":"#).wide(v);
    w.raw(r#","r":"#).quantity(signature.r());
    w.raw(r#","s":"#).quantity(signature.s());
}

/// The sender is the signer.
pub(super) fn sender<T: SignableTransaction<Signature>>(signed: &Signed<T>) -> SenderSource {
    SenderSource::Signature {
        signature: *signed.signature(),
        hash: signed.signature_hash(),
    }
}
