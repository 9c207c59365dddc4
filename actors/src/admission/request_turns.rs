//! Turns of small requests, so that no tenant's request waits for all of another one's.

use std::{
    cell::Cell,
    fmt,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::yield_now;
use tracing::Instrument;

use super::{
    cost::{QUEUE_TARGET, REQUEST_BYTE_NANOS, REQUEST_NANOS, REQUESTS_TIME_MAX, TURNS_OF_REQUEST},
    fair_queue::Entry,
    turns::{TurnQueue, Turns},
};
use crate::{messages::Reply, share::Share, step};

/// The small requests of one thread; clones share them. Large bodies have turns of their own.
///
/// An event loop takes requests in the order of arrival, so that each waits for as many others as
/// have arrived on other connections. While connections of several tenants are on the thread, it
/// begins requests of `REQUESTS_TIME_MAX` between two looks at its sockets. The others wait in a
/// queue that tenants share by weight: the request of a tenant without others waiting is among the
/// next. A tenant that is alone does not wait.
#[derive(Clone)]
pub struct RequestTurns(Rc<Shared>);

struct Shared {
    turns: Turns,
    is_alone: Box<dyn Fn() -> bool>,
    /// Work of requests that were begun and are not answered, as it is estimated, in nanoseconds.
    begun: Cell<u64>,
}

/// How long the small requests of one thread wait for their turns.
#[derive(Debug)]
pub struct RequestWaits(Arc<TurnQueue>);

/// A request that was begun; it is answered once this is dropped.
pub struct RequestTurn {
    shared: Rc<Shared>,
    cost: u64,
}

/// Work in progress up to which a request is begun at once: as much as is begun in the turns that a
/// request takes.
const BEGUN_MAX: u64 = REQUESTS_TIME_MAX.as_nanos() as u64 * TURNS_OF_REQUEST as u64;

impl RequestTurns {
    /// `is_alone` says whether all connections of the thread are of one tenant.
    pub(crate) fn new(queue: Arc<TurnQueue>, is_alone: Box<dyn Fn() -> bool>) -> Self {
        Self(Rc::new(Shared {
            turns: Turns::several(queue, REQUESTS_TIME_MAX),
            is_alone,
            begun: Cell::new(0),
        }))
    }

    /// Begins a request with a body of this many bytes, if it need not wait.
    #[must_use]
    pub fn begin(&self, bytes: usize) -> Option<RequestTurn> {
        let shared = &self.0;
        let is_calm = shared.begun.get() < BEGUN_MAX && !shared.turns.are_given();
        (is_calm || (shared.is_alone)()).then(|| self.begun(cost_of(bytes)))
    }

    /// Waits until a tenant's request with a body of this many bytes is begun. It must be called on
    /// the thread's arbiter.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`](crate::messages::QueryError::Overloaded): too many of the tenant
    /// wait.
    pub async fn wait(&self, share: Share, bytes: usize) -> Reply<RequestTurn> {
        let cost = cost_of(bytes);
        // A late one is not refused: that would cost as much as its answer.
        let turn = self.0.turns.wait(share, cost, Entry::Again);
        turn.instrument(step!("turn")).await?;
        Ok(self.begun(cost))
    }

    /// Begins a message of a session, or waits for its turn. Messages that have arrived together
    /// are taken in one go, so what is answered at once would never be in progress with another
    /// one: while there are several tenants, a message is not answered before the thread has looked
    /// at its sockets.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn begin_message(&self, share: Share, bytes: usize) -> Reply<RequestTurn> {
        let Some(turn) = self.begin(bytes) else {
            return self.wait(share, bytes).await;
        };
        if !(self.0.is_alone)() {
            yield_now().await;
        }
        Ok(turn)
    }

    /// How long requests wait for their turns.
    #[must_use]
    pub fn waits(&self) -> RequestWaits {
        RequestWaits(self.0.turns.queue())
    }

    fn begun(&self, cost: u64) -> RequestTurn {
        let begun = &self.0.begun;
        begun.set(begun.get().saturating_add(cost));
        RequestTurn {
            shared: Rc::clone(&self.0),
            cost,
        }
    }
}

impl RequestWaits {
    /// How long the request that is next has waited. While only one tenant has requests waiting,
    /// they delay nobody else's, so their wait counts from `QUEUE_TARGET` on.
    #[must_use]
    pub fn waited(&self, now: Instant) -> Duration {
        match self.0.next_waited(now) {
            Some((waited, tenants)) if tenants > 1 || waited > QUEUE_TARGET => waited,
            _ => Duration::ZERO,
        }
    }
}

const fn cost_of(bytes: usize) -> u64 {
    REQUEST_NANOS.saturating_add(bytes.saturating_mul(REQUEST_BYTE_NANOS)) as u64
}

impl Drop for RequestTurn {
    fn drop(&mut self) {
        let begun = &self.shared.begun;
        begun.set(begun.get().saturating_sub(self.cost));
    }
}

impl fmt::Debug for RequestTurns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RequestTurns")
            .field("begun", &self.0.begun.get())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RequestTurn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cost, .. } = self;
        formatter
            .debug_struct("RequestTurn")
            .field("cost", cost)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::cell::RefCell;

    use futures_util::poll;

    use super::*;
    use crate::share::Share;

    /// Bytes of a usual request.
    const BYTES: usize = 100;
    /// Requests that are begun at once, and between two looks at the sockets.
    const BEGUN: usize = 13;
    const AT_ONCE: usize = 4;

    fn turns(is_alone: bool) -> RequestTurns {
        let queue = Arc::new(TurnQueue::new("requests", 1));
        RequestTurns::new(queue, Box::new(move || is_alone))
    }

    /// Begins as many requests as need not wait, 1,000 at most.
    fn begin_all(turns: &RequestTurns) -> Vec<RequestTurn> {
        std::iter::from_fn(|| turns.begin(BYTES))
            .take(1_000)
            .collect()
    }

    #[actix::test]
    async fn a_tenant_alone_does_not_wait() {
        assert_eq!(begin_all(&turns(true)).len(), 1_000);
        let turns = turns(false);
        let begun = begin_all(&turns);
        assert_eq!(begun.len(), BEGUN);
        drop(begun);
        assert_eq!(turns.0.begun.get(), 0);
        assert_eq!(begin_all(&turns).len(), BEGUN);
    }

    /// Each is answered as soon as it has its turn, and its client makes another one.
    #[actix::test]
    async fn while_tenants_compete_the_other_one_is_among_the_next() {
        let turns = turns(false);
        let (flood, other) = (Share::default(), Share::default());
        let order = Rc::new(RefCell::new(Vec::new()));
        let begun = begin_all(&turns);
        let ask = |share, name| {
            let (turns, order) = (turns.clone(), Rc::clone(&order));
            assert!(turns.begin(BYTES).is_none());
            actix::spawn(async move {
                let _turn = turns.wait(share, BYTES).await.unwrap();
                order.borrow_mut().push(name);
            });
        };
        (0..500).for_each(|_| ask(flood, "flood"));
        yield_now().await;
        yield_now().await;
        // What is in progress now does not matter any more.
        drop(begun);
        let mut places = Vec::new();
        let mut most = 0;
        while order.borrow().len() < 500 {
            let before = order.borrow().len();
            ask(other, "other");
            while !order.borrow()[before..].contains(&"other") {
                let seen = order.borrow().len();
                yield_now().await;
                most = most.max(order.borrow().len() - seen);
            }
            places.push(order.borrow().len() - before);
        }
        assert!(
            places.iter().all(|place| *place <= 3 * AT_ONCE),
            "{places:?}"
        );
        // This task may look once in two turns.
        assert!((AT_ONCE..=2 * AT_ONCE).contains(&most), "{most} at once");
    }

    /// A flood of one tenant delays that one alone, and is seen late.
    #[actix::test]
    async fn waits_of_several_tenants_are_seen_soon() {
        let turns = turns(false);
        let waits = turns.waits();
        let after = |waited| waits.waited(Instant::now() + waited);
        let [soon, late] = [QUEUE_TARGET / 2, 2 * QUEUE_TARGET];
        assert_eq!(after(late), Duration::ZERO, "nobody waits");
        let (one, other) = (Share::default(), Share::default());
        let _begun = begin_all(&turns);
        let mut flood = Box::pin(turns.wait(one, BYTES));
        assert!(poll!(&mut flood).is_pending());
        assert_eq!(after(soon), Duration::ZERO);
        assert!(after(late) >= late);
        let mut second = Box::pin(turns.wait(other, BYTES));
        assert!(poll!(&mut second).is_pending());
        assert!(after(soon) >= soon);
    }

    #[actix::test]
    async fn what_has_waited_is_in_progress_and_large_bodies_count_more() {
        let turns = turns(false);
        let large = turns.begin(10_000).unwrap();
        assert!(
            turns.begin(BYTES).is_none(),
            "as much as a dozen usual ones"
        );
        // It waits for its turn, and not for the end of what is in progress.
        let waited = turns.wait(Share::default(), BYTES).await.unwrap();
        drop(large);
        assert_eq!(turns.0.begun.get(), cost_of(BYTES));
        drop(waited);
        while turns.0.turns.are_given() {
            yield_now().await;
        }
        assert!(turns.begin(BYTES).is_some());
    }

    #[actix::test]
    async fn messages_of_sessions_are_in_progress_together_while_tenants_compete() {
        let share = Share::default();
        for (is_alone, expected) in [(true, 0), (false, BEGUN)] {
            let turns = turns(is_alone);
            let mut messages: Vec<_> = (0..100)
                .map(|_| Box::pin(turns.begin_message(share, BYTES)))
                .collect();
            let mut begun = Vec::new();
            for message in &mut messages {
                if let std::task::Poll::Ready(turn) = poll!(message) {
                    begun.push(turn.unwrap());
                    // It is answered at once.
                    begun.clear();
                }
            }
            let in_progress = turns.0.begun.get() / cost_of(BYTES);
            assert_eq!(in_progress, expected as u64, "{is_alone}");
        }
    }

    #[actix::test]
    async fn who_leaves_does_not_wait_any_more() {
        let turns = turns(false);
        let _begun = begin_all(&turns);
        let mut leaves = Box::pin(turns.wait(Share::default(), BYTES));
        assert!(poll!(&mut leaves).is_pending());
        drop(leaves);
        while turns.0.turns.are_given() {
            yield_now().await;
        }
        assert_eq!(turns.0.begun.get(), BEGUN as u64 * cost_of(BYTES));
    }
}
