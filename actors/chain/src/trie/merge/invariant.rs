//! The invariant of a complete merge, checked by a walk through both states.

use alloy_primitives::{B256, map::B256Set};

use super::descent::{hash_of, root};
use crate::trie::{
    NodeStore, State, TrieError,
    node::{KEY_NIBBLES, account_of},
    subtree::{DecodedNode, Subtree, TrieUpdater},
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

    /// Asserts that what was held of `before` is held of `after`, and all that is new.
    pub(super) fn check(&self, before: &State, after: &State) -> Result<(), TrieError> {
        let walk = Walk {
            held: &self.held,
            updater: TrieUpdater::new(after.store()),
        };
        let outcome = walk.check_accounts(before.root(), after.root())?;
        // What was evicted meanwhile may be what is lost.
        assert!(
            outcome.is_ok() || after.store().evicted() != self.evicted,
            "{outcome:?}"
        );
        Ok(())
    }
}

struct Walk<'w> {
    held: &'w B256Set,
    updater: TrieUpdater<'w>,
}

/// A node that is not held after the merge, and should be.
#[derive(Debug)]
struct Lost {
    #[expect(dead_code, reason = "for the message")]
    depth: usize,
}

impl Walk<'_> {
    fn check_accounts(&self, before: B256, after: B256) -> Result<Result<(), Lost>, TrieError> {
        let mut accounts = Vec::new();
        if let Err(lost) = self.check_below(root(before), root(after), 0, &mut accounts)? {
            return Ok(Err(lost));
        }
        for (before, after) in accounts {
            let storage_root = |rlp: &[u8]| account_of(rlp).map(|of| root(of.storage_root));
            let before = before.map_or(Ok(Subtree::Empty), |rlp| storage_root(&rlp))?;
            let after = storage_root(&after)?;
            if let Err(lost) = self.check_below(before, after, 0, &mut Vec::new())? {
                return Ok(Err(lost));
            }
        }
        Ok(Ok(()))
    }

    fn check_below(
        &self,
        before: Subtree,
        after: Subtree,
        depth: usize,
        values: &mut Vec<Values>,
    ) -> Result<Result<(), Lost>, TrieError> {
        let hash = hash_of(&before);
        if hash.is_some() && hash == hash_of(&after) {
            return Ok(Ok(()));
        }
        if hash.is_some_and(|hash| !self.held.contains(&hash)) {
            return Ok(Ok(()));
        }
        if depth == KEY_NIBBLES {
            let before = self.value(before)?.flatten();
            values.extend(self.value(after)?.flatten().map(|after| (before, after)));
            return Ok(Ok(()));
        }
        let Some(before) = self.updater.split(before, depth)? else {
            return Ok(Ok(()));
        };
        let Some(after) = self.updater.split(after, depth)? else {
            return Ok(Err(Lost { depth }));
        };
        for (before, after) in before.into_iter().zip(after) {
            if !matches!(after, Subtree::Empty)
                && let Err(lost) = self.check_below(before, after, depth + 1, values)?
            {
                return Ok(Err(lost));
            }
        }
        Ok(Ok(()))
    }

    /// The value at the end of a key; `None` within if there is none, and outside if it is not
    /// held.
    fn value(&self, subtree: Subtree) -> Result<Option<Option<Vec<u8>>>, TrieError> {
        Ok(match subtree {
            Subtree::Empty => Some(None),
            Subtree::Leaf { value, .. } => Some(Some(value)),
            Subtree::Untouched(node) => match self.updater.load(&node, KEY_NIBBLES) {
                Ok(DecodedNode::Short(Subtree::Leaf { value, .. })) => Some(Some(value)),
                Ok(_) | Err(TrieError::MissingNode { .. }) => None,
                Err(error) => return Err(error),
            },
            Subtree::Extension { .. } | Subtree::Branch(_) => None,
        })
    }
}
