//! The questions that are asked beside each other, and their answers.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::block::Block;
use tokio::join;

use super::{FetchError, HeadFeed, Peer};
use crate::upstream::{
    client::{CallError, HeadClaim, Tag},
    health::NodeId,
    plan::Ask,
};

/// A question that was answered.
pub(super) struct Done<H> {
    pub(super) node: NodeId,
    pub(super) answer: Answer<H>,
}

pub(super) enum Answer<H> {
    /// To [`poll`].
    Polled(Result<Named, CallError>),
    /// To [`subscribe`].
    Subscribed(Result<H, CallError>),
    /// To [`next`].
    Told(H, Result<HeadClaim, CallError>),
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
    Way,
    /// The window begins with it: the one purpose for which a node has to say its chain besides.
    First,
    Filling,
}

/// Which chain a node is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) chain_id: u64,
    /// Hash of its genesis; `None`: it was not asked, or does not have it.
    pub(super) genesis: Option<B256>,
}

/// What a node says of itself.
pub(super) struct Named {
    pub(super) identity: Identity,
    pub(super) is_syncing: bool,
    pub(super) head: HeadClaim,
    /// `None`: it was not asked.
    pub(super) settled: Option<Settled>,
}

/// Blocks that a node takes for settled, if it says so.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    pub(super) safe: Option<HeadClaim>,
    pub(super) finalized: Option<HeadClaim>,
}

/// Asks a node which chain it is of, by its id, and by its genesis if that is not known yet.
async fn identify<P: Peer>(peer: &P, with_genesis: bool) -> Result<Identity, CallError> {
    Ok(Identity {
        chain_id: peer.chain_id().await?,
        genesis: match with_genesis {
            true => peer.genesis().await.ok(),
            false => None,
        },
    })
}

/// Asks a node for its chain and its head, and for what is asked more seldom.
pub(super) async fn poll<P: Peer>(
    node: NodeId,
    peer: P,
    with_genesis: bool,
    with_settled: bool,
) -> Done<P::Heads> {
    let named = async {
        // Each time: what stands behind a URL may be another node by now, although no call has
        // failed.
        let (identity, head) = join!(identify(&peer, with_genesis), peer.head(Tag::Latest));
        let mut named = Named {
            identity: identity?,
            is_syncing: false,
            head: head?,
            settled: None,
        };
        // Not before: who asks to be asked less, or is silent, is not asked for more.
        if with_settled {
            let (is_syncing, safe, finalized) = join!(
                peer.is_syncing(),
                peer.head(Tag::Safe),
                peer.head(Tag::Finalized)
            );
            // A node that cannot say so is taken for one that is not; so is a node of a chain that
            // has no such blocks.
            named.is_syncing = is_syncing.unwrap_or(false);
            let (safe, finalized) = (safe.ok(), finalized.ok());
            named.settled = Some(Settled { safe, finalized });
        }
        Ok(named)
    };
    Done {
        node,
        answer: Answer::Polled(named.await),
    }
}

/// Asks a node to tell of heads.
pub(super) async fn subscribe<P: Peer>(node: NodeId, peer: P) -> Done<P::Heads> {
    let answer = Answer::Subscribed(peer.heads().await);
    Done { node, answer }
}

/// Waits for the next head that a node tells of.
pub(super) async fn next<H: HeadFeed>(node: NodeId, mut heads: H) -> Done<H> {
    let told = heads.next().await;
    Done {
        node,
        answer: Answer::Told(heads, told),
    }
}

/// Fetches a block that the window is to begin with. Nothing links it to what was held before: the
/// node says afterwards which chain it is of.
pub(super) async fn fetch_first<P: Peer>(node: NodeId, peer: P, ask: Ask) -> Done<P::Heads> {
    let block = async {
        let block = peer.block(ask).await?;
        let identity = identify(&peer, true).await?;
        Ok((block, identity))
    };
    Done {
        node,
        answer: Answer::FetchedFirst {
            ask,
            block: block.await,
        },
    }
}

/// Fetches the genesis.
pub(super) async fn fetch_genesis<P: Peer>(node: NodeId, peer: P) -> Done<P::Heads> {
    let answer = Answer::FetchedGenesis(peer.block(Ask::Number(0)).await);
    Done { node, answer }
}

/// Fetches a block.
pub(super) async fn fetch<P: Peer>(
    node: NodeId,
    peer: P,
    ask: Ask,
    purpose: Purpose,
) -> Done<P::Heads> {
    let block = peer.block(ask).await;
    Done {
        node,
        answer: Answer::Fetched {
            ask,
            purpose,
            block,
        },
    }
}
