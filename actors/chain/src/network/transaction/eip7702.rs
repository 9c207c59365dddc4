//! Transactions that delegate accounts to code (EIP-7702).

use alloy_consensus::{SignableTransaction, Signed, Transaction as _, TxEip7702};
use alloy_eips::{
    Typed2718 as _,
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::Address;
use revm::{context::TxEnv, context_interface::either::Either};

use super::{
    access_list, signature,
    type_rules::{FEES, Inclusion, SenderSource, TypeRules},
};
use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::MemberError,
        json::Value,
        reader::{Reader, array, bytes, fixed, u8, u64, u128, u256},
    },
};

impl TypeRules for Signed<TxEip7702> {
    /// An authorization has a nonce and a signature too.
    const QUANTITIES: &'static [&'static [&'static str]] =
        &[signature::QUANTITIES, FEES, &["nonce"]];
    const OMITTED: &'static [&'static str] = signature::TYPED_OMITTED;

    fn read(tx: Reader<'_, '_>) -> Result<Self, MemberError> {
        let transaction = TxEip7702 {
            chain_id: tx.get("chainId", u64)?,
            nonce: tx.get("nonce", u64)?,
            gas_limit: tx.get("gas", u64)?,
            max_fee_per_gas: tx.get("maxFeePerGas", u128)?,
            max_priority_fee_per_gas: tx.get("maxPriorityFeePerGas", u128)?,
            to: tx.get("to", fixed)?,
            value: tx.get("value", u256)?,
            input: tx.get("input", bytes)?,
            access_list: access_list::read(tx)?,
            authorization_list: tx.get("authorizationList", |list| array(list, authorization))?,
        };
        Ok(transaction.into_signed(signature::read_typed(tx)?))
    }

    fn sender(&self) -> SenderSource {
        signature::sender(self)
    }

    /// alloy-evm would recover the authorities with k256, which takes several times as long.
    fn tx_env(&self, sender: Address) -> Option<TxEnv> {
        let recovered = |one: &SignedAuthorization| Either::Right(one.clone().into_recovered());
        let authorization_list = self.tx().authorization_list.iter().map(recovered);
        Some(TxEnv {
            tx_type: self.ty(),
            caller: sender,
            gas_limit: self.gas_limit(),
            gas_price: self.max_fee_per_gas(),
            kind: self.kind(),
            value: self.value(),
            data: self.input().clone(),
            nonce: self.nonce(),
            chain_id: self.chain_id(),
            access_list: self.tx().access_list.clone(),
            gas_priority_fee: self.max_priority_fee_per_gas(),
            authorization_list: authorization_list.collect(),
            ..TxEnv::default()
        })
    }

    fn write_own(&self, w: &mut JsonWriter, _: Inclusion<'_>) {
        access_list::write(w, &self.tx().access_list);
        w.raw(r#","chainId":"#).number(self.tx().chain_id);
        w.raw(r#","authorizationList":"#)
            .array(&self.tx().authorization_list, write_authorization);
        signature::write_typed(w, self.signature());
    }

    fn size_hint(&self) -> usize {
        const AUTHORIZATION: usize = 310;
        access_list::size_hint(&self.tx().access_list)
            + AUTHORIZATION * self.tx().authorization_list.len()
    }
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

fn write_authorization(w: &mut JsonWriter, authorization: &SignedAuthorization) {
    w.raw(r#"{"chainId":"#).quantity(*authorization.chain_id());
    w.raw(r#","address":"#).data(authorization.address());
    w.raw(r#","nonce":"#).number(authorization.nonce());
    w.raw(r#","yParity":"#)
        .number(authorization.y_parity().into());
    w.raw(r#","r":"#).quantity(authorization.r());
    w.raw(r#","s":"#).quantity(authorization.s());
    w.raw("}");
}
