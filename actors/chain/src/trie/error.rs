use alloy_primitives::B256;

/// Why a state could not be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TrieError {
    /// A node that the path needs is not in the store; a proof of what was asked brings it, and
    /// what is below it.
    #[error("trie node {hash} is missing")]
    MissingNode {
        /// keccak256 of the node.
        hash: B256,
    },
    /// A code is not in the store; the account that names it is.
    #[error("code {hash} is missing")]
    MissingCode {
        /// keccak256 of the code.
        hash: B256,
    },
    /// A stored node is not valid RLP of a trie node.
    #[error("trie node {hash} is malformed: {why}")]
    Malformed {
        /// keccak256 of the node, or of the part of it that is malformed (an inline node, an
        /// account).
        hash: B256,
        /// What the decoder said.
        why: alloy_rlp::Error,
    },
}
