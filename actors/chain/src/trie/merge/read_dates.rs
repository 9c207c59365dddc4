//! What clients read stays known as read when a block changes the nodes on its path.

use alloy_primitives::B256;

use super::descent::{hash_of, root};
use crate::trie::{
    NodeStore, TrieError,
    error::if_held,
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
    carrier.carry(root(before), root(after), 0, None)
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
        let date = match hash_of(&before) {
            Some(hash) if Some(hash) == hash_of(&after) => return Ok(()),
            Some(hash) => self.store.read_date(&hash),
            None => date,
        };
        let Some(date) = date else {
            return Ok(());
        };
        if let Some(hash) = hash_of(&after) {
            self.store.carry_read_date(&hash, date);
        }
        let (Some(before), Some(after)) = (self.open(before, depth)?, self.open(after, depth)?)
        else {
            return Ok(());
        };
        if let (Opened::Short(before), Opened::Short(after)) = (&before, &after)
            && let Some([before, after]) = storage_roots(before, after)?
        {
            return self.carry(root(before), root(after), 0, Some(date));
        }
        if depth == KEY_NIBBLES {
            return Ok(());
        }
        let parts = |opened| match opened {
            Opened::Branch(parts) => Ok(Some(*parts)),
            Opened::Short(subtree) => self.updater.split(subtree, depth),
        };
        if let (Some(before), Some(after)) = (parts(before)?, parts(after)?) {
            for (before, after) in before.into_iter().zip(after) {
                if !matches!(before, Subtree::Empty) && !matches!(after, Subtree::Empty) {
                    self.carry(before, after, depth + 1, Some(date))?;
                }
            }
        }
        Ok(())
    }

    /// A subtree with its node decoded; `None` if that is missing.
    fn open(&self, subtree: Subtree, depth: usize) -> Result<Option<Opened>, TrieError> {
        Ok(match subtree {
            Subtree::Untouched(node) | Subtree::Branch(node) => {
                if_held(self.updater.load(&node, depth))?.map(|node| match node {
                    DecodedNode::Short(subtree) => Opened::Short(subtree),
                    DecodedNode::Branch(parts) => Opened::Branch(Box::new(parts)),
                })
            }
            subtree => Some(Opened::Short(subtree)),
        })
    }
}

/// A decoded node.
enum Opened {
    Short(Subtree),
    Branch(Box<[Subtree; 16]>),
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
