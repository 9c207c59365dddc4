//! The member `to` of a type that can create a contract.

use alloy_primitives::TxKind;

use crate::remote::{
    fault::MemberError,
    reader::{Reader, fixed},
};

/// Reads the recipient; null is a creation.
pub(super) fn read(tx: Reader<'_, '_>) -> Result<TxKind, MemberError> {
    Ok(tx.find("to", fixed)?.map_or(TxKind::Create, TxKind::Call))
}
