//! Who signed the transactions of a block.

use std::{
    num::NonZero,
    panic::resume_unwind,
    sync::LazyLock,
    thread::{self, available_parallelism},
};

use alloy_consensus::{Transaction as _, crypto::SECP256K1N_HALF, transaction::SignerRecoverable};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Address;

use super::VerifyError;
use crate::{block::Transaction, execute::Rules};

/// Fewest signatures that are worth a thread of their own: each takes some 35 µs.
const SIGNATURES_PER_THREAD_MIN: usize = 32;

static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, NonZero::get));

/// Recovers the sender of each transaction.
///
/// # Errors
/// A signature that is none, that is malleable (EIP-2, from Homestead on), or that is for another chain (EIP-155).
pub fn recover_senders(
    rules: &Rules<'_>,
    transactions: &[Transaction],
) -> Result<Vec<Address>, VerifyError> {
    on_all_cores(transactions, |index, transaction| {
        recover(rules, index, transaction)
    })
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
    on_all_cores(transactions, |index, transaction| {
        check_chain_id(chain_id, index, transaction)?;
        recover_any(index, transaction)
    })
}

/// What is recovered of each transaction, in their order. Signatures are most of what checking a block takes, and each is
/// by itself.
fn on_all_cores(
    transactions: &[Transaction],
    recover: impl Fn(usize, &Transaction) -> Result<Address, VerifyError> + Sync,
) -> Result<Vec<Address>, VerifyError> {
    let threads = (transactions.len() / SIGNATURES_PER_THREAD_MIN).clamp(1, *CORES);
    let share = transactions.len().div_ceil(threads).max(1);
    let recover_share = |(share_index, transactions): (usize, &[Transaction])| {
        let indexed = (share_index * share..).zip(transactions);
        indexed
            .map(|(index, transaction)| recover(index, transaction))
            .collect::<Result<Vec<_>, _>>()
    };
    let recover_share = &recover_share;
    thread::scope(|scope| {
        let mut shares = transactions.chunks(share).enumerate();
        let own = shares.next();
        let others: Vec<_> = shares
            .map(|share| {
                let work = move || recover_share(share);
                // Where there is no thread to be had, it is done here.
                thread::Builder::new()
                    .spawn_scoped(scope, work)
                    .map_err(|_| work())
            })
            .collect();
        let mut senders = own.map_or_else(|| Ok(Vec::new()), recover_share)?;
        for other in others {
            let recovered = match other {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(recovered) => recovered,
            };
            senders.extend(recovered?);
        }
        Ok(senders)
    })
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
