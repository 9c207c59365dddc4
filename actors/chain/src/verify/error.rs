//! Every promise that a header can break.

use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B64, B256, Bytes, U256};

/// A promise that does not hold: which one, what was expected, what was found.
///
/// `None` stands for a field that is absent; a field that a fork brings is expected from that fork
/// on and not before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields of each variant are the two sides that its message names"
)]
pub enum VerifyError {
    /// The block does not name the parent that it is judged against.
    #[error("parent hash: expected {expected}, found {found}")]
    ParentHash { expected: B256, found: B256 },
    /// The number is not the parent's plus one.
    #[error("number: expected {expected}, found {found}")]
    Number { expected: u64, found: u64 },
    /// The timestamp is not above the parent's.
    #[error("timestamp: expected above {parent}, found {found}")]
    Timestamp { parent: u64, found: u64 },
    /// More extra data than 32 bytes.
    #[error("extra data: expected at most {max} bytes, found {found}")]
    ExtraData { max: usize, found: usize },
    /// The first blocks of the DAO fork carry its mark (EIP-779).
    #[error("extra data: expected the mark of the DAO fork {expected}, found {found}")]
    DaoForkMissing { expected: Bytes, found: Bytes },
    /// The side that does not support the DAO fork refuses its mark.
    #[error("extra data: expected no mark of the DAO fork, found {found}")]
    DaoForkMark { found: Bytes },
    /// The gas limit moved by 1/1024 of the parent's or more, or is outside of what any block may
    /// have.
    #[error("gas limit: expected {min} to {max}, found {found}")]
    GasLimit { min: u64, max: u64, found: u64 },
    /// More gas used than the limit.
    #[error("gas used: expected at most the limit {limit}, found {found}")]
    GasUsedAboveLimit { limit: u64, found: u64 },
    /// Not the base fee that follows from the parent (EIP-1559).
    #[error("base fee: expected {expected:?}, found {found:?}")]
    BaseFee {
        expected: Option<u64>,
        found: Option<u64>,
    },
    /// Not the difficulty that follows from the parent; zero after the merge (EIP-3675).
    #[error("difficulty: expected {expected}, found {found}")]
    Difficulty { expected: U256, found: U256 },
    /// A nonce after the merge (EIP-3675).
    #[error("nonce: expected {expected}, found {found}")]
    Nonce { expected: B64, found: B64 },
    /// A fork by time is due and the chain has not merged.
    #[error("fork {fork} is active before the merge")]
    ForkBeforeMerge { fork: EthereumHardfork },
    /// Withdrawals root present before Shanghai or absent from then on, or not that of the
    /// withdrawals (EIP-4895).
    #[error("withdrawals root: expected {expected:?}, found {found:?}")]
    WithdrawalsRoot {
        expected: Option<B256>,
        found: Option<B256>,
    },
    /// The body has withdrawals before Shanghai, or none from then on (EIP-4895).
    #[error("withdrawals in the body: expected {expected}, found {found}")]
    Withdrawals { expected: bool, found: bool },
    /// Not the blob gas of the block's transactions (EIP-4844).
    #[error("blob gas used: expected {expected:?}, found {found:?}")]
    BlobGasUsed {
        expected: Option<u64>,
        found: Option<u64>,
    },
    /// More blob gas than a block may use (EIP-4844, 7691, 7892).
    #[error("blob gas used: expected at most {max}, found {found}")]
    BlobGasAboveLimit { max: u64, found: u64 },
    /// Not the excess blob gas that follows from the parent (EIP-4844, 7918).
    #[error("excess blob gas: expected {expected:?}, found {found:?}")]
    ExcessBlobGas {
        expected: Option<u64>,
        found: Option<u64>,
    },
    /// Parent beacon block root present before Cancun or absent from then on (EIP-4788).
    #[error("parent beacon block root: expected {expected}, found {found}")]
    ParentBeaconBlockRoot { expected: bool, found: bool },
    /// Requests hash present before Prague or absent from then on (EIP-7685).
    #[error("requests hash: expected {expected}, found {found}")]
    RequestsHashPresence { expected: bool, found: bool },
    /// A field of a fork that is not supported.
    #[error("{field}: expected no such field, found one")]
    UnknownField { field: &'static str },
    /// Not the root of the block's transactions.
    #[error("transactions root: expected {expected}, found {found}")]
    TransactionsRoot { expected: B256, found: B256 },
    /// Not the hash of the block's ommers.
    #[error("ommers hash: expected {expected}, found {found}")]
    OmmersHash { expected: B256, found: B256 },
    /// Longer than a block may be (EIP-7934).
    #[error("block size: expected at most {max} bytes, found {found}")]
    BlockSize { max: usize, found: usize },
    /// More than two ommers, or any after the merge.
    #[error("ommers: expected at most {max}, found {found}")]
    OmmerCount { max: usize, found: usize },
    /// An ommer that is there twice, in this block or in an ancestor.
    #[error("ommer {hash} is included already")]
    OmmerIncluded { hash: B256 },
    /// An ommer that is an ancestor of the block.
    #[error("ommer {hash} is an ancestor")]
    OmmerIsAncestor { hash: B256 },
    /// An ommer that did not branch off within seven generations below the parent.
    #[error("ommer {hash}: expected a parent among the last generations, found {parent}")]
    OmmerParent { hash: B256, parent: B256 },
    /// An ommer whose own header breaks a promise.
    #[error("ommer {hash}: {why}")]
    OmmerHeader { hash: B256, why: Box<Self> },
    /// A transaction whose signature nobody can have made.
    #[error("transaction {index} {hash}: signature is not valid")]
    Signature { index: usize, hash: B256 },
    /// A signature with an s in the upper half, which anybody can make of another one (EIP-2).
    #[error("transaction {index} {hash}: signature is malleable, expected a low s")]
    SignatureMalleable { index: usize, hash: B256 },
    /// A signature for another chain (EIP-155).
    #[error("transaction {index} {hash}: chain id: expected {expected}, found {found}")]
    ChainId {
        index: usize,
        hash: B256,
        expected: u64,
        found: u64,
    },
    /// A signature that names its chain before Spurious Dragon (EIP-155).
    #[error("transaction {index} {hash}: expected no chain id before Spurious Dragon, found one")]
    ReplayProtection { index: usize, hash: B256 },
    /// Not the gas that execution used.
    #[error("gas used: expected {expected}, found {found}")]
    GasUsed { expected: u64, found: u64 },
    /// Not the root of the receipts.
    #[error("receipts root: expected {expected}, found {found}")]
    ReceiptsRoot { expected: B256, found: B256 },
    /// Not the bloom of the receipts' logs; the two sides are the keccak256 of the blooms.
    #[error("logs bloom: expected one with hash {expected}, found one with hash {found}")]
    LogsBloom { expected: B256, found: B256 },
    /// Not the hash of the execution requests (EIP-7685).
    #[error("requests hash: expected {expected:?}, found {found:?}")]
    RequestsHash {
        expected: Option<B256>,
        found: Option<B256>,
    },
    /// Not the state root after execution.
    #[error("state root: expected {expected}, found {found}")]
    StateRoot { expected: B256, found: B256 },
}
