//! A queue of work that is refused when it would wait for too long, with what it counts.

use std::{
    fmt,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    cost::{QUEUE_INTERVAL, QUEUE_ITEMS_PER_TENANT_MAX, QUEUE_TARGET, QUEUE_WAIT_MAX},
    drain_rate::DrainRate,
    fair_queue::{FairQueue, Taken, Ticket},
    standing::Patience,
};
use crate::{messages::QueryError, share::Share};

/// A [`FairQueue`] that threads share, and the rate at which it is worked off.
pub(crate) struct WorkQueue<T> {
    /// What is done in it, as the metrics label it.
    class: &'static str,
    state: Mutex<State<T>>,
}

struct State<T> {
    queue: FairQueue<T>,
    drain: DrainRate,
    taken: u64,
    waited: Duration,
    refused: [u64; RefusedBy::LABELS.len()],
}

/// Why work was refused.
#[derive(Clone, Copy, Debug)]
enum RefusedBy {
    /// The tenant has as many items in the queue as it may.
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

impl<T> WorkQueue<T> {
    /// An empty queue, worked off by this many threads.
    pub(crate) fn new(class: &'static str, threads: usize) -> Self {
        let patience = Patience {
            longest: QUEUE_WAIT_MAX,
            target: QUEUE_TARGET,
            interval: QUEUE_INTERVAL,
        };
        Self {
            class,
            state: Mutex::new(State {
                queue: FairQueue::new(QUEUE_ITEMS_PER_TENANT_MAX, patience),
                drain: DrainRate::new(threads as f64),
                taken: 0,
                waited: Duration::ZERO,
                refused: Default::default(),
            }),
        }
    }

    /// Adds an item of this estimated cost, in nanoseconds of work.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: the tenant has too many items, or so much work before this one
    /// that it would wait for too long.
    pub(crate) fn push(
        &self,
        share: Share,
        cost: u64,
        content: T,
        now: Instant,
    ) -> Result<Ticket, QueryError> {
        let mut state = self.state.lock();
        let backlog = state.queue.backlog(share, cost);
        let wait = state.drain.time_for(backlog.cost, backlog.part);
        let reason = match backlog.is_full {
            true => RefusedBy::Full,
            false if wait > backlog.wait_max => RefusedBy::Backlog,
            false => {
                let pushed = state.queue.push(share, cost, content, now);
                state.drain.mark(0, true, now);
                return pushed.ok_or_else(|| overloaded(wait));
            }
        };
        state.queue.refuse(share, cost);
        state.refused[reason as usize] += 1;
        Err(overloaded(wait))
    }

    /// Takes the next item. One that is late was not charged, and is to be refused.
    pub(crate) fn pop(&self, now: Instant) -> Option<Taken<T>> {
        let mut state = self.state.lock();
        let taken = state.queue.pop(now)?;
        if taken.is_late {
            state.refused[RefusedBy::Late as usize] += 1;
        } else {
            state.taken += 1;
            state.waited += taken.waited;
        }
        let is_waiting = state.queue.len() > 0;
        state.drain.mark(0, is_waiting, now);
        Some(taken)
    }

    /// Takes note that an item is done, which has really cost this much.
    pub(crate) fn finished(&self, share: Share, estimated: u64, cost: Duration, now: Instant) {
        let mut state = self.state.lock();
        let is_waiting = state.queue.len() > 0;
        state.drain.mark(estimated, is_waiting, now);
        let cost = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        state.queue.charge(share, estimated, cost);
    }

    /// Gives back what a tenant was charged for an item that was taken, and that nobody waits for.
    pub(crate) fn skipped(&self, share: Share, estimated: u64) {
        self.state.lock().queue.charge(share, estimated, 0);
    }

    /// Takes an item back that nobody waits for any more; `None` if it is not in the queue.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> Option<T> {
        self.state.lock().queue.remove(ticket)
    }

    /// Takes an item back that has waited for the longest time, and says why it is refused; `None`
    /// if it is not in the queue.
    pub(crate) fn expire(&self, share: Share, ticket: Ticket) -> Option<QueryError> {
        let mut state = self.state.lock();
        state.queue.remove(ticket)?;
        state.refused[RefusedBy::Late as usize] += 1;
        drop(state);
        Some(self.refusal(share))
    }

    /// The refusal of an item of this tenant.
    pub(crate) fn refusal(&self, share: Share) -> QueryError {
        let state = self.state.lock();
        let backlog = state.queue.backlog(share, u64::MAX);
        overloaded(state.drain.time_for(backlog.cost, backlog.part))
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

/// The refusal of work while the tenant's work that waits takes this long.
const fn overloaded(wait: Duration) -> QueryError {
    QueryError::Overloaded { retry_after: wait }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn retry_after<T>(result: Result<T, QueryError>) -> Option<Duration> {
        match result {
            Err(QueryError::Overloaded { retry_after }) => Some(retry_after),
            _ => None,
        }
    }

    #[test]
    fn work_is_refused_when_it_would_wait_for_too_long() {
        let now = Instant::now();
        let queue = WorkQueue::new("test", 2);
        let (flood, other) = (Share::default(), Share::default());
        // Two threads do two seconds of work in the longest time that it may wait.
        let mut pushed = 0;
        let refused = loop {
            match queue.push(flood, 100 * MILLI, (), now) {
                Ok(_) => pushed += 1,
                refused => break refused,
            }
        };
        assert_eq!(pushed, 21);
        assert_eq!(retry_after(refused), Some(Duration::from_millis(1_050)));
        // Cheaper work of the tenant goes before it, and so does that of others.
        assert!(queue.push(flood, MILLI, (), now).is_ok());
        assert!(queue.push(other, 100 * MILLI, (), now).is_ok());
        let usage = queue.usage();
        assert_eq!((usage.waiting, usage.taken), (23, 0));
        assert_eq!(usage.refused, [("full", 0), ("backlog", 1), ("late", 0)]);
        // With another tenant there, the flood has half of the threads.
        let refused = queue.push(flood, 100 * MILLI, (), now);
        assert_eq!(retry_after(refused), Some(Duration::from_millis(2_101)));
    }

    #[test]
    fn a_tenant_has_so_many_items() {
        let now = Instant::now();
        let queue = WorkQueue::new("test", 1);
        let share = Share::default();
        for _ in 0..QUEUE_ITEMS_PER_TENANT_MAX {
            assert!(queue.push(share, 0, (), now).is_ok());
        }
        assert_eq!(
            retry_after(queue.push(share, 0, (), now)),
            Some(Duration::ZERO)
        );
        assert_eq!(queue.usage().refused[0], ("full", 1));
    }

    #[test]
    fn what_waits_for_too_long_is_refused_and_counted() {
        let now = Instant::now();
        let queue = WorkQueue::new("test", 1);
        let share = Share::default();
        let tickets: Vec<_> = (0..3).map(|_| queue.push(share, MILLI, (), now)).collect();
        let later = now + QUEUE_WAIT_MAX + Duration::from_millis(1);
        assert!(queue.pop(now).is_some_and(|taken| !taken.is_late));
        assert!(queue.pop(later).is_some_and(|taken| taken.is_late));
        let [_, _, Ok(last)] = tickets[..] else {
            panic!("{tickets:?}")
        };
        assert!(queue.expire(share, last).is_some());
        assert!(queue.expire(share, last).is_none());
        let usage = queue.usage();
        assert_eq!((usage.waiting, usage.taken), (0, 1));
        assert_eq!(usage.refused[2], ("late", 2));
    }
}
