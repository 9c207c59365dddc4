//! Reads a transaction from an upstream's JSON: only the members that its hash covers.

use super::{Transaction, TxType};
use crate::remote::{
    fault::MemberError,
    json::Value,
    reader::{Reader, u64},
};

/// Why a transaction cannot be decoded.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// Its type is unknown.
    Type(u64),
    /// A member is wrong.
    Member(MemberError),
}

impl From<MemberError> for ReadError {
    fn from(wrong: MemberError) -> Self {
        Self::Member(wrong)
    }
}

/// Reads a transaction of any type.
pub(crate) fn read(value: &Value<'_>) -> Result<Transaction, ReadError> {
    let tx = Reader::new(value)?;
    let stated = tx.get("type", u64)?;
    let tx_type = TxType::try_from(stated).map_err(|_| ReadError::Type(stated))?;
    Ok(Transaction::read(tx_type, tx)?)
}

impl ReadError {
    /// The same error in transaction `index` of a block.
    pub(crate) fn in_block(self, index: usize) -> Self {
        match self {
            Self::Member(wrong) => Self::Member(wrong.in_item(index).in_member("transactions")),
            Self::Type(unknown) => Self::Type(unknown),
        }
    }
}
