//! A queue of work that is refused when it would wait for too long, with what it counts.

use std::{
    fmt,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    cost::{QUEUE_INTERVAL, QUEUE_ITEMS_PER_TENANT_MAX, QUEUE_TARGET, QUEUE_WAIT_MAX},
    drain_rate::DrainRate,
    fair_queue::{Entry, FairQueue, Order, Pushed, Ticket},
    standing_queue::WaitLimits,
};
use crate::{messages::QueryError, share::Share};

/// A [`FairQueue`] that threads share, and the rate at which it is drained.
///
/// Only a tenant's own work that waits makes it refuse more. What runs does not: nobody can know
/// when a long item ends, and to refuse the one item of a tenant that has nothing else waiting
/// would serve nobody. So a tenant that competes with nobody waits for a thread up to the deadline
/// of its query, and one that competes waits for its turn. Of the time that a client is asked to
/// stay away, what still runs is a part.
pub(crate) struct WorkQueue<T> {
    /// What is done in it, as the metrics label it.
    class: &'static str,
    threads: usize,
    state: Mutex<State<T>>,
}

struct State<T> {
    queue: FairQueue<T>,
    drain: DrainRate,
    /// One for each thread at most, or what a worker has begun since it looked at its sockets.
    running: Vec<Running>,
    taken: u64,
    waited: Duration,
    refused: [u64; RefusedBy::LABELS.len()],
}

/// Something that can wait in a queue.
pub(crate) trait Refuse {
    /// Answers its client with a refusal.
    fn refuse(self, refusal: QueryError);
}

/// An item that was taken from the queue.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    /// The item.
    pub(crate) content: T,
    /// To be [finished](WorkQueue::finished) or [skipped](WorkQueue::skipped); `None` if it has
    /// waited for too long: then it was not charged, and is to be refused.
    pub(crate) run: Option<Run>,
    /// Whose it is.
    pub(crate) share: Share,
    /// What it was estimated to cost.
    pub(super) cost: u64,
}

/// An item whose turn has come.
#[derive(Debug)]
pub(crate) struct Run {
    share: Share,
    number: u64,
}

/// What is known of a [`Run`] that is not finished.
#[derive(Debug)]
struct Running {
    number: u64,
    /// As it was estimated.
    cost: u64,
    began: Instant,
    /// How long the queue had been busy then.
    busy: Duration,
}

/// What has become of an item after a while.
#[derive(Debug)]
pub(crate) enum Expiry {
    /// It has waited for too long, and has left the queue.
    Refused(QueryError),
    /// It goes on waiting.
    Waits,
    /// It is not in the queue any more.
    Gone,
}

/// Why work was refused.
#[derive(Clone, Copy, Debug)]
enum RefusedBy {
    /// The tenant has as many items in the queue as it may, none of them more expensive; or there
    /// was no room for this one any more when a cheaper one came.
    Full,
    /// It would have waited for too long.
    Backlog,
    /// It has waited for too long.
    Late,
}

impl RefusedBy {
    /// Labels of the metrics, in the order of the variants.
    const LABELS: [&str; 3] = ["full", "backlog", "late"];
}

/// What a queue holds at one moment, and what it has counted.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueUse {
    /// What is done in it, as the metrics label it.
    pub class: &'static str,
    /// Items that wait.
    pub waiting: usize,
    /// Items that were taken from it since the start.
    pub taken: u64,
    /// The time that they waited, in sum.
    pub waited: Duration,
    /// Items that were refused since the start, by reason.
    pub refused: [(&'static str, u64); 3],
    /// Work done in a second while more of it waits, in seconds as it is estimated.
    pub drain_rate: f64,
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.usage()).finish()
    }
}

impl QueueUse {
    /// A queue that has not been used.
    pub(super) fn none(class: &'static str) -> Self {
        Self {
            class,
            waiting: 0,
            taken: 0,
            waited: Duration::ZERO,
            refused: RefusedBy::LABELS.map(|reason| (reason, 0)),
            drain_rate: 0.0,
        }
    }

    /// What stays of its use when it is gone.
    pub(super) fn counted(self) -> Self {
        Self {
            waiting: 0,
            drain_rate: 0.0,
            ..self
        }
    }

    /// The use of this one and another one of the same class together.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.waiting += other.waiting;
        self.taken += other.taken;
        self.waited += other.waited;
        for ((_, count), (_, more)) in self.refused.iter_mut().zip(other.refused) {
            *count += more;
        }
        self.drain_rate += other.drain_rate;
        self
    }
}

impl<T: Refuse> WorkQueue<T> {
    /// An empty queue, drained by this many threads.
    pub(crate) fn new(class: &'static str, threads: usize) -> Self {
        Self::of(class, threads, Order::ByCost, QUEUE_ITEMS_PER_TENANT_MAX)
    }

    /// The same in the order of arrival inside one tenant, which may have this many items.
    pub(super) fn by_arrival(class: &'static str, threads: usize, items_max: usize) -> Self {
        Self::of(class, threads, Order::ByArrival, items_max)
    }

    fn of(class: &'static str, threads: usize, order: Order, items_max: usize) -> Self {
        let limits = WaitLimits {
            longest: QUEUE_WAIT_MAX,
            target: QUEUE_TARGET,
            interval: QUEUE_INTERVAL,
        };
        Self {
            class,
            threads,
            state: Mutex::new(State {
                queue: FairQueue::ordered(order, items_max, limits),
                drain: DrainRate::new(threads as f64),
                running: Vec::new(),
                taken: 0,
                waited: Duration::ZERO,
                refused: Default::default(),
            }),
        }
    }

    /// Adds an item of this estimated cost, in nanoseconds of work. If the tenant has as many items
    /// as it may, its costliest one is refused for a cheaper one.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: the tenant has too many items, or so much work before this one
    /// that it would wait for too long. The latter is not asked of what comes
    /// [again](Entry::Again).
    pub(crate) fn push(
        &self,
        share: Share,
        cost: u64,
        content: T,
        now: Instant,
        entry: Entry,
    ) -> Result<Ticket, QueryError> {
        let mut state = self.state.lock();
        let backlog = state.queue.backlog(share, cost);
        let wait = state.drain.time_for(backlog.cost, backlog.part);
        let refusal = |state: &State<T>| overloaded(wait + state.rest(self.threads, now));
        let reason = match backlog.is_full {
            true => RefusedBy::Full,
            false if entry == Entry::New && wait > backlog.wait_max => RefusedBy::Backlog,
            false => {
                let Some(Pushed { ticket, displaced }) =
                    state.queue.push(share, cost, content, now, entry)
                else {
                    return Err(refusal(&state));
                };
                state.mark(now);
                if let Some(displaced) = displaced {
                    state.refused[RefusedBy::Full as usize] += 1;
                    let refusal = state.refusal(share, self.threads, now);
                    drop(state);
                    displaced.refuse(refusal);
                }
                return Ok(ticket);
            }
        };
        state.queue.refuse(share, cost);
        state.refused[reason as usize] += 1;
        Err(refusal(&state))
    }

    /// Takes the next item.
    pub(crate) fn pop(&self, now: Instant) -> Option<Taken<T>> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let taken = state.queue.pop(now, &state.drain)?;
        state.mark(now);
        let share = taken.share;
        let run = match taken.is_late {
            true => {
                state.refused[RefusedBy::Late as usize] += 1;
                None
            }
            false => {
                let number = state.taken;
                state.taken += 1;
                state.waited += taken.waited;
                state.running.push(Running {
                    number,
                    cost: taken.cost,
                    began: now,
                    busy: state.drain.busy(),
                });
                Some(Run { share, number })
            }
        };
        Some(Taken {
            content: taken.content,
            run,
            share,
            cost: taken.cost,
        })
    }

    /// Records that an item is done, which has really taken this much CPU time. The tenant is
    /// charged for that. The drain rate is about waits, so it follows the time that has passed.
    pub(crate) fn finished(&self, run: Run, cpu: Duration, now: Instant) {
        let mut state = self.state.lock();
        let Some(running) = state.end(&run) else {
            return;
        };
        state.mark(now);
        let ran = now.saturating_duration_since(running.began);
        state.drain.finished(running.cost, ran, running.busy);
        let cost = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
        state.queue.finish(run.share, running.cost, cost);
    }

    /// Gives back what a tenant was charged for an item that was taken, and that nobody waits for.
    pub(crate) fn skipped(&self, run: Run) {
        let mut state = self.state.lock();
        if let Some(running) = state.end(&run) {
            state.queue.finish(run.share, running.cost, 0);
        }
    }

    /// Takes an item back that nobody waits for any more; `None` if it is not in the queue.
    pub(crate) fn withdraw(&self, ticket: Ticket, now: Instant) -> Option<T> {
        let mut state = self.state.lock();
        let item = state.queue.remove(ticket)?;
        state.mark(now);
        Some(item)
    }

    /// Takes an item back if it has waited for too long.
    pub(crate) fn expire(&self, share: Share, ticket: Ticket, now: Instant) -> Expiry {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        match state.queue.is_late_now(ticket, now, &state.drain) {
            None => Expiry::Gone,
            Some(false) => Expiry::Waits,
            Some(true) => {
                state.queue.remove(ticket);
                state.mark(now);
                state.refused[RefusedBy::Late as usize] += 1;
                Expiry::Refused(state.refusal(share, self.threads, now))
            }
        }
    }

    /// The refusal of an item of this tenant.
    pub(crate) fn refusal(&self, share: Share, now: Instant) -> QueryError {
        self.state.lock().refusal(share, self.threads, now)
    }
}

impl<T> WorkQueue<T> {
    /// Whether no item waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().queue.len() == 0
    }

    /// How long the two tenants have waited that have waited longest, each by its first item.
    pub(super) fn longest_waits(&self, now: Instant) -> [Duration; 2] {
        self.state.lock().queue.longest_waits(now)
    }

    /// How long an item that comes now waits, as far as what waits before it shows: as long as that
    /// has waited, or as it takes until all of it is done.
    pub(crate) fn wait_of_next(&self, now: Instant) -> Duration {
        let state = self.state.lock();
        let [waited, _] = state.queue.longest_waits(now);
        waited.max(state.drain.time_for(state.queue.cost(), 1.0))
    }

    /// What it holds and has counted.
    pub(crate) fn usage(&self) -> QueueUse {
        let state = self.state.lock();
        let mut usage = QueueUse {
            waiting: state.queue.len(),
            taken: state.taken,
            waited: state.waited,
            drain_rate: state.drain.per_second(),
            ..QueueUse::none(self.class)
        };
        for ((_, count), counted) in usage.refused.iter_mut().zip(state.refused) {
            *count = counted;
        }
        usage
    }
}

impl<T> State<T> {
    /// Records a change of the queue.
    fn mark(&mut self, now: Instant) {
        self.drain.mark(self.queue.len() > 0, now);
    }

    fn end(&mut self, run: &Run) -> Option<Running> {
        let is_it = |running: &Running| running.number == run.number;
        let at = self.running.iter().rposition(is_it)?;
        Some(self.running.swap_remove(at))
    }

    /// The time until what runs is done, as it is estimated; none while a thread is free.
    fn rest(&self, threads: usize, now: Instant) -> Duration {
        if self.running.len() < threads {
            return Duration::ZERO;
        }
        let speed = self.drain.per_second() / threads as f64;
        let rest = |running: &Running| {
            let ran = now.saturating_duration_since(running.began);
            running
                .cost
                .saturating_sub((ran.as_nanos() as f64 * speed) as u64)
        };
        let work = self.running.iter().map(rest).fold(0, u64::saturating_add);
        self.drain.time_for(work, 1.0)
    }

    /// The refusal of an item while all of the tenant's items wait.
    fn refusal(&self, share: Share, threads: usize, now: Instant) -> QueryError {
        let backlog = self.queue.backlog(share, u64::MAX);
        let wait = self.drain.time_for(backlog.cost, backlog.part);
        overloaded(wait + self.rest(threads, now))
    }
}

/// The refusal of work while the tenant's work that waits takes this long.
const fn overloaded(wait: Duration) -> QueryError {
    QueryError::Overloaded { retry_after: wait }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests;
