//! Descends a trie before and after a block at once.

use alloy_primitives::B256;
use alloy_trie::nodes::RlpNode;
use nybbles::Nibbles;

use crate::trie::{
    TrieError,
    error::if_held,
    node::KEY_NIBBLES,
    subtree::{DecodedNode, LeafUpdate, Subtree, TrieUpdater, nibble_at},
};

/// A leaf of the new trie that was known already, on a path that has changed.
pub(super) struct KnownLeaf {
    /// Its key.
    pub(super) key: B256,
    /// RLP of the value that the key had; `None` if it had none.
    pub(super) before: Option<Vec<u8>>,
    /// RLP of its value.
    pub(super) after: Vec<u8>,
}

/// What a descent found.
pub(super) struct Descended<L> {
    pub(super) leaves: Vec<KnownLeaf>,
    /// The updates of subtrees that could not be computed.
    pub(super) unmerged: Vec<L>,
    /// Changed subtrees without an update.
    pub(super) unreported: usize,
    /// The new nodes that could not be computed.
    pub(super) uncomputed: Vec<B256>,
}

/// Where the new nodes are known, goes on to their children. Where one is only named, computes it
/// from the old subtree and the updates below it. The updater keeps the computed nodes.
pub(super) struct Descent<'d, 'u, L> {
    updater: &'d mut TrieUpdater<'u>,
    found: Descended<L>,
}

impl<'d, 'u, L: LeafUpdate + Copy> Descent<'d, 'u, L> {
    pub(super) fn new(updater: &'d mut TrieUpdater<'u>) -> Self {
        Self {
            updater,
            found: Descended {
                leaves: Vec::new(),
                unmerged: Vec::new(),
                unreported: 0,
                uncomputed: Vec::new(),
            },
        }
    }

    /// Descends from the roots of a trie. Updates are sorted by key.
    pub(super) fn run(
        mut self,
        before: B256,
        after: B256,
        updates: &[(B256, L)],
    ) -> Result<Descended<L>, TrieError> {
        let (before, after) = (Subtree::of_root(before), Subtree::of_root(after));
        self.descend(before, after, Nibbles::default(), updates)?;
        Ok(self.found)
    }

    /// Descends into what is below `prefix`, which all updates share.
    fn descend(
        &mut self,
        before: Subtree,
        after: Subtree,
        prefix: Nibbles,
        updates: &[(B256, L)],
    ) -> Result<(), TrieError> {
        let depth = prefix.len();
        match after {
            Subtree::Empty => Ok(()),
            Subtree::Untouched(node) | Subtree::Branch(node) => {
                if let Subtree::Untouched(same) | Subtree::Branch(same) = &before
                    && *same == node
                {
                    return Ok(());
                }
                match if_held(self.updater.load(&node, depth))? {
                    None => self.compute(before, &node, depth, updates),
                    Some(DecodedNode::Short(after)) => self.descend(before, after, prefix, updates),
                    Some(DecodedNode::Branch(after)) => {
                        self.descend_branch(before, after, prefix, updates)
                    }
                }
            }
            Subtree::Extension { path, branch } => {
                let Some(before) = self.below(before, depth, &path)? else {
                    return Ok(());
                };
                let prefix = prefix.join(&path);
                let updates = of_prefix(updates, &prefix);
                self.descend(before, Subtree::Branch(branch), prefix, updates)
            }
            Subtree::Leaf { path, value } => {
                let Some(before) = self.below(before, depth, &path)? else {
                    return Ok(());
                };
                let Some(before) = self.updater.open(before, KEY_NIBBLES)? else {
                    return Ok(());
                };
                let before = before.into_value();
                self.found.leaves.push(KnownLeaf {
                    key: B256::from_slice(&prefix.join(&path).pack()),
                    before,
                    after: value,
                });
                Ok(())
            }
        }
    }

    fn descend_branch(
        &mut self,
        before: Subtree,
        after: [Subtree; 16],
        prefix: Nibbles,
        mut updates: &[(B256, L)],
    ) -> Result<(), TrieError> {
        // If the old subtree is not held, nothing that was held can be lost below.
        let Some(before) = self.updater.split(before, prefix.len())? else {
            return Ok(());
        };
        for (nibble, (before, after)) in (0..).zip(before.into_iter().zip(after)) {
            let count = updates.partition_point(|(key, _)| nibble_at(key, prefix.len()) == nibble);
            let (here, rest) = updates.split_at(count);
            updates = rest;
            let mut prefix = prefix;
            prefix.push(nibble);
            self.descend(before, after, prefix, here)?;
        }
        Ok(())
    }

    /// Computes a subtree of which only the hash is known.
    fn compute(
        &mut self,
        before: Subtree,
        named: &RlpNode,
        depth: usize,
        updates: &[(B256, L)],
    ) -> Result<(), TrieError> {
        // Without an update, a leaf or an extension may still have got another path.
        let is_held = match &before {
            Subtree::Untouched(node) if updates.is_empty() => {
                if_held(self.updater.load(node, depth))?.is_some()
            }
            _ => true,
        };
        let computed = if_held(self.updater.apply(before, depth, updates))?;
        let is_named = computed.is_some_and(|subtree| match depth {
            // A root is named by its hash however short it is.
            0 => RlpNode::word_rlp(&self.updater.encode_root(&subtree)) == *named,
            _ => self.updater.encode_subtree(&subtree) == *named,
        });
        if is_named {
            return Ok(());
        }
        if is_held {
            self.found.uncomputed.extend(named.as_hash());
        }
        if updates.is_empty() {
            // Nothing is lost if the old subtree is not held either.
            self.found.unreported += usize::from(is_held);
        }
        let updates = updates.iter().map(|(_, update)| *update);
        self.found.unmerged.extend(updates);
        Ok(())
    }

    /// The part of a subtree below `path`; `None` if a node on the way is not held.
    fn below(
        &self,
        mut subtree: Subtree,
        depth: usize,
        path: &Nibbles,
    ) -> Result<Option<Subtree>, TrieError> {
        for (step, nibble) in path.iter().enumerate() {
            let Some(mut children) = self.updater.split(subtree, depth + step)? else {
                return Ok(None);
            };
            subtree = std::mem::take(&mut children[usize::from(nibble)]);
        }
        Ok(Some(subtree))
    }
}

/// The updates whose keys begin with `prefix`.
fn of_prefix<'u, L>(updates: &'u [(B256, L)], prefix: &Nibbles) -> &'u [(B256, L)] {
    let begins = |key: &B256| Nibbles::unpack(key).slice(..prefix.len());
    let from = updates.partition_point(|(key, _)| begins(key) < *prefix);
    let count = updates[from..].partition_point(|(key, _)| begins(key) == *prefix);
    &updates[from..from + count]
}
