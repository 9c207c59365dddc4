//! A header against the body that came with it.

use alloy_consensus::{Transaction as _, proofs};
use alloy_hardforks::EthereumHardfork;
use alloy_rlp::Encodable;

use super::{VerifyError, header::ensure_eq};
use crate::{block::RawBlock, network::Rules};

/// Bytes of RLP that a block may have from Osaka on (EIP-7934: 10 MiB less 2 MiB for the beacon
/// block).
const BLOCK_RLP_BYTES_MAX_OSAKA: usize = (10 << 20) - (2 << 20);

/// Checks what the header of `raw` promises about its body: roots, blob gas, size.
///
/// # Errors
/// The first promise that does not hold.
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

/// Checks what no rules are needed for: the roots of transactions, ommers and withdrawals, and blob
/// gas where the header has it.
///
/// # Errors
/// The first promise that does not hold.
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

fn blob_gas_used(raw: &RawBlock) -> u64 {
    let transactions = raw.body.transactions.iter();
    transactions
        .filter_map(|transaction| transaction.blob_gas_used())
        .sum()
}
