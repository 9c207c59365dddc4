//! Nodes and codes that are loaded as they are needed, from a copy that need not be trusted.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use super::{State, TrieError, node_store::Use};

/// Nodes that one item of a state may need: the nibbles of a key, and the account's code.
const LOADS_MAX: usize = 64 + 1;

impl State {
    /// Stores what an account and these slots lack, and the account's code if `with_code`, as far
    /// as `source` has it: the bytes with this keccak256, or `None`. Bytes that have another hash
    /// count as `None`. Returns whether all of it is held now. If a part is missing, the others are
    /// stored all the same.
    ///
    /// A state that is held in part names what it lacks, so only that is asked for.
    pub fn load(
        &self,
        address: &Address,
        slots: &[U256],
        with_code: bool,
        mut source: impl FnMut(&B256) -> Option<Bytes>,
    ) -> bool {
        let Some(account) = self.load_each(&mut source, |state| state.account(address)) else {
            return false;
        };
        let Some(account) = account else {
            return true;
        };
        let storage_root = account.storage_root;
        let mut is_held = true;
        for slot in slots {
            let value = self.load_each(&mut source, |state| state.slot(storage_root, *slot));
            is_held &= value.is_some();
        }
        if with_code {
            let code = self.load_each(&mut source, |state| state.bytecode(&account.code_hash));
            is_held &= code.is_some();
        }
        is_held
    }

    /// Reads again and again, each time with what was missing before. `None`: it cannot be read.
    fn load_each<T>(
        &self,
        source: &mut impl FnMut(&B256) -> Option<Bytes>,
        read: impl Fn(&Self) -> Result<T, TrieError>,
    ) -> Option<T> {
        for _ in 0..LOADS_MAX {
            let missing = match read(self) {
                Ok(value) => return Some(value),
                Err(error) => error,
            };
            let (TrieError::MissingNode { hash } | TrieError::MissingCode { hash }) = missing
            else {
                return None;
            };
            let bytes = source(&hash).filter(|bytes| keccak256(bytes) == hash)?;
            match missing {
                TrieError::MissingNode { .. } => {
                    let node = (hash, Box::from(bytes.as_ref()));
                    let nodes = [node].into_iter().collect();
                    self.store().insert(vec![hash], nodes, Use::Read);
                }
                _ => {
                    self.store().insert_code(bytes);
                }
            }
            self.store().forget_gained(&hash);
        }
        None
    }
}
