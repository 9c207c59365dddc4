//! Panics of handlers: caught, answered and counted.
//!
//! A panic is caught where it would do most harm if it spread:
//! - [`Panics::guard`]: in an actor's handler, where it would end the actor with its supervisor,
//!   and lose the messages that wait;
//! - [`Panics::catch`]: in queries on the threads of the pool, where it would end the actor of a
//!   thread, which would take no further query;
//! - [`Panics::catch_async`]: in work that an actor goes on with after its handler has returned; in
//!   the fetch of state that is not held, where it would be answered as
//!   [`QueryError::Unavailable`] and not counted; and in the dispatcher of `nearhead`, around each
//!   call, so that the other items of a batch keep their answers, and around the whole answer, for
//!   the dispatcher's own code, where it would end a session;
//! - in the check of an upstream's answer to that fetch, so that the next upstream is asked.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use actix::ActorContext;

use crate::messages::{QueryError, Reply};

/// Work panicked. It has been counted and logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked;

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
        let reply = self.catch(work);
        // The actor's own state may be half changed: a restart makes it new.
        if matches!(reply, Err(QueryError::Panicked)) {
            ctx.stop();
        }
        reply
    }

    /// Runs work that does not touch an actor's state. A panic is answered with
    /// [`QueryError::Panicked`], and is counted.
    pub(crate) fn catch<T>(&self, work: impl FnOnce() -> Reply<T>) -> Reply<T> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            self.panicked();
            Err(QueryError::Panicked)
        })
    }

    /// Runs work that does not touch an actor's state, and counts its panic. The work is pinned by
    /// the caller: a future that is passed on takes its room twice.
    ///
    /// # Errors
    /// [`Panicked`] if the work panicked.
    pub async fn catch_async<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Panicked> {
        poll_fn(|cx| {
            // Work that panicked is not polled again, so its half-done state is never seen.
            match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
                Ok(poll) => poll.map(Ok),
                Err(_) => Poll::Ready(Err(self.panicked())),
            }
        })
        .await
    }

    fn panicked(&self) -> Panicked {
        self.count();
        tracing::error!("a request's work panicked");
        Panicked
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[actix::test]
    async fn a_panic_after_the_handler_is_caught_and_counted() {
        let panics = Panics::default();
        let done = panics.catch_async(pin!(async { 1 })).await;
        assert_eq!((done, panics.total()), (Ok(1), 0));
        let work = async {
            tokio::task::yield_now().await;
            panic!("on purpose")
        };
        let panicked: Result<(), _> = panics.catch_async(pin!(work)).await;
        assert_eq!((panicked, panics.total()), (Err(Panicked), 1));
    }
}
