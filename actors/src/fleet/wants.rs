//! Serves wants: state and access lists that other processes of the fleet need, from this process'
//! nodes.

#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{B256, Bytes, keccak256};
use nearhead_chain::{block::Block, changes::AccessList};
use nearhead_fleet::{
    bounds::{ITEM_BYTES_MAX, STATE_WAIT_MAX, WANT_BLOCK_WAIT_MAX},
    fleet_key::FleetKey,
    want::{Want, WantedItems},
};
use tokio::{sync::Semaphore, task, time};

use super::{
    state_share::{StateShare, StateShareCounts},
    store::FleetStore,
};
use crate::{
    head::Head,
    messages::{QueryError, Reply},
    saved::WantedState,
    upstream::{BlockRef, ListRef, StateSource},
};

/// Wants that are served at once: half of what a node is asked at once by default.
const AT_ONCE: usize = 8;

/// How long the store is asked for the next want.
const WAIT: Duration = Duration::from_secs(1);

/// Time between two looks at whether the block of a want is there.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// What serves wants.
#[derive(Clone)]
pub(super) struct WantServer {
    pub(super) store: FleetStore,
    pub(super) key: FleetKey,
    pub(super) share: Arc<StateShare>,
    pub(super) source: StateSource,
    pub(super) head: Head,
    pub(super) counts: Arc<StateShareCounts>,
}

impl WantServer {
    /// Serves one want after another, until it is dropped.
    pub(super) async fn run(self) {
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            // Wants that nobody has time for wait in the store, for any process.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            let bytes = match self.store.next_want(WAIT).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!(%error, "no wants of others are served for a while");
                    time::sleep(PAUSE).await;
                    continue;
                }
            };
            let want = match Want::open(&bytes, &self.key) {
                Ok(want) => want,
                Err(error) => {
                    tracing::debug!(%error, "a want is refused");
                    self.counts.refused_wants.add(1);
                    continue;
                }
            };
            let server = self.clone();
            task::spawn(async move {
                // Afterwards, nobody waits for it.
                let turn = want.turn;
                match time::timeout(STATE_WAIT_MAX, server.serve(want)).await {
                    Ok(Ok(())) => server.counts.served.add(1),
                    Ok(Err(QueryError::StateUnavailable)) => server.share.unavailable(&turn).await,
                    _ => {}
                }
                drop(permit);
            });
        }
    }

    /// The block of a want, for which it may be early: the process that has left it may have got
    /// it before.
    async fn block(&self, hash: &B256) -> Option<Arc<Block>> {
        let until = Instant::now() + WANT_BLOCK_WAIT_MAX;
        loop {
            let held = self.head.load();
            let block = held.and_then(|held| held.by_hash(hash).cloned());
            if block.is_some() || Instant::now() > until {
                return block;
            }
            time::sleep(LOOK_EVERY).await;
        }
    }

    /// Puts what is wanted into the store, as far as nodes give it.
    ///
    /// # Errors
    /// Why a part of it is not there: the last one.
    async fn serve(&self, want: Want) -> Reply<()> {
        let Some(held) = self.block(&want.block).await else {
            return Err(QueryError::Unavailable);
        };
        let Some(block) = BlockRef::of(&held) else {
            return Err(QueryError::Unavailable);
        };
        if let Some(hash) = want.list() {
            let list = ListRef::of(&held).filter(|list| list.hash == hash);
            let list = list.ok_or(QueryError::StateUnavailable)?;
            return self.serve_list(&block, list).await;
        }
        let mut served = Ok(());
        for account in want.accounts {
            let WantedItems {
                address,
                slots,
                with_code,
            } = account;
            let wanted = WantedState {
                address,
                slots,
                with_code,
            };
            let mut items = items_of(&block, &wanted).await;
            if items.is_none() {
                if let Err(error) = self.source.fetch_for_others(&block, wanted.clone()).await {
                    tracing::debug!(?error, number = block.number, "a want is not served");
                    // The others are of use all the same.
                    served = Err(error);
                    continue;
                }
                items = items_of(&block, &wanted).await;
            }
            // What is evicted again is wanted again.
            let Some(items) = items else {
                served = Err(QueryError::Unavailable);
                continue;
            };
            let put = self.share.put(items.into_iter()).await;
            if self.share.unless_failed(put).is_none() {
                return Err(QueryError::Unavailable);
            }
        }
        served
    }

    /// Puts a block's access list into the store, if nodes give it.
    ///
    /// # Errors
    /// Why it is not there: one that is too large is of no use to others, as one that no node has.
    async fn serve_list(&self, block: &BlockRef, list: ListRef) -> Reply<()> {
        let fetched = self.source.fetch_list_for_others(block, list).await?;
        let (hash, json) = (list.hash, fetched.json);
        let rlp = move || Some(AccessList::verify(&json, hash).ok()?.rlp());
        let rlp = task::spawn_blocking(rlp).await.ok().flatten();
        let rlp = rlp.ok_or(QueryError::Unavailable)?;
        if rlp.len() > ITEM_BYTES_MAX {
            return Err(QueryError::StateUnavailable);
        }
        if fetched.is_shared {
            return Ok(());
        }
        let put = self.share.put([(hash, rlp.into())].into_iter()).await;
        self.share.unless_failed(put).ok_or(QueryError::Unavailable)
    }
}

/// The nodes that prove an account and its slots, and its code; `None` if some are not held.
async fn items_of(block: &BlockRef, wanted: &WantedState) -> Option<Vec<(B256, Bytes)>> {
    let (state, wanted) = (Arc::clone(&block.state), wanted.clone());
    let items = task::spawn_blocking(move || {
        let proof = state.prove(&wanted.address, &wanted.slots).ok()?;
        let code = match &proof.account {
            Some(account) if wanted.with_code => Some(state.code(&account.code_hash).ok()?),
            _ => None,
        };
        let items = proof.into_nodes().chain(code);
        Some(items.map(|item| (keccak256(&item), item)).collect())
    });
    items.await.ok()?
}
