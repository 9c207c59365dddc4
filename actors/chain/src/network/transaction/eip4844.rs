//! Transactions with blobs, which a block carries without the blobs (EIP-4844).

use alloy_consensus::{SignableTransaction, Signed, Transaction as _, TxEip4844};
use alloy_evm::FromRecoveredTx;
use alloy_primitives::Address;
use revm::context::TxEnv;

use super::{
    access_list, signature,
    type_rules::{FEES, Inclusion, SenderSource, TypeRules},
};
use crate::{
    encode::writer::JsonWriter,
    remote::{
        fault::MemberError,
        reader::{Reader, array, bytes, fixed, u64, u128, u256},
    },
};

const BLOB_GAS_PRICE: &str = "blobGasPrice";
const BLOB_GAS_USED: &str = "blobGasUsed";

impl TypeRules for Signed<TxEip4844> {
    const QUANTITIES: &'static [&'static [&'static str]] = &[
        signature::QUANTITIES,
        FEES,
        &["maxFeePerBlobGas", BLOB_GAS_PRICE, BLOB_GAS_USED],
    ];
    const OMITTED: &'static [&'static str] = signature::TYPED_OMITTED;

    fn read(tx: Reader<'_, '_>) -> Result<Self, MemberError> {
        let transaction = TxEip4844 {
            chain_id: tx.get("chainId", u64)?,
            nonce: tx.get("nonce", u64)?,
            gas_limit: tx.get("gas", u64)?,
            max_fee_per_gas: tx.get("maxFeePerGas", u128)?,
            max_priority_fee_per_gas: tx.get("maxPriorityFeePerGas", u128)?,
            to: tx.get("to", fixed)?,
            value: tx.get("value", u256)?,
            input: tx.get("input", bytes)?,
            access_list: access_list::read(tx)?,
            blob_versioned_hashes: tx.get("blobVersionedHashes", |list| array(list, fixed))?,
            max_fee_per_blob_gas: tx.get("maxFeePerBlobGas", u128)?,
        };
        Ok(transaction.into_signed(signature::read_typed(tx)?))
    }

    fn sender(&self) -> SenderSource {
        signature::sender(self)
    }

    fn tx_env(&self, sender: Address) -> Option<TxEnv> {
        Some(TxEnv::from_recovered_tx(self, sender))
    }

    fn write_fees(&self, w: &mut JsonWriter) {
        let tx = self.tx();
        w.raw(r#","maxFeePerGas":"#).wide(tx.max_fee_per_gas);
        w.raw(r#","maxPriorityFeePerGas":"#)
            .wide(tx.max_priority_fee_per_gas);
        w.raw(r#","maxFeePerBlobGas":"#)
            .wide(tx.max_fee_per_blob_gas);
    }

    fn write_own(&self, w: &mut JsonWriter, _: Inclusion<'_>) {
        access_list::write(w, &self.tx().access_list);
        w.raw(r#","chainId":"#).number(self.tx().chain_id);
        w.raw(r#","blobVersionedHashes":"#)
            .array(&self.tx().blob_versioned_hashes, |w, hash| {
                w.data(hash);
            });
        signature::write_typed(w, self.signature());
    }

    fn size_hint(&self) -> usize {
        const HASH: usize = 69;
        access_list::size_hint(&self.tx().access_list)
            + HASH * self.tx().blob_versioned_hashes.len()
    }

    fn receipt_quantities(&self, inclusion: Inclusion<'_>) -> Vec<(&'static str, u128)> {
        let price = inclusion.blob_gas_price.unwrap_or_default();
        let used = self.blob_gas_used().unwrap_or_default();
        vec![(BLOB_GAS_PRICE, price), (BLOB_GAS_USED, used.into())]
    }
}
