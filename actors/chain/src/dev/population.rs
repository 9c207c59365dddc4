//! Accounts without keys, which make the state large.

use std::collections::BTreeMap;

use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, Bytes, U256};

use super::random::digest;

/// One account in this many is a contract with storage.
const CONTRACT_ONCE_IN: u64 = 128;
/// Maximum number of slots of such a contract.
const SLOTS_MAX: u64 = 32;

/// `len` accounts, each of which follows from the seed and its index alone, so that none is kept in
/// memory.
#[derive(Clone, Debug)]
pub(super) struct Population {
    pub(super) seed: u64,
    pub(super) len: u64,
    /// Code of the contracts.
    pub(super) code: Bytes,
}

impl Population {
    /// The address of account `index`.
    pub(super) fn address(&self, index: u64) -> Address {
        Address::from_slice(&self.digest(index)[12..])
    }

    /// Account `index`.
    pub(super) fn account(&self, index: u64) -> (Address, GenesisAccount) {
        let digest = self.digest(index);
        let mut word = [0; 8];
        word.copy_from_slice(&digest[..8]);
        let balance = U256::from(u64::from_be_bytes(word));
        let contract = index.is_multiple_of(CONTRACT_ONCE_IN);
        let account = GenesisAccount {
            nonce: Some(if contract { 1 } else { u64::from(digest[8]) }),
            balance,
            code: contract.then(|| self.code.clone()),
            storage: contract.then(|| Self::storage(u64::from(digest[9]) % SLOTS_MAX + 1)),
            private_key: None,
        };
        (Address::from_slice(&digest[12..]), account)
    }

    /// All accounts in order.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (Address, GenesisAccount)> {
        (0..self.len).map(|index| self.account(index))
    }

    fn storage(slots: u64) -> BTreeMap<B256, B256> {
        (0..slots)
            .map(|slot| (U256::from(slot).into(), digest("slot", &[slots, slot])))
            .collect()
    }

    fn digest(&self, index: u64) -> B256 {
        digest("account", &[self.seed, index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_follow_from_seed_and_index() {
        let of = |seed| Population {
            seed,
            len: 1_000,
            code: Bytes::from_static(&[0]),
        };
        let accounts: BTreeMap<_, _> = of(1).accounts().collect();
        assert_eq!(accounts.len(), 1_000);
        assert_eq!(accounts, of(1).accounts().collect());
        assert!((0..1_000).all(|index| accounts.contains_key(&of(1).address(index))));
        assert!((0..1_000).all(|index| !accounts.contains_key(&of(2).address(index))));
        let contracts = accounts
            .values()
            .filter(|account| account.storage.is_some())
            .count();
        assert_eq!(contracts, 8);
    }
}
