//! Who signed the transactions of a block.

use alloy_consensus::{Transaction as _, crypto::SECP256K1N_HALF, transaction::SignerRecoverable};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Address;

use super::VerifyError;
use crate::{block::Transaction, execute::Rules};

/// Recovers the sender of each transaction.
///
/// # Errors
/// A signature that is none, that is malleable (EIP-2, from Homestead on), or that is for another chain (EIP-155).
pub fn recover_senders(
    rules: &Rules<'_>,
    transactions: &[Transaction],
) -> Result<Vec<Address>, VerifyError> {
    transactions
        .iter()
        .enumerate()
        .map(|(index, transaction)| recover(rules, index, transaction))
        .collect()
}

fn recover(
    rules: &Rules<'_>,
    index: usize,
    transaction: &Transaction,
) -> Result<Address, VerifyError> {
    let hash = *transaction.hash();
    let expected = rules.spec().chain_id();
    match transaction.chain_id() {
        Some(_) if !rules.has(EthereumHardfork::SpuriousDragon) => {
            return Err(VerifyError::ReplayProtection { index, hash });
        }
        Some(found) if found != expected => {
            return Err(VerifyError::ChainId {
                index,
                hash,
                expected,
                found,
            });
        }
        _ => {}
    }
    if rules.has(EthereumHardfork::Homestead) && transaction.signature().s() > SECP256K1N_HALF {
        return Err(VerifyError::SignatureMalleable { index, hash });
    }
    transaction
        .recover_signer_unchecked()
        .map_err(|_| VerifyError::Signature { index, hash })
}
