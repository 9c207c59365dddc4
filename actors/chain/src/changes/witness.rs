use alloy_primitives::{Bytes, map::B256Map};
use serde::Deserialize;

/// Most nodes that are taken from a witness: a block of mainnet reads some 20,000.
const NODES_MAX: usize = 1 << 16;

/// The part of a witness that is used. Headers and keys differ between clients.
#[derive(Deserialize)]
struct Witness {
    state: Nodes,
}

/// RLP of nodes: most clients have a list, some a map by keccak256.
#[derive(Deserialize)]
#[serde(untagged)]
enum Nodes {
    List(Vec<Bytes>),
    ByHash(B256Map<Bytes>),
}

/// The trie nodes in the answer of debug_executionWitness, in no order. They are not checked: each
/// is of use only under its own hash.
///
/// # Errors
/// The answer is not a witness.
pub fn witness_nodes(json: &[u8]) -> Result<Vec<Bytes>, serde_json::Error> {
    let witness: Witness = serde_json::from_slice(json)?;
    let mut nodes = match witness.state {
        Nodes::List(nodes) => nodes,
        Nodes::ByHash(nodes) => nodes.into_values().collect(),
    };
    // A shorter node is a part of the one above it; only a root may be short.
    nodes.retain(|node| node.len() >= 32);
    nodes.truncate(NODES_MAX);
    Ok(nodes)
}
