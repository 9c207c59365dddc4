//! Checks a header against its body.

use alloy_consensus::{Transaction as _, proofs};
use alloy_hardforks::EthereumHardfork;
use alloy_rlp::Encodable;

use super::{VerifyError, header::ensure_eq};
use crate::{
    block::{RawBlock, Transaction},
    network::Rules,
};

/// Most bytes of RLP in a block from Osaka on (EIP-7934: 10 MiB less 2 MiB for the beacon
/// block).
const BLOCK_RLP_BYTES_MAX_OSAKA: usize = (10 << 20) - (2 << 20);

/// Checks the header of `raw` against its body: roots, blob gas, size.
///
/// # Errors
/// The first check that fails.
pub(crate) fn check_body(rules: &Rules<'_>, raw: &RawBlock) -> Result<(), VerifyError> {
    let (header, body) = (&raw.header, &raw.body);
    if rules.has(EthereumHardfork::Osaka) {
        let found = raw.length();
        if found > BLOCK_RLP_BYTES_MAX_OSAKA {
            return Err(VerifyError::BlockSize {
                max: BLOCK_RLP_BYTES_MAX_OSAKA,
                found,
            });
        }
    }
    ensure_eq(
        rules.has(EthereumHardfork::Shanghai),
        body.withdrawals.is_some(),
        |expected, found| VerifyError::Withdrawals { expected, found },
    )?;
    check_roots(raw)?;
    let expected = rules
        .has(EthereumHardfork::Cancun)
        .then(|| blob_gas_used(raw));
    ensure_eq(expected, header.blob_gas_used, |expected, found| {
        VerifyError::BlobGasUsed { expected, found }
    })
}

/// Makes the checks that need no rules: the roots of transactions, ommers and withdrawals, and blob
/// gas if the header has it.
///
/// # Errors
/// The first check that fails.
pub fn check_roots(raw: &RawBlock) -> Result<(), VerifyError> {
    let (header, body) = (&raw.header, &raw.body);
    ensure_eq(
        proofs::calculate_transaction_root(&body.transactions),
        header.transactions_root,
        |expected, found| VerifyError::TransactionsRoot { expected, found },
    )?;
    ensure_eq(
        body.calculate_ommers_root(),
        header.ommers_hash,
        |expected, found| VerifyError::OmmersHash { expected, found },
    )?;
    ensure_eq(
        body.calculate_withdrawals_root(),
        header.withdrawals_root,
        |expected, found| VerifyError::WithdrawalsRoot { expected, found },
    )?;
    let expected = header.blob_gas_used.map(|_| blob_gas_used(raw));
    ensure_eq(expected, header.blob_gas_used, |expected, found| {
        VerifyError::BlobGasUsed { expected, found }
    })
}

/// Checks that no transaction repeats an earlier one. Execution finds it too: a nonce is used once.
///
/// # Errors
/// [`VerifyError::DuplicateTransaction`] for one that repeats an earlier one.
pub(crate) fn check_distinct(transactions: &[Transaction]) -> Result<(), VerifyError> {
    let hashes = transactions
        .iter()
        .map(|transaction| *transaction.tx_hash());
    // Sorted, so that no choice of hashes makes it slow.
    let mut hashes: Vec<_> = hashes.zip(0..).collect();
    hashes.sort_unstable();
    match hashes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => {
            let (hash, index) = pair[1];
            Err(VerifyError::DuplicateTransaction { index, hash })
        }
    }
}

fn blob_gas_used(raw: &RawBlock) -> u64 {
    let transactions = raw.body.transactions.iter();
    transactions
        .filter_map(|transaction| transaction.blob_gas_used())
        .sum()
}
