//! What a copy of a store outside of memory needs to follow it.

use alloy_primitives::{B256, Bytes, map::B256Set};

use super::NodeStore;

impl NodeStore {
    /// Takes the hashes of nodes and codes that were stored or dropped since the last call. It is
    /// empty unless the store was made by [`Self::recorded`].
    #[must_use]
    pub fn take_changed(&self) -> B256Set {
        let changed = self.changed.as_ref();
        changed.map_or_else(B256Set::default, |changed| changed.take())
    }

    /// The bytes of a node or code, if it is stored. That is no client's read.
    #[must_use]
    pub fn content(&self, hash: &B256) -> Option<Bytes> {
        let node = self.nodes.get(hash);
        let rlp = node.as_deref().and_then(|entry| entry.rlp.as_deref());
        if let Some(rlp) = rlp {
            return Some(Bytes::copy_from_slice(rlp));
        }
        let code = self.codes.get(hash);
        let code = code.as_deref().and_then(|entry| entry.code.as_ref());
        code.map(|code| code.original_bytes())
    }

    /// Records all that is stored, for a copy that begins empty.
    pub fn record_all(&self) {
        let nodes = self.nodes.iter().filter(|entry| entry.rlp.is_some());
        nodes.for_each(|entry| self.record_change(*entry.key()));
        let codes = self.codes.iter().filter(|entry| entry.code.is_some());
        codes.for_each(|entry| self.record_change(*entry.key()));
    }

    pub(super) fn record_change(&self, hash: B256) {
        if let Some(changed) = &self.changed {
            changed.record(hash);
        }
    }
}
