//! Panics of handlers: caught, answered and counted.
//!
//! A panic is caught where it would do most harm if it spread:
//! - [`Panics::guard`]: in an actor's handler, where it would end the actor with its supervisor,
//!   and lose the messages that wait;
//! - [`Panics::catch_async`]: in work that an actor goes on with after its handler has returned,
//!   and in the fetch of state that is not held, where it would be answered as
//!   [`QueryError::Unavailable`] and not counted;
//! - in the check of an upstream's answer to that fetch, so that the next upstream is asked;
//! - in the dispatcher of `nearhead`, around each call, so that the other items of a batch keep
//!   their answers, and around the whole answer, for the dispatcher's own code, where it would end
//!   a session.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use actix::ActorContext;

use crate::messages::{QueryError, Reply};

/// The number of panics since the start; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Panics(Arc<AtomicU64>);

impl Panics {
    /// Adds one.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs a handler's work. A panic is answered with [`QueryError::Panicked`], is counted, and
    /// stops the actor, which its supervisor starts again. The mailbox stays, so no other message
    /// is lost.
    pub(crate) fn guard<T>(
        &self,
        ctx: &mut impl ActorContext,
        work: impl FnOnce() -> Reply<T>,
    ) -> Reply<T> {
        let reply = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| self.panicked());
        // The actor's own state may be half changed: a restart makes it new.
        if matches!(reply, Err(QueryError::Panicked)) {
            ctx.stop();
        }
        reply
    }

    /// Runs work that does not touch an actor's state. A panic is answered with
    /// [`QueryError::Panicked`] and counted.
    pub(crate) async fn catch_async<T>(&self, work: impl Future<Output = Reply<T>>) -> Reply<T> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            // Work that panicked is not polled again, so its half-done state is never seen.
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)))
                .unwrap_or_else(|_| self.panicked().into())
        })
        .await
    }

    fn panicked<T>(&self) -> Reply<T> {
        self.count();
        tracing::error!("a handler panicked");
        Err(QueryError::Panicked)
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;

    #[actix::test]
    async fn a_panic_after_the_handler_is_answered_and_counted() {
        let panics = Panics::default();
        let ok = panics.catch_async(async { Ok(1) }).await;
        assert!(matches!(ok, Ok(1)) && panics.total() == 0);
        let work = async {
            tokio::task::yield_now().await;
            panic!("on purpose")
        };
        let panicked: Reply<()> = panics.catch_async(work).await;
        assert!(matches!(panicked, Err(QueryError::Panicked)));
        assert_eq!(panics.total(), 1);
    }
}
