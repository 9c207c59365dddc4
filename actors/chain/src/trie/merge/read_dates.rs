//! What clients read stays known as read when a block changes the nodes on its path.

use alloy_primitives::B256;

use crate::trie::{
    NodeStore, TrieError,
    node::{KEY_NIBBLES, account_of},
    subtree::{DecodedNode, Subtree, TrieUpdater},
};

/// Gives each node of the new state that nobody has read the date of the node that was in its
/// place.
pub(super) fn carry(store: &NodeStore, before: B256, after: B256) -> Result<(), TrieError> {
    let carrier = Carrier {
        store,
        updater: TrieUpdater::new(store),
    };
    let (before, after) = (Subtree::of_root(before), Subtree::of_root(after));
    carrier.carry(before, after, 0, None)
}

struct Carrier<'s> {
    store: &'s NodeStore,
    updater: TrieUpdater<'s>,
}

impl Carrier<'_> {
    /// Walks both tries at once, down to where nobody has read. `date` is that of the node above.
    fn carry(
        &self,
        before: Subtree,
        after: Subtree,
        depth: usize,
        date: Option<u32>,
    ) -> Result<(), TrieError> {
        let date = match before.hash() {
            Some(hash) if Some(hash) == after.hash() => return Ok(()),
            Some(hash) => self.store.read_date(&hash),
            None => date,
        };
        let Some(date) = date else {
            return Ok(());
        };
        if let Some(hash) = after.hash() {
            self.store.carry_read_date(&hash, date);
        }
        let before = self.updater.open(before, depth)?;
        let after = self.updater.open(after, depth)?;
        let (Some(before), Some(after)) = (before, after) else {
            return Ok(());
        };
        if let (DecodedNode::Short(before), DecodedNode::Short(after)) = (&before, &after)
            && let Some([before, after]) = storage_roots(before, after)?
        {
            let (before, after) = (Subtree::of_root(before), Subtree::of_root(after));
            return self.carry(before, after, 0, Some(date));
        }
        if depth == KEY_NIBBLES {
            return Ok(());
        }
        for (before, after) in before.split().into_iter().zip(after.split()) {
            if !matches!(before, Subtree::Empty) && !matches!(after, Subtree::Empty) {
                self.carry(before, after, depth + 1, Some(date))?;
            }
        }
        Ok(())
    }
}

/// The storage roots of an account before and after; `None` unless both are leaves of one account.
fn storage_roots(before: &Subtree, after: &Subtree) -> Result<Option<[B256; 2]>, TrieError> {
    let (
        Subtree::Leaf { path, value },
        Subtree::Leaf {
            path: after_path,
            value: after_value,
        },
    ) = (before, after)
    else {
        return Ok(None);
    };
    // The value of a slot is a string, that of an account a list.
    let is_list = |value: &[u8]| value.first().is_some_and(|code| *code >= 0xc0);
    if path != after_path || !is_list(value) || !is_list(after_value) {
        return Ok(None);
    }
    let root = |value: &[u8]| account_of(value).map(|account| account.storage_root);
    Ok(Some([root(value)?, root(after_value)?]))
}
