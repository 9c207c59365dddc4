use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::Decodable;
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use revm::bytecode::Bytecode;

use super::{
    AccountProof, Changes, NodeStore, StateUpdate, StorageProof, TrieError,
    node_store::Peek,
    walker::{NodeSource, walk},
};

/// A handle that keeps one state root readable. Dropping the last handle releases the nodes that
/// only it reached.
///
/// The writer does the release, with its next [`State::commit`] or [`NodeStore::release_retired`],
/// so that a handle can be dropped on any thread at the cost of a push.
pub struct State {
    store: Arc<NodeStore>,
    root: B256,
}

impl State {
    /// The empty state over `store`.
    #[must_use]
    pub fn empty(store: &Arc<NodeStore>) -> Arc<Self> {
        Arc::new(Self {
            root: store.hold_empty(),
            store: Arc::clone(store),
        })
    }

    /// A handle to a state that need not be stored yet. Reads report missing nodes and codes until
    /// [`NodeStore::insert_verified`] and [`NodeStore::insert_code`] supply them.
    #[must_use]
    pub fn hold(store: &Arc<NodeStore>, root: B256) -> Arc<Self> {
        store.hold(root);
        Arc::new(Self {
            store: Arc::clone(store),
            root,
        })
    }

    /// The state root.
    #[must_use]
    pub const fn root(&self) -> B256 {
        self.root
    }

    /// The store that the state is read from.
    #[must_use]
    pub const fn store(&self) -> &Arc<NodeStore> {
        &self.store
    }

    /// The account at `address`.
    ///
    /// # Errors
    /// [`TrieError::MissingNode`] or [`TrieError::Malformed`] for a node of the path.
    pub fn account(&self, address: &Address) -> Result<Option<TrieAccount>, TrieError> {
        self.walk_account(&*self.store, address, |_| {})
    }

    /// The value of a slot; zero for an absent account or slot.
    ///
    /// # Errors
    /// As [`Self::account`], for both tries.
    pub fn storage(&self, address: &Address, slot: U256) -> Result<U256, TrieError> {
        match self.account(address)? {
            Some(account) => self.slot(account.storage_root, slot),
            None => Ok(U256::ZERO),
        }
    }

    /// The value of a slot of the account with this storage root; zero if it is absent.
    ///
    /// # Errors
    /// As [`Self::account`].
    pub(crate) fn slot(&self, storage_root: B256, slot: U256) -> Result<U256, TrieError> {
        self.walk_storage(&*self.store, storage_root, slot, |_| {})
    }

    /// The code with this hash; empty for the hash of empty code.
    ///
    /// # Errors
    /// [`TrieError::MissingCode`].
    pub fn code(&self, hash: &B256) -> Result<Bytes, TrieError> {
        Ok(self.store.bytecode(hash)?.original_bytes())
    }

    /// The code with this hash, as the EVM runs it.
    ///
    /// # Errors
    /// [`TrieError::MissingCode`].
    pub(crate) fn bytecode(&self, hash: &B256) -> Result<Bytecode, TrieError> {
        self.store.bytecode(hash)
    }

    /// The proof of an account and of some of its slots (EIP-1186).
    ///
    /// An exclusion proof has the nodes down to the one that shows the absence; an empty trie has
    /// none.
    ///
    /// # Errors
    /// As [`Self::storage`].
    pub fn prove(&self, address: &Address, slots: &[U256]) -> Result<AccountProof, TrieError> {
        let mut nodes = Vec::new();
        let push = |rlp: &[u8]| nodes.push(Bytes::copy_from_slice(rlp));
        let account = self.walk_account(&*self.store, address, push)?;
        let storage_root = account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
        let storage = slots
            .iter()
            .map(|slot| self.prove_slot(storage_root, *slot))
            .collect::<Result<_, TrieError>>()?;
        Ok(AccountProof {
            account,
            nodes,
            storage,
        })
    }

    /// The proof of a slot of the account with this storage root.
    ///
    /// # Errors
    /// As [`Self::storage`].
    pub(crate) fn prove_slot(
        &self,
        storage_root: B256,
        slot: U256,
    ) -> Result<StorageProof, TrieError> {
        let mut nodes = Vec::new();
        let push = |rlp: &[u8]| nodes.push(Bytes::copy_from_slice(rlp));
        let value = self.walk_storage(&*self.store, storage_root, slot, push)?;
        Ok(StorageProof { value, nodes })
    }

    /// Computes the state after `update`, without storing it.
    ///
    /// # Errors
    /// As [`Self::storage`], for the changed items and for the sibling that replaces a branch after
    /// a deletion.
    pub fn update(&self, update: &StateUpdate) -> Result<Changes, TrieError> {
        update.apply(&self.store, self.root)
    }

    /// Stores the changes and returns a handle to the new state.
    ///
    /// First releases what dropped handles left behind, so that a moving window holds only what its
    /// states reach.
    ///
    /// # Panics
    ///
    /// If the changes were computed from another state: they reference nodes that only that state
    /// keeps.
    #[must_use]
    pub fn commit(&self, changes: Changes) -> Arc<Self> {
        assert_eq!(
            changes.parent, self.root,
            "changes are committed on the state that they change"
        );
        Arc::new(Self {
            root: self.store.commit(changes),
            store: Arc::clone(&self.store),
        })
    }

    /// The account at `address`, read for a merge: that is no client's read, so eviction does not
    /// hear of it.
    pub(super) fn peek_account(&self, address: &Address) -> Result<Option<TrieAccount>, TrieError> {
        self.walk_account(&Peek(&self.store), address, |_| {})
    }

    /// A slot of the account with this storage root, read for a merge; zero if it is absent.
    pub(super) fn peek_slot(&self, storage_root: B256, slot: U256) -> Result<U256, TrieError> {
        self.walk_storage(&Peek(&self.store), storage_root, slot, |_| {})
    }

    /// The value of a slot, read for a merge; zero for an absent account or slot.
    pub(crate) fn peek_storage(&self, address: &Address, slot: U256) -> Result<U256, TrieError> {
        match self.peek_account(address)? {
            Some(account) => self.peek_slot(account.storage_root, slot),
            None => Ok(U256::ZERO),
        }
    }

    /// Walks over `nodes` to an account; `visit` sees the nodes of the path, root first.
    fn walk_account(
        &self,
        nodes: &impl NodeSource<Error = TrieError>,
        address: &Address,
        visit: impl FnMut(&[u8]),
    ) -> Result<Option<TrieAccount>, TrieError> {
        let read = |mut value: &[u8]| TrieAccount::decode(&mut value);
        walk(nodes, self.root, &keccak256(address), visit, read)
    }

    /// Walks over `nodes` to a slot of the account with this storage root; zero if it is absent.
    fn walk_storage(
        &self,
        nodes: &impl NodeSource<Error = TrieError>,
        storage_root: B256,
        slot: U256,
        visit: impl FnMut(&[u8]),
    ) -> Result<U256, TrieError> {
        let read = |mut value: &[u8]| U256::decode(&mut value);
        let key = keccak256(slot.to_be_bytes::<32>());
        Ok(walk(nodes, storage_root, &key, visit, read)?.unwrap_or_default())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.store.retire(self.root);
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}
