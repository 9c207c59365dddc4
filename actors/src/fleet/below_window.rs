//! Blocks below the window: a leader writes them into the store, and the others read them there.
//!
//! The genesis is verified as if a node had stated it; which blocks are settled is believed, as
//! what entries say of that is.

use std::{sync::Arc, time::Duration};

use alloy_primitives::B256;
use futures_util::{FutureExt as _, future::BoxFuture};
use nearhead_chain::{block::Block, remote::Verifier, window::Snapshot};
use nearhead_fleet::{
    below::BelowRecord,
    block_id::BlockId,
    bounds::{BELOW_EVERY, BELOW_PAUSE_MAX},
    entry::Settled,
    fleet_key::FleetKey,
    sealed::OpenError,
};
use tokio::task;

use super::store::{FleetStore, StoreError};

/// Shortest time between two calls.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// What came of a call.
pub(super) enum BelowOutcome {
    /// A leader has written.
    Written(Result<(), StoreError>),
    /// Another process has read.
    Read(Result<FoundBelow, ReadBelowError>),
}

/// What a process lacked and has read.
#[derive(Debug, Default)]
pub(super) struct FoundBelow {
    pub(super) genesis: Option<Arc<Block>>,
    pub(super) safe: Option<BlockId>,
    pub(super) finalized: Option<BlockId>,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadBelowError {
    /// The store did not answer as it should.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is there is not the fleet's.
    #[error("what is said of blocks below the window is refused: {0}")]
    Refused(#[from] OpenError),
    /// The fleet's key has sealed another block than the genesis.
    #[error("another block is stated as the genesis: {0}")]
    Genesis(String),
}

/// What a leader has to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WrittenBelow {
    has_genesis: bool,
    safe: Option<BlockId>,
    finalized: Option<BlockId>,
}

/// What a process that follows lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MissingBelow {
    genesis: bool,
    /// Numbers of settled blocks.
    safe: Option<u64>,
    finalized: Option<u64>,
}

/// What is due, of writing and of reading.
pub(super) struct BelowSchedule {
    store: FleetStore,
    key: FleetKey,
    verifier: Arc<Verifier>,
    /// The hash of the genesis, which each process of a fleet knows.
    genesis: Option<B256>,
    /// What the store has, as far as this process knows, and until when it need not be written
    /// again.
    written: Option<(WrittenBelow, Duration)>,
    /// What was lacked at the last look.
    missing: MissingBelow,
    pause: Duration,
    at: Duration,
    is_calling: bool,
}

impl BelowSchedule {
    pub(super) fn new(
        store: FleetStore,
        key: FleetKey,
        verifier: Arc<Verifier>,
        genesis: Option<B256>,
    ) -> Self {
        Self {
            store,
            key,
            verifier,
            genesis,
            written: None,
            missing: MissingBelow::default(),
            pause: PAUSE_MIN,
            at: Duration::ZERO,
            is_calling: false,
        }
    }

    /// The call by which a leader with this window writes what is below it, if that is due.
    pub(super) fn write(
        &mut self,
        held: &Arc<Snapshot>,
        now: Duration,
    ) -> Option<BoxFuture<'static, BelowOutcome>> {
        let stated = stated(held);
        let is_written = self
            .written
            .is_some_and(|(written, until)| written == stated && now < until);
        if self.is_calling || now < self.at || is_written || stated == WrittenBelow::default() {
            return None;
        }
        (self.is_calling, self.at) = (true, now + PAUSE_MIN);
        self.written = Some((stated, now + BELOW_EVERY));
        let (store, key, held) = (self.store.clone(), self.key.clone(), Arc::clone(held));
        let write = async move {
            // It has no transactions, so that this takes no time.
            let genesis = held.genesis().and_then(|genesis| genesis.save());
            let below = BelowRecord {
                genesis: genesis.unwrap_or_default().into(),
                safe: stated.safe,
                finalized: stated.finalized,
            };
            BelowOutcome::Written(store.put_below(&below.seal(&key)).await)
        };
        Some(write.boxed())
    }

    /// The call by which a process that follows reads what its window lacks, if that is due.
    /// Entries have named these `settled` blocks.
    pub(super) fn read(
        &mut self,
        held: &Snapshot,
        settled: Settled,
        now: Duration,
    ) -> Option<BoxFuture<'static, BelowOutcome>> {
        let missing = self.missing(held, settled);
        if missing != self.missing {
            self.missing = missing;
            self.pause = PAUSE_MIN;
            self.at = self.at.min(now + PAUSE_MIN);
        }
        if self.is_calling || now < self.at || missing == MissingBelow::default() {
            return None;
        }
        (self.is_calling, self.at) = (true, now + self.pause);
        self.pause = (self.pause * 2).min(BELOW_PAUSE_MAX);
        let (store, key) = (self.store.clone(), self.key.clone());
        let (verifier, genesis) = (Arc::clone(&self.verifier), self.genesis);
        let genesis = genesis.filter(|_| missing.genesis);
        let read = async move {
            let read = async {
                let bytes = store.below().await?;
                if bytes.is_empty() {
                    return Ok(FoundBelow::default());
                }
                let below = BelowRecord::open(&bytes, &key)?;
                let settled = |number: Option<u64>| below.settled(number?);
                let (safe, finalized) = (settled(missing.safe), settled(missing.finalized));
                let genesis = match genesis {
                    Some(hash) if !below.genesis.is_empty() => {
                        Some(verified(verifier, hash, below).await?)
                    }
                    _ => None,
                };
                Ok(FoundBelow {
                    genesis,
                    safe,
                    finalized,
                })
            };
            BelowOutcome::Read(read.await)
        };
        Some(read.boxed())
    }

    /// Notes that a call has ended, and whether a leader's writing failed.
    pub(super) fn ended(&mut self, has_failed: bool) {
        self.is_calling = false;
        if has_failed {
            self.written = None;
        }
    }

    /// What a window lacks of what is settled, and of the genesis.
    fn missing(&self, held: &Snapshot, settled: Settled) -> MissingBelow {
        let below = |number: Option<u64>| number.filter(|number| *number < held.oldest());
        let number = |at: Option<(u64, B256)>| at.map(|(number, _)| number);
        let (safe, finalized) = (number(held.safe()), number(held.finalized()));
        MissingBelow {
            genesis: self.genesis.is_some() && held.genesis().is_none(),
            safe: below(settled.safe).filter(|stated| safe != Some(*stated)),
            // A window takes no older one.
            finalized: below(settled.finalized).filter(|stated| finalized < Some(*stated)),
        }
    }
}

/// What a leader with this window has to write.
fn stated(held: &Snapshot) -> WrittenBelow {
    let below = |at: Option<(u64, B256)>| {
        let (number, hash) = at.filter(|(number, _)| *number < held.oldest())?;
        Some(BlockId { number, hash })
    };
    WrittenBelow {
        has_genesis: held.genesis().is_some(),
        safe: below(held.safe()),
        finalized: below(held.finalized()),
    }
}

/// The genesis of a record, verified as a block of an entry is.
async fn verified(
    verifier: Arc<Verifier>,
    hash: B256,
    below: BelowRecord,
) -> Result<Arc<Block>, ReadBelowError> {
    let restored = task::spawn_blocking(move || verifier.restore(hash, &below.genesis)).await;
    // If the runtime ends, nobody waits for the answer.
    let restored = restored.map_err(|error| ReadBelowError::Genesis(error.to_string()))?;
    restored.map_err(|error| ReadBelowError::Genesis(error.to_string()))
}
