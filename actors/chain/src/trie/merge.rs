//! Merges what a block changed into a state that is held in part.
//!
//! Every node that a block adds lies on the path of a key that the block changed, or shows that
//! such a key is absent. So the new state is held as far as the old one was once these keys are:
//! those whose old path is held are computed, the others are proven first.
//!
//! **Invariant.** Let `H(s)` be the keys whose whole path in state `s` is held. After a complete
//! merge, `H(after)` contains `H(before)` and all keys that changed, unless something was evicted.
//! After any other, it lacks no more than what is below the nodes that could not be computed: their
//! changes are named as unmerged, or they are counted as unreported.
//! A computed node is stored only under the hash that a stored node names, so a false or missing
//! change makes `H(after)` smaller. It never changes an answer.

mod changes;
mod descent;
#[cfg(any(test, debug_assertions))]
mod invariant;
mod read_dates;

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256, keccak256, map::AddressMap};
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY, TrieAccount};

pub use changes::{AccountChange, StateChanges};

use super::{
    State, TrieError,
    error::if_held,
    node::account_of,
    subtree::{LeafUpdate, TrieUpdater},
};
use descent::{Descent, KnownLeaf};

/// An account and slots of it, to be proven at the new block.
pub type WantedProof = (Address, Vec<U256>);

/// The merge of one block's changes: from the state before the block to the one after it.
pub struct Merge {
    before: Arc<State>,
    after: Arc<State>,
    /// By keccak256 of the address.
    accounts: Vec<(B256, HashedChange)>,
    #[cfg(any(test, debug_assertions))]
    invariant: invariant::Invariant,
}

/// How a merge went.
#[derive(Debug, Default)]
pub struct Merged {
    /// What has to be proven before another attempt can succeed.
    pub unmerged: Vec<WantedProof>,
    /// Changed subtrees in which no change was reported.
    pub unreported: usize,
}

impl Merged {
    /// Whether everything that changed is held, as far as it was held before.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unmerged.is_empty() && self.unreported == 0
    }
}

/// A change with its slots by the keccak256 of their keys.
struct HashedChange {
    address: Address,
    change: AccountChange,
    /// Sorted.
    slots: Vec<(B256, SlotChange)>,
}

/// The new value of a slot.
#[derive(Clone, Copy)]
struct SlotChange {
    slot: U256,
    value: U256,
}

impl HashedChange {
    fn new(address: Address, change: &AccountChange) -> Self {
        let hashed = |(slot, value): (&U256, &U256)| {
            let (slot, value) = (*slot, *value);
            let key = keccak256(slot.to_be_bytes::<32>());
            (key, SlotChange { slot, value })
        };
        let mut slots: Vec<_> = change.storage.iter().map(hashed).collect();
        slots.sort_unstable_by_key(|(key, _)| *key);
        let change = AccountChange {
            storage: Default::default(),
            ..*change
        };
        Self {
            address,
            change,
            slots,
        }
    }

    fn all_slots(&self) -> Vec<U256> {
        self.slots.iter().map(|(_, change)| change.slot).collect()
    }
}

impl LeafUpdate for SlotChange {
    fn value(
        &self,
        before: Option<&[u8]>,
        updater: &mut TrieUpdater<'_>,
    ) -> Result<Option<Vec<u8>>, TrieError> {
        self.value.value(before, updater)
    }
}

impl LeafUpdate for &HashedChange {
    fn value(
        &self,
        before: Option<&[u8]>,
        updater: &mut TrieUpdater<'_>,
    ) -> Result<Option<Vec<u8>>, TrieError> {
        let mut account = match before {
            Some(rlp) if !self.change.is_cleared => account_of(rlp)?,
            _ => TrieAccount::default(),
        };
        let AccountChange {
            nonce,
            balance,
            credit,
            code_hash,
            ..
        } = self.change;
        account.nonce = nonce.unwrap_or(account.nonce);
        // A sum that overflows belongs to a false change, whose hash will not fit.
        account.balance = balance.unwrap_or(account.balance).wrapping_add(credit);
        account.code_hash = code_hash.unwrap_or(account.code_hash);
        let updated = updater.update_trie(account.storage_root, &self.slots);
        account.storage_root = updated.inspect_err(|_| {
            updater.failed_storage.insert(self.address);
        })?;
        // EIP-161: a block leaves no empty account that it touched.
        let is_empty =
            account.nonce == 0 && account.balance.is_zero() && account.code_hash == KECCAK_EMPTY;
        Ok((!is_empty).then(|| alloy_rlp::encode(account)))
    }
}

impl Merge {
    /// The merge of `changes`, which lead from `before` to `after`. Both are states of one store.
    #[must_use]
    pub fn new(before: Arc<State>, after: Arc<State>, changes: &StateChanges) -> Self {
        let hashed = |(address, change): (&Address, &AccountChange)| {
            (keccak256(address), HashedChange::new(*address, change))
        };
        let mut accounts: Vec<_> = changes.accounts.iter().map(hashed).collect();
        accounts.sort_unstable_by_key(|(key, _)| *key);
        Self {
            #[cfg(any(test, debug_assertions))]
            invariant: invariant::Invariant::begin(before.store()),
            before,
            after,
            accounts,
        }
    }

    /// What cannot be computed, because its old path is not held or its new value is not known, and
    /// is not held in the new state yet.
    ///
    /// # Errors
    /// [`TrieError::Malformed`].
    pub fn unheld(&self) -> Result<Vec<WantedProof>, TrieError> {
        let mut unheld = Vec::new();
        for (_, account) in &self.accounts {
            if let Some(slots) = self.unheld_slots(account)?
                && let Some(slots) = self.not_held_after(&account.address, slots)?
            {
                unheld.push((account.address, slots));
            }
        }
        Ok(unheld)
    }

    /// The slots to prove with the account; `None` if the account can be computed.
    fn unheld_slots(&self, account: &HashedChange) -> Result<Option<Vec<U256>>, TrieError> {
        let all = || Ok(Some(account.all_slots()));
        if account.change.is_unknown {
            return all();
        }
        let before = match if_held(self.before.peek_account(&account.address))? {
            None => return all(),
            Some(before) => before.filter(|_| !account.change.is_cleared),
        };
        let Some(before) = before else {
            return Ok(None);
        };
        missing_slots(&self.before, before.storage_root, account.all_slots())
    }

    /// Those of `slots` that the new state misses; `None` if it holds them and the account.
    fn not_held_after(
        &self,
        address: &Address,
        slots: Vec<U256>,
    ) -> Result<Option<Vec<U256>>, TrieError> {
        let Some(account) = if_held(self.after.peek_account(address))? else {
            return Ok(Some(slots));
        };
        let root = account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
        missing_slots(&self.after, root, slots)
    }

    /// Computes what can be computed, and stores it.
    ///
    /// # Errors
    /// [`TrieError::Malformed`]: a block hash covers a node that is none. That is a defect of the
    /// chain's nodes, and makes no later read worse.
    pub fn run(&self) -> Result<Merged, TrieError> {
        let store = self.after.store();
        let accounts: Vec<_> = self.accounts.iter().map(|(key, of)| (*key, of)).collect();
        let mut updater = TrieUpdater::new(store);
        let descent = Descent::new(&mut updater);
        let pass = descent.run(self.before.root(), self.after.root(), &accounts)?;
        let (mut unreported, mut uncomputed) = (pass.unreported, pass.uncomputed);
        let mut unmerged = AddressMap::<Vec<U256>>::default();
        for account in pass.unmerged {
            // If only the account does not fit, its storage can be computed once it is proven.
            let slots = match updater.failed_storage.contains(&account.address) {
                true => account.all_slots(),
                false => Vec::new(),
            };
            unmerged.insert(account.address, slots);
        }
        for leaf in pass.leaves {
            let change = self.change_of(&leaf.key);
            let (before, after) = storage_roots(&leaf)?;
            let slots = change.map_or(&[][..], |change| &change.slots);
            let is_cleared = change.is_some_and(|change| change.change.is_cleared);
            // A storage that was deleted first is what was written since.
            if is_cleared && updater.update_trie(EMPTY_ROOT_HASH, slots)? == after {
                continue;
            }
            let pass = Descent::new(&mut updater).run(before, after, slots)?;
            unreported += pass.unreported;
            uncomputed.extend(pass.uncomputed);
            if let Some(change) = change
                && !pass.unmerged.is_empty()
            {
                let slots = pass.unmerged.into_iter().map(|change| change.slot);
                unmerged.insert(change.address, slots.collect());
            }
        }
        store.complete(updater.into_nodes());
        read_dates::carry(store, self.before.root(), self.after.root())?;
        let merged = Merged {
            unmerged: unmerged.into_iter().collect(),
            unreported,
        };
        #[cfg(any(test, debug_assertions))]
        {
            let uncomputed = uncomputed.into_iter().collect();
            self.invariant
                .check(&self.before, &self.after, &uncomputed)?;
        }
        Ok(merged)
    }

    /// The reported keys that the new state does not hold. If the report is true, a complete merge
    /// leaves none: computed and proven keys are both held.
    #[cfg(test)]
    pub(super) fn not_held(&self) -> Result<Vec<WantedProof>, TrieError> {
        let mut missing = Vec::new();
        for (_, account) in &self.accounts {
            let slots = self.not_held_after(&account.address, account.all_slots())?;
            missing.extend(slots.map(|slots| (account.address, slots)));
        }
        Ok(missing)
    }

    fn change_of(&self, key: &B256) -> Option<&HashedChange> {
        let at = self.accounts.binary_search_by_key(key, |(key, _)| *key);
        at.ok().map(|at| &self.accounts[at].1)
    }
}

/// Those of `slots` whose path is not held below this storage root; `None` if all are.
fn missing_slots(
    state: &State,
    storage_root: B256,
    slots: Vec<U256>,
) -> Result<Option<Vec<U256>>, TrieError> {
    let mut missing = Vec::new();
    for slot in slots {
        if if_held(state.peek_slot(storage_root, slot))?.is_none() {
            missing.push(slot);
        }
    }
    Ok((!missing.is_empty()).then_some(missing))
}

/// The storage roots of an account before and after the block.
fn storage_roots(leaf: &KnownLeaf) -> Result<(B256, B256), TrieError> {
    let before = match &leaf.before {
        Some(rlp) => account_of(rlp)?.storage_root,
        None => EMPTY_ROOT_HASH,
    };
    Ok((before, account_of(&leaf.after)?.storage_root))
}
