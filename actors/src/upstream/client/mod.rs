//! The calls to one upstream.
//!
//! Blocks, receipts, proofs and code are returned as JSON text, for the caller to verify. What is
//! parsed here is small values, such as the chain id, and claims about heads, which merely lead to
//! further calls.

mod claim;
mod error;
mod error_code;
mod heads;
mod http;
mod negative_cache;
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

use alloy_json_rpc::{RpcRecv, RpcSend};
use alloy_primitives::{Address, B256, U64};
use serde_json::value::RawValue;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::JoinSet,
    time,
};

pub(crate) use claim::HeadClaim;
pub(crate) use error::{CallError, ClientError};
pub(crate) use heads::Heads;
pub(super) use negative_cache::NegativeCache;

use super::Endpoint;
use transport::Transport;

/// Longest answer in bytes: the longest that the verifier accepts.
pub(crate) const ANSWER_BYTES_MAX: usize = nearhead_chain::remote::ANSWER_BYTES_MAX;

/// Bounds of the calls to one upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// Calls that may be in progress; at least one.
    pub(crate) concurrency: usize,
    /// Longest wait for a turn, and again for the answer.
    pub(crate) timeout: Duration,
    /// Longest answer in bytes, also for all receipts of a block together if they come one by one.
    /// Over HTTP, reading stops there; over WebSocket, a longer answer ends the connection. An
    /// upstream can make this process hold that many bytes for each call in progress, and for each
    /// block whose receipts come one by one.
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
    Whole(Box<RawValue>),
    /// One by one, in the order of the transactions.
    Single(Vec<Box<RawValue>>),
}

/// The client of one upstream. Clones share its connections and bounds.
#[derive(Clone)]
pub(crate) struct UpstreamClient {
    inner: Arc<Inner>,
}

struct Inner {
    endpoint: Endpoint,
    limits: CallLimits,
    turns: Semaphore,
    transport: Transport,
    block_receipts_unsupported: NegativeCache,
}

impl UpstreamClient {
    /// A client that connects at the first call.
    ///
    /// # Errors
    /// TLS or HTTP cannot be set up.
    pub(crate) fn new(endpoint: Endpoint, limits: CallLimits) -> Result<Self, ClientError> {
        let transport = Transport::new(&endpoint, limits.answer_bytes_max)?;
        let turns = Semaphore::new(limits.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Ok(Self {
            inner: Arc::new(Inner {
                endpoint,
                limits,
                turns,
                transport,
                block_receipts_unsupported: NegativeCache::default(),
            }),
        })
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
        let json = self.call("eth_syncing", ()).await?;
        Ok(json.get() != "false")
    }

    /// The block with this tag; [`CallError::NotFound`] if the upstream has none yet.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn head(&self, tag: Tag) -> Result<HeadClaim, CallError> {
        let json = self
            .call("eth_getBlockByNumber", (tag.name(), false))
            .await?;
        HeadClaim::parse(&json)
    }

    /// The hash of block 0; [`CallError::NotFound`] if the upstream has pruned it.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn genesis(&self) -> Result<B256, CallError> {
        let json = self
            .call("eth_getBlockByNumber", (U64::ZERO, false))
            .await?;
        Ok(HeadClaim::parse(&json)?.hash)
    }

    /// A block with its transactions.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn block_by_hash(&self, hash: B256) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getBlockByHash", (hash, true)).await
    }

    /// The upstream's canonical block at this number, with its transactions.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn block_by_number(&self, number: u64) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getBlockByNumber", (U64::from(number), true))
            .await
    }

    /// A block's receipts: in one list, or one by one from an upstream without
    /// eth_getBlockReceipts, which is remembered for five minutes.
    ///
    /// # Errors
    /// See [`CallError`]. If one receipt fails, all fail.
    pub(crate) async fn block_receipts(
        &self,
        block: B256,
        transactions: &[B256],
    ) -> Result<ReceiptsAnswer, CallError> {
        let unsupported = &self.inner.block_receipts_unsupported;
        if !unsupported.is_known(Instant::now()) {
            match self.call("eth_getBlockReceipts", (block,)).await {
                Err(error) if error.is_unsupported() => {
                    if unsupported.record(Instant::now()) {
                        tracing::warn!(
                            node = %self.inner.endpoint,
                            "the upstream has no eth_getBlockReceipts: receipts are fetched one by one"
                        );
                    }
                }
                answer => return answer.map(ReceiptsAnswer::Whole),
            }
        }
        self.single_receipts(transactions)
            .await
            .map(ReceiptsAnswer::Single)
    }

    /// An ommer's header.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn uncle(&self, block: B256, index: u64) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getUncleByBlockHashAndIndex", (block, U64::from(index)))
            .await
    }

    /// The proof of an account and its slots in the state after this block.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn proof(
        &self,
        address: Address,
        slots: &[B256],
        block: B256,
    ) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getProof", (address, slots, block)).await
    }

    /// An account's code in the state after this block.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn code(
        &self,
        address: Address,
        block: B256,
    ) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getCode", (address, block)).await
    }

    /// Subscribes to the upstream's heads; [`CallError::UnsupportedMethod`] over HTTP. One
    /// subscription is enough: two on one connection share an id and end together.
    ///
    /// # Errors
    /// See [`CallError`].
    pub(crate) async fn subscribe_heads(&self) -> Result<Heads, CallError> {
        let _turn = self.turn().await?;
        let Inner {
            limits, transport, ..
        } = &*self.inner;
        transport.subscribe(limits.timeout, "newHeads").await
    }

    async fn single_receipts(
        &self,
        transactions: &[B256],
    ) -> Result<Vec<Box<RawValue>>, CallError> {
        let mut receipts: Vec<_> = transactions.iter().map(|_| None).collect();
        let mut remaining = transactions.iter().copied().enumerate();
        let limit = self.inner.limits.answer_bytes_max;
        let mut room = limit;
        let mut in_progress = JoinSet::new();
        loop {
            while in_progress.len() < self.inner.limits.concurrency.max(1)
                && let Some((index, transaction)) = remaining.next()
            {
                let client = self.clone();
                in_progress.spawn(async move {
                    let receipt = client.call("eth_getTransactionReceipt", (transaction,));
                    (index, receipt.await)
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

    /// A call with a small answer of a known type.
    async fn read<T: RpcRecv>(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<T, CallError> {
        let json = self.call(method, params).await?;
        serde_json::from_str(json.get()).map_err(|error| CallError::malformed(&error))
    }

    /// A call; the answer null is [`CallError::NotFound`].
    async fn call(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<Box<RawValue>, CallError> {
        let _turn = self.turn().await?;
        let Inner {
            limits, transport, ..
        } = &*self.inner;
        let json = transport.call(limits.timeout, method, params).await?;
        match json.get() {
            "null" => Err(CallError::NotFound),
            _ => Ok(json),
        }
    }

    /// Waits for the turn of a call, at most as long as the timeout.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, CallError> {
        let turn = time::timeout(self.inner.limits.timeout, self.inner.turns.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or(CallError::Busy)
    }
}

impl fmt::Debug for UpstreamClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamClient({})", self.inner.endpoint)
    }
}
