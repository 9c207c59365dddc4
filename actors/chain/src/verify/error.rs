//! The checks that a block can fail.

use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B64, B256, Bytes, U256};

/// A check that failed, with the expected and the found value.
///
/// `None` is an absent field. A field that a fork adds is expected from that fork on and not
/// before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields of each variant are the values in its message"
)]
pub enum VerifyError {
    /// The parent hash is not that of the parent.
    #[error("parent hash: expected {expected}, found {found}")]
    ParentHash { expected: B256, found: B256 },
    /// The number is not the parent's plus one.
    #[error("number: expected {expected}, found {found}")]
    Number { expected: u64, found: u64 },
    /// The timestamp is not above the parent's.
    #[error("timestamp: expected above {parent}, found {found}")]
    Timestamp { parent: u64, found: u64 },
    /// More than 32 bytes of extra data.
    #[error("extra data: expected at most {max} bytes, found {found}")]
    ExtraData { max: usize, found: usize },
    /// One of the first blocks of the DAO fork lacks its mark (EIP-779).
    #[error("extra data: expected the mark of the DAO fork {expected}, found {found}")]
    DaoForkMissing { expected: Bytes, found: Bytes },
    /// A block carries the mark of the DAO fork, which its chain does not support (EIP-779).
    #[error("extra data: expected no mark of the DAO fork, found {found}")]
    DaoForkMark { found: Bytes },
    /// The gas limit differs from the parent's by 1/1024 or more, or is out of bounds.
    #[error("gas limit: expected {min} to {max}, found {found}")]
    GasLimit { min: u64, max: u64, found: u64 },
    /// The gas used exceeds the limit.
    #[error("gas used: expected at most the limit {limit}, found {found}")]
    GasUsedAboveLimit { limit: u64, found: u64 },
    /// The base fee does not follow from the parent (EIP-1559).
    #[error("base fee: expected {expected:?}, found {found:?}")]
    BaseFee {
        expected: Option<u64>,
        found: Option<u64>,
    },
    /// The difficulty does not follow from the parent, or is not zero after the merge (EIP-3675).
    #[error("difficulty: expected {expected}, found {found}")]
    Difficulty { expected: U256, found: U256 },
    /// The nonce is not zero after the merge (EIP-3675).
    #[error("nonce: expected {expected}, found {found}")]
    Nonce { expected: B64, found: B64 },
    /// A time-based fork is active before the merge.
    #[error("fork {fork} is active before the merge")]
    ForkBeforeMerge { fork: EthereumHardfork },
    /// The withdrawals root is present before Shanghai, absent from then on, or wrong (EIP-4895).
    #[error("withdrawals root: expected {expected:?}, found {found:?}")]
    WithdrawalsRoot {
        expected: Option<B256>,
        found: Option<B256>,
    },
    /// The body has withdrawals before Shanghai, or none from then on (EIP-4895).
    #[error("withdrawals in the body: expected {expected}, found {found}")]
    Withdrawals { expected: bool, found: bool },
    /// The blob gas used is not that of the block's transactions (EIP-4844).
    #[error("blob gas used: expected {expected:?}, found {found:?}")]
    BlobGasUsed {
        expected: Option<u64>,
        found: Option<u64>,
    },
    /// More blob gas than a block may use (EIP-4844, 7691, 7892).
    #[error("blob gas used: expected at most {max}, found {found}")]
    BlobGasAboveLimit { max: u64, found: u64 },
    /// The excess blob gas does not follow from the parent (EIP-4844, 7918).
    #[error("excess blob gas: expected {expected:?}, found {found:?}")]
    ExcessBlobGas {
        expected: Option<u64>,
        found: Option<u64>,
    },
    /// The parent beacon block root is present before Cancun or absent from then on (EIP-4788).
    #[error("parent beacon block root: expected {expected}, found {found}")]
    ParentBeaconBlockRoot { expected: bool, found: bool },
    /// The requests hash is present before Prague or absent from then on (EIP-7685).
    #[error("requests hash: expected {expected}, found {found}")]
    RequestsHashPresence { expected: bool, found: bool },
    /// The withdrawals root is present before Shanghai or absent from then on (EIP-4895).
    #[error("withdrawals root: expected {expected}, found {found}")]
    WithdrawalsRootPresence { expected: bool, found: bool },
    /// The blob gas used is present before Cancun or absent from then on (EIP-4844).
    #[error("blob gas used: expected {expected}, found {found}")]
    BlobGasUsedPresence { expected: bool, found: bool },
    /// The ommers hash is that of some ommers, which no block has after the merge (EIP-3675).
    #[error("ommers hash: expected that of no ommers after the merge, found {found}")]
    OmmersAfterMerge { found: B256 },
    /// The block access list hash is present before Amsterdam or absent from then on (EIP-7928).
    #[error("block access list hash: expected {expected}, found {found}")]
    BlockAccessListHash { expected: bool, found: bool },
    /// The slot number is present before Amsterdam or absent from then on (EIP-7843).
    #[error("slot number: expected {expected}, found {found}")]
    SlotNumber { expected: bool, found: bool },
    /// The transactions root is wrong.
    #[error("transactions root: expected {expected}, found {found}")]
    TransactionsRoot { expected: B256, found: B256 },
    /// A transaction is in the block twice.
    #[error("transaction {index} {hash} is in the block already")]
    DuplicateTransaction { index: usize, hash: B256 },
    /// The ommers hash is wrong.
    #[error("ommers hash: expected {expected}, found {found}")]
    OmmersHash { expected: B256, found: B256 },
    /// The block is too large (EIP-7934).
    #[error("block size: expected at most {max} bytes, found {found}")]
    BlockSize { max: usize, found: usize },
    /// More than two ommers, or any after the merge.
    #[error("ommers: expected at most {max}, found {found}")]
    OmmerCount { max: usize, found: usize },
    /// An ommer is included twice, in this block or in an ancestor.
    #[error("ommer {hash} is included already")]
    OmmerIncluded { hash: B256 },
    /// An ommer is an ancestor of the block.
    #[error("ommer {hash} is an ancestor")]
    OmmerIsAncestor { hash: B256 },
    /// An ommer's parent is not one of the block's second to seventh ancestors.
    #[error("ommer {hash}: expected a parent among the last generations, found {parent}")]
    OmmerParent { hash: B256, parent: B256 },
    /// The header of an ommer fails a check.
    #[error("ommer {hash}: {error}")]
    OmmerHeader { hash: B256, error: Box<Self> },
    /// The signature of a transaction is invalid.
    #[error("transaction {index} {hash}: signature is not valid")]
    Signature { index: usize, hash: B256 },
    /// A signature has an s in the upper half: anyone can derive it from the valid one (EIP-2).
    #[error("transaction {index} {hash}: signature is malleable, expected a low s")]
    SignatureMalleable { index: usize, hash: B256 },
    /// A transaction is signed for another chain (EIP-155).
    #[error("transaction {index} {hash}: chain id: expected {expected}, found {found}")]
    ChainId {
        index: usize,
        hash: B256,
        expected: u64,
        found: u64,
    },
    /// A transaction names its chain before Spurious Dragon (EIP-155).
    #[error("transaction {index} {hash}: expected no chain id before Spurious Dragon, found one")]
    ReplayProtection { index: usize, hash: B256 },
    /// The gas used is not that of execution.
    #[error("gas used: expected {expected}, found {found}")]
    GasUsed { expected: u64, found: u64 },
    /// The receipts root is wrong.
    #[error("receipts root: expected {expected}, found {found}")]
    ReceiptsRoot { expected: B256, found: B256 },
    /// The logs bloom is wrong; both values are keccak256 hashes of blooms.
    #[error("logs bloom: expected one with hash {expected}, found one with hash {found}")]
    LogsBloom { expected: B256, found: B256 },
    /// The requests hash is not that of the execution requests (EIP-7685).
    #[error("requests hash: expected {expected:?}, found {found:?}")]
    RequestsHash {
        expected: Option<B256>,
        found: Option<B256>,
    },
    /// The state root is not that after execution.
    #[error("state root: expected {expected}, found {found}")]
    StateRoot { expected: B256, found: B256 },
}
