//! Why a transaction is not passed on.

use alloy_primitives::B256;

/// Why a transaction is not passed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionError {
    /// It has no more than a type.
    #[error("typed transaction too short")]
    TooShort,
    /// Its type is not one of Ethereum's.
    #[error("transaction type not supported")]
    UnknownType,
    /// It is not RLP, or has other items than its type.
    #[error("rlp: {0}")]
    Rlp(alloy_rlp::Error),
    /// Something follows it.
    #[error("rlp: input contains more than one value")]
    TrailingBytes,
    /// It has another encoding than the one that its hash is of.
    #[error("rlp: non-canonical encoding")]
    NotCanonical,
    /// It is larger than pools accept.
    #[error("oversized data: transaction size {size}, limit {limit}")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// The bound.
        limit: usize,
    },
    /// It is valid on every chain.
    #[error("only replay-protected (EIP-155) transactions allowed over RPC")]
    Unprotected,
    /// It is for another chain.
    #[error("invalid sender: invalid chain id for signer: have {found} want {expected}")]
    ChainId {
        /// The chain that it is for.
        found: u64,
        /// The chain that is served.
        expected: u64,
    },
    /// Nobody signed it, or the signature is malleable (EIP-2).
    #[error("invalid sender: invalid transaction v, r, s values")]
    Signature,
    /// It has blobs, and is sent without them.
    #[error("missing sidecar in blob transaction")]
    NoSidecar,
    /// The version of its sidecar is not known.
    #[error("unsupported version of blob sidecar: {0}")]
    SidecarVersion(u8),
    /// It has no blob.
    #[error("blobless blob transaction")]
    NoBlobs,
    /// It has another number of blobs than of versioned hashes.
    #[error("invalid number of {blobs} blobs compared to {hashes} blob hashes")]
    BlobCount {
        /// Its blobs.
        blobs: usize,
        /// Its versioned hashes.
        hashes: usize,
    },
    /// It has another number of commitments than of blobs.
    #[error("invalid number of {commitments} blob commitments compared to {blobs} blobs")]
    CommitmentCount {
        /// Its commitments.
        commitments: usize,
        /// Its blobs.
        blobs: usize,
    },
    /// It has another number of proofs than its blobs need.
    #[error("invalid number of {proofs} blob proofs expected {expected}")]
    ProofCount {
        /// Its proofs.
        proofs: usize,
        /// The proofs that its blobs need.
        expected: usize,
    },
    /// A versioned hash is of another commitment.
    #[error("blob {index}: computed hash {computed:#x} mismatches transaction one {stated:#x}")]
    BlobHash {
        /// The position of the blob.
        index: usize,
        /// The hash of its commitment.
        computed: B256,
        /// The hash that was signed.
        stated: B256,
    },
}

impl From<alloy_rlp::Error> for SubmissionError {
    fn from(error: alloy_rlp::Error) -> Self {
        Self::Rlp(error)
    }
}
