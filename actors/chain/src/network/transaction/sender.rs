//! The sender of a transaction.

use alloy_consensus::{Transaction as _, crypto::SECP256K1N_HALF};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Address;

use super::{Transaction, type_rules::SenderSource};
use crate::{network::Rules, verify::VerifyError};

/// The sender of transaction `index` of a block with these rules.
///
/// # Errors
/// The signature is invalid, malleable (EIP-2, from Homestead on), for another chain, or for any
/// chain before Spurious Dragon (EIP-155).
pub(crate) fn sender_by_rules(
    rules: &Rules<'_>,
    index: usize,
    transaction: &Transaction,
) -> Result<Address, VerifyError> {
    let hash = *transaction.tx_hash();
    if transaction.chain_id().is_some() && !rules.has(EthereumHardfork::SpuriousDragon) {
        return Err(VerifyError::ReplayProtection { index, hash });
    }
    check_chain_id(rules.spec().chain_id(), index, transaction)?;
    let source = transaction.sender_source();
    if let SenderSource::Signature { signature, .. } = &source
        && rules.has(EthereumHardfork::Homestead)
        && signature.s() > SECP256K1N_HALF
    {
        return Err(VerifyError::SignatureMalleable { index, hash });
    }
    source
        .address()
        .ok_or(VerifyError::Signature { index, hash })
}

/// The sender of transaction `index` of a block whose rules are not known.
///
/// Any signature that recovers is accepted: the block's hash proves that its chain accepted it.
///
/// # Errors
/// The signature is invalid, or for another chain (EIP-155).
pub(crate) fn sender(
    chain_id: u64,
    index: usize,
    transaction: &Transaction,
) -> Result<Address, VerifyError> {
    check_chain_id(chain_id, index, transaction)?;
    let sender = transaction.sender_source().address();
    sender.ok_or_else(|| VerifyError::Signature {
        index,
        hash: *transaction.tx_hash(),
    })
}

/// # Errors
/// The transaction is for another chain (EIP-155).
pub(crate) fn check_chain_id(
    expected: u64,
    index: usize,
    transaction: &Transaction,
) -> Result<(), VerifyError> {
    match transaction.chain_id() {
        Some(found) if found != expected => Err(VerifyError::ChainId {
            index,
            hash: *transaction.tx_hash(),
            expected,
            found,
        }),
        _ => Ok(()),
    }
}

impl SenderSource {
    /// The sender; `None` if nothing recovers from the signature.
    #[must_use]
    pub fn address(&self) -> Option<Address> {
        match self {
            Self::Signature { signature, hash } => {
                signature.recover_address_from_prehash(hash).ok()
            }
            Self::Stated(address) => Some(*address),
        }
    }
}
