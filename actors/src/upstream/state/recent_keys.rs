//! The keys whose state was fetched most recently.

use std::collections::VecDeque;

use alloy_primitives::{Address, U256};
use nearhead_chain::trie::{AccountChange, StateChanges};
use parking_lot::Mutex;

/// Accounts that are remembered.
const RECENT_MAX: usize = 256;

/// Slots of one read that are remembered. Those of all accounts may be more than one merge asks
/// for.
const SLOTS_MAX: usize = 16;

/// Keys that clients read and that had to be fetched, the newest last. If nobody reports what a
/// block changed, they are proven after each block.
#[derive(Debug, Default)]
pub(super) struct RecentKeys(Mutex<VecDeque<(Address, Vec<U256>)>>);

impl RecentKeys {
    /// Remembers an account and its slots.
    pub(super) fn add(&self, address: Address, slots: &[U256]) {
        let slots = &slots[..slots.len().min(SLOTS_MAX)];
        let mut recent = self.0.lock();
        recent.retain(|(known, known_slots)| *known != address || known_slots != slots);
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back((address, slots.to_vec()));
    }

    /// Whether nothing has been fetched.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Adds all of them to what a block may have changed.
    pub(super) fn add_to(&self, changes: &mut StateChanges) {
        for (address, slots) in &*self.0.lock() {
            let account: &mut AccountChange = changes.accounts.entry(*address).or_default();
            account.is_unknown = true;
            for slot in slots {
                account.storage.entry(*slot).or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(recent: &RecentKeys) -> Vec<(Address, Vec<U256>)> {
        let mut changes = StateChanges::default();
        recent.add_to(&mut changes);
        let account = |(address, change): (&Address, &AccountChange)| {
            assert!(change.is_unknown);
            let mut slots: Vec<U256> = change.storage.keys().copied().collect();
            slots.sort_unstable();
            (*address, slots)
        };
        let mut keys: Vec<_> = changes.accounts.iter().map(account).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn the_oldest_keys_are_forgotten() {
        let recent = RecentKeys::default();
        let address = |number: usize| Address::left_padding_from(&number.to_be_bytes());
        for number in 0..RECENT_MAX {
            recent.add(address(number), &[]);
        }
        // Read again, so it is not the oldest any more.
        recent.add(address(0), &[]);
        recent.add(address(RECENT_MAX), &[U256::from(1)]);
        let keys = keys(&recent);
        assert_eq!(keys.len(), RECENT_MAX);
        assert_eq!(keys[0], (address(0), Vec::new()));
        assert_eq!(keys[1], (address(2), Vec::new()));
        let last = (address(RECENT_MAX), vec![U256::from(1)]);
        assert_eq!(keys[RECENT_MAX - 1], last);
    }

    #[test]
    fn the_slots_of_one_account_come_together() {
        let recent = RecentKeys::default();
        let address = Address::repeat_byte(1);
        recent.add(address, &[U256::from(1)]);
        recent.add(address, &[U256::from(2)]);
        let expected = vec![U256::from(1), U256::from(2)];
        assert_eq!(keys(&recent), [(address, expected)]);
    }
}
