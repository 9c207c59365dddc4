//! Writes what a block overrides into the state.

use std::borrow::Cow;

use alloy_primitives::{Address, U256};
use revm::{
    Database, DatabaseCommit,
    database::State as EvmState,
    database_interface::bal::EvmDatabaseError,
    state::{Account, EvmStorageSlot, TransactionId},
};

use crate::call::request::{AccountOverride, StateOverrides, StorageOverride};

/// Writes the overrides as a transaction before the first one would.
pub(super) fn apply<DB: Database>(
    database: &mut EvmState<DB>,
    accounts: &StateOverrides,
) -> Result<(), EvmDatabaseError<DB::Error>> {
    for (address, overridden) in accounts {
        let moves_alone = AccountOverride {
            precompile_moved_to: overridden.precompile_moved_to,
            ..AccountOverride::default()
        };
        if *overridden == moves_alone {
            continue;
        }
        let mut account = account(database, *address, overridden)?;
        account.mark_touch();
        if matches!(overridden.storage, StorageOverride::Whole(_)) {
            // What it was before goes, with its storage.
            let mut before = account.clone();
            before.mark_selfdestruct();
            commit(database, *address, before);
            account.mark_created();
            commit(database, *address, account);
        } else {
            // Like geth, keep an account that is empty now: a commit deletes it (EIP-161), as a
            // transaction that touches it does.
            let cached = database.load_cache_account(*address);
            let cached = cached.map_err(EvmDatabaseError::Database)?;
            let transition = cached.change(Cow::Owned(account));
            database.apply_transition([(*address, transition)]);
        }
    }
    Ok(())
}

/// Sets a nonce, as a transaction does: an account that is empty then goes.
pub(super) fn set_nonce<DB: Database>(
    database: &mut EvmState<DB>,
    address: Address,
    nonce: u64,
) -> Result<(), EvmDatabaseError<DB::Error>> {
    if let Some(info) = database.basic(address)? {
        let mut account = Account::from(info);
        account.info.nonce = nonce;
        account.mark_touch();
        commit(database, address, account);
    }
    Ok(())
}

fn commit<DB: Database>(database: &mut EvmState<DB>, address: Address, account: Account) {
    database.commit_iter(&mut std::iter::once((address, account)));
}

fn account<DB: Database>(
    database: &mut EvmState<DB>,
    address: Address,
    overridden: &AccountOverride,
) -> Result<Account, EvmDatabaseError<DB::Error>> {
    let mut account = match database.basic(address)? {
        Some(info) => Account::from(info),
        None => Account::new_not_existing(TransactionId::ZERO),
    };
    overridden.apply(&mut account.info);
    if account.info.code.is_none() {
        let hash = account.info.code_hash;
        account.info.code = Some(database.code_by_hash(hash)?);
    }
    match &overridden.storage {
        StorageOverride::Nothing => {}
        StorageOverride::Slots(slots) => {
            for (slot, value) in slots {
                let before = database.storage(address, *slot)?;
                let slot_value = changed(before, *value);
                account.storage.insert(*slot, slot_value);
            }
        }
        StorageOverride::Whole(slots) => {
            let slots = slots.iter().filter(|(_, value)| !value.is_zero());
            account
                .storage
                .extend(slots.map(|(slot, value)| (*slot, changed(U256::ZERO, *value))));
        }
    }
    Ok(account)
}

fn changed(before: U256, value: U256) -> EvmStorageSlot {
    EvmStorageSlot::new_changed(before, value, TransactionId::ZERO)
}
