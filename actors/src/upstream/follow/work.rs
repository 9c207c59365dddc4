//! The calls that run concurrently, and their answers.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::block::Block;
use tokio::join;

use super::interface::{FetchError, FirstBlock, HeadStream, Upstream};
use crate::upstream::{
    client::{CallError, HeadClaim, Tag},
    health::UpstreamId,
    plan::Ask,
};

/// An upstream's answer to one of the calls below.
pub(super) struct Answered<H> {
    pub(super) upstream: UpstreamId,
    pub(super) answer: CallAnswer<H>,
}

pub(super) enum CallAnswer<H> {
    /// To [`poll`].
    Polled(Result<PollAnswer, CallError>),
    /// To [`subscribe`].
    Subscribed(Result<H, CallError>),
    /// To [`next`].
    Announced(H, Result<HeadClaim, CallError>),
    /// To [`ask_hash`].
    HashAt {
        number: u64,
        hash: Result<Option<B256>, CallError>,
    },
    /// To [`fetch`].
    Fetched {
        ask: Ask,
        purpose: Purpose,
        block: Result<Arc<Block>, FetchError>,
    },
    /// To [`fetch_first`].
    FetchedFirst {
        ask: Ask,
        first: Result<(FirstBlock, StatedIdentity), FetchError>,
    },
    /// To [`fetch_genesis`].
    FetchedGenesis(Result<Arc<Block>, FetchError>),
}

/// What a block is fetched for. A late answer for an earlier sync or backfill is as good as any,
/// because it was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Sync,
    /// The block that the window starts with. Only with this one is the upstream identified again.
    First,
    Backfill,
}

/// The chain of an upstream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatedIdentity {
    pub(super) chain_id: u64,
    /// Hash of its genesis; `None` if it was not asked, or does not have it.
    pub(super) genesis: Option<B256>,
}

/// What an upstream says about itself.
pub(super) struct PollAnswer {
    pub(super) identity: StatedIdentity,
    pub(super) head: HeadClaim,
    /// `None`: it was not asked.
    pub(super) settled: Option<SettledClaims>,
}

/// The blocks that an upstream calls safe and finalized, and whether it reports that it is syncing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SettledClaims {
    /// `None`: it did not answer.
    pub(super) is_syncing: Option<bool>,
    pub(super) safe: Option<HeadClaim>,
    pub(super) finalized: Option<HeadClaim>,
}

/// Asks an upstream for its chain id and, if `with_genesis`, for the hash of its genesis.
async fn identify<U: Upstream>(
    client: &U,
    with_genesis: bool,
) -> Result<StatedIdentity, CallError> {
    Ok(StatedIdentity {
        chain_id: client.chain_id().await?,
        genesis: match with_genesis {
            true => client.hash_at(0).await.ok().flatten(),
            false => None,
        },
    })
}

/// Asks an upstream for its chain and its head; if `with_settled`, also for its safe and finalized
/// blocks and whether it is syncing.
pub(super) async fn poll<U: Upstream>(
    upstream: UpstreamId,
    client: U,
    with_genesis: bool,
    with_settled: bool,
) -> Answered<U::Heads> {
    let answer = async {
        // At every poll: another backend may answer behind the URL without any call failing.
        let (identity, head) = join!(identify(&client, with_genesis), client.head(Tag::Latest));
        let mut answer = PollAnswer {
            identity: identity?,
            head: head?,
            settled: None,
        };
        // Only now: an upstream that limits our rate, or is silent, gets no further calls.
        if with_settled {
            let (is_syncing, safe, finalized) = join!(
                client.is_syncing(),
                client.head(Tag::Safe),
                client.head(Tag::Finalized)
            );
            // A missing answer counts as no settled blocks: some chains have none. It says nothing
            // of syncing.
            answer.settled = Some(SettledClaims {
                is_syncing: is_syncing.ok(),
                safe: safe.ok(),
                finalized: finalized.ok(),
            });
        }
        Ok(answer)
    };
    Answered {
        upstream,
        answer: CallAnswer::Polled(answer.await),
    }
}

/// Subscribes to an upstream's heads.
pub(super) async fn subscribe<U: Upstream>(upstream: UpstreamId, client: U) -> Answered<U::Heads> {
    let answer = CallAnswer::Subscribed(client.heads().await);
    Answered { upstream, answer }
}

/// Waits for the next head that an upstream announces.
pub(super) async fn next<H: HeadStream>(upstream: UpstreamId, mut heads: H) -> Answered<H> {
    let head = heads.next().await;
    Answered {
        upstream,
        answer: CallAnswer::Announced(heads, head),
    }
}

/// Asks an upstream for the hash of its block at a number.
pub(super) async fn ask_hash<U: Upstream>(
    upstream: UpstreamId,
    client: U,
    number: u64,
) -> Answered<U::Heads> {
    let hash = client.hash_at(number).await;
    Answered {
        upstream,
        answer: CallAnswer::HashAt { number, hash },
    }
}

/// Fetches the block that the window is to start with and, if `with_parent`, its parent's header.
/// Nothing links it to earlier blocks, so the upstream is identified afterwards.
pub(super) async fn fetch_first<U: Upstream>(
    upstream: UpstreamId,
    client: U,
    ask: Ask,
    with_parent: bool,
) -> Answered<U::Heads> {
    let first = async {
        let block = client.block(ask).await?;
        let parent = match block.number().checked_sub(1) {
            Some(below) if with_parent => {
                let parent = client.header(below, block.header.parent_hash);
                Some(Box::new(parent.await?))
            }
            _ => None,
        };
        let identity = identify(&client, true).await?;
        Ok((FirstBlock { block, parent }, identity))
    };
    Answered {
        upstream,
        answer: CallAnswer::FetchedFirst {
            ask,
            first: first.await,
        },
    }
}

/// Fetches the genesis.
pub(super) async fn fetch_genesis<U: Upstream>(
    upstream: UpstreamId,
    client: U,
) -> Answered<U::Heads> {
    let answer = CallAnswer::FetchedGenesis(client.block(Ask::Number(0)).await);
    Answered { upstream, answer }
}

/// Fetches a block.
pub(super) async fn fetch<U: Upstream>(
    upstream: UpstreamId,
    client: U,
    ask: Ask,
    purpose: Purpose,
) -> Answered<U::Heads> {
    let block = client.block(ask).await;
    Answered {
        upstream,
        answer: CallAnswer::Fetched {
            ask,
            purpose,
            block,
        },
    }
}
