//! The chain that the simulated follower serves.

use super::{
    tree::{self, Id},
    *,
};

/// The served chain, the lowest block first.
#[derive(Default)]
pub(super) struct Served {
    pub(super) ids: Vec<Id>,
    pub(super) oldest: u64,
}

impl Chain for Served {
    fn head(&self) -> Point {
        let last = self.ids.len() - 1;
        (self.oldest + last as u64, tree::hash(self.ids[last]))
    }

    fn oldest(&self) -> u64 {
        self.oldest
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        let at = usize::try_from(number.checked_sub(self.oldest)?).ok()?;
        self.ids.get(at).map(|id| tree::hash(*id))
    }
}
