//! The answer of eth_getProof (EIP-1186).

use alloy_primitives::{Address, Bytes, U256};

use super::writer::JsonWriter;
use crate::{
    json::Json,
    trie::{AccountProof, StorageProof},
};

/// How a storage key of eth_getProof is echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKey {
    /// The input had 32 bytes: it comes back as 32 bytes.
    Full(U256),
    /// The input was shorter: it comes back as QUANTITY.
    Short(U256),
}

impl ProofKey {
    /// The slot that it names, however it is echoed.
    #[must_use]
    pub const fn slot(self) -> U256 {
        match self {
            Self::Full(slot) | Self::Short(slot) => slot,
        }
    }
}

/// The account proof of `address` with one storage proof for each of `keys`, in their order.
///
/// `keys` are those that `proof` was made for. An absent account has nonce and balance zero, the code hash of
/// nothing and the empty storage root; its nodes prove the exclusion.
#[must_use]
pub fn proof(address: &Address, proof: &AccountProof, keys: &[ProofKey]) -> Json {
    debug_assert_eq!(keys.len(), proof.storage.len());
    let account = proof.account.unwrap_or_default();
    let mut w = JsonWriter::with_capacity(size_hint(proof));
    w.raw(r#"{"address":"#).data(address);
    w.raw(r#","accountProof":"#);
    nodes(&mut w, &proof.nodes);
    w.raw(r#","balance":"#).quantity(account.balance);
    w.raw(r#","codeHash":"#).data(account.code_hash);
    w.raw(r#","nonce":"#).number(account.nonce);
    w.raw(r#","storageHash":"#).data(account.storage_root);
    w.raw(r#","storageProof":"#);
    w.array(keys.iter().zip(&proof.storage), |w, (key, storage)| {
        storage_proof(w, *key, storage);
    });
    w.raw("}");
    w.finish().into()
}

fn storage_proof(w: &mut JsonWriter, key: ProofKey, proof: &StorageProof) {
    w.raw(r#"{"key":"#);
    match key {
        ProofKey::Full(key) => w.data(key.to_be_bytes::<32>()),
        ProofKey::Short(key) => w.quantity(key),
    };
    w.raw(r#","value":"#).quantity(proof.value);
    w.raw(r#","proof":"#);
    nodes(w, &proof.nodes);
    w.raw("}");
}

fn nodes(w: &mut JsonWriter, nodes: &[Bytes]) {
    w.array(nodes, |w, node| {
        w.data(node);
    });
}

/// At least the bytes of the answer, and not many more.
fn size_hint(proof: &AccountProof) -> usize {
    const ACCOUNT: usize = 400;
    const STORAGE: usize = 180;
    let nodes = |nodes: &[Bytes]| -> usize { nodes.iter().map(|node| 5 + 2 * node.len()).sum() };
    let storage = |proof: &StorageProof| STORAGE + nodes(&proof.nodes);
    ACCOUNT + nodes(&proof.nodes) + proof.storage.iter().map(storage).sum::<usize>()
}
