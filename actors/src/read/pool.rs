//! The pool: threads for queries that are too large for a worker's own thread.

use actix::{Actor, Addr, Handler, Message, SyncArbiter, SyncContext};
use nearhead_chain::log_search::Cancellation;

use super::ask::ask;
use crate::{
    admission::{Panics, Permit},
    messages::{QueryError, Reply},
};

/// The threads for large queries; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Pool(pub(crate) Addr<PoolActor>);

impl Pool {
    /// Starts `threads` threads, at least one. It must be called inside an actix system.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one pool: permits bound its queue, and its actor catches panics"
    )]
    pub(crate) fn start(threads: usize, panics: &Panics) -> Self {
        let panics = panics.clone();
        Self(SyncArbiter::start(threads.max(1), move || PoolActor {
            panics: panics.clone(),
        }))
    }

    /// Runs a query on one of the threads. The permit is given back when the work is done or
    /// dropped.
    pub(crate) async fn run<Q: PoolQuery>(&self, query: Q, permit: Permit) -> Reply<Q::Output> {
        ask(&self.0, RunQuery { query, permit }).await
    }
}

/// A query that can run on the pool.
pub(crate) trait PoolQuery: Send + 'static {
    /// Its answer.
    type Output: Send + 'static;

    /// Set when the answer is no longer wanted.
    fn cancellation(&self) -> &Cancellation;

    /// Computes the answer.
    fn run(&self) -> Reply<Self::Output>;
}

/// To the pool: a query, with the permit that admitted it.
struct RunQuery<Q> {
    query: Q,
    permit: Permit,
}

impl<Q: PoolQuery> Message for RunQuery<Q> {
    type Result = Reply<Q::Output>;
}

/// Runs queries; one on every thread of the pool. All take from one queue, which the permits keep
/// short.
///
/// Its work is synchronous and watches its cancellation. After a panic the pool starts a new actor
/// in its place.
#[derive(Debug)]
pub(crate) struct PoolActor {
    pub(super) panics: Panics,
}

impl Actor for PoolActor {
    type Context = SyncContext<Self>;
}

impl<Q: PoolQuery> Handler<RunQuery<Q>> for PoolActor {
    type Result = Reply<Q::Output>;

    fn handle(&mut self, run: RunQuery<Q>, ctx: &mut SyncContext<Self>) -> Self::Result {
        // The permit is given back when the work is done.
        let RunQuery {
            query,
            permit: _permit,
        } = run;
        if query.cancellation().is_cancelled() {
            return Err(QueryError::Cancelled);
        }
        self.panics.guard(ctx, || query.run())
    }
}
