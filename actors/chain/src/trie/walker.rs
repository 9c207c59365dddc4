//! Walks from a root to a key, over stored nodes or over the nodes of a proof.

use alloy_primitives::B256;
use alloy_trie::EMPTY_ROOT_HASH;
use nybbles::Nibbles;

use super::node::{Child, KEY_NIBBLES, Node};

/// Where one stored node leads to.
enum WalkStep<T> {
    /// To another stored node.
    Down(B256),
    /// To the value of the key.
    Found(T),
    /// Nowhere: the node proves that the key is absent.
    Absent,
}

/// Supplies the nodes of a walk.
pub(super) trait NodeSource {
    /// Why a node cannot be read.
    type Error;

    /// Reads the next node of the path, which has this hash.
    fn read_node<T>(
        &self,
        hash: &B256,
        read: impl FnOnce(&[u8]) -> alloy_rlp::Result<T>,
    ) -> Result<T, Self::Error>;
}

/// Walks from `root` to `key` and reads the value in place; `None` if the key is absent.
///
/// `visit` sees the RLP of every stored node of the path, root first: together they are the proof
/// (EIP-1186).
pub(super) fn walk<S: NodeSource, T>(
    source: &S,
    root: B256,
    key: &B256,
    mut visit: impl FnMut(&[u8]),
    read: impl Fn(&[u8]) -> alloy_rlp::Result<T>,
) -> Result<Option<T>, S::Error> {
    if root == EMPTY_ROOT_HASH {
        return Ok(None);
    }
    let key = Nibbles::unpack(key);
    let mut depth = 0;
    let mut hash = root;
    loop {
        let step = source.read_node(&hash, |rlp| {
            visit(rlp);
            step(rlp, &key, &mut depth, &read)
        })?;
        match step {
            WalkStep::Down(child) => hash = child,
            WalkStep::Found(value) => return Ok(Some(value)),
            WalkStep::Absent => return Ok(None),
        }
    }
}

/// Walks towards `key` from `depth` on, through one stored node and its inline nodes.
fn step<T>(
    mut rlp: &[u8],
    key: &Nibbles,
    depth: &mut usize,
    read: impl Fn(&[u8]) -> alloy_rlp::Result<T>,
) -> alloy_rlp::Result<WalkStep<T>> {
    loop {
        let child = match Node::decode_at(rlp, *depth)? {
            Node::Branch(branch) => {
                let nibble = key.get_unchecked(*depth);
                *depth += 1;
                branch.child(nibble)?
            }
            Node::Extension { path, child } => {
                let start = *depth;
                *depth += path.len();
                (key.slice(start..*depth) == path).then_some(child)
            }
            Node::Leaf { path, value } => {
                return match key.slice(*depth..KEY_NIBBLES) == path {
                    true => Ok(WalkStep::Found(read(value)?)),
                    false => Ok(WalkStep::Absent),
                };
            }
        };
        match child {
            None => return Ok(WalkStep::Absent),
            Some(Child::Hash(hash)) => return Ok(WalkStep::Down(B256::from(*hash))),
            Some(Child::Inline(inline)) => rlp = inline,
        }
    }
}
