use std::collections::hash_map::Entry;

use alloy_primitives::{B256, map::B256Map};
use alloy_trie::EMPTY_ROOT_HASH;

/// The handles that hold roots.
#[derive(Default)]
pub(super) struct Handles {
    /// Number of live [`State`](super::State) handles by root.
    live: B256Map<u32>,
    /// Roots of dropped handles whose reference is not released yet, one entry per handle.
    retired: Vec<B256>,
}

impl Handles {
    /// Registers a handle.
    pub(super) fn add(&mut self, root: B256) {
        *self.live.entry(root).or_default() += 1;
    }

    /// Removes a handle. Nothing is to be released for the empty state, which has no nodes.
    pub(super) fn retire(&mut self, root: B256) {
        if let Entry::Occupied(mut live) = self.live.entry(root) {
            *live.get_mut() -= 1;
            if *live.get() == 0 {
                live.remove();
            }
        }
        if root != EMPTY_ROOT_HASH {
            self.retired.push(root);
        }
    }

    /// Roots of the live handles, one for each handle.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn live(&self) -> impl Iterator<Item = B256> {
        let repeat = |(root, count): (&B256, &u32)| std::iter::repeat_n(*root, *count as usize);
        self.live.iter().flat_map(repeat)
    }

    /// Roots whose reference is to be released.
    pub(super) fn retired(&self) -> &[B256] {
        &self.retired
    }

    /// The same, once: the caller releases them.
    pub(super) fn take_retired(&mut self) -> Vec<B256> {
        std::mem::take(&mut self.retired)
    }
}
