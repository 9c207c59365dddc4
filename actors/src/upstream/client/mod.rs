//! One upstream's calls.
//!
//! An answer is JSON as the upstream wrote it: whoever asked checks it against a hash. What is read
//! here is small (a number, a name) or a claim that leads to a question and to nothing else.

mod claim;
mod code;
mod error;
mod heads;
mod http;
mod tls;
mod transport;
mod unsupported_method;
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
use tokio::{sync::Semaphore, task::JoinSet, time};

pub use claim::HeadClaim;
pub use error::CallError;
pub use heads::Heads;
pub(super) use unsupported_method::UnsupportedMethod;

use super::Endpoint;
use transport::Transport;

/// Longest answer in bytes: as long as what is checked may be.
pub const ANSWER_BYTES_MAX: usize = nearhead_chain::remote::ANSWER_BYTES_MAX;

/// What one upstream's calls are bound by.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// Calls that may be under way; at least one.
    pub concurrency: usize,
    /// Longest wait for an answer, and before that for a turn.
    pub timeout: Duration,
    /// Longest answer in bytes, also of all receipts of a block that are asked for one by one. Over
    /// HTTP a longer one is not read to its end; over WebSocket it ends the connection. So many
    /// bytes for each call under way, and for each block whose receipts come one by one, are the
    /// most that an upstream can make this process hold.
    pub answer_bytes_max: usize,
}

/// Why there is no client of an upstream.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// TLS cannot be set up: the system has no certificates, for one.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// HTTP cannot be set up.
    #[error("cannot set up HTTP: {0}")]
    Http(reqwest::Error),
}

/// A block that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The upstream's head.
    Latest,
    /// The newest block that is safe.
    Safe,
    /// The newest block that is finalized.
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
pub enum ReceiptsAnswer {
    /// As one list.
    Whole(Box<RawValue>),
    /// One by one, in the order that they were asked for.
    Single(Vec<Box<RawValue>>),
}

/// One upstream; cloning shares its connections and bounds.
#[derive(Clone)]
pub struct UpstreamClient {
    inner: Arc<Inner>,
}

struct Inner {
    endpoint: Endpoint,
    limits: CallLimits,
    turns: Semaphore,
    transport: Transport,
    block_receipts_unsupported: UnsupportedMethod,
}

impl UpstreamClient {
    /// A client that connects when it is first used.
    ///
    /// # Errors
    /// The system cannot do TLS.
    pub fn new(endpoint: Endpoint, limits: CallLimits) -> Result<Self, ClientError> {
        let transport = Transport::new(&endpoint, limits.answer_bytes_max)?;
        let turns = Semaphore::new(limits.concurrency.clamp(1, Semaphore::MAX_PERMITS));
        Ok(Self {
            inner: Arc::new(Inner {
                endpoint,
                limits,
                turns,
                transport,
                block_receipts_unsupported: UnsupportedMethod::default(),
            }),
        })
    }

    /// The upstream's endpoint, which shows no secrets.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    /// The chain's id.
    ///
    /// # Errors
    /// As [`CallError`] says, here and below.
    pub async fn chain_id(&self) -> Result<u64, CallError> {
        let id: U64 = self.read("eth_chainId", ()).await?;
        Ok(id.to())
    }

    /// The head's number.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn block_number(&self) -> Result<u64, CallError> {
        let number: U64 = self.read("eth_blockNumber", ()).await?;
        Ok(number.to())
    }

    /// Whether the upstream says that it is still filling its database.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn is_syncing(&self) -> Result<bool, CallError> {
        let json = self.call("eth_syncing", ()).await?;
        Ok(json.get() != "false")
    }

    /// What the upstream names so; [`CallError::NotFound`] where it has no such block yet.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn head(&self, tag: Tag) -> Result<HeadClaim, CallError> {
        let json = self
            .call("eth_getBlockByNumber", (tag.name(), false))
            .await?;
        HeadClaim::parse(&json)
    }

    /// The hash of the upstream's block 0; [`CallError::NotFound`] where it has forgotten it.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn genesis(&self) -> Result<B256, CallError> {
        let json = self
            .call("eth_getBlockByNumber", (U64::ZERO, false))
            .await?;
        Ok(HeadClaim::parse(&json)?.hash)
    }

    /// A block with its transactions.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn block_by_hash(&self, hash: B256) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getBlockByHash", (hash, true)).await
    }

    /// A block with its transactions, by a number of the upstream's own chain.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn block_by_number(&self, number: u64) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getBlockByNumber", (U64::from(number), true))
            .await
    }

    /// A block's receipts: as one list, or one by one from an upstream that has no lists, which is
    /// remembered for a while.
    ///
    /// # Errors
    /// As [`CallError`] says; one receipt's error is the error of all.
    pub async fn block_receipts(
        &self,
        block: B256,
        transactions: &[B256],
    ) -> Result<ReceiptsAnswer, CallError> {
        let unsupported_method = &self.inner.block_receipts_unsupported;
        if !unsupported_method.is_known(Instant::now()) {
            match self.call("eth_getBlockReceipts", (block,)).await {
                Err(error) if error.lacks_method() => {
                    if unsupported_method.note(Instant::now()) {
                        tracing::warn!(
                            node = %self.inner.endpoint,
                            "the node has no eth_getBlockReceipts: receipts are fetched one by one"
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
    /// As [`CallError`] says.
    pub async fn uncle(&self, block: B256, index: u64) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getUncleByBlockHashAndIndex", (block, U64::from(index)))
            .await
    }

    /// A proof of an account and of its slots, after the block with this hash.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn proof(
        &self,
        address: Address,
        slots: &[B256],
        block: B256,
    ) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getProof", (address, slots, block)).await
    }

    /// An account's code, after the block with this hash.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn code(&self, address: Address, block: B256) -> Result<Box<RawValue>, CallError> {
        self.call("eth_getCode", (address, block)).await
    }

    /// Asks to be told of heads; [`CallError::MethodMissing`] over HTTP. One such subscription is
    /// enough for an upstream: two on one connection are the same, and end together.
    ///
    /// # Errors
    /// As [`CallError`] says.
    pub async fn subscribe_heads(&self) -> Result<Heads, CallError> {
        self.in_time(self.inner.transport.subscribe("newHeads"))
            .await
    }

    async fn single_receipts(
        &self,
        transactions: &[B256],
    ) -> Result<Vec<Box<RawValue>>, CallError> {
        let mut found: Vec<_> = transactions.iter().map(|_| None).collect();
        let mut asked = transactions.iter().copied().enumerate();
        let limit = self.inner.limits.answer_bytes_max;
        let mut room = limit;
        let mut under_way = JoinSet::new();
        loop {
            while under_way.len() < self.inner.limits.concurrency.max(1)
                && let Some((at, transaction)) = asked.next()
            {
                let client = self.clone();
                under_way.spawn(async move {
                    let receipt = client.call("eth_getTransactionReceipt", (transaction,));
                    (at, receipt.await)
                });
            }
            match under_way.join_next().await {
                None => break,
                Some(Ok((at, receipt))) => {
                    let receipt = receipt?;
                    let left = room.checked_sub(receipt.get().len());
                    room = left.ok_or(CallError::TooLarge { limit })?;
                    found[at] = Some(receipt);
                }
                Some(Err(_)) => return Err(CallError::Malformed("a call panicked".into())),
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// A small answer of a known type.
    async fn read<T: RpcRecv>(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<T, CallError> {
        let json = self.call(method, params).await?;
        serde_json::from_str(json.get()).map_err(|error| CallError::malformed(&error))
    }

    /// One call; null is [`CallError::NotFound`].
    async fn call(
        &self,
        method: &'static str,
        params: impl RpcSend,
    ) -> Result<Box<RawValue>, CallError> {
        let json = self
            .in_time(self.inner.transport.call(method, params))
            .await?;
        match json.get() {
            "null" => Err(CallError::NotFound),
            _ => Ok(json),
        }
    }

    /// Waits for a turn, then for the answer.
    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let timeout = self.inner.limits.timeout;
        let turn = time::timeout(timeout, self.inner.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(CallError::Busy);
        };
        let answer = time::timeout(timeout, call).await;
        answer.unwrap_or_else(|_| {
            self.inner.transport.renew();
            Err(CallError::Timeout(timeout))
        })
    }
}

impl fmt::Debug for UpstreamClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamClient({})", self.inner.endpoint)
    }
}
