use alloy_primitives::B256;

use super::{State, StateUpdate, TrieError, subtree::TrieUpdater};

/// A state that is changed step by step, and never stored.
pub(crate) struct UnstoredState<'a> {
    updater: TrieUpdater<'a>,
    root: B256,
}

impl<'a> UnstoredState<'a> {
    /// Begins with a stored state, which has to be held as long as this.
    pub(crate) fn after(state: &'a State) -> Self {
        Self {
            updater: TrieUpdater::over_new_nodes(state.store()),
            root: state.root(),
        }
    }

    /// Applies an update, and returns the new root.
    ///
    /// # Errors
    /// As [`State::update`].
    pub(crate) fn update(&mut self, update: &StateUpdate) -> Result<B256, TrieError> {
        self.root = update.apply_with(&mut self.updater, self.root)?;
        Ok(self.root)
    }
}
