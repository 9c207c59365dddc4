//! State that the processes of a fleet share: trie nodes, codes and access lists by hash, in the
//! store.
//!
//! They prove themselves, so that whoever wrote them need not be believed. What is not there is
//! asked of a node by one process at a time; a process without nodes leaves a want, which one with
//! nodes takes.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use alloy_primitives::{
    B256, Bytes, Keccak256, keccak256,
    map::{B256Map, B256Set},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use nearhead_chain::{changes::AccessList, trie::NodeStore};
use nearhead_fleet::{
    bounds::{ITEM_BYTES_MAX, ITEMS_AT_ONCE, LOAD_ROUNDS_MAX, STATE_WAIT_MAX},
    fleet_key::FleetKey,
    want::{Want, WantedItems, reports_unavailable, seal_unavailable},
};
use parking_lot::Mutex;
use tokio::{sync, task, time};

use super::store::{FleetStore, StoreError, StoreFault};
use crate::{
    saved::WantedState,
    upstream::{BlockRef, Got, SharedState},
};

/// First pause between two looks at what others have put; it doubles until [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// Longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Items that are asked for before the tries are looked at again.
const ITEMS_MISSING_MAX: usize = 1_024;

/// Reports after which state is said to be unavailable: another process may have other nodes.
const REPORTS_NEEDED: usize = 2;

/// Time for which the store is left alone after a call that failed.
const AWAY: Duration = Duration::from_secs(1);

/// What a process shares state by.
pub(super) struct StateShare {
    store: FleetStore,
    key: FleetKey,
    has_nodes: bool,
    /// Until when the store is left alone.
    away_until: Mutex<Option<Instant>>,
    /// Held while items are given.
    giving: sync::Mutex<()>,
    counts: Arc<StateShareCounts>,
}

/// Counts of what a process shares.
#[derive(Debug, Default)]
pub struct StateShareCounts {
    /// Items that came from other processes: nodes, codes and access lists.
    pub loaded: Count,
    /// Items that were put for others, and were not there.
    pub given: Count,
    /// Bytes under a hash that is not theirs, and what is said of blocks below the window by others
    /// than the fleet.
    pub refused: Count,
    /// Wants that the fleet has not written.
    pub refused_wants: Count,
    /// Wants that were left for others.
    pub wanted: Count,
    /// Wants of others that were served.
    pub served: Count,
}

/// What is looked for at other processes.
enum Sought {
    State(Arc<[WantedState]>),
    /// The access list of this hash.
    List(B256),
}

impl Sought {
    /// What names it: the same at every process.
    fn turn(&self, block: &BlockRef) -> B256 {
        match self {
            Self::State(wanted) => turn_of(block, wanted),
            Self::List(hash) => *hash,
        }
    }
}

/// An access list as JSON; empty for state, which the block's state has by now.
type Loaded = bytes::Bytes;

impl fmt::Debug for StateShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StateShare")
    }
}

impl StateShare {
    pub(super) const fn new(
        store: FleetStore,
        key: FleetKey,
        has_nodes: bool,
        counts: Arc<StateShareCounts>,
    ) -> Self {
        Self {
            store,
            key,
            has_nodes,
            away_until: Mutex::new(None),
            giving: sync::Mutex::const_new(()),
            counts,
        }
    }

    /// Loads what is looked for, as far as others have it; `None` if they have not all of it.
    async fn load(&self, block: &BlockRef, sought: &Sought) -> Result<Option<Loaded>, StoreError> {
        match sought {
            Sought::State(wanted) => {
                let is_held = self.load_state(block, wanted).await?;
                Ok(is_held.then(Loaded::new))
            }
            Sought::List(hash) => self.load_list(*hash).await,
        }
    }

    /// The access list of this hash as JSON, if others have it.
    async fn load_list(&self, hash: B256) -> Result<Option<Loaded>, StoreError> {
        let Some(Some(item)) = self.store.get_items(&[hash]).await?.pop() else {
            return Ok(None);
        };
        let list = move || AccessList::of_rlp(&item, hash).map(|list| list.json());
        // If the runtime ends, nobody waits for the answer.
        let Ok(list) = task::spawn_blocking(list).await else {
            return Ok(None);
        };
        match list {
            Some(_) => self.counts.loaded.add(1),
            None => {
                self.counts.refused.add(1);
                self.store.drop_items(&[hash]).await?;
            }
        }
        Ok(list)
    }

    /// Stores what is wanted, as far as others have it: level by level of the tries, all keys at
    /// once. Returns whether all is held now.
    async fn load_state(
        &self,
        block: &BlockRef,
        wanted: &Arc<[WantedState]>,
    ) -> Result<bool, StoreError> {
        let mut found: B256Map<Bytes> = HashMap::default();
        for _ in 0..LOAD_ROUNDS_MAX {
            let (state, wanted) = (Arc::clone(&block.state), Arc::clone(wanted));
            let counts = Arc::clone(&self.counts);
            let was_asked = !found.is_empty();
            let look = task::spawn_blocking(move || {
                let mut refused = Vec::new();
                found.retain(|hash, item| {
                    let is_true = keccak256(item) == *hash;
                    if !is_true {
                        refused.push(*hash);
                    }
                    is_true
                });
                counts.loaded.add(found.len() as u64);
                counts.refused.add(refused.len() as u64);
                // False ones may have left no room for others.
                if was_asked && found.is_empty() && refused.is_empty() {
                    return (false, refused, B256Set::default());
                }
                let mut missing = B256Set::default();
                let mut is_held = true;
                for WantedState {
                    address,
                    slots,
                    with_code,
                } in &*wanted
                {
                    is_held &= state.load(address, slots, *with_code, |hash: &B256| {
                        let item = found.get(hash).cloned();
                        if item.is_none() && missing.len() < ITEMS_MISSING_MAX {
                            missing.insert(*hash);
                        }
                        item
                    });
                }
                (is_held, refused, missing)
            });
            // If the runtime ends, nobody waits for the answer.
            let Ok((is_held, refused, missing)) = look.await else {
                return Ok(false);
            };
            for hashes in refused.chunks(ITEMS_AT_ONCE) {
                self.store.drop_items(hashes).await?;
            }
            if is_held || missing.is_empty() {
                return Ok(is_held);
            }
            let missing: Vec<B256> = missing.into_iter().collect();
            found = HashMap::default();
            for hashes in missing.chunks(ITEMS_AT_ONCE) {
                let items = self.store.get_items(hashes).await?;
                for (hash, item) in hashes.iter().zip(items) {
                    found.extend(item.map(|item| (*hash, item)));
                }
            }
            if found.is_empty() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Gets what is wanted from others, or finds out that it is this process' turn. The caller
    /// limits the time.
    async fn get(&self, block: &BlockRef, sought: &Sought) -> Result<Got<Loaded>, StoreError> {
        let mut pause = PAUSE_MIN;
        let turn = sought.turn(block);
        let (mut reports, mut was_unavailable) = (0, false);
        loop {
            if let Some(loaded) = self.load(block, sought).await? {
                return Ok(Got::Held(loaded));
            }
            let taken = self.store.take_turn(&turn).await?;
            let is_unavailable = match &taken {
                None if self.has_nodes => return Ok(Got::AskNodes),
                None => {
                    self.want(block, turn, sought).await?;
                    false
                }
                Some(bytes) => reports_unavailable(bytes, &turn, &self.key),
            };
            if is_unavailable && self.has_nodes {
                // Its own nodes may have it.
                return Ok(Got::AskNodes);
            }
            if is_unavailable && !was_unavailable {
                reports += 1;
            }
            if reports == REPORTS_NEEDED {
                return Ok(Got::StateUnavailable);
            }
            was_unavailable = is_unavailable;
            time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The same, in the time that a read has.
    async fn get_in_time(&self, block: &BlockRef, sought: Sought) -> Got<Loaded> {
        let without_others = || match self.has_nodes {
            true => Got::AskNodes,
            false => Got::Nothing,
        };
        if self.is_away() {
            return without_others();
        }
        // A slow store delays nobody who has nodes for longer.
        let got = time::timeout(STATE_WAIT_MAX, self.get(block, &sought)).await;
        let got = got.ok().and_then(|got| self.unless_failed(got));
        got.unwrap_or_else(without_others)
    }

    /// Gives a turn back, if the store is there.
    async fn give_back_turn(&self, turn: B256) {
        if !self.is_away() {
            let given = self.store.give_back_turn(&turn).await;
            self.unless_failed(given);
        }
    }

    /// Leaves wants for others.
    async fn want(&self, block: &BlockRef, turn: B256, sought: &Sought) -> Result<(), StoreError> {
        let of_account = |account: &WantedState| WantedItems {
            address: account.address,
            slots: account.slots.clone(),
            with_code: account.with_code,
        };
        let wants = match sought {
            Sought::State(wanted) => Want::split(block.hash, turn, wanted.iter().map(of_account)),
            Sought::List(hash) => vec![Want::of_list(block.hash, *hash)],
        };
        for want in wants {
            self.store.want(&want.seal(&self.key)).await?;
            self.counts.wanted.add(1);
        }
        Ok(())
    }

    /// Says that this process has asked its nodes in vain for what another one has left a want for.
    pub(super) async fn unavailable(&self, turn: &B256) {
        let report = seal_unavailable(turn, &self.key);
        let put = self.store.put_unavailable(turn, &report).await;
        self.unless_failed(put);
    }

    /// Puts items for others.
    pub(super) async fn put(
        &self,
        items: impl Iterator<Item = (B256, Bytes)>,
    ) -> Result<(), StoreError> {
        let mut items = items.peekable();
        while items.peek().is_some() {
            let some: Vec<_> = items.by_ref().take(ITEMS_AT_ONCE).collect();
            let put = self.store.put_items(&some).await?;
            self.counts.given.add(put);
        }
        Ok(())
    }

    /// The result of calls, unless one of them failed: then the store is left alone for a while.
    pub(super) fn unless_failed<T>(&self, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::debug!(%error, "state is not shared for a while");
                // Other calls of this process say nothing of the store.
                if !matches!(error.fault(), StoreFault::NotAsked(_)) {
                    *self.away_until.lock() = Some(Instant::now() + AWAY);
                }
                None
            }
        }
    }

    fn is_away(&self) -> bool {
        let until = *self.away_until.lock();
        until.is_some_and(|until| Instant::now() < until)
    }
}

impl SharedState for StateShare {
    fn get<'a>(&'a self, block: &'a BlockRef, wanted: Vec<WantedState>) -> BoxFuture<'a, Got> {
        let get = async move {
            let got = self.get_in_time(block, Sought::State(wanted.into()));
            got.await.map(drop)
        };
        get.boxed()
    }

    fn give_back<'a>(
        &'a self,
        block: &'a BlockRef,
        wanted: &'a [WantedState],
    ) -> BoxFuture<'a, ()> {
        self.give_back_turn(turn_of(block, wanted)).boxed()
    }

    fn give<'a>(&'a self, store: &'a NodeStore) -> BoxFuture<'a, ()> {
        let give = async move {
            // What is gained meanwhile is given at once by who waits here.
            let _turn = self.giving.lock().await;
            if self.is_away() {
                // It is given once the store is back.
                return;
            }
            let gained = store.take_gained().into_iter();
            let items = gained.filter_map(|hash| Some((hash, store.content(&hash)?)));
            let items = items.filter(|(_, item)| item.len() <= ITEM_BYTES_MAX);
            let put = self.put(items).await;
            self.unless_failed(put);
        };
        give.boxed()
    }

    fn get_list<'a>(&'a self, block: &'a BlockRef, hash: B256) -> BoxFuture<'a, Got<Loaded>> {
        self.get_in_time(block, Sought::List(hash)).boxed()
    }

    fn give_back_list(&self, hash: B256) -> BoxFuture<'_, ()> {
        self.give_back_turn(hash).boxed()
    }

    fn give_list(&self, hash: B256, rlp: bytes::Bytes) -> BoxFuture<'_, ()> {
        let give = async move {
            if rlp.len() > ITEM_BYTES_MAX {
                // Each process gets it from its own nodes.
                return self.give_back_turn(hash).await;
            }
            if !self.is_away() {
                let put = self.put([(hash, rlp.into())].into_iter()).await;
                self.unless_failed(put);
            }
        };
        give.boxed()
    }
}

/// What names the state that is wanted: the same at every process.
fn turn_of(block: &BlockRef, wanted: &[WantedState]) -> B256 {
    let mut hasher = Keccak256::new();
    hasher.update(block.state.root());
    for account in wanted {
        hasher.update(account.address);
        hasher.update([u8::from(account.with_code)]);
        hasher.update((account.slots.len() as u64).to_be_bytes());
        for slot in &account.slots {
            hasher.update(slot.to_be_bytes::<32>());
        }
    }
    hasher.finalize()
}

/// A count that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// The count now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
