//! Requests that wait until a block is reached that their clients have seen elsewhere.

use std::{cell::RefCell, time::Duration};

use nearhead_actors::{fleet::id_of, readiness::Readiness};
use nearhead_chain::window::{Snapshot, WINDOW_BLOCKS};
use nearhead_fleet::min_block::{MinBlock, Ticket, Waiters};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};

use super::{
    envelope::{Call, Envelope},
    error::RpcError,
    seen::Seen,
    via::Via,
};
use crate::{
    access::{Tenant, WaitCaps},
    metrics::{BlockWaitMetrics, WaitOutcome},
};

/// The requests of one thread that wait for a block. Whoever follows the head there reports its
/// changes.
#[derive(Debug, Default)]
pub struct BlockWaits {
    waiters: RefCell<Waiters<oneshot::Sender<()>>>,
    caps: WaitCaps,
    /// How long a request waits.
    most: Duration,
}

impl BlockWaits {
    /// Nobody waits; later as many as the caps allow, each for `most`.
    pub(crate) fn new(caps: WaitCaps, most: Duration) -> Self {
        Self {
            waiters: RefCell::default(),
            caps,
            most,
        }
    }

    /// Wakes those whose block is reached with this snapshot, which is readable.
    pub(crate) fn head_changed(&self, snapshot: &Snapshot) {
        let reached = self.waiters.borrow_mut().reached(&Seen(snapshot));
        for waiter in reached {
            // It fails for one that has just left.
            let _ = waiter.send(());
        }
    }

    /// Waits until all of these blocks are reached. Meanwhile the request holds neither a snapshot
    /// nor a permit.
    ///
    /// # Errors
    /// [`RpcError::NotReached`]: one of them is not reached in time or is too far above the head,
    /// too many requests wait already, or the service stops.
    pub(super) async fn reach(
        &self,
        wanted: &Wanted,
        tenant: &Tenant,
        readiness: &Readiness,
        metrics: &BlockWaitMetrics,
    ) -> Result<(), RpcError> {
        let begun = Instant::now();
        let deadline = begun + self.most;
        let mut permit = None;
        loop {
            let mut waiting = {
                // Without a block, the request is refused as any other.
                let Some(snapshot) = readiness.head.load() else {
                    return Ok(());
                };
                let Some(missing) = wanted.missing(&snapshot) else {
                    if permit.is_some() {
                        metrics.ended(WaitOutcome::Reached, begun.elapsed());
                    }
                    return Ok(());
                };
                let is_late = Instant::now() >= deadline
                    || missing.is_above(&Seen(&snapshot), WINDOW_BLOCKS as u64)
                    || readiness.shutdown.sessions_end().is_some();
                if !is_late && permit.is_none() {
                    permit = self.caps.take(tenant);
                }
                if is_late || permit.is_none() {
                    let outcome = match is_late {
                        true => WaitOutcome::Late,
                        false => WaitOutcome::Full,
                    };
                    metrics.ended(outcome, begun.elapsed());
                    return Err(not_reached(&snapshot, missing));
                }
                self.add(missing)
            };
            // Whatever happens, the newest head decides.
            tokio::select! {
                _ = &mut waiting.woken => {}
                () = sleep_until(deadline) => {}
                () = readiness.shutdown.sessions_ended() => {}
            }
        }
    }

    fn add(&self, block: MinBlock) -> Waiting<'_> {
        let (wake, woken) = oneshot::channel();
        Waiting {
            ticket: self.waiters.borrow_mut().add(block, wake),
            waits: self,
            woken,
        }
    }
}

/// One that waits; it leaves when this is dropped, as when its client goes away.
struct Waiting<'a> {
    waits: &'a BlockWaits,
    ticket: Ticket,
    woken: oneshot::Receiver<()>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.waiters.borrow_mut().remove(self.ticket);
    }
}

/// The blocks that a body names, each of which has to be reached before any of its requests is
/// answered: a batch is answered from one snapshot.
pub(super) struct Wanted(Vec<MinBlock>);

impl Wanted {
    /// Those of a body, and of the header beside it.
    ///
    /// # Errors
    /// The header names no block. A request that names none is answered with an error by itself.
    pub(super) fn of(via: &Via<'_>, envelope: &Envelope<'_>) -> Result<Self, RpcError> {
        let header = via.min_block.transpose();
        let header = header.map_err(|_| RpcError::InvalidMinBlock)?;
        let mut all: Vec<_> = header.into_iter().collect();
        match envelope {
            Envelope::Single(Ok(call)) => all.extend(call.min_block),
            Envelope::Batch(items) => {
                let may_name = |text: &str| text.contains("minBlock") || text.contains('\\');
                let items = items.iter().filter(|item| may_name(item.get()));
                all.extend(items.filter_map(|item| Call::parse(item).ok()?.min_block));
            }
            Envelope::Single(Err(_)) | Envelope::OversizedBatch(_) => {}
        }
        Ok(Self(all))
    }

    /// Whether it names none.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The error if one of them is not reached with this snapshot.
    pub(super) fn check(&self, snapshot: &Snapshot) -> Result<(), RpcError> {
        match self.missing(snapshot) {
            Some(missing) => Err(not_reached(snapshot, missing)),
            None => Ok(()),
        }
    }

    fn missing(&self, snapshot: &Snapshot) -> Option<MinBlock> {
        let seen = Seen(snapshot);
        let missing = self.0.iter().find(|block| !block.is_reached(&seen));
        missing.copied()
    }
}

fn not_reached(snapshot: &Snapshot, wanted: MinBlock) -> RpcError {
    let head = id_of(snapshot.head());
    RpcError::NotReached(Box::new((head, wanted)))
}
