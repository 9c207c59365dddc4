//! The irregular state change of the DAO fork (EIP-779).
//!
//! alloy-evm makes the change after the transactions and deletes the accounts that it empties. The
//! fork made it before them, and before EIP-161 an empty account stays.

use alloy_evm::eth::dao_fork::{DAO_HARDFORK_ACCOUNTS, DAO_HARDFORK_BENEFICIARY};
use alloy_primitives::{Address, U256};
use revm::{
    Database, DatabaseCommit,
    state::{Account, TransactionId},
};

/// Moves the balances of the accounts that the fork names to its beneficiary.
pub(super) fn move_balances<DB: Database + DatabaseCommit>(
    database: &mut DB,
) -> Result<(), DB::Error> {
    let mut sum = U256::ZERO;
    let mut changed = Vec::with_capacity(DAO_HARDFORK_ACCOUNTS.len() + 1);
    for address in DAO_HARDFORK_ACCOUNTS {
        let account = with_balance(database, address, |balance| {
            sum = sum.saturating_add(balance);
            U256::ZERO
        })?;
        changed.push((address, account));
    }
    let beneficiary = with_balance(database, DAO_HARDFORK_BENEFICIARY, |balance| {
        balance.saturating_add(sum)
    })?;
    changed.push((DAO_HARDFORK_BENEFICIARY, beneficiary));
    database.commit_iter(&mut changed.into_iter());
    Ok(())
}

fn with_balance<DB: Database>(
    database: &mut DB,
    address: Address,
    balance: impl FnOnce(U256) -> U256,
) -> Result<Account, DB::Error> {
    let info = database.basic(address)?;
    let mut account = info.map_or_else(
        || Account::new_not_existing(TransactionId::ZERO),
        Account::from,
    );
    account.info.balance = balance(account.info.balance);
    account.mark_touch();
    if account.is_empty() {
        // A created account is kept although it is empty.
        account.mark_created();
    }
    Ok(account)
}
