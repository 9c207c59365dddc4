//! Reads a transaction from an upstream's JSON: only the members that its hash covers.

use alloy_consensus::{
    SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
    transaction::from_eip155_value,
};
use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Signature, TxKind};

use super::Transaction;
use crate::remote::{
    fault::MemberError,
    json::Value,
    reader::{Reader, array, bit, bytes, fixed, u8, u64, u128, u256},
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

/// Reads a transaction of any type; this is the table of all types.
pub(crate) fn read(value: &Value<'_>) -> Result<Transaction, ReadError> {
    let tx = Reader::new(value)?;
    Ok(match tx.get("type", u64)? {
        0 => legacy(tx)?,
        1 => eip2930(tx)?,
        2 => eip1559(tx)?,
        3 => eip4844(tx)?,
        4 => eip7702(tx)?,
        unknown => return Err(ReadError::Type(unknown)),
    })
}

/// The chain id is part of `v` (EIP-155).
fn legacy(tx: Reader<'_, '_>) -> Result<Transaction, MemberError> {
    const EXPECTED: &str = "27, 28, or 35 and more with a chain id of 64 bits";
    let v = tx.get("v", u128)?;
    let (parity, chain_id) =
        from_eip155_value(v).ok_or_else(|| MemberError::shape(EXPECTED).in_member("v"))?;
    let transaction = TxLegacy {
        chain_id,
        nonce: tx.get("nonce", u64)?,
        gas_price: tx.get("gasPrice", u128)?,
        gas_limit: tx.get("gas", u64)?,
        to: recipient(tx)?,
        value: tx.get("value", u256)?,
        input: tx.get("input", bytes)?,
    };
    Ok(transaction.into_signed(signature(tx, parity)?).into())
}

fn eip2930(tx: Reader<'_, '_>) -> Result<Transaction, MemberError> {
    let transaction = TxEip2930 {
        chain_id: tx.get("chainId", u64)?,
        nonce: tx.get("nonce", u64)?,
        gas_price: tx.get("gasPrice", u128)?,
        gas_limit: tx.get("gas", u64)?,
        to: recipient(tx)?,
        value: tx.get("value", u256)?,
        input: tx.get("input", bytes)?,
        access_list: access_list(tx)?,
    };
    Ok(transaction.into_signed(typed_signature(tx)?).into())
}

fn eip1559(tx: Reader<'_, '_>) -> Result<Transaction, MemberError> {
    let transaction = TxEip1559 {
        chain_id: tx.get("chainId", u64)?,
        nonce: tx.get("nonce", u64)?,
        gas_limit: tx.get("gas", u64)?,
        max_fee_per_gas: tx.get("maxFeePerGas", u128)?,
        max_priority_fee_per_gas: tx.get("maxPriorityFeePerGas", u128)?,
        to: recipient(tx)?,
        value: tx.get("value", u256)?,
        input: tx.get("input", bytes)?,
        access_list: access_list(tx)?,
    };
    Ok(transaction.into_signed(typed_signature(tx)?).into())
}

fn eip4844(tx: Reader<'_, '_>) -> Result<Transaction, MemberError> {
    let transaction = TxEip4844 {
        chain_id: tx.get("chainId", u64)?,
        nonce: tx.get("nonce", u64)?,
        gas_limit: tx.get("gas", u64)?,
        max_fee_per_gas: tx.get("maxFeePerGas", u128)?,
        max_priority_fee_per_gas: tx.get("maxPriorityFeePerGas", u128)?,
        to: tx.get("to", fixed)?,
        value: tx.get("value", u256)?,
        input: tx.get("input", bytes)?,
        access_list: access_list(tx)?,
        blob_versioned_hashes: tx.get("blobVersionedHashes", |list| array(list, fixed))?,
        max_fee_per_blob_gas: tx.get("maxFeePerBlobGas", u128)?,
    };
    Ok(transaction.into_signed(typed_signature(tx)?).into())
}

fn eip7702(tx: Reader<'_, '_>) -> Result<Transaction, MemberError> {
    let transaction = TxEip7702 {
        chain_id: tx.get("chainId", u64)?,
        nonce: tx.get("nonce", u64)?,
        gas_limit: tx.get("gas", u64)?,
        max_fee_per_gas: tx.get("maxFeePerGas", u128)?,
        max_priority_fee_per_gas: tx.get("maxPriorityFeePerGas", u128)?,
        to: tx.get("to", fixed)?,
        value: tx.get("value", u256)?,
        input: tx.get("input", bytes)?,
        access_list: access_list(tx)?,
        authorization_list: tx.get("authorizationList", |list| array(list, authorization))?,
    };
    Ok(transaction.into_signed(typed_signature(tx)?).into())
}

fn recipient(tx: Reader<'_, '_>) -> Result<TxKind, MemberError> {
    Ok(tx.find("to", fixed)?.map_or(TxKind::Create, TxKind::Call))
}

fn access_list(tx: Reader<'_, '_>) -> Result<AccessList, MemberError> {
    let item = |value| {
        let item = Reader::new(value)?;
        Ok(AccessListItem {
            address: item.get("address", fixed)?,
            storage_keys: item.get("storageKeys", |keys| array(keys, fixed))?,
        })
    };
    tx.get("accessList", |list| array(list, item))
        .map(AccessList)
}

fn authorization(value: &Value<'_>) -> Result<SignedAuthorization, MemberError> {
    let signed = Reader::new(value)?;
    let inner = Authorization {
        chain_id: signed.get("chainId", u256)?,
        address: signed.get("address", fixed)?,
        nonce: signed.get("nonce", u64)?,
    };
    let y_parity = signed.get("yParity", u8)?;
    let (r, s) = (signed.get("r", u256)?, signed.get("s", u256)?);
    Ok(SignedAuthorization::new_unchecked(inner, y_parity, r, s))
}

/// The parity is in `yParity`, in `v`, or in both. If they disagree, the
/// comparison with the derived JSON finds it.
fn typed_signature(tx: Reader<'_, '_>) -> Result<Signature, MemberError> {
    let parity = match tx.find("yParity", bit)? {
        Some(parity) => parity,
        None => tx.get("v", bit)?,
    };
    signature(tx, parity)
}

fn signature(tx: Reader<'_, '_>, parity: bool) -> Result<Signature, MemberError> {
    let (r, s) = (tx.get("r", u256)?, tx.get("s", u256)?);
    Ok(Signature::new(r, s, parity))
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
