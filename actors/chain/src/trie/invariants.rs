use std::sync::atomic::Ordering;

use alloy_primitives::{B256, keccak256, map::HashMap};
use revm::bytecode::Bytecode;

use super::{
    NodeStore,
    code::bytes_of_code,
    node::{Reference, push_references},
    node_store::push_stored_references,
};

/// A difference between what a store holds and what it should hold.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvariantError {
    /// An item that a held root reaches has no entry, not even one without bytes.
    #[error("{item} is reachable but has no entry")]
    Missing {
        /// The node or code.
        item: Reference,
    },
    /// An item has an entry, but no held root reaches it.
    #[error("{item} is stored but not reachable")]
    Unreachable {
        /// The node or code.
        item: Reference,
    },
    /// The reference count of an item is wrong.
    #[error("{item} counts {stored} references, expected {expected}")]
    References {
        /// The node or code.
        item: Reference,
        /// The stored reference count.
        stored: u32,
        /// The recounted reference count.
        expected: u32,
    },
    /// The bytes of an item do not have its hash.
    #[error("{item} holds bytes with keccak256 {actual}")]
    Content {
        /// The node or code.
        item: Reference,
        /// keccak256 of the stored bytes.
        actual: B256,
    },
    /// A node cannot be decoded.
    #[error("{item} is malformed: {error}")]
    Malformed {
        /// The node.
        item: Reference,
        /// The decoder's error.
        error: alloy_rlp::Error,
    },
    /// The statistics state another number of entries.
    #[error("there are {stored} entries, the statistics say {stated}")]
    Entries {
        /// Entries of both maps.
        stored: usize,
        /// The number by the statistics.
        stated: usize,
    },
    /// The statistics state another size.
    #[error("{stored} bytes are stored, the statistics say {stated}")]
    Bytes {
        /// Sum over the stored nodes and codes.
        stored: usize,
        /// The size by the statistics.
        stated: usize,
    },
    /// The statistics state another number of values.
    #[error("{stored} values are stored, the statistics say {stated}")]
    Values {
        /// Values in the stored nodes.
        stored: usize,
        /// The number by the statistics.
        stated: usize,
    },
}

impl NodeStore {
    /// Recounts what `held_roots` (one entry per handle) reach, and compares it with the stored
    /// nodes, codes, reference counts, hashes and sizes. Roots that wait for their release count as
    /// held.
    ///
    /// [`NodeStore::held_roots`] gives the roots of the live handles. This check is for tests: its
    /// time and memory grow with the whole store, and it blocks the writer.
    ///
    /// # Errors
    /// The first violation found, in the order of the hash maps.
    pub fn check_invariants(
        &self,
        held_roots: impl IntoIterator<Item = B256>,
    ) -> Result<(), InvariantError> {
        let _writer = self.writer.lock();
        let retired = self.handles.lock().retired().to_vec();
        let mut expected = self.recount(held_roots.into_iter().chain(retired))?;
        let (mut bytes, mut values) = (0, 0);
        for entry in &self.nodes {
            let rlp = entry.rlp.as_deref();
            bytes += rlp.map_or(0, <[u8]>::len);
            values += rlp.map_or(0, |rlp| push_stored_references(rlp, &mut Vec::new()));
            check(
                &mut expected,
                Reference::Node(*entry.key()),
                entry.refs,
                rlp,
            )?;
        }
        for entry in &self.codes {
            let code = entry.code.as_ref();
            bytes += code.map_or(0, bytes_of_code);
            check(
                &mut expected,
                Reference::Code(*entry.key()),
                entry.refs,
                code.map(Bytecode::original_byte_slice),
            )?;
        }
        if let Some(item) = expected.into_keys().next() {
            return Err(InvariantError::Missing { item });
        }
        let (stored, stated) = (
            self.nodes.len() + self.codes.len(),
            self.entries.load(Ordering::Relaxed),
        );
        if stored != stated {
            return Err(InvariantError::Entries { stored, stated });
        }
        let stats = self.stats();
        let stated = stats.node_bytes + stats.code_bytes;
        if bytes != stated {
            return Err(InvariantError::Bytes {
                stored: bytes,
                stated,
            });
        }
        if values != stats.values {
            return Err(InvariantError::Values {
                stored: values,
                stated: stats.values,
            });
        }
        Ok(())
    }

    /// How often each node and code is referenced, by the roots and by what they reach.
    fn recount(
        &self,
        roots: impl Iterator<Item = B256>,
    ) -> Result<HashMap<Reference, u32>, InvariantError> {
        let mut counts = HashMap::<Reference, u32>::default();
        let mut pending = roots
            .filter(|root| *root != alloy_trie::EMPTY_ROOT_HASH)
            .map(Reference::Node)
            .collect::<Vec<_>>();
        while let Some(item) = pending.pop() {
            let count = counts.entry(item).or_default();
            *count += 1;
            if let (1, Reference::Node(hash)) = (*count, item)
                && let Some(entry) = self.nodes.get(&hash)
                && let Some(rlp) = &entry.rlp
            {
                push_references(rlp, &mut pending)
                    .map_err(|error| InvariantError::Malformed { item, error })?;
            }
        }
        Ok(counts)
    }
}

/// Compares one stored item with the recount, and removes it from there.
fn check(
    expected: &mut HashMap<Reference, u32>,
    item: Reference,
    stored: u32,
    bytes: Option<&[u8]>,
) -> Result<(), InvariantError> {
    let (Reference::Node(hash) | Reference::Code(hash)) = item;
    // A missing item has no bytes to hash, but references to it are counted like those to a stored
    // one.
    if let Some(actual) = bytes.map(keccak256)
        && actual != hash
    {
        return Err(InvariantError::Content { item, actual });
    }
    match expected.remove(&item) {
        None => Err(InvariantError::Unreachable { item }),
        Some(expected) if expected != stored => Err(InvariantError::References {
            item,
            stored,
            expected,
        }),
        Some(_) => Ok(()),
    }
}
