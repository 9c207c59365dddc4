use alloy_primitives::{
    B256, U256,
    map::{AddressMap, U256Map},
};

/// What a block, or a part of it, changed in the state, as somebody reports it.
#[derive(Clone, Debug, Default)]
pub struct StateChanges {
    /// By address.
    pub accounts: AddressMap<AccountChange>,
}

/// What changed in one account. What is not named has stayed as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// Whether only keys are named here: the values are not known.
    pub is_unknown: bool,
    /// Whether the account was deleted first, with its storage. If nothing else is named, it is
    /// absent.
    pub is_cleared: bool,
    /// Its new nonce.
    pub nonce: Option<u64>,
    /// Its new balance in wei, without `credit`.
    pub balance: Option<U256>,
    /// Wei that the block added at its end.
    pub credit: U256,
    /// keccak256 of its new code.
    pub code_hash: Option<B256>,
    /// New values of slots; zero deletes a slot.
    pub storage: U256Map<U256>,
}

impl StateChanges {
    /// Number of accounts and of slots.
    #[must_use]
    pub fn keys(&self) -> usize {
        let slots = self.accounts.values().map(|account| account.storage.len());
        self.accounts.len() + slots.sum::<usize>()
    }
}
