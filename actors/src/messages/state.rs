//! The messages to the proof actor: reads of the state after a block, and of its proofs.

use std::sync::Arc;

use actix::Message;
use alloy_primitives::{Address, Bytes, U256};
use alloy_trie::TrieAccount;
use nearhead_chain::{
    encode::ProofKey,
    json::Json,
    log_search::Cancellation,
    window::{BlockId, Snapshot},
};

use super::Reply;
use crate::budget::CallBudget;

/// To the proof actor: one storage slot. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<U256>")]
pub struct ReadStorage {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// What the read may cause at upstreams.
    pub budget: CallBudget,
    /// The block.
    pub at: BlockId,
    /// The account.
    pub address: Address,
    /// The slot.
    pub slot: U256,
}

/// To the proof actor: many slots of many accounts. Measured by slots.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Vec<Vec<U256>>>")]
pub struct ReadStorageValues {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// What the read may cause at upstreams.
    pub budget: CallBudget,
    /// The block.
    pub at: BlockId,
    /// Accounts and slots; answered in the same order.
    pub slots: Vec<(Address, Vec<U256>)>,
    /// Set when the client goes away; a query that still waits is then dropped.
    pub cancel: Cancellation,
}

/// To the proof actor: an account, `None` where it is absent. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Option<TrieAccount>>")]
pub struct ReadAccount {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// What the read may cause at upstreams.
    pub budget: CallBudget,
    /// The block.
    pub at: BlockId,
    /// The account.
    pub address: Address,
}

/// To the proof actor: an account's code, empty where there is none. Cheap.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Bytes>")]
pub struct ReadCode {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// What the read may cause at upstreams.
    pub budget: CallBudget,
    /// The block.
    pub at: BlockId,
    /// The account.
    pub address: Address,
}

/// To the proof actor: an EIP-1186 proof as JSON. Measured by keys.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Reply<Json>")]
pub struct ProveAccount {
    /// The snapshot to read.
    pub snapshot: Arc<Snapshot>,
    /// What the read may cause at upstreams.
    pub budget: CallBudget,
    /// The block.
    pub at: BlockId,
    /// The account.
    pub address: Address,
    /// The slots in the order of the request, each as the answer echoes it.
    pub keys: Vec<ProofKey>,
    /// Largest answer, in bytes, that is built whole; a larger one is built as it is sent.
    pub built_max: usize,
    /// Set when the client goes away; a query that still waits is then dropped.
    pub cancel: Cancellation,
}
