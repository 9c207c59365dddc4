//! The questions that are asked beside each other, and their answers.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::block::Block;
use tokio::join;

use super::{FetchError, HeadStream, Upstream};
use crate::upstream::{
    client::{CallError, HeadClaim, Tag},
    health::UpstreamId,
    plan::Ask,
};

/// A question that was answered.
pub(super) struct Done<H> {
    pub(super) upstream: UpstreamId,
    pub(super) answer: Answer<H>,
}

pub(super) enum Answer<H> {
    /// To [`poll`].
    Polled(Result<Named, CallError>),
    /// To [`subscribe`].
    Subscribed(Result<H, CallError>),
    /// To [`next`].
    Announced(H, Result<HeadClaim, CallError>),
    /// To [`fetch`].
    Fetched {
        ask: Ask,
        purpose: Purpose,
        block: Result<Arc<Block>, FetchError>,
    },
    /// To [`fetch_first`].
    FetchedFirst {
        ask: Ask,
        block: Result<(Arc<Block>, Identity), FetchError>,
    },
    /// To [`fetch_genesis`].
    FetchedGenesis(Result<Arc<Block>, FetchError>),
}

/// What a block is for. A late answer to a question of an earlier way or filling is as good as any:
/// it was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Sync,
    /// The window begins with it: the one purpose for which an upstream has to say its chain besides.
    First,
    Backfill,
}

/// Which chain an upstream is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) chain_id: u64,
    /// Hash of its genesis; `None`: it was not asked, or does not have it.
    pub(super) genesis: Option<B256>,
}

/// What an upstream says of itself.
pub(super) struct Named {
    pub(super) identity: Identity,
    pub(super) is_syncing: bool,
    pub(super) head: HeadClaim,
    /// `None`: it was not asked.
    pub(super) settled: Option<SettledClaims>,
}

/// Blocks that an upstream takes for settled, if it says so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SettledClaims {
    pub(super) safe: Option<HeadClaim>,
    pub(super) finalized: Option<HeadClaim>,
}

/// Asks an upstream which chain it is of, by its id, and by its genesis if that is not known yet.
async fn identify<P: Upstream>(client: &P, with_genesis: bool) -> Result<Identity, CallError> {
    Ok(Identity {
        chain_id: client.chain_id().await?,
        genesis: match with_genesis {
            true => client.genesis().await.ok(),
            false => None,
        },
    })
}

/// Asks an upstream for its chain and its head, and for what is asked more seldom.
pub(super) async fn poll<P: Upstream>(
    upstream: UpstreamId,
    client: P,
    with_genesis: bool,
    with_settled: bool,
) -> Done<P::Heads> {
    let named = async {
        // Each time: what stands behind a URL may be another upstream by now, although no call has
        // failed.
        let (identity, head) = join!(identify(&client, with_genesis), client.head(Tag::Latest));
        let mut named = Named {
            identity: identity?,
            is_syncing: false,
            head: head?,
            settled: None,
        };
        // Not before: who asks to be asked less, or is silent, is not asked for more.
        if with_settled {
            let (is_syncing, safe, finalized) = join!(
                client.is_syncing(),
                client.head(Tag::Safe),
                client.head(Tag::Finalized)
            );
            // An upstream that cannot say so is taken for one that is not; so is an upstream of a chain that
            // has no such blocks.
            named.is_syncing = is_syncing.unwrap_or(false);
            let (safe, finalized) = (safe.ok(), finalized.ok());
            named.settled = Some(SettledClaims { safe, finalized });
        }
        Ok(named)
    };
    Done {
        upstream,
        answer: Answer::Polled(named.await),
    }
}

/// Asks an upstream to tell of heads.
pub(super) async fn subscribe<P: Upstream>(upstream: UpstreamId, client: P) -> Done<P::Heads> {
    let answer = Answer::Subscribed(client.heads().await);
    Done { upstream, answer }
}

/// Waits for the next head that an upstream tells of.
pub(super) async fn next<H: HeadStream>(upstream: UpstreamId, mut heads: H) -> Done<H> {
    let told = heads.next().await;
    Done {
        upstream,
        answer: Answer::Announced(heads, told),
    }
}

/// Fetches a block that the window is to begin with. Nothing links it to what was held before: the
/// upstream says afterwards which chain it is of.
pub(super) async fn fetch_first<P: Upstream>(
    upstream: UpstreamId,
    client: P,
    ask: Ask,
) -> Done<P::Heads> {
    let block = async {
        let block = client.block(ask).await?;
        let identity = identify(&client, true).await?;
        Ok((block, identity))
    };
    Done {
        upstream,
        answer: Answer::FetchedFirst {
            ask,
            block: block.await,
        },
    }
}

/// Fetches the genesis.
pub(super) async fn fetch_genesis<P: Upstream>(upstream: UpstreamId, client: P) -> Done<P::Heads> {
    let answer = Answer::FetchedGenesis(client.block(Ask::Number(0)).await);
    Done { upstream, answer }
}

/// Fetches a block.
pub(super) async fn fetch<P: Upstream>(
    upstream: UpstreamId,
    client: P,
    ask: Ask,
    purpose: Purpose,
) -> Done<P::Heads> {
    let block = client.block(ask).await;
    Done {
        upstream,
        answer: Answer::Fetched {
            ask,
            purpose,
            block,
        },
    }
}
