use alloy_primitives::B256;

/// Why a state cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TrieError {
    /// A node of the path is not in the store. A proof of the requested item contains it and the
    /// nodes below it.
    #[error("trie node {hash} is missing")]
    MissingNode {
        /// keccak256 of the node.
        hash: B256,
    },
    /// A code is not in the store, although the account that names it is.
    #[error("code {hash} is missing")]
    MissingCode {
        /// keccak256 of the code.
        hash: B256,
    },
    /// A stored node is not valid RLP of a trie node.
    #[error("trie node {hash} is malformed: {error}")]
    Malformed {
        /// keccak256 of the node, or of its malformed part (an inline node, an account).
        hash: B256,
        /// The decoder's error.
        error: alloy_rlp::Error,
    },
}

/// What was read; `None` if a node of its path is missing.
pub(super) fn if_held<T>(read: Result<T, TrieError>) -> Result<Option<T>, TrieError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(TrieError::MissingNode { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
