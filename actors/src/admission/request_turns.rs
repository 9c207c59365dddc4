//! Turns of small requests, so that no tenant's request waits for all of another one's.

use std::{
    cell::Cell,
    fmt,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, task::yield_now};
use tracing::Instrument;

use super::{
    cost::{LARGE_BODY_BYTES, QUEUE_TARGET, REQUEST_BYTE_NANOS, REQUEST_NANOS, REQUESTS_TIME_MAX},
    fair_queue::Entry,
    turns::{TurnQueue, Withdrawn},
    work_queue::{Refuse, Run},
};
use crate::{
    messages::{QueryError, Reply},
    share::Share,
    step,
};

/// The small requests of one thread; clones share them. Large bodies have turns of their own.
///
/// An event loop takes requests in the order of arrival, so that each waits for as many others as
/// have arrived on other connections. While connections of several tenants are on the thread, it
/// begins requests of `REQUESTS_TIME_MAX` between two looks at its sockets. The others wait in a
/// queue that tenants share by weight: the request of a tenant without others waiting is among the
/// next. Requests of a tenant begin in the order of arrival. A tenant that is alone does not wait.
#[derive(Clone)]
pub struct RequestTurns(Rc<Shared>);

struct Shared {
    queue: Arc<TurnQueue>,
    is_alone: Box<dyn Fn() -> bool>,
    /// Work that was begun since the last look at the sockets, as it is estimated, in nanoseconds.
    begun: Cell<u64>,
    /// Whether turns are given: from the first request of competing tenants until none has come
    /// between two looks.
    is_giving: Cell<bool>,
}

/// How long the small requests of one thread wait for their turns.
#[derive(Debug)]
pub struct RequestWaits(Arc<TurnQueue>);

const AT_ONCE: u64 = REQUESTS_TIME_MAX.as_nanos() as u64;

impl RequestTurns {
    /// `is_alone` says whether all connections of the thread are of one tenant.
    pub(crate) fn new(queue: Arc<TurnQueue>, is_alone: Box<dyn Fn() -> bool>) -> Self {
        Self(Rc::new(Shared {
            queue,
            is_alone,
            begun: Cell::default(),
            is_giving: Cell::default(),
        }))
    }

    /// Whether a request with a body of this many bytes may begin at once, as each with a large one
    /// may. It must be called on the thread's arbiter.
    #[must_use]
    pub fn begin(&self, bytes: usize) -> bool {
        if bytes >= LARGE_BODY_BYTES {
            return true;
        }
        let shared = &self.0;
        let is_giving = shared.is_giving.get();
        if is_giving && !shared.queue.is_empty() {
            return false;
        }
        if (shared.is_alone)() {
            return true;
        }
        if !is_giving {
            self.give_turns();
        }
        let may_begin = shared.begun.get() < AT_ONCE;
        if may_begin {
            shared.begin(cost_of(bytes));
        }
        may_begin
    }

    /// Waits until a tenant's request with a body of this many bytes may begin, which may not
    /// [at once](Self::begin).
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: too many of the tenant wait.
    pub async fn wait(&self, share: Share, bytes: usize) -> Reply<()> {
        let (turn, has_turn) = oneshot::channel();
        let (queue, now) = (&self.0.queue, Instant::now());
        // A late one is not refused: that would cost as much as its answer.
        let ticket = queue.push(share, cost_of(bytes), turn, now, Entry::Again)?;
        let _withdrawn = Withdrawn { queue, ticket };
        if !self.0.is_giving.get() {
            self.give_turns();
        }
        let turn = has_turn.instrument(step!("turn")).await;
        turn.unwrap_or(Err(QueryError::Unavailable))
    }

    /// How long requests wait for their turns.
    #[must_use]
    pub fn waits(&self) -> RequestWaits {
        RequestWaits(Arc::clone(&self.0.queue))
    }

    /// Gives turns from now on, until no more requests come.
    fn give_turns(&self) {
        let giving = Giving {
            shared: Rc::clone(&self.0),
            given: Vec::new(),
        };
        self.0.is_giving.set(true);
        actix::spawn(giving.run());
    }
}

impl Shared {
    fn begin(&self, cost: u64) {
        self.begun.set(self.begun.get().saturating_add(cost));
    }
}

/// The task that gives turns. If it panics, the next request starts another one.
struct Giving {
    shared: Rc<Shared>,
    /// What was given a turn since the last look at the sockets, each with its estimated cost.
    given: Vec<(Run, u64)>,
}

impl Giving {
    async fn run(mut self) {
        loop {
            // What was begun runs before the sockets are looked at, and this task after.
            yield_now().await;
            self.finish();
            let begun = self.shared.begun.take();
            self.give();
            if begun == 0 && self.given.is_empty() {
                return;
            }
        }
    }

    /// Gives the turns until the next look at the sockets.
    fn give(&mut self) {
        let Shared {
            queue,
            begun,
            is_alone,
            ..
        } = &*self.shared;
        // Others may have left meanwhile.
        while begun.get() < AT_ONCE || is_alone() {
            let now = Instant::now();
            let Some(taken) = queue.pop(now) else {
                return;
            };
            let Some(run) = taken.run else {
                taken.content.refuse(queue.refusal(taken.share, now));
                continue;
            };
            match taken.content.send(Ok(())) {
                Ok(()) => {
                    self.given.push((run, taken.cost));
                    self.shared.begin(taken.cost);
                }
                // Its client has just gone away.
                Err(_) => queue.skipped(run),
            }
        }
    }

    /// Records that what had its turn is done.
    fn finish(&mut self) {
        let now = Instant::now();
        // The last one is found first.
        for (run, cost) in self.given.drain(..).rev() {
            let cost = Duration::from_nanos(cost);
            self.shared.queue.finished(run, cost, now);
        }
    }
}

impl Drop for Giving {
    fn drop(&mut self) {
        self.shared.is_giving.set(false);
        self.shared.begun.set(0);
        for (run, _) in self.given.drain(..).rev() {
            self.shared.queue.skipped(run);
        }
    }
}

impl RequestWaits {
    /// How long requests of two tenants have waited, at least. While those of only one wait, they
    /// delay nobody else's, so their wait counts from `QUEUE_TARGET` on.
    #[must_use]
    pub fn waited(&self, now: Instant) -> Duration {
        match self.0.longest_waits(now) {
            [longest, _] if longest > QUEUE_TARGET => longest,
            [_, second] => second,
        }
    }
}

const fn cost_of(bytes: usize) -> u64 {
    REQUEST_NANOS.saturating_add(bytes.saturating_mul(REQUEST_BYTE_NANOS)) as u64
}

impl fmt::Debug for RequestTurns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RequestTurns")
            .field("queue", &self.0.queue)
            .field("begun", &self.0.begun.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::cell::RefCell;

    use futures_util::poll;

    use super::*;

    /// Bytes of a usual request.
    const BYTES: usize = 100;
    /// Usual requests that begin between two looks at the sockets.
    const AT_ONCE: usize = 4;

    fn turns(is_alone: bool) -> RequestTurns {
        turns_while(move || is_alone)
    }

    fn turns_while(is_alone: impl Fn() -> bool + 'static) -> RequestTurns {
        let queue = Arc::new(TurnQueue::by_arrival("requests", 1, 1_000));
        RequestTurns::new(queue, Box::new(is_alone))
    }

    /// Begins as many requests as may begin at once, 1,000 at most; returns how many.
    fn begin_all(turns: &RequestTurns) -> usize {
        (0..1_000).take_while(|_| turns.begin(BYTES)).count()
    }

    #[actix::test]
    async fn a_tenant_alone_does_not_wait() {
        assert_eq!(begin_all(&turns(true)), 1_000);
        let turns = turns(false);
        for _ in 0..3 {
            assert_eq!(begin_all(&turns), AT_ONCE);
            yield_now().await;
            yield_now().await;
        }
        while turns.0.is_giving.get() {
            yield_now().await;
        }
        assert_eq!(turns.0.begun.get(), 0);
    }

    /// A flood goes on without a pause when the other tenant has left.
    #[actix::test]
    async fn who_is_left_alone_does_not_wait_any_more() {
        let is_alone = Rc::new(Cell::new(false));
        let seen = Rc::clone(&is_alone);
        let turns = turns_while(move || seen.get());
        begin_all(&turns);
        let share = Share::default();
        let mut waiting: Vec<_> = (0..50)
            .map(|_| Box::pin(turns.wait(share, BYTES)))
            .collect();
        for one in &mut waiting {
            assert!(poll!(one).is_pending());
        }
        is_alone.set(true);
        assert!(!turns.begin(BYTES), "those came first");
        while !turns.0.queue.is_empty() {
            yield_now().await;
        }
        assert_eq!(turns.0.queue.usage().taken, 50);
        for one in waiting {
            one.await.unwrap();
        }
        assert_eq!(begin_all(&turns), 1_000);
    }

    /// Each is answered as soon as it has its turn, and its client makes another one.
    #[actix::test]
    async fn while_tenants_compete_the_other_one_is_among_the_next() {
        let turns = turns(false);
        let (flood, other) = (Share::default(), Share::default());
        let order = Rc::new(RefCell::new(Vec::new()));
        begin_all(&turns);
        let ask = |share, name| {
            let (turns, order) = (turns.clone(), Rc::clone(&order));
            assert!(!turns.begin(BYTES));
            actix::spawn(async move {
                turns.wait(share, BYTES).await.unwrap();
                order.borrow_mut().push(name);
            });
        };
        (0..500).for_each(|_| ask(flood, "flood"));
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

    /// A small request does not overtake the tenant's larger ones, also not at once.
    #[actix::test]
    async fn requests_of_a_tenant_begin_in_the_order_of_arrival() {
        let turns = turns(false);
        let share = Share::default();
        assert!(turns.begin(10_000), "as much as a dozen usual ones");
        let begun = Rc::new(RefCell::new(Vec::new()));
        for bytes in [5_000, 100, 2_000, 10_000, 700, 50] {
            let (turns, begun) = (turns.clone(), Rc::clone(&begun));
            actix::spawn(async move {
                assert!(!turns.begin(bytes));
                turns.wait(share, bytes).await.unwrap();
                begun.borrow_mut().push(bytes);
            });
        }
        while begun.borrow().len() < 6 {
            yield_now().await;
        }
        assert_eq!(*begun.borrow(), [5_000, 100, 2_000, 10_000, 700, 50]);
    }

    /// A flood of one tenant delays that one alone, and is seen late.
    #[actix::test]
    async fn waits_of_two_tenants_are_seen_soon() {
        let turns = turns(false);
        let waits = turns.waits();
        let after = |waited| waits.waited(Instant::now() + waited);
        let [soon, late] = [QUEUE_TARGET / 2, 2 * QUEUE_TARGET];
        assert_eq!(after(late), Duration::ZERO, "nobody waits");
        let tenants = [(); 3].map(|()| Share::default());
        begin_all(&turns);
        let mut flood = Box::pin(turns.wait(tenants[0], BYTES));
        assert!(poll!(&mut flood).is_pending());
        assert_eq!(after(soon), Duration::ZERO);
        assert!(after(late) >= late);
        for other in &tenants[1..] {
            let mut second = Box::pin(turns.wait(*other, BYTES));
            assert!(poll!(&mut second).is_pending());
            assert!(after(soon) >= soon);
        }
        assert_eq!(after(soon), Duration::ZERO, "who has left does not wait");
    }

    #[actix::test]
    async fn who_leaves_does_not_wait_any_more() {
        let turns = turns(false);
        begin_all(&turns);
        let mut leaves = Box::pin(turns.wait(Share::default(), BYTES));
        assert!(poll!(&mut leaves).is_pending());
        assert!(!turns.0.queue.is_empty());
        drop(leaves);
        assert!(turns.0.queue.is_empty());
        while turns.0.is_giving.get() {
            yield_now().await;
        }
        assert_eq!(turns.0.queue.usage().taken, 0);
    }
}
