//! Starts the actors that answer reads: those of each worker, and the pool for heavy work; permits;
//! what a panic does.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use actix::{ActorContext, Addr, Handler, Message, Supervisor, SyncArbiter, dev::ToEnvelope};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    messages::{QueryError, Reply},
    read::block_store_actor::BlockStoreActor,
    read::log_query_actor::LogQueryActor,
    read::pool_actor::PoolActor,
    read::proof_actor::ProofActor,
    upstream::StateSource,
};

pub use crate::admission::{Permit, Permits};

/// What a request costs, which decides how it is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostClass {
    /// A few look-ups on the worker: it waits for its turn, and meanwhile its connection is not
    /// read.
    Cheap,
    /// Known only when it was counted: without a free permit it is refused at once.
    Measured,
}

/// Requests of class [`CostClass::Cheap`] that one worker has under way: each is done as soon as
/// the worker gets to it, so more would only wait inside instead of in their sockets.
pub const CHEAP_PER_WORKER: usize = 256;

/// Requests of class [`CostClass::Measured`] under way in all workers: each holds a few kilobytes
/// while it is counted.
pub const MEASURED_MAX: usize = 1_024;

/// Messages that wait for one actor of a worker: whoever sends one holds a permit, so that there
/// are never more, and no sender is parked.
pub(crate) const MAILBOX_CAPACITY: usize = CHEAP_PER_WORKER + MEASURED_MAX;

/// Bytes that the answers of large batches hold until they are written. What a single request's
/// answer holds is small: it is put together as it is taken; what is held at ingest is shared by
/// all.
pub const BATCH_BYTES_MAX: usize = 256 << 20;

/// One permit of [`BATCH_BYTES_MAX`]; a smaller answer is not weighed.
pub const BATCH_BYTES_UNIT: usize = 64 << 10;

/// Look-ups of large log queries under way in the pool, some 50 ns each: 50 ms of work, which two
/// cores do in half of it.
pub const LOOKUPS_MAX: usize = 1 << 20;

/// Storage keys and slots of large proofs under way: a key takes 5 to 10 µs, so 4,096 are some 20
/// ms on two cores.
pub const PROOF_KEYS_MAX: usize = 4_096;

/// Accounts whose state is waited for from nodes, all reads together: each takes tens of kilobytes
/// until it is verified, and at 10 ms a call they are 12,000 a second, more than any node gives.
/// Half of what one worker has under way, so that a node which stalls does not keep it from what is
/// held.
pub const REMOTE_MAX: usize = 128;

/// Threads for heavy work, the permits of the whole service, and the number of panics; started once
/// a service, cloning shares them.
#[derive(Clone, Debug)]
pub struct Pools {
    pub(crate) heavy: Addr<PoolActor>,
    measured: Permits,
    batch_units: Permits,
    pub(crate) lookups: Permits,
    pub(crate) proof_keys: Permits,
    pub(crate) remote: Permits,
    state_source: Option<StateSource>,
    workers: Arc<Mutex<Vec<Weak<Semaphore>>>>,
    panics: Panics,
}

/// Permits of one kind at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitUse {
    /// What is admitted by them.
    pub kind: &'static str,
    /// Taken.
    pub in_use: usize,
    /// Free.
    pub available: usize,
}

impl Pools {
    /// Starts `threads` threads (at least one); must be called inside an actix system, on whose
    /// first thread the heavy work is handed over.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one pool: permits bound its queue, and its actor catches panics"
    )]
    pub fn start(threads: usize) -> Self {
        let panics = Panics::default();
        let heavy = {
            let panics = panics.clone();
            SyncArbiter::start(threads.max(1), move || PoolActor::new(panics.clone()))
        };
        Self {
            heavy,
            measured: Permits::new(MEASURED_MAX),
            batch_units: Permits::new(BATCH_BYTES_MAX / BATCH_BYTES_UNIT),
            lookups: Permits::new(LOOKUPS_MAX),
            proof_keys: Permits::new(PROOF_KEYS_MAX),
            remote: Permits::new(REMOTE_MAX),
            state_source: None,
            workers: Arc::default(),
            panics,
        }
    }

    /// The same, where what is missing of a state is fetched from `source`; before any [`Worker`]
    /// is started.
    #[must_use]
    pub fn with_state_source(self, source: StateSource) -> Self {
        Self {
            state_source: Some(source),
            ..self
        }
    }

    /// Where missing state is fetched; `None` where all of it is held.
    #[must_use]
    pub const fn state_source(&self) -> Option<&StateSource> {
        self.state_source.as_ref()
    }

    /// Admits a batch's answer that holds so many bytes.
    ///
    /// # Errors
    /// [`QueryError::Unavailable`]: too many such bytes are held.
    pub fn weigh_batch(&self, bytes: usize) -> Reply<Option<Permit>> {
        match bytes / BATCH_BYTES_UNIT {
            0 => Ok(None),
            units => self.batch_units.take(units).map(Some),
        }
    }

    /// Handlers that panicked since the start, with those that others noticed and counted here.
    #[must_use]
    pub const fn panics(&self) -> &Panics {
        &self.panics
    }

    /// The permits of every kind.
    #[must_use]
    pub fn permits(&self) -> [PermitUse; 6] {
        let cheap_free: Vec<usize> = self
            .workers
            .lock()
            .iter()
            .filter_map(|worker| Some(worker.upgrade()?.available_permits()))
            .collect();
        let available = cheap_free.iter().sum();
        let of = |kind, permits: &Permits| PermitUse {
            kind,
            in_use: permits.in_use(),
            available: permits.available(),
        };
        [
            PermitUse {
                kind: "cheap",
                in_use: (cheap_free.len() * CHEAP_PER_WORKER).saturating_sub(available),
                available,
            },
            of("measured", &self.measured),
            of("batch_bytes_64k", &self.batch_units),
            of("log_lookups", &self.lookups),
            of("proof_keys", &self.proof_keys),
            of("remote_accounts", &self.remote),
        ]
    }
}

/// Counts panics; cloning shares the count.
#[derive(Clone, Debug, Default)]
pub struct Panics(Arc<AtomicU64>);

impl Panics {
    /// One more.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs a handler's work. A panic is its own message's answer, is counted, and stops the actor,
    /// which whoever supervises it starts again; the mailbox stays, so that no other message is
    /// lost.
    pub(crate) fn guard<T>(
        &self,
        ctx: &mut impl ActorContext,
        work: impl FnOnce() -> Reply<T>,
    ) -> Reply<T> {
        let reply = self.catch(work);
        // What the work could have left half done is the actor's own state, and the actor starts
        // anew.
        if matches!(reply, Err(QueryError::Panicked)) {
            ctx.stop();
        }
        reply
    }

    /// Runs work that has no part in an actor's own state. A panic is its answer, and is counted.
    pub(crate) fn catch<T>(&self, work: impl FnOnce() -> Reply<T>) -> Reply<T> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            self.count();
            tracing::error!("a handler panicked");
            Err(QueryError::Panicked)
        })
    }
}

/// Addresses of one worker's own actors, and its admission.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Blocks, transactions, receipts, uncles.
    pub blocks: Addr<BlockStoreActor>,
    /// Logs.
    pub logs: Addr<LogQueryActor>,
    /// State and proofs of it.
    pub proofs: Addr<ProofActor>,
    cheap: Arc<Semaphore>,
    pools: Pools,
}

impl Worker {
    /// Starts the read actors on the present arbiter.
    #[must_use]
    pub fn start(pools: &Pools) -> Self {
        let cheap = Arc::new(Semaphore::new(CHEAP_PER_WORKER));
        let mut workers = pools.workers.lock();
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&cheap));
        drop(workers);
        Self {
            blocks: Supervisor::start({
                let panics = pools.panics.clone();
                move |_| BlockStoreActor::new(panics)
            }),
            logs: Supervisor::start({
                let pools = pools.clone();
                move |_| LogQueryActor::new(pools)
            }),
            proofs: Supervisor::start({
                let pools = pools.clone();
                move |_| ProofActor::new(pools)
            }),
            cheap,
            pools: pools.clone(),
        }
    }

    /// Admits a request of `class`: a cheap one waits for its turn, a measured one is refused when
    /// there are too many.
    ///
    /// # Errors
    /// [`QueryError::Unavailable`]: not admitted.
    pub async fn admit(&self, class: CostClass) -> Reply<Permit> {
        match class {
            CostClass::Cheap => match Arc::clone(&self.cheap).try_acquire_owned() {
                Ok(permit) => Ok(permit),
                // Boxed, so that who does not have to wait does not carry what waiting needs.
                Err(_) => Box::pin(Arc::clone(&self.cheap).acquire_owned())
                    .await
                    .map_err(|_| QueryError::Unavailable),
            },
            CostClass::Measured => self.pools.measured.take(1),
        }
    }

    /// What is shared with the other workers.
    #[must_use]
    pub const fn pools(&self) -> &Pools {
        &self.pools
    }
}

/// Sends a message and waits for the answer. Dropping the future takes the message back if its turn
/// has not come.
///
/// # Errors
/// What the actor answers; [`QueryError::Unavailable`] if it is gone.
pub async fn ask<A, M, T>(actor: &Addr<A>, message: M) -> Reply<T>
where
    A: Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = Reply<T>> + Send + 'static,
    T: Send + 'static,
{
    actor
        .send(message)
        .await
        .unwrap_or(Err(QueryError::Unavailable))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use actix::{Actor, Message};

    use super::*;

    #[derive(Message)]
    #[rtype(result = "Reply<()>")]
    struct Panic;

    #[derive(Message)]
    #[rtype(result = "Reply<u32>")]
    struct Echo(u32);

    macro_rules! can_panic {
        ($($actor:ident).+, $panics:expr) => {
            impl Handler<Panic> for $($actor).+ {
                type Result = Reply<()>;

                fn handle(&mut self, _: Panic, ctx: &mut Self::Context) -> Reply<()> {
                    let panics: fn(&Self) -> &Panics = $panics;
                    panics(self).guard(ctx, || panic!("on purpose"))
                }
            }

            impl Handler<Echo> for $($actor).+ {
                type Result = Reply<u32>;

                fn handle(&mut self, echo: Echo, _: &mut Self::Context) -> Reply<u32> {
                    Ok(echo.0)
                }
            }
        };
    }

    can_panic!(BlockStoreActor, |actor| actor.panics());
    can_panic!(LogQueryActor, |actor| actor.panics());
    can_panic!(ProofActor, |actor| actor.panics());
    can_panic!(PoolActor, |actor| &actor.panics);

    async fn check<A>(actor: &Addr<A>)
    where
        A: Actor + Handler<Panic> + Handler<Echo>,
        A::Context: ToEnvelope<A, Panic> + ToEnvelope<A, Echo>,
    {
        // All of them are in the mailbox before the first is handled.
        let (before, first, between, second, after) = (
            actor.send(Echo(1)),
            actor.send(Panic),
            actor.send(Echo(2)),
            actor.send(Panic),
            actor.send(Echo(3)),
        );
        assert!(matches!(before.await.unwrap(), Ok(1)));
        assert!(matches!(first.await.unwrap(), Err(QueryError::Panicked)));
        assert!(matches!(between.await.unwrap(), Ok(2)));
        assert!(matches!(second.await.unwrap(), Err(QueryError::Panicked)));
        assert!(matches!(after.await.unwrap(), Ok(3)));
        assert!(matches!(ask(actor, Echo(4)).await, Ok(4)));
    }

    #[actix::test]
    async fn a_panic_is_its_own_messages_answer_and_nobody_elses() {
        let pools = Pools::start(1);
        let worker = Worker::start(&pools);
        check(&worker.blocks).await;
        check(&worker.logs).await;
        check(&worker.proofs).await;
        check(&pools.heavy).await;
        assert_eq!(pools.panics().total(), 8);
    }

    #[actix::test]
    async fn permits_bound_what_is_under_way() {
        let pools = Pools::start(1);
        let half = pools.lookups.take(LOOKUPS_MAX / 2).unwrap();
        let rest = pools.lookups.take(LOOKUPS_MAX / 2).unwrap();
        assert!(matches!(
            pools.lookups.take(1),
            Err(QueryError::Unavailable)
        ));
        let expected = PermitUse {
            kind: "log_lookups",
            in_use: LOOKUPS_MAX,
            available: 0,
        };
        assert!(pools.permits().contains(&expected));
        drop((half, rest));
        // What is larger than all there is takes all there is.
        let everything = pools.lookups.take(usize::MAX).unwrap();
        assert_eq!(everything.num_permits(), LOOKUPS_MAX);
    }

    #[actix::test]
    async fn batches_are_weighed_by_what_they_hold() {
        let pools = Pools::start(1);
        let units = |bytes| {
            let permit = pools.weigh_batch(bytes).unwrap();
            permit.map_or(0, |permit| permit.num_permits())
        };
        assert_eq!(units(BATCH_BYTES_UNIT - 1), 0);
        assert_eq!(units(9 * BATCH_BYTES_UNIT), 9);
        let everything = pools.weigh_batch(BATCH_BYTES_MAX).unwrap();
        assert!(matches!(
            pools.weigh_batch(BATCH_BYTES_UNIT),
            Err(QueryError::Unavailable)
        ));
        drop(everything);
        assert_eq!(units(BATCH_BYTES_MAX), BATCH_BYTES_MAX / BATCH_BYTES_UNIT);
    }

    #[actix::test]
    async fn measured_requests_are_refused_and_cheap_ones_wait() {
        let pools = Pools::start(1);
        let worker = Worker::start(&pools);
        let mut measured = Vec::new();
        for _ in 0..MEASURED_MAX {
            measured.push(worker.admit(CostClass::Measured).await.unwrap());
        }
        assert!(matches!(
            worker.admit(CostClass::Measured).await,
            Err(QueryError::Unavailable)
        ));
        measured.pop();
        assert!(worker.admit(CostClass::Measured).await.is_ok());

        let mut cheap = Vec::new();
        for _ in 0..CHEAP_PER_WORKER {
            cheap.push(worker.admit(CostClass::Cheap).await.unwrap());
        }
        let mut waiting = Box::pin(worker.admit(CostClass::Cheap));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        cheap.pop();
        assert!(waiting.await.is_ok());
        // A worker that is gone is not counted any more.
        drop((cheap, worker));
        let cheap = pools.permits()[0];
        assert_eq!(cheap.kind, "cheap");
        assert_eq!(cheap.available, 0);
    }
}
