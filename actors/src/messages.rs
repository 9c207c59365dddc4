//! Every message: what it asks for, its reply, its cost.
//!
//! Requests are imperative, facts are past tense. A read carries the [`Snapshot`] that its request
//! took once, so that every item of a batch is answered from the same state.

mod state;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Message, MessageResponse};
use alloy_primitives::{Address, B256, Bytes};
use nearhead_chain::{
    block::Block,
    call::{Call, CallAccessList, CallError, GasMeter, Simulation},
    json::Json,
    log_search::{Cancellation, ChangedBlock, LogFilter},
    raw::{RawError, RawItem},
    trie::TrieError,
    window::{BlockId, BlockNumberOrTag, ResolveError, SettledBlocks, Snapshot},
};
use tokio::sync::broadcast;

pub use state::{ProveAccount, ReadAccount, ReadCode, ReadStorage, ReadStorageValues};

use crate::{
    budget::{CallBudget, OverBudget},
    share::Share,
};

/// Why a query has no answer. The server maps each to its JSON-RPC code.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueryError {
    /// The block parameter names nothing that is served.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The state cannot be read. If all state is held, this is a defect; if it is held in part, the
    /// rest has to be fetched.
    #[error(transparent)]
    Trie(#[from] TrieError),
    /// A held block cannot be encoded in RLP, which is a defect.
    #[error(transparent)]
    Raw(#[from] RawError),
    /// The state of this block is not held.
    #[error("the state of block {number} is not held")]
    NoState {
        /// The block's number.
        number: u64,
    },
    /// The block has no access list: it is older than Amsterdam.
    #[error("block {number} has no access list")]
    NoAccessList {
        /// The block's number.
        number: u64,
    },
    /// The state of this block is held in part, and no upstream gives the rest.
    #[error("state not available from the configured nodes")]
    StateUnavailable,
    /// A forwarded call may have been made, and no node gave an answer that can be used.
    #[error("no node answered")]
    NoNodeAnswered,
    /// More logs match than may be returned.
    #[error("more than {limit} logs match")]
    TooManyLogs {
        /// First block of the query.
        from: u64,
        /// Last block of the largest range from `from` that fits, if any does.
        fits_to: Option<u64>,
        /// The bound.
        limit: usize,
    },
    /// A call of a contract lacked state again and again.
    #[error(
        "the call lacked state after {most} fetches, the most for one call: ask again, or for less"
    )]
    TooManyFetches {
        /// The bound.
        most: usize,
    },
    /// The deadline passed.
    #[error("deadline passed")]
    Timeout,
    /// The client went away.
    #[error("cancelled")]
    Cancelled,
    /// The handler panicked; it was counted and the actor restarted.
    #[error("the handler panicked")]
    Panicked,
    /// So much of the tenant's work waits that this would wait for too long, no permit or memory is
    /// free, the tenant's budget of calls to upstreams is used up, or upstreams limit our calls.
    #[error("overloaded")]
    Overloaded {
        /// The time until that is over, as it was measured.
        retry_after: Duration,
    },
    /// Upstreams are busy, the state was evicted before it was read, or the actor has stopped with
    /// the service.
    #[error("not available")]
    Unavailable,
}

impl From<OverBudget> for QueryError {
    fn from(OverBudget { retry_after }: OverBudget) -> Self {
        Self::Overloaded { retry_after }
    }
}

/// A query's reply.
pub type Reply<T> = Result<T, QueryError>;

/// Whether a read failed because the state is held in part and lacks what the read needs.
pub(crate) const fn is_missing<T>(reply: &Reply<T>) -> bool {
    matches!(
        reply,
        Err(QueryError::Trie(
            TrieError::MissingNode { .. } | TrieError::MissingCode { .. }
        ))
    )
}

/// A block by hash (canonical or replaced) or by number or tag (canonical).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockAt {
    /// By hash.
    Hash(B256),
    /// By number or tag.
    Number(BlockNumberOrTag),
}

/// A transaction by hash, or by block and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionAt {
    /// By hash; canonical blocks only.
    Hash(B256),
    /// By block and index.
    Index(BlockAt, u64),
}

/// To the block store: a block's JSON. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<Json>>")]
pub struct FindBlock {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// The block.
    pub at: BlockAt,
    /// Full transactions, or their hashes.
    pub full: bool,
}

/// To the block store: a transaction's JSON. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<Json>>")]
pub struct FindTransaction {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// The transaction.
    pub at: TransactionAt,
}

/// To the block store: a canonical transaction's receipt. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<Json>>")]
pub struct FindReceipt {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// The transaction's hash.
    pub transaction: B256,
}

/// To the block store: all receipts of a block. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<Json>>")]
pub struct FindBlockReceipts {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// The block.
    pub at: BlockAt,
}

/// To the block store: a block's access list (EIP-7928). Measured: nodes may be asked for it,
/// and it may be large.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<Json>>")]
pub struct FindAccessList {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// What the read may cause at upstreams.
    pub budget: CallBudget,
    /// The block.
    pub at: BlockAt,
}

/// To the raw actor: a block, its receipts or a transaction in RLP. Measured by the JSON that they
/// are made from.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Json>")]
pub struct EncodeRaw {
    /// What is wanted.
    pub item: RawItem,
    /// Largest answer, in bytes, that is built whole; a larger one is built as it is sent.
    pub built_max: usize,
    /// Whose query it is.
    pub share: Share,
    /// Set when the client goes away; a query that still waits is then dropped.
    pub cancel: Cancellation,
}

/// To the block store: an uncle. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<Json>>")]
pub struct FindUncle {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// The block.
    pub at: BlockAt,
    /// The uncle's position.
    pub index: u64,
}

/// To the block store: the number of a block's transactions. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<u64>>")]
pub struct CountTransactions {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// The block.
    pub at: BlockAt,
}

/// To the block store: the number of a block's uncles. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<u64>>")]
pub struct CountUncles {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// The block.
    pub at: BlockAt,
}

/// The blocks that a log query reads, already checked against the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRange {
    /// One block, canonical or replaced.
    Hash(B256),
    /// Canonical blocks, both ends included.
    Numbers {
        /// First.
        from: u64,
        /// Last.
        to: u64,
    },
}

/// To the log query actor: the logs that match. Measured by look-ups.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Json>")]
pub struct FindLogs {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// The blocks.
    pub range: LogRange,
    /// The logs.
    pub filter: LogFilter,
    /// The largest number of matches; more are an error.
    pub limit: usize,
    /// Whose query it is.
    pub share: Share,
    /// The instant at which the query is cancelled; the time runs from admission.
    pub deadline: Instant,
    /// Set when the client goes away, or when the deadline passes.
    pub cancel: Cancellation,
}

/// To the log query actor: the logs that match in blocks that were reverted and applied. Measured
/// by look-ups.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<LogChanges>")]
pub struct FindLogChanges {
    /// The blocks, in the order in which a reader learns of them.
    pub changes: Vec<ChangedBlock>,
    /// The logs.
    pub filter: Arc<LogFilter>,
    /// The number of matches after which no further block is added.
    pub limit: usize,
    /// Whose query it is.
    pub share: Share,
    /// The instant at which the query is cancelled; the time runs from admission.
    pub deadline: Instant,
    /// Set when the client goes away, or when the deadline passes.
    pub cancel: Cancellation,
}

/// The logs of changed blocks.
#[derive(Debug)]
pub struct LogChanges {
    /// The JSON array of the logs.
    pub logs: Json,
    /// How many of the blocks have all their matches in it; the rest is for the next query.
    pub blocks: usize,
}

/// What to run, and what is wanted of it.
#[derive(Clone, Debug)]
pub enum CallTask {
    /// The output of a call (eth_call).
    Output(Call),
    /// The gas with which a call succeeds (eth_estimateGas).
    Gas(Call),
    /// The accounts and slots that a call reads (eth_createAccessList).
    AccessList(Call),
    /// Blocks of calls (eth_simulateV1).
    Blocks(Simulation),
}

impl CallTask {
    /// The call, if it is one.
    pub(crate) const fn call(&self) -> Option<&Call> {
        match self {
            Self::Output(call) | Self::Gas(call) | Self::AccessList(call) => Some(call),
            Self::Blocks(_) => None,
        }
    }
}

/// What a [`CallTask`] gave.
#[derive(Debug)]
pub enum Called {
    /// Its output.
    Output(Bytes),
    /// The gas with which it succeeds.
    Gas(u64),
    /// The accounts and slots that it reads.
    AccessList(CallAccessList),
    /// The simulated blocks.
    Blocks(Json),
}

/// To the call actor: run calls of contracts. Measured by gas.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Result<Called, CallError>>")]
pub struct RunCall {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// What the call may cause at upstreams.
    pub budget: CallBudget,
    /// The block after which it runs.
    pub at: BlockId,
    /// What to run.
    pub task: CallTask,
    /// Counts the gas of all runs, also if the reply is an error.
    pub gas: GasMeter,
    /// The instant at which it is cancelled.
    pub deadline: Instant,
    /// Set when the client goes away, or when the deadline passes.
    pub cancel: Cancellation,
}

/// What a node answers to a call that is forwarded to it. Nothing of it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAnswer {
    /// A result: any JSON, of bounded size and depth.
    Result(Vec<u8>),
    /// An error.
    Error(NodeError),
    /// No node has the method.
    Unsupported,
}

/// An error that a node answers with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// Its code.
    pub code: i32,
    /// Its message: of bounded length, and without what says how the node is called.
    pub message: Box<str>,
}

/// To the forward actor: a call that a node answers. One permit of those for forwarded calls.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<NodeAnswer>")]
pub struct ForwardCall {
    /// What the call may cause at upstreams.
    pub budget: CallBudget,
    /// The method.
    pub method: &'static str,
    /// Its parameters: a JSON array.
    pub params: Box<str>,
}

/// To the forward actor: a transaction for all nodes, of which one has to take it; else the error
/// of one that does not. One permit of those for forwarded calls.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Result<(), NodeError>>")]
pub struct SendTransaction {
    /// What it may cause at upstreams.
    pub budget: CallBudget,
    /// Its hash.
    pub hash: B256,
    /// The transaction as it is sent.
    pub transaction: Bytes,
}

/// To the forward actor: the highest number of an account's transactions that a node states, those
/// included that wait; `None` if no node states one. One permit of those for forwarded calls.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<u64>>")]
pub struct CountPending {
    /// What it may cause at upstreams.
    pub budget: CallBudget,
    /// The account.
    pub address: Address,
}

/// To the head tracker: revert blocks, then apply others, which the sender has verified.
///
/// Answered when the new snapshot is readable, so a source that waits for the answer cannot run
/// ahead of the tracker.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), nearhead_chain::window::WindowError>")]
pub struct AdvanceHead {
    /// The number of blocks to revert.
    pub reverted: usize,
    /// Blocks to apply, in order.
    pub applied: Vec<Arc<Block>>,
    /// The safe block afterwards, if known.
    pub safe: Option<B256>,
    /// The finalized block afterwards, if known.
    pub finalized: Option<B256>,
}

/// To the head tracker: start the window again with this block. Of the blocks held before, only the
/// genesis stays.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), nearhead_chain::window::WindowError>")]
pub(crate) struct ResetHead {
    /// The new head.
    pub(crate) first: Arc<Block>,
}

/// To the head tracker: add a verified block below the oldest, whose parent it is. The head stays,
/// so no change is announced.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), nearhead_chain::window::WindowError>")]
pub(crate) struct ExtendBelow {
    /// The block.
    pub(crate) block: Arc<Block>,
}

/// To the head tracker: keep the verified genesis of a chain whose window began above it. No change
/// is announced.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), nearhead_chain::window::WindowError>")]
pub(crate) struct KeepGenesis {
    /// Block 0.
    pub(crate) block: Arc<Block>,
}

/// To the head tracker: the source names these blocks safe and finalized, by number and hash. A
/// block that is not canonical is ignored, and so is `None`. The head stays, so no change is
/// announced.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct SettleHead(pub(crate) SettledBlocks);

/// Fact: the head changed, and the new snapshot is already readable.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct HeadChanged {
    /// Blocks that are not canonical any more, newest first.
    pub reverted: Vec<Arc<Block>>,
    /// New canonical blocks, oldest first.
    pub applied: Vec<Arc<Block>>,
    /// Whether the window was reset: the changes do not lead from the snapshot before to this one.
    pub is_reset: bool,
    /// The snapshot after the change.
    pub snapshot: Arc<Snapshot>,
}

/// To the head tracker: announce every change from now on. Cheap.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "HeadSubscription")]
pub struct FollowHead;

/// Every change of the head after `snapshot`, without a gap.
#[derive(Debug, MessageResponse)]
pub struct HeadSubscription {
    /// The snapshot that the first change builds on.
    pub snapshot: Arc<Snapshot>,
    /// The changes. A receiver that is too far behind gets an error, and must stop or resume.
    pub changes: broadcast::Receiver<Arc<HeadChanged>>,
}

/// To the head tracker: stop, because the service does.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct StopHead;
