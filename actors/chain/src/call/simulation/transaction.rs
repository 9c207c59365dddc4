//! The transaction that a call is in its block. Nobody signed it.

use alloy_consensus::{
    Signed, TxEip1559, TxEip4844, TxEip7702, TxLegacy, proofs::ordered_trie_root_with_encoder,
};
use alloy_eips::Encodable2718;
use alloy_primitives::{B256, Signature, TxKind, U256, keccak256};

use super::error_kind::SimulationErrorKind;
use crate::{
    block::Transaction,
    call::{
        error::CallError,
        request::{CallRequest, GasPrice},
    },
};

/// A signature of nobody.
const UNSIGNED: Signature = Signature::new(U256::ZERO, U256::ZERO, false);

/// The transaction of a call with this nonce and limit of gas.
///
/// # Errors
/// A [`SimulationErrorKind`] if a call with blobs or authorizations creates a contract.
pub(super) fn unsigned(
    request: &CallRequest,
    nonce: u64,
    gas_limit: u64,
    chain_id: u64,
    has_base_fee: bool,
) -> Result<Transaction, CallError> {
    let kind = request.to.map_or(TxKind::Create, TxKind::Call);
    let callee = || {
        let message = "a call with blobs or authorizations needs a recipient";
        request
            .to
            .ok_or_else(|| CallError::simulation(SimulationErrorKind::InvalidParams, message))
    };
    let (value, input) = (request.value, request.input.clone());
    let access_list = request.access_list.clone().unwrap_or_default();
    let (most, tip) = (request.price.most(), request.price.tip());
    Ok(
        if matches!(request.price, GasPrice::Fixed(_)) || !has_base_fee {
            let transaction = TxLegacy {
                chain_id: None,
                nonce,
                gas_price: most,
                gas_limit,
                to: kind,
                value,
                input,
            };
            let signed = Transaction::Legacy(Signed::new_unhashed(transaction.clone(), UNSIGNED));
            let hash = keccak256(encoded(&signed));
            Transaction::Legacy(Signed::new_unchecked(transaction, UNSIGNED, hash))
        } else if let Some(authorization_list) = request.authorizations.clone() {
            Transaction::Eip7702(Signed::new_unhashed(
                TxEip7702 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: most,
                    max_priority_fee_per_gas: tip,
                    to: callee()?,
                    value,
                    access_list,
                    authorization_list,
                    input,
                },
                UNSIGNED,
            ))
        } else if let Some(blob_versioned_hashes) = request.blob_hashes.clone() {
            Transaction::Eip4844(Signed::new_unhashed(
                TxEip4844 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: most,
                    max_priority_fee_per_gas: tip,
                    to: callee()?,
                    value,
                    access_list,
                    blob_versioned_hashes,
                    max_fee_per_blob_gas: request.max_fee_per_blob_gas.unwrap_or_default(),
                    input,
                },
                UNSIGNED,
            ))
        } else {
            Transaction::Eip1559(Signed::new_unhashed(
                TxEip1559 {
                    chain_id,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: most,
                    max_priority_fee_per_gas: tip,
                    to: kind,
                    value,
                    access_list,
                    input,
                },
                UNSIGNED,
            ))
        },
    )
}

/// The root of the transactions of a block.
pub(super) fn root(transactions: &[Transaction]) -> B256 {
    ordered_trie_root_with_encoder(transactions, |transaction, out| {
        out.extend_from_slice(&encoded(transaction));
    })
}

/// The EIP-2718 encoding. The `v` of an unsigned legacy transaction is zero, which no signature
/// has.
fn encoded(transaction: &Transaction) -> Vec<u8> {
    let mut bytes = transaction.encoded_2718();
    if matches!(transaction, Transaction::Legacy(_))
        && let [.., v, _r, _s] = bytes.as_mut_slice()
    {
        *v = alloy_rlp::EMPTY_STRING_CODE;
    }
    bytes
}
