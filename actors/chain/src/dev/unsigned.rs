//! A transaction before it is signed, of any type.

use alloy_consensus::{
    SignableTransaction, Signed, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
};
use alloy_eips::{eip2930::AccessList, eip7702::SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};

use crate::block::Transaction;

/// The members that transactions of all types have.
pub(super) struct Unsigned {
    pub(super) chain_id: u64,
    pub(super) nonce: u64,
    pub(super) call: TransactionCall,
    pub(super) fees: Fees,
}

/// What a transaction does.
#[derive(Clone, Debug)]
pub(super) struct TransactionCall {
    pub(super) to: TxKind,
    pub(super) value: U256,
    pub(super) input: Bytes,
    pub(super) gas_limit: u64,
}

/// The type of a transaction, with the members that only this type has.
#[derive(Clone, Debug)]
pub(super) enum TransactionKind {
    /// Without a chain id (before EIP-155).
    Unprotected,
    /// Legacy with a chain id (EIP-155).
    Legacy,
    /// Type 1.
    Eip2930(AccessList),
    /// Type 2.
    Eip1559(AccessList),
    /// Type 3, without its blobs; it cannot create a contract.
    Eip4844(Vec<B256>),
    /// Type 4; it cannot create a contract.
    Eip7702(Vec<SignedAuthorization>),
}

/// The fees of the block that a transaction is made for, and the transaction's tip; in wei.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fees {
    /// Base fee of the block.
    pub(super) base: u128,
    /// Price of a unit of blob gas in the block.
    pub(super) blob: u128,
    /// Tip of the transaction.
    pub(super) tip: u128,
}

impl Fees {
    /// Leaves room for the base fee to double, as wallets do.
    const fn max_per_gas(&self) -> u128 {
        2 * self.base + self.tip
    }
}

impl Unsigned {
    /// The transaction as the given type, with the signature that `sign` makes of a hash.
    pub(super) fn sign(
        self,
        kind: TransactionKind,
        sign: impl FnOnce(B256) -> Signature,
    ) -> Transaction {
        fn signed<T: SignableTransaction<Signature>>(
            transaction: T,
            sign: impl FnOnce(B256) -> Signature,
        ) -> Signed<T> {
            let signature = sign(transaction.signature_hash());
            transaction.into_signed(signature)
        }
        match kind {
            TransactionKind::Unprotected => signed(self.legacy(None), sign).into(),
            TransactionKind::Legacy => {
                let chain_id = self.chain_id;
                signed(self.legacy(Some(chain_id)), sign).into()
            }
            TransactionKind::Eip2930(list) => signed(self.eip2930(list), sign).into(),
            TransactionKind::Eip1559(list) => signed(self.eip1559(list), sign).into(),
            TransactionKind::Eip4844(hashes) => signed(self.eip4844(hashes), sign).into(),
            TransactionKind::Eip7702(authorizations) => {
                signed(self.eip7702(authorizations), sign).into()
            }
        }
    }

    fn legacy(self, chain_id: Option<u64>) -> TxLegacy {
        TxLegacy {
            chain_id,
            nonce: self.nonce,
            gas_price: self.fees.base + self.fees.tip,
            gas_limit: self.call.gas_limit,
            to: self.call.to,
            value: self.call.value,
            input: self.call.input,
        }
    }

    fn eip2930(self, access_list: AccessList) -> TxEip2930 {
        TxEip2930 {
            chain_id: self.chain_id,
            nonce: self.nonce,
            gas_price: self.fees.base + self.fees.tip,
            gas_limit: self.call.gas_limit,
            to: self.call.to,
            value: self.call.value,
            access_list,
            input: self.call.input,
        }
    }

    fn eip1559(self, access_list: AccessList) -> TxEip1559 {
        TxEip1559 {
            chain_id: self.chain_id,
            nonce: self.nonce,
            gas_limit: self.call.gas_limit,
            max_fee_per_gas: self.fees.max_per_gas(),
            max_priority_fee_per_gas: self.fees.tip,
            to: self.call.to,
            value: self.call.value,
            access_list,
            input: self.call.input,
        }
    }

    fn eip4844(self, blob_versioned_hashes: Vec<B256>) -> TxEip4844 {
        TxEip4844 {
            chain_id: self.chain_id,
            nonce: self.nonce,
            gas_limit: self.call.gas_limit,
            max_fee_per_gas: self.fees.max_per_gas(),
            max_priority_fee_per_gas: self.fees.tip,
            to: self.callee(),
            value: self.call.value,
            access_list: AccessList::default(),
            blob_versioned_hashes,
            max_fee_per_blob_gas: 2 * self.fees.blob,
            input: self.call.input,
        }
    }

    fn eip7702(self, authorization_list: Vec<SignedAuthorization>) -> TxEip7702 {
        TxEip7702 {
            chain_id: self.chain_id,
            nonce: self.nonce,
            gas_limit: self.call.gas_limit,
            max_fee_per_gas: self.fees.max_per_gas(),
            max_priority_fee_per_gas: self.fees.tip,
            to: self.callee(),
            value: self.call.value,
            access_list: AccessList::default(),
            authorization_list,
            input: self.call.input,
        }
    }

    /// The callee of a type that cannot create; a creation would become a call of the zero address.
    fn callee(&self) -> Address {
        self.call.to.to().copied().unwrap_or_default()
    }
}
