//! The answer of eth_getProof (EIP-1186).

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};

use super::writer::{JsonWriter, Output};
use crate::{
    json::{Json, LazyBytes, Truncated},
    trie::{State, StorageProof, TrieError},
};

/// The size at which a part of a proof is complete: about four slots of a large trie.
const PART_BYTES: usize = 32 << 10;

/// How a storage key of eth_getProof is echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKey {
    /// The input had 32 bytes: it is echoed as 32 bytes.
    Full(U256),
    /// The input was shorter: it is echoed as QUANTITY.
    Short(U256),
}

impl ProofKey {
    /// The slot that the key names.
    #[must_use]
    pub const fn slot(self) -> U256 {
        match self {
            Self::Full(slot) | Self::Short(slot) => slot,
        }
    }
}

/// The account proof of `address`, with one storage proof for each of `keys` in order (EIP-1186).
///
/// An absent account has nonce and balance zero, the code hash of empty code and the empty storage
/// root; its nodes are an exclusion proof. One of more than `built_max` bytes is measured, and made
/// as it is taken.
///
/// # Errors
/// As [`State::prove`].
pub fn proof(
    state: &Arc<State>,
    address: Address,
    keys: Vec<ProofKey>,
    built_max: usize,
) -> Result<Json, TrieError> {
    let mut proof = LazyProof {
        state: Arc::clone(state),
        address,
        keys,
        next: NextPart::Account,
        made: bytes::Bytes::new(),
        left: 0,
    };
    let part_max = built_max.min(PART_BYTES);
    let mut built = Vec::new();
    while built.len() <= built_max {
        match proof.make(part_max)? {
            Some(part) => built.extend_from_slice(&part),
            None => return Ok(built.into()),
        }
    }
    let mut rest = JsonWriter::counting();
    proof.write(&mut rest, usize::MAX)?;
    proof.left = built.len() + rest.len();
    proof.next = NextPart::Account;
    Ok(Json::lazy(proof))
}

/// A proof that is made part by part.
///
/// The state keeps every node of the proof, except in a store with a bound. There the nodes read
/// most recently are evicted last, so the proof is truncated only if almost the whole store is
/// replaced or read before the proof is taken.
#[derive(Debug)]
struct LazyProof {
    state: Arc<State>,
    address: Address,
    keys: Vec<ProofKey>,
    next: NextPart,
    /// Bytes made but not taken yet.
    made: bytes::Bytes,
    /// Bytes left to take.
    left: usize,
}

/// The part to make next.
#[derive(Clone, Copy, Debug)]
enum NextPart {
    /// The account.
    Account,
    /// The storage slots from index `from` on.
    Slots { storage_root: B256, from: usize },
    /// Nothing.
    End,
}

impl LazyProof {
    /// Makes the next part, which is complete at this size; `None` after the last one.
    fn make(&mut self, bytes: usize) -> Result<Option<bytes::Bytes>, TrieError> {
        if matches!(self.next, NextPart::End) {
            return Ok(None);
        }
        // Room for one slot more.
        let mut w = JsonWriter::with_capacity(bytes + bytes / 4);
        self.write(&mut w, bytes)?;
        Ok(Some(w.finish()))
    }

    /// Writes on until so many bytes are written.
    fn write<O: Output>(&mut self, w: &mut JsonWriter<O>, bytes: usize) -> Result<(), TrieError> {
        let (storage_root, mut from) = match self.next {
            NextPart::Account => {
                let proof = self.state.prove(&self.address, &[])?;
                let account = proof.account.unwrap_or_default();
                write_account(w, &self.address, &account, &proof.nodes);
                let present = proof.account.map(|account| account.storage_root);
                (present.unwrap_or(EMPTY_ROOT_HASH), 0)
            }
            NextPart::Slots { storage_root, from } => (storage_root, from),
            NextPart::End => return Ok(()),
        };
        while w.len() < bytes
            && let Some(key) = self.keys.get(from)
        {
            if from > 0 {
                w.raw(",");
            }
            write_slot(w, *key, &self.state.prove_slot(storage_root, key.slot())?);
            from += 1;
        }
        self.next = if from < self.keys.len() {
            NextPart::Slots { storage_root, from }
        } else {
            w.raw("]}");
            NextPart::End
        };
        Ok(())
    }
}

impl LazyBytes for LazyProof {
    fn len(&self) -> usize {
        self.left
    }

    fn held(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.keys[..]) + self.made.len()
    }

    fn take(&mut self, max: usize) -> Result<bytes::Bytes, Truncated> {
        if self.made.is_empty() {
            self.made = self.make(PART_BYTES).ok().flatten().ok_or(Truncated)?;
        }
        let part = self.made.split_to(max.min(self.made.len()));
        self.left = self.left.checked_sub(part.len()).ok_or(Truncated)?;
        Ok(part)
    }
}

/// Writes the proof up to the first slot.
fn write_account<O: Output>(
    w: &mut JsonWriter<O>,
    address: &Address,
    account: &TrieAccount,
    nodes: &[Bytes],
) {
    w.raw(r#"{"address":"#).data(address);
    w.raw(r#","accountProof":"#);
    write_nodes(w, nodes);
    w.raw(r#","balance":"#).quantity(account.balance);
    w.raw(r#","codeHash":"#).data(account.code_hash);
    w.raw(r#","nonce":"#).number(account.nonce);
    w.raw(r#","storageHash":"#).data(account.storage_root);
    w.raw(r#","storageProof":["#);
}

fn write_slot<O: Output>(w: &mut JsonWriter<O>, key: ProofKey, proof: &StorageProof) {
    w.raw(r#"{"key":"#);
    match key {
        ProofKey::Full(key) => w.data(key.to_be_bytes::<32>()),
        ProofKey::Short(key) => w.quantity(key),
    };
    w.raw(r#","value":"#).quantity(proof.value);
    w.raw(r#","proof":"#);
    write_nodes(w, &proof.nodes);
    w.raw("}");
}

fn write_nodes<O: Output>(w: &mut JsonWriter<O>, nodes: &[Bytes]) {
    w.array(nodes, |w, node| {
        w.data(node);
    });
}
