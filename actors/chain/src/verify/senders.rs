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
    if transaction.chain_id().is_some() && !rules.has(EthereumHardfork::SpuriousDragon) {
        return Err(VerifyError::ReplayProtection { index, hash });
    }
    check_chain_id(rules.spec().chain_id(), index, transaction)?;
    if rules.has(EthereumHardfork::Homestead) && transaction.signature().s() > SECP256K1N_HALF {
        return Err(VerifyError::SignatureMalleable { index, hash });
    }
    recover_any(index, transaction)
}

/// Recovers the sender of each transaction of a block whose rules are not known: any signature that recovers will do,
/// for a chain's own blocks are the proof that it took it.
///
/// # Errors
/// A signature that is none, or that is for another chain (EIP-155).
pub fn recover_senders_of(
    chain_id: u64,
    transactions: &[Transaction],
) -> Result<Vec<Address>, VerifyError> {
    let transactions = transactions.iter().enumerate();
    transactions
        .map(|(index, transaction)| {
            check_chain_id(chain_id, index, transaction)?;
            recover_any(index, transaction)
        })
        .collect()
}

fn check_chain_id(
    expected: u64,
    index: usize,
    transaction: &Transaction,
) -> Result<(), VerifyError> {
    match transaction.chain_id() {
        Some(found) if found != expected => Err(VerifyError::ChainId {
            index,
            hash: *transaction.hash(),
            expected,
            found,
        }),
        _ => Ok(()),
    }
}

fn recover_any(index: usize, transaction: &Transaction) -> Result<Address, VerifyError> {
    let hash = *transaction.hash();
    transaction
        .recover_signer_unchecked()
        .map_err(|_| VerifyError::Signature { index, hash })
}
