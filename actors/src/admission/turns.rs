//! Turns on one thread: large bodies are parsed one at a time, and everything else has its turn in
//! between.

use std::{
    cell::Cell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, task::yield_now};

use super::{
    cost::BODY_BYTE_NANOS,
    cpu_time::CpuTime,
    fair_queue::{Entry, Ticket},
    reply_parts::Parts,
    work_queue::{Refuse, Run, Taken, WorkQueue},
};
use crate::{
    messages::{QueryError, Reply},
    share::Share,
};

/// The turns of one thread; clones share them.
///
/// To parse a body of a hundred kilobytes takes as long as to answer some dozen cheap requests.
/// Bodies that are posted have a thread of their own, beside their worker's. Messages of sessions
/// are parsed by the worker: of those that have arrived at once, each waits here until it has
/// looked at its sockets again. Tenants share the turns.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    queue: Arc<TurnQueue>,
    clock: Clock,
    is_running: Rc<Cell<bool>>,
}

/// What a turn is charged by.
#[derive(Clone, Debug)]
pub(super) enum Clock {
    /// The CPU time of the thread until it looks at its sockets.
    Cpu,
    /// The time of the parts of replies.
    OfParts(Rc<Parts>),
}

/// The bodies that wait for their turn.
pub(super) type TurnQueue = WorkQueue<oneshot::Sender<Reply<()>>>;

// Sending fails if the client has just gone away.
impl Refuse for oneshot::Sender<Reply<()>> {
    fn refuse(self, refusal: QueryError) {
        drop(self.send(Err(refusal)));
    }
}

impl Clock {
    fn now(&self) -> Duration {
        match self {
            Self::Cpu => CpuTime::now().used(),
            Self::OfParts(parts) => parts.time(),
        }
    }
}

impl Turns {
    pub(super) fn new(queue: Arc<TurnQueue>, clock: Clock) -> Self {
        Self {
            queue,
            clock,
            is_running: Rc::default(),
        }
    }

    /// Waits until a body of this many bytes has its turn. It must be called on the thread's
    /// arbiter.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: so many of the tenant's bodies wait that this one would wait for
    /// too long.
    pub(crate) async fn next(&self, share: Share, bytes: usize) -> Reply<()> {
        self.wait(share, bytes, Entry::New).await
    }

    /// The same for the next part of what was begun: it waits for as long as it has to.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: the tenant has too many of them.
    pub(super) async fn again(&self, share: Share, bytes: usize) -> Reply<()> {
        self.wait(share, bytes, Entry::Again).await
    }

    /// Whether turns are being given, because somebody waits for one or has one.
    pub(super) fn are_given(&self) -> bool {
        self.is_running.get()
    }

    /// No turn is given any more.
    #[cfg(test)]
    pub(super) fn stop_giving(&self) {
        self.is_running.set(true);
    }

    async fn wait(&self, share: Share, bytes: usize, entry: Entry) -> Reply<()> {
        let (turn, has_turn) = oneshot::channel();
        let cost = bytes.saturating_mul(BODY_BYTE_NANOS) as u64;
        let ticket = self.queue.push(share, cost, turn, Instant::now(), entry)?;
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
        let mut running = Running {
            turns: &self,
            turn: None,
        };
        while let Some(taken) = self.queue.pop(Instant::now()) {
            let Taken {
                content,
                run,
                share,
                ..
            } = taken;
            let Some(run) = run else {
                content.refuse(self.queue.refusal(share, Instant::now()));
                // To write a refusal is work too.
                yield_now().await;
                continue;
            };
            running.turn = Some(run);
            let began = self.clock.now();
            if content.send(Ok(())).is_err() {
                running.skip();
                continue;
            }
            // The task that has its turn runs before the sockets are looked at, and this one after.
            yield_now().await;
            if let Some(turn) = running.turn.take() {
                let took = self.clock.now().saturating_sub(began);
                self.queue.finished(turn, took, Instant::now());
            }
        }
    }
}

/// The task that gives turns. If it panics, the next body starts another one.
struct Running<'a> {
    turns: &'a Turns,
    turn: Option<Run>,
}

impl Running<'_> {
    fn skip(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.turns.queue.skipped(turn);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.turns.is_running.set(false);
        self.skip();
    }
}

/// Takes an item back when nobody waits for its turn any more.
pub(super) struct Withdrawn<'a> {
    pub(super) queue: &'a TurnQueue,
    pub(super) ticket: Ticket,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.queue.withdraw(self.ticket, Instant::now());
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{
        cell::RefCell,
        future::poll_fn,
        task::{Context, Poll, Wake, Waker},
    };

    use super::*;

    /// A flood of bodies, then one of another tenant, and work that is always ready to go on.
    #[actix::test]
    async fn bodies_have_their_turn_one_at_a_time_and_tenants_share_it() {
        let queue = Arc::new(TurnQueue::new("bodies", 1));
        let turns = Turns::new(Arc::clone(&queue), Clock::Cpu);
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
        let turns = Turns::new(Arc::clone(&queue), Clock::Cpu);
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

    /// Panics when it is woken.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }

    #[actix::test]
    async fn a_panic_does_not_end_the_turns() {
        let queue = Arc::new(TurnQueue::new("bodies", 1));
        let turns = Turns::new(Arc::clone(&queue), Clock::Cpu);
        let share = Share::default();
        let mut panics = Box::pin(turns.next(share, 1));
        let waker = Waker::from(Arc::new(Panics));
        assert!(
            panics
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        while turns.is_running.get() {
            yield_now().await;
        }
        assert_eq!(queue.usage().taken, 1);
        assert!(turns.next(share, 1).await.is_ok());
        // The turn that was not finished is not still running.
        let refusal = queue.refusal(share, Instant::now());
        assert!(matches!(refusal, QueryError::Overloaded { retry_after } if retry_after.is_zero()));
    }

    /// A body is charged for the CPU time that it took, not for its length.
    #[actix::test]
    async fn a_turn_costs_its_time() {
        let queue = Arc::new(TurnQueue::new("bodies", 1));
        let turns = Turns::new(Arc::clone(&queue), Clock::Cpu);
        let (slow, other) = (Share::default(), Share::default());
        let order = Rc::new(RefCell::new(Vec::new()));
        let waiting = [
            (slow, "slow"),
            (slow, "slow"),
            (other, "other"),
            (other, "other"),
        ]
        .map(|(share, name)| {
            let (turns, order) = (turns.clone(), Rc::clone(&order));
            actix::spawn(async move {
                turns.next(share, 20_000).await.unwrap();
                order.borrow_mut().push(name);
                if name == "slow" {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_millis(200) {
                        std::hint::spin_loop();
                    }
                }
            })
        });
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.borrow(), ["slow", "other", "other", "slow"]);
    }

    /// What is refused late is refused one at a time, too.
    #[actix::test]
    async fn a_late_refusal_is_a_turn() {
        let queue = Arc::new(TurnQueue::new("bodies", 1));
        let turns = Turns::new(Arc::clone(&queue), Clock::Cpu);
        let (flood, other) = (Share::default(), Share::default());
        let before = Instant::now() - Duration::from_secs(2);
        let mut waiting: Vec<_> = (0..20)
            .map(|_| {
                let (turn, has_turn) = oneshot::channel();
                queue
                    .push(flood, 50_000_000, turn, before, Entry::New)
                    .unwrap();
                has_turn
            })
            .collect();
        // With another tenant there, the flood has half of the turns: ten items are too many.
        let own = turns.clone();
        let own = actix::spawn(async move { own.next(other, 300_000_000).await });
        let (mut refused, mut most) = (0, 0);
        while !waiting.is_empty() {
            yield_now().await;
            let before = waiting.len();
            waiting.retain_mut(|turn| turn.try_recv().is_err());
            most = most.max(before - waiting.len());
            refused = queue.usage().refused[2].1;
        }
        assert!(own.await.unwrap().is_ok());
        assert!(refused >= 8, "{refused}");
        assert_eq!(most, 1);
    }
}
