//! The invariant of a merge, checked by a walk through both states.

use alloy_primitives::{B256, map::B256Set};

use crate::trie::{
    NodeStore, State, TrieError,
    node::{KEY_NIBBLES, account_of},
    subtree::{Subtree, TrieUpdater},
};

/// What a store held when a merge began. Reads and proofs add to it meanwhile.
pub(super) struct Invariant {
    held: B256Set,
    evicted: u64,
}

/// The values of a key, before and after.
type Values = (Option<Vec<u8>>, Vec<u8>);

impl Invariant {
    pub(super) fn begin(store: &NodeStore) -> Self {
        let stored = store.nodes.iter().filter(|entry| entry.rlp.is_some());
        Self {
            held: stored.map(|entry| *entry.key()).collect(),
            evicted: store.evicted(),
        }
    }

    /// Asserts that what was held of `before` is held of `after`, and all that is new, except for
    /// what is below the nodes that the merge could not compute.
    pub(super) fn check(
        &self,
        before: &State,
        after: &State,
        uncomputed: &B256Set,
    ) -> Result<(), TrieError> {
        let mut walk = Walk {
            held: &self.held,
            uncomputed,
            updater: TrieUpdater::new(after.store()),
            lost_at: None,
        };
        walk.check_accounts(before.root(), after.root())?;
        assert!(
            walk.lost_at.is_none() || self.has_evicted(after.store()),
            "a node was held before the merge and is not held after it, at depth {:?}",
            walk.lost_at
        );
        Ok(())
    }

    /// Whether the store has evicted anything since the merge began. An eviction is counted after
    /// its node is gone, so this waits for the one that is under way.
    fn has_evicted(&self, store: &NodeStore) -> bool {
        let _writer = store.writer.lock();
        store.evicted() != self.evicted
    }
}

struct Walk<'w> {
    held: &'w B256Set,
    uncomputed: &'w B256Set,
    updater: TrieUpdater<'w>,
    /// The depth of a node that is not held after the merge, and should be.
    lost_at: Option<usize>,
}

impl Walk<'_> {
    fn check_accounts(&mut self, before: B256, after: B256) -> Result<(), TrieError> {
        let roots = (Subtree::of_root(before), Subtree::of_root(after));
        let mut accounts = Vec::new();
        self.check_below(roots, 0, &mut accounts)?;
        for (before, after) in accounts {
            let storage = |rlp: &[u8]| account_of(rlp).map(|of| Subtree::of_root(of.storage_root));
            let before = before.map_or(Ok(Subtree::Empty), |rlp| storage(&rlp))?;
            self.check_below((before, storage(&after)?), 0, &mut Vec::new())?;
        }
        Ok(())
    }

    /// Checks what is below, and collects the values of the keys whose paths have changed.
    fn check_below(
        &mut self,
        (before, after): (Subtree, Subtree),
        depth: usize,
        values: &mut Vec<Values>,
    ) -> Result<(), TrieError> {
        let (hash, named) = (before.hash(), after.hash());
        let is_same = hash.is_some() && hash == named;
        if is_same || hash.is_some_and(|hash| !self.held.contains(&hash)) {
            return Ok(());
        }
        // A read may have proven the node since: that says nothing of what is below.
        if named.is_some_and(|named| self.uncomputed.contains(&named)) {
            return Ok(());
        }
        let before = self.updater.open(before, depth)?;
        let after = self.updater.open(after, depth)?;
        match (before, after) {
            (None, _) => {}
            (Some(_), None) => self.lost_at = Some(depth),
            (Some(before), Some(after)) if depth == KEY_NIBBLES => {
                let before = before.into_value();
                values.extend(after.into_value().map(|after| (before, after)));
            }
            (Some(before), Some(after)) => {
                for (before, after) in before.split().into_iter().zip(after.split()) {
                    if !matches!(after, Subtree::Empty) {
                        self.check_below((before, after), depth + 1, values)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::sync::Arc;

    use alloy_primitives::{Address, U256};
    use alloy_trie::KECCAK_EMPTY;

    use super::*;
    use crate::trie::{AccountInfo, AccountUpdate, StateUpdate};

    /// Gives these accounts so much.
    fn balances(accounts: &[Address], wei: u64) -> StateUpdate {
        let update = AccountUpdate {
            info: Some(AccountInfo {
                nonce: 0,
                balance: U256::from(wei),
                code_hash: KECCAK_EMPTY,
            }),
            ..AccountUpdate::default()
        };
        let accounts = accounts.iter().map(|address| (*address, update.clone()));
        StateUpdate {
            accounts: accounts.collect(),
            ..StateUpdate::default()
        }
    }

    /// A client reads an account of the new state after the merge could not compute its root.
    #[test]
    fn a_read_beside_a_merge_that_failed_breaks_nothing() {
        let accounts: Vec<Address> = (1..=200).map(Address::with_last_byte).collect();
        let apply = |state: &Arc<State>, update| state.commit(state.update(&update).unwrap());
        let before = apply(&State::empty(&NodeStore::new()), balances(&accounts, 1));
        let after = apply(&before, balances(&accounts, 2));

        let store = NodeStore::bounded(1 << 30);
        let held = [&before, &after].map(|state| State::hold(&store, state.root()));
        for address in &accounts {
            store.insert_proof(&before.prove(address, &[]).unwrap());
        }
        let invariant = Invariant::begin(&store);
        store.insert_proof(&after.prove(&accounts[0], &[]).unwrap());
        let uncomputed = B256Set::from_iter([after.root()]);
        let [before, after] = &held;
        invariant.check(before, after, &uncomputed).unwrap();
    }
}
