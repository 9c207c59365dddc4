use alloy_primitives::{B256, Bytes, map::B256Map};

/// The new nodes of an update, not stored yet. Dropping them discards the update.
#[must_use = "changes are not stored until they are committed"]
pub struct Changes {
    /// The state root that the update was applied to.
    pub(super) parent: B256,
    /// The state root afterwards.
    pub(super) root: B256,
    /// The new nodes, by keccak256.
    pub(super) nodes: B256Map<Box<[u8]>>,
    /// The codes that came with the update, by keccak256.
    pub(super) codes: B256Map<Bytes>,
}

impl Changes {
    /// The state root after the update.
    #[must_use]
    pub(crate) const fn root(&self) -> B256 {
        self.root
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes")
            .field("parent", &self.parent)
            .field("root", &self.root)
            .field("nodes", &self.nodes.len())
            .field("codes", &self.codes.len())
            .finish()
    }
}
