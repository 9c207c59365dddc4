//! Transactions that offer a tip and a maximum fee (EIP-1559).

use alloy_consensus::{SignableTransaction, Signed, TxEip1559};
use alloy_evm::FromRecoveredTx;
use alloy_primitives::Address;
use revm::context::TxEnv;

use super::{
    access_list, recipient, signature,
    type_rules::{FEES, Inclusion, SenderSource, TypeRules},
};
use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::MemberError,
        reader::{Reader, bytes, u64, u128, u256},
    },
};

impl TypeRules for Signed<TxEip1559> {
    const QUANTITIES: &'static [&'static [&'static str]] = &[signature::QUANTITIES, FEES];
    const OMITTED: &'static [&'static str] = signature::TYPED_OMITTED;

    fn read(tx: Reader<'_, '_>) -> Result<Self, MemberError> {
        let transaction = TxEip1559 {
            chain_id: tx.get("chainId", u64)?,
            nonce: tx.get("nonce", u64)?,
            gas_limit: tx.get("gas", u64)?,
            max_fee_per_gas: tx.get("maxFeePerGas", u128)?,
            max_priority_fee_per_gas: tx.get("maxPriorityFeePerGas", u128)?,
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
