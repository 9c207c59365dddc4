//! Turns on a worker's thread: large bodies are parsed one at a time, and everything else has its
//! turn in between.

use std::{
    cell::Cell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, task::yield_now};

use super::{cost::BODY_BYTE_NANOS, fair_queue::Ticket, work_queue::WorkQueue};
use crate::{
    messages::{QueryError, Reply},
    share::Share,
};

/// The turns of one worker; clones share them.
///
/// To parse a body of a hundred kilobytes takes as long as to answer some dozen cheap requests. Of
/// those that have arrived at once, each waits here until the worker has looked at its sockets
/// again, and tenants share the turns.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    queue: Arc<TurnQueue>,
    is_running: Rc<Cell<bool>>,
}

/// The bodies that wait for their turn.
pub(super) type TurnQueue = WorkQueue<oneshot::Sender<Reply<()>>>;

impl Turns {
    pub(super) fn new(queue: Arc<TurnQueue>) -> Self {
        Self {
            queue,
            is_running: Rc::default(),
        }
    }

    /// Waits until a body of this many bytes has its turn. It must be called on the worker's
    /// arbiter.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: so many of the tenant's bodies wait that this one would wait for
    /// too long.
    pub(crate) async fn next(&self, share: Share, bytes: usize) -> Reply<()> {
        let (turn, has_turn) = oneshot::channel();
        let cost = bytes.saturating_mul(BODY_BYTE_NANOS) as u64;
        let ticket = self.queue.push(share, cost, turn, Instant::now())?;
        let _withdrawn = Withdrawn {
            queue: &self.queue,
            ticket,
        };
        if !self.is_running.replace(true) {
            actix::spawn(self.clone().run());
        }
        has_turn.await.unwrap_or(Err(QueryError::Unavailable))
    }

    /// Gives turns until nobody waits for one.
    async fn run(self) {
        while let Some(taken) = self.queue.pop(Instant::now()) {
            let share = taken.share;
            if taken.is_late {
                let refusal = self.queue.refusal(share);
                // Sending fails if the client has just gone away.
                drop(taken.content.send(Err(refusal)));
                continue;
            }
            if taken.content.send(Ok(())).is_err() {
                self.queue.skipped(share, taken.cost);
                continue;
            }
            // The task that has its turn runs before the sockets are looked at, and this one after.
            yield_now().await;
            let cost = Duration::from_nanos(taken.cost);
            self.queue.finished(share, taken.cost, cost, Instant::now());
        }
        self.is_running.set(false);
    }
}

/// Takes a body back when nobody waits for its turn any more.
struct Withdrawn<'a> {
    queue: &'a TurnQueue,
    ticket: Ticket,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.queue.withdraw(self.ticket);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{cell::RefCell, future::poll_fn, task::Poll};

    use super::*;

    /// A flood of bodies, then one of another tenant, and work that is always ready to go on.
    #[actix::test]
    async fn bodies_have_their_turn_one_at_a_time_and_tenants_share_it() {
        let queue = Arc::new(TurnQueue::new("bodies", 1));
        let turns = Turns::new(Arc::clone(&queue));
        let (flood, other) = (Share::default(), Share::default());
        let order = Rc::new(RefCell::new(Vec::new()));
        let given = |share, name| {
            let (turns, order) = (turns.clone(), Rc::clone(&order));
            actix::spawn(async move {
                turns.next(share, 100_000).await.unwrap();
                order.borrow_mut().push(name);
            })
        };
        let mut waiting: Vec<_> = (0..50).map(|_| given(flood, "flood")).collect();
        waiting.push(given(other, "other"));
        let (mut seen, mut most) = (0, 0);
        while seen < waiting.len() {
            yield_now().await;
            let now = order.borrow().len();
            most = most.max(now - seen);
            seen = now;
        }
        assert_eq!(most, 1, "turns between two looks at the sockets");
        let place = order.borrow().iter().position(|name| *name == "other");
        assert!(place.unwrap() <= 2, "{place:?}");
        assert_eq!(queue.usage().taken, 51);
    }

    #[actix::test]
    async fn who_goes_away_leaves_the_queue() {
        let queue = Arc::new(TurnQueue::new("bodies", 1));
        let turns = Turns::new(Arc::clone(&queue));
        let mut leaves = Box::pin(turns.next(Share::default(), 1));
        poll_fn(|cx| {
            assert!(leaves.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(queue.usage().waiting, 1);
        drop(leaves);
        assert_eq!(queue.usage().waiting, 0);
        assert!(turns.next(Share::default(), 1).await.is_ok());
    }
}
