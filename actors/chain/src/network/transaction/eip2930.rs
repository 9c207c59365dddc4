//! Transactions with an access list (EIP-2930).

use alloy_consensus::{SignableTransaction, Signed, TxEip2930};
use alloy_evm::FromRecoveredTx;
use alloy_primitives::Address;
use revm::context::TxEnv;

use super::{
    access_list, recipient, signature,
    type_rules::{Inclusion, SenderSource, TypeRules},
};
use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::MemberError,
        reader::{Reader, bytes, u64, u128, u256},
    },
};

impl TypeRules for Signed<TxEip2930> {
    const QUANTITIES: &'static [&'static [&'static str]] = &[signature::QUANTITIES];
    const OMITTED: &'static [&'static str] = signature::TYPED_OMITTED;

    fn read(tx: Reader<'_, '_>) -> Result<Self, MemberError> {
        let transaction = TxEip2930 {
            chain_id: tx.get("chainId", u64)?,
            nonce: tx.get("nonce", u64)?,
            gas_price: tx.get("gasPrice", u128)?,
            gas_limit: tx.get("gas", u64)?,
            to: recipient::read(tx)?,
            value: tx.get("value", u256)?,
            input: tx.get("input", bytes)?,
            access_list: access_list::read(tx)?,
        };
        Ok(transaction.into_signed(signature::read_typed(tx)?))
    }

    fn sender(&self) -> SenderSource {
        signature::sender(self)
    }

    fn tx_env(&self, sender: Address) -> Option<TxEnv> {
        Some(TxEnv::from_recovered_tx(self, sender))
    }

    fn write_own(&self, w: &mut JsonWriter, _: Inclusion<'_>) {
        access_list::write(w, &self.tx().access_list);
        w.raw(r#","chainId":"#).number(self.tx().chain_id);
        signature::write_typed(w, self.signature());
    }

    fn size_hint(&self) -> usize {
        access_list::size_hint(&self.tx().access_list)
    }
}
