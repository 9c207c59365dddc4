//! Legacy transactions, with a chain id in their signature or without (EIP-155).

use alloy_consensus::{
    SignableTransaction, Signed, TxLegacy,
    transaction::{from_eip155_value, to_eip155_value},
};
use alloy_evm::FromRecoveredTx;
use alloy_primitives::Address;
use revm::context::TxEnv;

use super::{
    recipient, signature,
    type_rules::{Inclusion, SenderSource, TypeRules},
};
use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::MemberError,
        reader::{Reader, bytes, u64, u128, u256},
    },
};

impl TypeRules for Signed<TxLegacy> {
    const QUANTITIES: &'static [&'static [&'static str]] = &[signature::QUANTITIES];
    /// `v` implies it.
    const OMITTED: &'static [&'static str] = &["chainId"];

    /// The chain id is part of `v` (EIP-155).
    fn read(tx: Reader<'_, '_>) -> Result<Self, MemberError> {
        const EXPECTED: &str = "27, 28, or 35 and more with a chain id of 64 bits";
        let v = tx.get("v", u128)?;
        let (parity, chain_id) =
            from_eip155_value(v).ok_or_else(|| MemberError::shape(EXPECTED).in_member("v"))?;
        let transaction = TxLegacy {
            chain_id,
            nonce: tx.get("nonce", u64)?,
            gas_price: tx.get("gasPrice", u128)?,
            gas_limit: tx.get("gas", u64)?,
            to: recipient::read(tx)?,
            value: tx.get("value", u256)?,
            input: tx.get("input", bytes)?,
        };
        Ok(transaction.into_signed(signature::read(tx, parity)?))
    }

    fn sender(&self) -> SenderSource {
        signature::sender(self)
    }

    fn tx_env(&self, sender: Address) -> Option<TxEnv> {
        Some(TxEnv::from_recovered_tx(self, sender))
    }

    fn write_own(&self, w: &mut JsonWriter, _: Inclusion<'_>) {
        let chain_id = self.tx().chain_id;
        if let Some(chain_id) = chain_id {
            w.raw(r#","chainId":"#).number(chain_id);
        }
        let signature = self.signature();
        // Nobody signed a transaction of a simulated block.
        let v = match signature.r().is_zero() {
            true => 0,
            false => to_eip155_value(signature.v(), chain_id),
        };
        signature::write(w, signature, v);
    }
}
