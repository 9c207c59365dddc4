//! What is too heavy for a worker's own thread: bulk log queries, proofs of many keys.

use actix::{Actor, Handler, Message, SyncContext};
use nearhead_chain::log_search::Cancellation;

use crate::{
    messages::{QueryError, Reply},
    wiring::{Panics, Permit},
};

/// One on every thread of the pool; all take from one queue, which is as short as the permits are
/// few.
///
/// Its work is synchronous and watches its cancellation; after a panic the pool puts a new actor in
/// its place.
#[derive(Debug)]
pub(crate) struct PoolActor {
    pub(crate) panics: Panics,
}

/// A query that can run on the pool.
pub(crate) trait HeavyQuery: Send + 'static {
    /// What it answers.
    type Output: Send + 'static;

    /// Set when nobody waits for the answer any more.
    fn cancellation(&self) -> &Cancellation;

    /// The answer.
    fn run(&self) -> Reply<Self::Output>;
}

/// A query that crosses to the pool, with the permit that admitted it: given back when the work is
/// done or dropped.
#[derive(Debug)]
pub(crate) struct Heavy<Q> {
    pub(crate) query: Q,
    pub(crate) permit: Permit,
}

impl<Q: HeavyQuery> Message for Heavy<Q> {
    type Result = Reply<Q::Output>;
}

impl PoolActor {
    pub(crate) const fn new(panics: Panics) -> Self {
        Self { panics }
    }
}

impl Actor for PoolActor {
    type Context = SyncContext<Self>;
}

impl<Q: HeavyQuery> Handler<Heavy<Q>> for PoolActor {
    type Result = Reply<Q::Output>;

    fn handle(&mut self, heavy: Heavy<Q>, ctx: &mut SyncContext<Self>) -> Self::Result {
        // The permit is given back when the work is done.
        let Heavy {
            query,
            permit: _permit,
        } = heavy;
        if query.cancellation().is_cancelled() {
            return Err(QueryError::Cancelled);
        }
        self.panics.guard(ctx, || query.run())
    }
}
