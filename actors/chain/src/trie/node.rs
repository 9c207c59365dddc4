use alloy_primitives::{B256, keccak256};
use alloy_rlp::{Decodable, EMPTY_LIST_CODE, EMPTY_STRING_CODE, Error, Header, Result};
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY, TrieAccount, nodes::RlpNode};
use nybbles::Nibbles;

use super::TrieError;

/// Nibbles of a key: state tries are keyed by keccak256.
pub(super) const KEY_NIBBLES: usize = 64;
/// First byte of the RLP of a 32-byte string.
const HASH_CODE: u8 = EMPTY_STRING_CODE + 32;
/// The longest node that is embedded in its parent in place of its hash (yellow paper, appendix D).
const INLINE_BYTES_MAX: usize = 31;

/// One trie node over its RLP, decoded as far as one step of a walk needs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'a> {
    /// Sixteen children by the next nibble.
    Branch(Branch<'a>),
    /// A path that all keys below it share.
    Extension {
        /// The shared nibbles, at least one.
        path: Nibbles,
        /// The node below.
        child: Child<'a>,
    },
    /// The end of a key.
    Leaf {
        /// The rest of the key.
        path: Nibbles,
        /// RLP of an account or of a slot's value.
        value: &'a [u8],
    },
}

impl<'a> Node<'a> {
    /// Decodes a node. The children of a branch are decoded on demand.
    pub(super) fn decode(mut rlp: &'a [u8]) -> Result<Self> {
        let items = Header::decode_bytes(&mut rlp, true)?;
        if !rlp.is_empty() {
            return Err(Error::Custom("bytes after the node"));
        }
        let mut rest = items;
        let (first, second) = (split_item(&mut rest)?, split_item(&mut rest)?);
        if !rest.is_empty() {
            return Ok(Self::Branch(Branch { items }));
        }
        let (is_leaf, path) = decode_path(string(first)?)?;
        if is_leaf {
            return Ok(Self::Leaf {
                path,
                value: string(second)?,
            });
        }
        let child = Child::decode(second)?.ok_or(Error::Custom("extension without a child"))?;
        Ok(Self::Extension { path, child })
    }

    /// Decodes a node that is `depth` nibbles below its root.
    ///
    /// A walk down from here ends, whatever the bytes: each step consumes at least one nibble of
    /// the key, and none goes beyond the key.
    pub(super) fn decode_at(rlp: &'a [u8], depth: usize) -> Result<Self> {
        let node = Self::decode(rlp)?;
        let fits = match &node {
            Self::Branch(_) => depth < KEY_NIBBLES,
            Self::Extension { path, .. } => !path.is_empty() && depth + path.len() < KEY_NIBBLES,
            Self::Leaf { path, .. } => depth + path.len() == KEY_NIBBLES,
        };
        if fits {
            Ok(node)
        } else {
            Err(Error::Custom("path does not end where the key does"))
        }
    }
}

/// A branch node, whose items are decoded on demand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch<'a> {
    items: &'a [u8],
}

impl<'a> Branch<'a> {
    /// The child under `nibble`.
    pub(super) fn child(&self, nibble: u8) -> Result<Option<Child<'a>>> {
        let mut rest = self.items;
        for _ in 0..nibble {
            split_child(&mut rest)?;
        }
        Child::decode(split_child(&mut rest)?)
    }

    /// All sixteen children.
    pub(super) fn children(&self) -> Result<[Option<Child<'a>>; 16]> {
        let mut rest = self.items;
        let mut children = [None; 16];
        for child in &mut children {
            *child = Child::decode(split_child(&mut rest)?)?;
        }
        // All keys have one length, so no key ends at a branch.
        match rest {
            [EMPTY_STRING_CODE] => Ok(children),
            _ => Err(Error::Custom("branch without the empty value at its end")),
        }
    }
}

/// How a node references the node below it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Child<'a> {
    /// By its keccak256.
    Hash(&'a [u8; 32]),
    /// Directly: its RLP of less than 32 bytes is embedded in the parent.
    Inline(&'a [u8]),
}

impl<'a> Child<'a> {
    fn decode(item: &'a [u8]) -> Result<Option<Self>> {
        match item {
            [EMPTY_STRING_CODE] => Ok(None),
            [HASH_CODE, hash @ ..] => hash
                .try_into()
                .map(|hash| Some(Self::Hash(hash)))
                .map_err(|_| Error::Custom("child hash does not have 32 bytes")),
            [EMPTY_LIST_CODE..=u8::MAX, ..] if item.len() <= INLINE_BYTES_MAX => {
                Ok(Some(Self::Inline(item)))
            }
            _ => Err(Error::Custom(
                "child is neither empty, a hash nor an inline node",
            )),
        }
    }

    /// The child as encoded in its parent.
    pub(super) fn to_rlp_node(self) -> RlpNode {
        match self {
            Self::Hash(hash) => RlpNode::word_rlp(&B256::from(*hash)),
            // `from_rlp` keeps the bytes of an inline node as they are, because they are short.
            Self::Inline(rlp) => RlpNode::from_rlp(rlp),
        }
    }
}

/// Decodes the value of an account leaf.
pub(super) fn account_of(rlp: &[u8]) -> std::result::Result<TrieAccount, TrieError> {
    TrieAccount::decode(&mut { rlp }).map_err(|error| TrieError::Malformed {
        hash: keccak256(rlp),
        error,
    })
}

/// An item that a stored node references by keccak256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// Another trie node: a child, or the root of an account's storage.
    Node(B256),
    /// The code of an account.
    Code(B256),
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(hash) => write!(f, "trie node {hash}"),
            Self::Code(hash) => write!(f, "code {hash}"),
        }
    }
}

/// Appends what the node references, once per reference; nothing if the node is malformed. Returns
/// the number of values in the node: its own, or those of its inline leaves.
///
/// One routine serves both kinds of trie, because the value of an account leaf is a list and that
/// of a storage leaf a string. An inline node references nothing: it is too short to hold a hash.
pub(super) fn push_references(rlp: &[u8], references: &mut Vec<Reference>) -> Result<usize> {
    let mut values = 0;
    let mut push = |child: Child<'_>| match child {
        Child::Hash(hash) => references.push(Reference::Node(B256::from(*hash))),
        Child::Inline(rlp) => values += push_references(rlp, references).unwrap_or_default(),
    };
    match Node::decode(rlp)? {
        Node::Branch(branch) => branch.children()?.into_iter().flatten().for_each(push),
        Node::Extension { child, .. } => push(child),
        Node::Leaf { mut value, .. } => {
            values = 1;
            if value.first().is_some_and(|code| *code >= EMPTY_LIST_CODE) {
                let account = TrieAccount::decode(&mut value)?;
                if account.storage_root != EMPTY_ROOT_HASH {
                    references.push(Reference::Node(account.storage_root));
                }
                if account.code_hash != KECCAK_EMPTY {
                    references.push(Reference::Code(account.code_hash));
                }
            }
        }
    }
    Ok(values)
}

/// What the node with this RLP references, in order. The bytes need not be trusted.
///
/// # Errors
/// The decoder's error if the bytes are not a node of a trie with keccak256 keys.
#[cfg(any(test, feature = "testing"))]
pub fn references(rlp: &[u8]) -> Result<Vec<Reference>> {
    let mut references = Vec::new();
    push_references(rlp, &mut references)?;
    Ok(references)
}

/// Splits one RLP item, with its header, off the front of `rest`.
fn split_item<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let start = *rest;
    let Header { payload_length, .. } = Header::decode(rest)?;
    // The header's decoder has already compared the length with the bytes available.
    *rest = rest.get(payload_length..).ok_or(Error::InputTooShort)?;
    Ok(&start[..start.len() - rest.len()])
}

/// Like [`split_item`], for a child of a branch: its length follows from its first byte.
fn split_child<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = match rest.first() {
        Some(&EMPTY_STRING_CODE) => 1,
        Some(&HASH_CODE) => 33,
        Some(&code @ EMPTY_LIST_CODE..) => 1 + usize::from(code - EMPTY_LIST_CODE),
        Some(_) => {
            return Err(Error::Custom(
                "child is neither empty, a hash nor an inline node",
            ));
        }
        None => return Err(Error::InputTooShort),
    };
    let (item, after) = rest.split_at_checked(length).ok_or(Error::InputTooShort)?;
    *rest = after;
    Ok(item)
}

/// The payload of an item that must be a string.
fn string(mut item: &[u8]) -> Result<&[u8]> {
    Header::decode_bytes(&mut item, false)
}

/// Decodes a hex-prefix path (yellow paper, appendix C); returns true if it is a leaf's.
fn decode_path(path: &[u8]) -> Result<(bool, Nibbles)> {
    let (&first, rest) = path.split_first().ok_or(Error::Custom("path is empty"))?;
    let (is_leaf, is_odd) = (first & 0x20 != 0, first & 0x10 != 0);
    if first & 0xc0 != 0 || (!is_odd && first & 0x0f != 0) {
        return Err(Error::Custom("path has no hex prefix"));
    }
    if 2 * rest.len() + usize::from(is_odd) > KEY_NIBBLES {
        return Err(Error::Custom("path is longer than a key"));
    }
    let nibbles = if is_odd {
        Nibbles::unpack(path).slice(1..)
    } else {
        Nibbles::unpack(rest)
    };
    Ok((is_leaf, nibbles))
}
