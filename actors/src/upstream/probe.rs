//! Asks one node for what a service needs of it, and times the answers.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U64};
use nearhead_chain::{remote::ANSWER_BYTES_MAX, window::WINDOW_BLOCKS};
use serde::Deserialize;

use super::{
    Endpoint,
    client::{CallError, CallLimits, OptionalMethod, Tag, UpstreamClient},
};

/// Answers whose time is taken; the middle one counts.
const TIMED_ANSWERS: usize = 5;

/// What a node said, unverified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its chain id.
    pub chain_id: u64,
    /// The hash of its block 0, if it has that.
    pub genesis: Option<B256>,
    /// Whether it reports that it is syncing.
    pub is_syncing: bool,
    /// The number of its head.
    pub head: u64,
    /// How long the answer to a cheap call takes.
    pub answer_time: Duration,
    /// Its newest block, or why it does not give that.
    pub newest: Result<NewestBlock, String>,
    /// Whether it has the oldest block of a window below its head, or why not.
    pub window: Result<(), String>,
    /// Whether it gives all receipts of a block at once, or why not.
    pub receipts: Result<(), String>,
    /// Whether it proves its newest state, or why not.
    pub proofs: Result<(), String>,
    /// Whether it traces its newest block, or why not.
    pub traces: Result<(), String>,
}

/// A node's newest block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestBlock {
    /// Its timestamp, in seconds since the Unix epoch.
    pub timestamp: u64,
    /// How long the answer took, with all transactions.
    pub took: Duration,
}

/// The member of a block that is read.
#[derive(Deserialize)]
struct Timestamp {
    timestamp: U64,
}

/// Asks a node, with calls that take no longer than `timeout`. It must be called inside a tokio
/// runtime.
///
/// # Errors
/// It cannot be reached, or does not say its chain or its head; the message says why.
pub async fn probe(endpoint: Endpoint, timeout: Duration) -> Result<NodeFacts, String> {
    let limits = CallLimits {
        concurrency: 1,
        timeout,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let client = UpstreamClient::new(endpoint, limits).map_err(|error| error.to_string())?;
    facts(&client).await.map_err(|error| error.to_string())
}

async fn facts(client: &UpstreamClient) -> Result<NodeFacts, CallError> {
    let chain_id = client.chain_id().await?;
    let mut times = Vec::with_capacity(TIMED_ANSWERS);
    for _ in 0..TIMED_ANSWERS {
        let began = Instant::now();
        client.chain_id().await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let head = client.head(Tag::Latest).await?;
    let oldest = head.number.saturating_sub(WINDOW_BLOCKS as u64 - 1);
    let window = client.hash_at(oldest).await;
    let window = window.and_then(|hash| hash.map(drop).ok_or(CallError::NotFound));
    let said = |answer: Result<(), CallError>| answer.map_err(|error| error.to_string());
    let whole = client.block_receipts(head.hash, &[], ANSWER_BYTES_MAX);
    let receipts = match whole.await {
        Ok(_) if client.lacks(OptionalMethod::BlockReceipts) => Err(CallError::UnsupportedMethod),
        answer => answer.map(drop),
    };
    let proof = client.proof(Address::ZERO, &[], head.hash).await;
    Ok(NodeFacts {
        chain_id,
        genesis: client.hash_at(0).await.ok().flatten(),
        is_syncing: client.is_syncing().await.unwrap_or(false),
        head: head.number,
        answer_time: times[TIMED_ANSWERS / 2],
        newest: newest_block(client, head.hash)
            .await
            .map_err(|error| error.to_string()),
        window: said(window),
        receipts: said(receipts),
        proofs: said(proof.map(drop)),
        traces: said(client.trace(head.hash, usize::MAX).await.map(drop)),
    })
}

async fn newest_block(client: &UpstreamClient, hash: B256) -> Result<NewestBlock, CallError> {
    let began = Instant::now();
    let block = client.block_by_hash(hash, ANSWER_BYTES_MAX).await?;
    let took = began.elapsed();
    let Timestamp { timestamp } =
        serde_json::from_str(block.get()).map_err(|error| CallError::malformed(&error))?;
    Ok(NewestBlock {
        timestamp: timestamp.to(),
        took,
    })
}
