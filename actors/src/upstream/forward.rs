//! Calls of clients that upstreams answer. Nothing of their answers is verified.
//!
//! A call goes to one upstream: to the one that gave the newest head, or to another one while that
//! fails. It is repeated at the next one only if the one before has certainly done nothing. A
//! transaction goes to all of them, because it is the same transaction wherever it arrives.

mod node;
mod node_error;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U64};
use nearhead_chain::json::nesting;
use serde_json::value::{RawValue, to_raw_value};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};
use tracing::Instrument;

use self::{
    node::{Failure, ForwardNode, Standby},
    node_error::{is_known_already, unsupported},
};
use super::{
    client::{CallError, UpstreamClient, answer_bytes},
    health::UpstreamId,
    standing::Standing,
};
use crate::{
    admission::{Callers, FORWARDED_ANSWER_BYTES_MAX, FORWARDED_DEPTH_MAX, FairPermit},
    messages::{NodeAnswer, NodeError, QueryError, Reply},
    trace,
};

/// How long the others are waited for once one upstream has stated a count: one that hangs delays
/// nobody for longer.
const OTHERS_WAIT_MAX: Duration = Duration::from_secs(1);

/// Passes calls to upstreams. Clones share it.
#[derive(Clone, Debug)]
pub struct Forwarder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    nodes: Vec<ForwardNode>,
    runtime: Handle,
    standing: Arc<Standing>,
    /// Longest time that one call may take, with all that it waits for.
    deadline: Duration,
}

impl Forwarder {
    /// One that calls these upstreams, which are in the operator's order. Calls run on `runtime`
    /// and take at most `deadline`; `standing` decides which upstream is asked first.
    pub(super) fn new(
        clients: Vec<UpstreamClient>,
        runtime: Handle,
        standing: Arc<Standing>,
        deadline: Duration,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                nodes: clients.into_iter().map(ForwardNode::new).collect(),
                runtime,
                standing,
                deadline,
            }),
        }
    }

    /// How many upstreams there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.shared.nodes.len()
    }

    /// Makes a call of any method, with a JSON array of parameters. Dropping the future gives the
    /// call up.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: the upstreams limit our calls. [`QueryError::Unavailable`]: one
    /// of them is busy.
    /// [`QueryError::NoNodeAnswered`]: the call may have been made.
    pub(crate) async fn call(
        &self,
        permit: FairPermit,
        method: &'static str,
        params: Box<str>,
    ) -> Reply<NodeAnswer> {
        let shared = Arc::clone(&self.shared);
        let mut task = JoinSet::new();
        let call = async move {
            let callers = Callers::of(permit.share());
            let answer = timeout(shared.deadline, shared.call(&callers, method, params));
            let answer = answer.await.unwrap_or(Err(QueryError::NoNodeAnswered));
            drop(permit);
            answer
        };
        task.spawn_on(call.instrument(trace::current()), &self.shared.runtime);
        let answer = task.join_next().await.and_then(Result::ok);
        // The runtime is shut down with the source.
        answer.unwrap_or(Err(QueryError::Unavailable))
    }

    /// Sends a transaction to every upstream, and waits until one of them takes it. The others get
    /// it all the same, and also if the future is dropped.
    ///
    /// An upstream's refusal is final only if no other one can have the transaction: each has
    /// refused it too, or has certainly not seen it.
    ///
    /// # Errors
    /// No upstream saw it: [`QueryError::Overloaded`]: they limit our calls;
    /// [`QueryError::Unavailable`]: one of them is busy. [`QueryError::NoNodeAnswered`]: an
    /// upstream may have taken the transaction.
    pub(crate) async fn send(
        &self,
        permit: FairPermit,
        hash: B256,
        transaction: Bytes,
    ) -> Reply<Result<(), NodeError>> {
        let standby = self.shared.order();
        let (mut all_unsupported, ids) = (standby.may_all_lack_it(), standby.nodes);
        // Those that may have taken it.
        let mut unknown = ids.len();
        let callers = Callers::of(permit.share());
        let permit = Arc::new(permit);
        let (sender, mut answers) = mpsc::channel(ids.len().max(1));
        for id in ids {
            let (shared, permit) = (Arc::clone(&self.shared), Arc::clone(&permit));
            let (callers, transaction) = (callers.clone(), transaction.clone());
            let sender = sender.clone();
            let send = async move {
                let send = shared.send(id, &callers, hash, &transaction);
                let answer = timeout(shared.deadline, send).await;
                // Sending fails if the client has been answered, or has gone.
                let _ = sender.try_send(answer.unwrap_or(Err(Failure::Unknown)));
                drop(permit);
            };
            self.shared.runtime.spawn(send.instrument(trace::current()));
        }
        drop(sender);
        let mut refused = None;
        let mut is_busy = false;
        let until = Instant::now() + self.shared.deadline;
        while let Ok(Some(answer)) = timeout_at(until, answers.recv()).await {
            match answer {
                Ok(Ok(())) => return Ok(Ok(())),
                Ok(Err(error)) => {
                    refused.get_or_insert(error);
                }
                Err(Failure::Limited) => all_unsupported = false,
                Err(Failure::Busy) => (all_unsupported, is_busy) = (false, true),
                Err(Failure::Unsupported) => {}
                Err(Failure::Unknown) => continue,
            }
            unknown -= 1;
        }
        match refused {
            _ if unknown > 0 => Err(QueryError::NoNodeAnswered),
            Some(error) => Ok(Err(error)),
            None if all_unsupported => Ok(Err(unsupported("eth_sendRawTransaction"))),
            None => Err(self.shared.refusal(is_busy)),
        }
    }

    /// The highest count of an account's transactions, with those that wait, that an upstream
    /// states; `None` if none states one. A transaction is known to the upstreams one after
    /// another, and a client that uses a count again loses a transaction. Dropping the future gives
    /// the calls up.
    pub(crate) async fn pending_count(&self, permit: FairPermit, address: Address) -> Option<u64> {
        let mut tasks = JoinSet::new();
        let callers = Callers::of(permit.share());
        for id in self.shared.order().nodes {
            let (shared, callers) = (Arc::clone(&self.shared), callers.clone());
            let count = async move { shared.pending_count(id, &callers, address).await };
            tasks.spawn_on(count.instrument(trace::current()), &self.shared.runtime);
        }
        let mut until = Instant::now() + self.shared.deadline;
        let mut highest = None;
        while let Ok(Some(count)) = timeout_at(until, tasks.join_next()).await {
            if let Ok(Some(count)) = count {
                until = until.min(Instant::now() + OTHERS_WAIT_MAX);
                highest = highest.max(Some(count));
            }
        }
        drop(permit);
        highest
    }
}

impl Shared {
    /// The upstreams to call, in order, without those that limit our calls.
    fn order(&self) -> Standby {
        let now = Instant::now();
        Standby::new(
            &self.nodes,
            self.standing.forward_order(now.into_std()),
            now,
        )
    }

    async fn call(
        &self,
        callers: &Callers,
        method: &'static str,
        params: Box<str>,
    ) -> Reply<NodeAnswer> {
        let params = RawValue::from_string(params.into_string());
        // The client's text was parsed before.
        let params = params.map_err(|_| QueryError::Unavailable)?;
        let standby = self.order();
        let mut all_unsupported = standby.may_all_lack_it();
        let mut is_busy = false;
        for id in standby.nodes {
            let node = &self.nodes[id];
            let asked = node.ask(callers, method, params.clone(), FORWARDED_ANSWER_BYTES_MAX);
            match asked.await {
                Ok(Ok(answer)) => {
                    let json = answer.into_json();
                    if nesting(json.get().as_bytes()) > FORWARDED_DEPTH_MAX {
                        return Err(QueryError::NoNodeAnswered);
                    }
                    return Ok(NodeAnswer::Result(
                        Box::<str>::from(json).into_string().into_bytes(),
                    ));
                }
                Ok(Err(error)) => return Ok(NodeAnswer::Error(error)),
                Err(Failure::Limited) => all_unsupported = false,
                Err(Failure::Busy) => (all_unsupported, is_busy) = (false, true),
                Err(Failure::Unsupported) => {}
                Err(Failure::Unknown) => return Err(QueryError::NoNodeAnswered),
            }
        }
        match all_unsupported {
            true => Ok(NodeAnswer::Unsupported),
            false => Err(self.refusal(is_busy)),
        }
    }

    /// The refusal of a call that was not made: one that is busy may take it soon, and one that
    /// limits our calls says when.
    fn refusal(&self, is_busy: bool) -> QueryError {
        let now = Instant::now();
        let order = self.standing.forward_order(now.into_std());
        let until = order
            .into_iter()
            .filter_map(|id| self.nodes[id].limited_until(now));
        match until.min() {
            Some(until) if !is_busy => QueryError::Overloaded {
                retry_after: until.saturating_duration_since(now),
            },
            _ => QueryError::Unavailable,
        }
    }

    async fn send(
        &self,
        id: UpstreamId,
        callers: &Callers,
        hash: B256,
        transaction: &Bytes,
    ) -> Result<Result<(), NodeError>, Failure> {
        let node = &self.nodes[id];
        let params = to_raw_value(&[transaction]).map_err(|_| Failure::Busy)?;
        let asked = node.ask_again(
            callers,
            "eth_sendRawTransaction",
            params,
            answer_bytes::VALUE,
        );
        match asked.await? {
            Ok(answer) => {
                let stated = answer.into_json();
                if serde_json::from_str(stated.get()).ok() != Some(hash) {
                    tracing::warn!(
                        node = %node.endpoint(),
                        %hash,
                        "the node took a transaction and answered with another hash"
                    );
                }
                Ok(Ok(()))
            }
            Err(error) if is_known_already(&error.message) => Ok(Ok(())),
            Err(error) => Ok(Err(error)),
        }
    }

    async fn pending_count(
        &self,
        id: UpstreamId,
        callers: &Callers,
        address: Address,
    ) -> Option<u64> {
        let params = to_raw_value(&(address, "pending")).ok()?;
        let method = "eth_getTransactionCount";
        let asked = self.nodes[id].ask_again(callers, method, params, answer_bytes::VALUE);
        let answer = asked.await.ok()?.ok()?;
        let count: U64 = serde_json::from_str(answer.get()).ok()?;
        Some(count.to())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Busy => Self::Busy,
            CallError::RateLimited { .. } => Self::Limited,
            CallError::UnsupportedMethod => Self::Unsupported,
            CallError::Timeout(_)
            | CallError::Connection(_)
            | CallError::Refused { .. }
            | CallError::NotFound
            | CallError::Malformed(_)
            | CallError::TooLarge { .. }
            | CallError::Rpc { .. } => Self::Unknown,
        }
    }
}
