//! The calls to one upstream.
//!
//! Blocks, receipts, proofs, code and access lists are returned as JSON text, for the caller to
//! verify. What is parsed here is small values, such as the chain id, and claims about heads, which
//! merely lead to further calls.

pub(crate) mod answer_bytes;
mod claim;
mod error;
mod error_code;
mod heads;
mod http;
mod large;
mod negative_cache;
mod node_span;
mod optional_method;
mod state;
mod tls;
mod transport;
mod ws;

#[cfg(test)]
pub(super) mod tests;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_json_rpc::{ErrorPayload, RpcRecv, RpcSend};
use alloy_primitives::{B256, U64};
use serde_json::value::RawValue;
use tokio::{task::JoinSet, time};

pub(crate) use claim::HeadClaim;
pub(crate) use error::{CallError, ClientError, printable};
pub(crate) use error_code::{METHOD_NOT_FOUND, Meaning, UNSPECIFIED, meaning};
pub(crate) use heads::Heads;
pub(crate) use large::JsonAnswer;
pub(super) use negative_cache::NegativeCache;
pub(crate) use optional_method::OptionalMethod;

use super::Endpoint;
use crate::{
    admission::{Callers, FairTurn, FairTurns, QUEUE_ITEMS_PER_TENANT_MAX},
    share::Share,
};
use node_span::traced;
use optional_method::MissingMethods;
use transport::Transport;

/// Bounds of the calls to one upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// Calls that may be in progress; at least one.
    pub(crate) concurrency: usize,
    /// Longest wait for a turn, and again for the answer.
    pub(crate) timeout: Duration,
    /// Longest answer to any call, in bytes; most calls have a lower bound (`answer_bytes`). Over
    /// HTTP, reading stops at the bound of the call. Over WebSocket, a message longer than this one
    /// ends the connection, and an answer longer than the bound of its call is refused once it has
    /// arrived.
    pub(crate) answer_bytes_max: usize,
}

/// A block tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// The upstream's head.
    Latest,
    /// The safe block.
    Safe,
    /// The finalized block.
    Finalized,
}

impl Tag {
    const fn name(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::Safe => "safe",
            Self::Finalized => "finalized",
        }
    }
}

/// A block's receipts as an upstream gave them.
#[derive(Debug)]
pub(crate) enum ReceiptsAnswer {
    /// All in one list.
    Whole(JsonAnswer),
    /// One by one, in the order of the transactions.
    Single(Vec<Box<RawValue>>),
}

/// The client of one upstream. Clones share its connections and bounds.
#[derive(Clone)]
pub(crate) struct UpstreamClient {
    inner: Arc<Inner>,
    /// Longest wait for a turn, and again for the answer.
    timeout: Duration,
    /// On whose behalf it calls.
    callers: Callers,
}

struct Inner {
    endpoint: Endpoint,
    limits: CallLimits,
    turns: FairTurns,
    transport: Transport,
    missing: MissingMethods,
}

impl UpstreamClient {
    /// A client that connects at the first call.
    ///
    /// # Errors
    /// TLS or HTTP cannot be set up.
    pub(crate) fn new(endpoint: Endpoint, limits: CallLimits) -> Result<Self, ClientError> {
        let transport = Transport::new(&endpoint, limits.answer_bytes_max)?;
        let concurrency = limits.concurrency.max(1);
        // Who follows the chain asks for some blocks at once, and for as many receipts of each.
        let waiting_max = concurrency.saturating_mul(concurrency);
        let waiting_max = waiting_max.max(QUEUE_ITEMS_PER_TENANT_MAX);
        let turns = FairTurns::new(concurrency, waiting_max);
        Ok(Self {
            timeout: limits.timeout,
            callers: Callers::of(Share::default()),
            inner: Arc::new(Inner {
                endpoint,
                limits,
                turns,
                transport,
                missing: MissingMethods::default(),
            }),
        })
    }

    /// The same client, with calls that wait no longer than this.
    pub(crate) fn within(&self, longest: Duration) -> Self {
        Self {
            timeout: longest.min(self.inner.limits.timeout),
            ..self.clone()
        }
    }

    /// The same client, with calls that wait for their turn among those of these tenants. Calls of
    /// the client itself are those of another tenant: of who follows the chain.
    pub(crate) fn on_behalf_of(&self, callers: &Callers) -> Self {
        Self {
            callers: callers.clone(),
            ..self.clone()
        }
    }

    /// Makes later calls on new connections. Calls in progress go on.
    pub(crate) fn reconnect(&self) {
        self.inner.transport.reconnect();
    }

    /// The upstream's endpoint, which displays no secrets.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    /// The chain id.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn chain_id(&self) -> Result<u64, CallError> {
        let id: U64 = self.read("eth_chainId", ()).await?;
        Ok(id.to())
    }

    /// Whether the upstream reports that it is syncing.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn is_syncing(&self) -> Result<bool, CallError> {
        let json = self.call("eth_syncing", (), answer_bytes::VALUE).await?;
        Ok(json.get() != "false")
    }

    /// The block with this tag; [`CallError::NotFound`] if the upstream has none yet.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn head(&self, tag: Tag) -> Result<HeadClaim, CallError> {
        self.claim(tag.name()).await
    }

    /// The hash of the upstream's canonical block at this number; `None` if it has no such block,
    /// or has pruned it.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn hash_at(&self, number: u64) -> Result<Option<B256>, CallError> {
        match self.claim(U64::from(number)).await {
            Ok(claim) if claim.number == number => Ok(Some(claim.hash)),
            Ok(claim) => {
                let error = format!("block {} instead of {number}", claim.number);
                Err(CallError::Malformed(error.into()))
            }
            Err(CallError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A block with its transactions, in at most `bytes_max` bytes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn block_by_hash(
        &self,
        hash: B256,
        bytes_max: usize,
    ) -> Result<JsonAnswer, CallError> {
        self.call("eth_getBlockByHash", (hash, true), bytes_max)
            .await
    }

    /// A block's header, with the hashes of its transactions.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn header_by_hash(&self, hash: B256) -> Result<Box<RawValue>, CallError> {
        let params = (hash, false);
        let header = self.call("eth_getBlockByHash", params, answer_bytes::CLAIM);
        header.await.map(JsonAnswer::into_json)
    }

    /// The upstream's canonical block at this number, with its transactions, in at most `bytes_max`
    /// bytes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn block_by_number(
        &self,
        number: u64,
        bytes_max: usize,
    ) -> Result<JsonAnswer, CallError> {
        let params = (U64::from(number), true);
        self.call("eth_getBlockByNumber", params, bytes_max).await
    }

    /// A block's receipts, in at most `bytes_max` bytes: in one list, or one by one from an
    /// upstream without eth_getBlockReceipts.
    ///
    /// # Errors
    /// See [`CallError`]. If one receipt fails, all fail.
    pub(crate) async fn block_receipts(
        &self,
        block: B256,
        transactions: &[B256],
        bytes_max: usize,
    ) -> Result<ReceiptsAnswer, CallError> {
        let method = OptionalMethod::BlockReceipts;
        if !self.lacks(method) {
            match self.call(method.name(), (block,), bytes_max).await {
                Err(error) if error.is_unsupported() => self.record_missing(method),
                answer => return answer.map(ReceiptsAnswer::Whole),
            }
        }
        self.single_receipts(transactions, bytes_max)
            .await
            .map(ReceiptsAnswer::Single)
    }

    /// An ommer's header.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn uncle(&self, block: B256, index: u64) -> Result<Box<RawValue>, CallError> {
        let params = (block, U64::from(index));
        let method = "eth_getUncleByBlockHashAndIndex";
        let ommer = self.call(method, params, answer_bytes::OMMER);
        ommer.await.map(JsonAnswer::into_json)
    }

    /// A call of any method: the upstream's answer of at most `bytes_max` bytes, null included, or
    /// its own error.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn ask(
        &self,
        method: &'static str,
        params: Box<RawValue>,
        bytes_max: usize,
    ) -> Result<Result<JsonAnswer, ErrorPayload>, CallError> {
        let limit = bytes_max.min(self.inner.limits.answer_bytes_max);
        let ask = async {
            let _turn = self.turn().await?;
            let transport = &self.inner.transport;
            let answer = transport.ask(self.timeout, limit, method, params).await?;
            match answer {
                Ok(answer) if answer.get().len() > limit => Err(CallError::TooLarge { limit }),
                answer => Ok(answer),
            }
        };
        let bytes = |answer: &Result<JsonAnswer, _>| answer.as_ref().ok().and_then(length);
        traced(self.endpoint(), method, ask, bytes).await
    }

    /// Whether the upstream is known to lack this method. After five minutes it is asked again.
    pub(crate) fn lacks(&self, method: OptionalMethod) -> bool {
        self.inner.missing.is_known(method, Instant::now())
    }

    /// Subscribes to the upstream's heads; [`CallError::UnsupportedMethod`] over HTTP. One
    /// subscription is enough: two on one connection share an id and end together.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn subscribe_heads(&self) -> Result<Heads, CallError> {
        let _turn = self.turn().await?;
        let transport = &self.inner.transport;
        transport.subscribe(self.timeout, "newHeads").await
    }

    async fn single_receipts(
        &self,
        transactions: &[B256],
        bytes_max: usize,
    ) -> Result<Vec<Box<RawValue>>, CallError> {
        let mut receipts: Vec<_> = transactions.iter().map(|_| None).collect();
        let mut remaining = transactions.iter().copied().enumerate();
        let limit = bytes_max.min(self.inner.limits.answer_bytes_max);
        let mut room = limit;
        let mut in_progress = JoinSet::new();
        loop {
            while in_progress.len() < self.inner.limits.concurrency.max(1)
                && let Some((index, transaction)) = remaining.next()
            {
                let client = self.clone();
                in_progress.spawn(async move {
                    let method = "eth_getTransactionReceipt";
                    let receipt = client.call(method, (transaction,), limit).await;
                    // Their total is bounded. To hold permits for each could wait for ever.
                    (index, receipt.map(JsonAnswer::into_json))
                });
            }
            match in_progress.join_next().await {
                None => break,
                Some(Ok((index, receipt))) => {
                    let receipt = receipt?;
                    let left = room.checked_sub(receipt.get().len());
                    room = left.ok_or(CallError::TooLarge { limit })?;
                    receipts[index] = Some(receipt);
                }
                Some(Err(_)) => return Err(CallError::Malformed("a call panicked".into())),
            }
        }
        Ok(receipts.into_iter().flatten().collect())
    }

    /// A block as the upstream names it, by number or tag.
    async fn claim(&self, block: impl RpcSend) -> Result<HeadClaim, CallError> {
        let params = (block, false);
        let json = self.call("eth_getBlockByNumber", params, answer_bytes::CLAIM);
        HeadClaim::parse(&json.await?)
    }

    /// A call with a small answer of a known type.
    async fn read<T: RpcRecv>(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<T, CallError> {
        let json = self.call(method, params, answer_bytes::VALUE).await?;
        serde_json::from_str(json.get()).map_err(|error| CallError::malformed(&error))
    }

    /// A call of a method that the upstream may lack, which is remembered.
    async fn call_optional(
        &self,
        method: OptionalMethod,
        params: impl RpcSend,
        bytes_max: usize,
    ) -> Result<JsonAnswer, CallError> {
        let answer = self.call(method.name(), params, bytes_max).await;
        if matches!(answer, Err(CallError::UnsupportedMethod)) {
            self.record_missing(method);
        }
        answer
    }

    /// Remembers for five minutes that the upstream lacks this method, or is of no use with it.
    pub(crate) fn record_missing(&self, method: OptionalMethod) {
        if self.inner.missing.record(method, Instant::now()) {
            tracing::warn!(
                node = %self.inner.endpoint,
                "the node has no {}: {}",
                method.name(),
                method.consequence()
            );
        }
    }

    /// A call whose answer has at most `bytes_max` bytes; the answer null is
    /// [`CallError::NotFound`].
    async fn call(
        &self,
        method: &'static str,
        params: impl RpcSend,
        bytes_max: usize,
    ) -> Result<JsonAnswer, CallError> {
        let limit = bytes_max.min(self.inner.limits.answer_bytes_max);
        let call = async {
            let _turn = self.turn().await?;
            let transport = &self.inner.transport;
            let answer = transport.call(self.timeout, limit, method, params).await?;
            match answer.get() {
                "null" => Err(CallError::NotFound),
                text if text.len() > limit => Err(CallError::TooLarge { limit }),
                _ => Ok(answer),
            }
        };
        traced(self.endpoint(), method, call, length).await
    }

    /// Waits for the turn of a call, at most as long as the timeout.
    async fn turn(&self) -> Result<FairTurn, CallError> {
        let turn = time::timeout(self.timeout, self.inner.turns.take(&self.callers)).await;
        turn.ok().flatten().ok_or(CallError::Busy)
    }
}

/// The length of an answer in bytes.
fn length(answer: &JsonAnswer) -> Option<usize> {
    Some(answer.get().len())
}

impl fmt::Debug for UpstreamClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamClient({})", self.inner.endpoint)
    }
}
