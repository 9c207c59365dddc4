//! The answer of eth_getProof (EIP-1186).

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};

use super::writer::JsonWriter;
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
/// root; its nodes are an exclusion proof. A proof of more than `built_max` bytes is discarded and
/// made a second time, as it is taken.
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
    let mut built = Vec::new();
    while let Some(part) = proof.make()? {
        proof.left += part.len();
        if proof.left <= built_max {
            built.extend_from_slice(&part);
        } else {
            built = Vec::new();
        }
    }
    if proof.left <= built_max {
        return Ok(built.into());
    }
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
    /// Makes the next part; `None` after the last one.
    fn make(&mut self) -> Result<Option<bytes::Bytes>, TrieError> {
        let mut w = JsonWriter::with_capacity(PART_BYTES / 2);
        let (storage_root, mut from) = match self.next {
            NextPart::Account => {
                let proof = self.state.prove(&self.address, &[])?;
                let account = proof.account.unwrap_or_default();
                write_account(&mut w, &self.address, &account, &proof.nodes);
                let present = proof.account.map(|account| account.storage_root);
                (present.unwrap_or(EMPTY_ROOT_HASH), 0)
            }
            NextPart::Slots { storage_root, from } => (storage_root, from),
            NextPart::End => return Ok(None),
        };
        while w.len() < PART_BYTES
            && let Some(key) = self.keys.get(from)
        {
            if from > 0 {
                w.raw(",");
            }
            write_slot(
                &mut w,
                *key,
                &self.state.prove_slot(storage_root, key.slot())?,
            );
            from += 1;
        }
        self.next = if from < self.keys.len() {
            NextPart::Slots { storage_root, from }
        } else {
            w.raw("]}");
            NextPart::End
        };
        Ok(Some(w.finish()))
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
            self.made = self.make().ok().flatten().ok_or(Truncated)?;
        }
        let part = self.made.split_to(max.min(self.made.len()));
        self.left = self.left.checked_sub(part.len()).ok_or(Truncated)?;
        Ok(part)
    }
}

/// Writes the proof up to the first slot.
fn write_account(w: &mut JsonWriter, address: &Address, account: &TrieAccount, nodes: &[Bytes]) {
    w.raw(r#"{"address":"#).data(address);
    w.raw(r#","accountProof":"#);
    write_nodes(w, nodes);
    w.raw(r#","balance":"#).quantity(account.balance);
    w.raw(r#","codeHash":"#).data(account.code_hash);
    w.raw(r#","nonce":"#).number(account.nonce);
    w.raw(r#","storageHash":"#).data(account.storage_root);
    w.raw(r#","storageProof":["#);
}

fn write_slot(w: &mut JsonWriter, key: ProofKey, proof: &StorageProof) {
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

fn write_nodes(w: &mut JsonWriter, nodes: &[Bytes]) {
    w.array(nodes, |w, node| {
        w.data(node);
    });
}
