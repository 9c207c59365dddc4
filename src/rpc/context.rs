//! What a method handler gets in addition to its parameters, and what it returns.

use std::{cell::Cell, sync::Arc, time::Duration};

use bytes::Bytes;
use nearhead_actors::{read::Worker, readiness::Readiness};
use nearhead_chain::{json::Json, window::Snapshot};

use super::{contracts::ContractCheck, error::RpcError, request_session::RequestSession};
use crate::{
    access::{ActiveKey, MethodSet},
    filters::{Advances, Filters},
    limits::CallLimits,
    metrics::ForwardOutcome,
};

/// What a handler returns.
pub(super) type MethodResult = Result<Json, RpcError>;

/// What one request, or every item of one batch, is answered from.
pub(crate) struct RequestContext<'a> {
    /// The key that the request came with.
    pub(crate) key: &'a ActiveKey,
    /// The chain at one head.
    pub(crate) snapshot: Arc<Snapshot>,
    /// Whether the head is fresh.
    pub(crate) readiness: &'a Readiness,
    /// The read actors of this worker.
    pub(crate) worker: &'a Worker,
    /// Longest time that one eth_getLogs may run, from admission.
    pub(crate) logs_deadline: Duration,
    /// The limits of one call of a contract.
    pub(crate) calls: CallLimits,
    /// The filters of all keys.
    pub(crate) filters: &'a Filters,
    /// What the answers have taken from filters.
    pub(crate) advances: Advances,
    /// Largest result, in bytes, that is built whole; a larger one is built while it is sent.
    pub(crate) built_max: usize,
    /// Whether transactions are sent to nodes.
    pub(crate) sends_transactions: bool,
    /// The OpenRPC document.
    pub(crate) openrpc: &'a Bytes,
    /// The session that the request came over, if any.
    pub(crate) session: Option<&'a dyn RequestSession>,
    /// Bytes of the answer that wait in the buffers of its connection, at most; zero in a session.
    pub(crate) buffered_max: usize,
    /// Storage keys that the call in progress names, or what takes as long as so many; its handler
    /// counts them for the price.
    pub(crate) keys: Cell<usize>,
    /// Gas that the call in progress used; its handler counts it for the price.
    pub(crate) gas: Cell<u64>,
    /// How the forwarded call ended that the call in progress made; its handler sets it.
    pub(crate) forwarded: Cell<Option<ForwardOutcome>>,
    /// Whether an answer so far has what a node says, which is not verified.
    pub(crate) is_unverified: Cell<bool>,
    /// The check of the contracts that the call in progress names.
    pub(crate) contracts: ContractCheck<'a>,
}

impl RequestContext<'_> {
    /// The set of methods that is served to the tenant.
    pub(super) fn methods(&self) -> MethodSet {
        self.key.tenant.limits.methods
    }
}
