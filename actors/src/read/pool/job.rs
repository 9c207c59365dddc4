//! What waits for a thread of the pool.

use nearhead_chain::log_search::Cancellation;
use tokio::sync::oneshot;
use tracing::Span;

use crate::{
    admission::{Panics, Refuse, WorkQueue},
    messages::{QueryError, Reply},
    step,
};

/// The jobs of one class.
pub(super) type Queue = WorkQueue<Box<dyn Job>>;

/// A query that can run on the pool.
pub(crate) trait PoolQuery: Send + 'static {
    /// Its answer.
    type Output: Send + 'static;

    /// Set when the answer is no longer wanted.
    fn cancellation(&self) -> &Cancellation;

    /// Computes the answer.
    fn run(&self) -> Reply<Self::Output>;
}

/// A query of any kind that waits for a thread.
pub(super) trait Job: Send {
    /// Whether nobody waits for it any more.
    fn is_cancelled(&self) -> bool;

    /// Answers it with an error.
    fn refuse(self: Box<Self>, refusal: QueryError);

    /// Computes its answer.
    fn run(self: Box<Self>, panics: &Panics);
}

/// A query that waits for a thread, and who waits for its answer.
pub(super) struct QueuedQuery<Q: PoolQuery> {
    pub(super) query: Q,
    pub(super) reply: oneshot::Sender<Reply<Q::Output>>,
    /// The span of the message that the query came with, and that of its wait.
    pub(super) request: Span,
    pub(super) queued: Span,
    pub(super) class: &'static str,
}

impl Refuse for Box<dyn Job> {
    fn refuse(self, refusal: QueryError) {
        Job::refuse(self, refusal);
    }
}

// Sending fails if nobody waits for the reply any more.
impl<Q: PoolQuery> Job for QueuedQuery<Q> {
    fn is_cancelled(&self) -> bool {
        self.query.cancellation().is_cancelled()
    }

    fn refuse(self: Box<Self>, refusal: QueryError) {
        drop(self.reply.send(Err(refusal)));
    }

    fn run(self: Box<Self>, panics: &Panics) {
        let Self {
            query,
            reply,
            request,
            queued,
            class,
        } = *self;
        drop(queued);
        let run = step!(below request, "run", class);
        let answer = run.in_scope(|| panics.catch(move || query.run()));
        // They end before the request goes on.
        drop((run, request));
        drop(reply.send(answer));
    }
}
