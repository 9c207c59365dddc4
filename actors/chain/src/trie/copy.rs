//! What copies of a store outside of memory need to follow it.

use alloy_primitives::{B256, Bytes, map::B256Set};

use super::{NodeStore, changed::Changed};

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

    /// Records from now on what is stored, for [`Self::take_gained`].
    pub fn record_gained(&self) {
        self.gained.get_or_init(Changed::default);
    }

    /// Takes the hashes of nodes and codes that were stored since the last call; without those that
    /// were loaded from a copy ([`State::load`](super::State::load)). It is empty unless
    /// [`Self::record_gained`] was called.
    #[must_use]
    pub fn take_gained(&self) -> B256Set {
        let gained = self.gained.get();
        gained.map_or_else(B256Set::default, Changed::take)
    }

    /// Notes that an item was loaded from a copy: others have it.
    pub(super) fn forget_gained(&self, hash: &B256) {
        if let Some(gained) = self.gained.get() {
            gained.forget(hash);
        }
    }

    pub(super) fn record_stored(&self, hash: B256) {
        self.record_change(hash);
        if let Some(gained) = self.gained.get() {
            gained.record(hash);
        }
    }

    pub(super) fn record_change(&self, hash: B256) {
        if let Some(changed) = &self.changed {
            changed.record(hash);
        }
    }
}
