//! What is too heavy for a worker's own thread: bulk log queries, proofs of many keys.

use actix::{Actor, Handler, Message, SyncContext};
use alloy_primitives::U256;

use crate::{
    log_query_actor,
    messages::{FindLogs, ProveAccount, ReadStorageValues, Reply, Weighed},
    proof_actor,
    wiring::{Panics, Permit, Permits},
};

/// One on every thread of the pool; all take from one queue, which is as short as the permits are few.
///
/// Its work is synchronous and watches its cancellation; after a panic the pool puts a new actor in its place.
#[derive(Debug)]
pub(crate) struct PoolActor {
    log_units: Permits,
    panics: Panics,
}

/// A message that crosses to the pool, with the permit that admitted it: given back when the work is done or dropped.
#[derive(Debug)]
pub(crate) struct Heavy<M> {
    pub(crate) message: M,
    pub(crate) permit: Permit,
}

impl<M: Message> Message for Heavy<M> {
    type Result = M::Result;
}

impl PoolActor {
    pub(crate) const fn new(log_units: Permits, panics: Panics) -> Self {
        Self { log_units, panics }
    }

    pub(crate) const fn panics(&self) -> &Panics {
        &self.panics
    }
}

impl Actor for PoolActor {
    type Context = SyncContext<Self>;
}

impl Handler<Heavy<FindLogs>> for PoolActor {
    type Result = Reply<Weighed>;

    fn handle(&mut self, heavy: Heavy<FindLogs>, ctx: &mut SyncContext<Self>) -> Self::Result {
        let Heavy { message, permit } = heavy;
        self.panics().guard(ctx, || {
            log_query_actor::find_all(&message, &self.log_units, permit)
        })
    }
}

impl Handler<Heavy<ProveAccount>> for PoolActor {
    type Result = Reply<Weighed>;

    fn handle(&mut self, heavy: Heavy<ProveAccount>, ctx: &mut SyncContext<Self>) -> Self::Result {
        let Heavy { message, permit } = heavy;
        self.panics().guard(ctx, || {
            Ok(Weighed {
                json: proof_actor::prove(&message)?,
                permit: Some(permit),
            })
        })
    }
}

impl Handler<Heavy<ReadStorageValues>> for PoolActor {
    type Result = Reply<Vec<Vec<U256>>>;

    fn handle(
        &mut self,
        heavy: Heavy<ReadStorageValues>,
        ctx: &mut SyncContext<Self>,
    ) -> Self::Result {
        self.panics()
            .guard(ctx, || proof_actor::read_values(&heavy.message))
    }
}
