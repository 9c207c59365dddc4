//! What a queue of work refuses, and what it says then.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{cell::RefCell, num::NonZeroU32, rc::Rc};

use super::*;

const MILLI: u64 = 1_000_000;

/// Of no interest.
impl Refuse for () {
    fn refuse(self, _: QueryError) {}
}

/// Says that it was refused.
struct Listed(Rc<RefCell<Vec<u64>>>, u64);

impl Refuse for Listed {
    fn refuse(self, _: QueryError) {
        self.0.borrow_mut().push(self.1);
    }
}

fn push(
    queue: &WorkQueue<()>,
    share: Share,
    cost: u64,
    now: Instant,
) -> Result<Ticket, QueryError> {
    queue.push(share, cost, (), now, Entry::New)
}

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
        match push(&queue, flood, 100 * MILLI, now) {
            Ok(_) => pushed += 1,
            refused => break refused,
        }
    };
    assert_eq!(pushed, 21);
    assert_eq!(retry_after(refused), Some(Duration::from_millis(1_050)));
    // Cheaper work of the tenant goes before it, and so does that of others.
    assert!(push(&queue, flood, MILLI, now).is_ok());
    assert!(push(&queue, other, 100 * MILLI, now).is_ok());
    let usage = queue.usage();
    assert_eq!((usage.waiting, usage.taken), (23, 0));
    assert_eq!(usage.refused, [("full", 0), ("backlog", 1), ("late", 0)]);
    // With another tenant there, the flood has half of the threads.
    let refused = push(&queue, flood, 100 * MILLI, now);
    assert_eq!(retry_after(refused), Some(Duration::from_millis(2_101)));
    // What was paid for is not refused.
    let again = queue.push(flood, 100 * MILLI, (), now, Entry::Again);
    assert!(again.is_ok());
}

/// A tenant of weight 3 waits for less than one of weight 1.
#[test]
fn a_weight_is_a_part_of_the_wait() {
    let now = Instant::now();
    let queue = WorkQueue::new("test", 1);
    let light = Share::default();
    let heavy = Share::default().with_weight(NonZeroU32::new(3).unwrap());
    for share in [light, heavy] {
        push(&queue, share, 600 * MILLI, now).unwrap();
        push(&queue, share, 600 * MILLI, now).unwrap();
    }
    let refused = [light, heavy].map(|share| retry_after(push(&queue, share, 600 * MILLI, now)));
    let millis = |millis| Some(Duration::from_millis(millis));
    assert_eq!(refused, [millis(4_800), millis(1_600)]);
}

#[test]
fn what_runs_counts_in_the_time_to_stay_away() {
    let now = Instant::now();
    let queue = WorkQueue::new("test", 2);
    let share = Share::default();
    let start = |cost| {
        push(&queue, share, cost, now).unwrap();
        queue.pop(now).unwrap().run.unwrap()
    };
    let refused = |now| retry_after::<()>(Err(queue.refusal(share, now)));
    let first = start(4_000 * MILLI);
    assert_eq!(refused(now), Some(Duration::ZERO), "a thread is free");
    let second = start(6_000 * MILLI);
    assert_eq!(refused(now), Some(Duration::from_secs(5)));
    let later = now + Duration::from_secs(3);
    assert_eq!(refused(later), Some(Duration::from_secs(2)));
    // It refuses nothing, however long that takes: the next item waits for a thread.
    let waits = push(&queue, share, 2_000 * MILLI, later).unwrap();
    assert_eq!(refused(later), Some(Duration::from_secs(3)));
    let deadline = later + Duration::from_secs(30);
    assert!(matches!(
        queue.expire(share, waits, deadline),
        Expiry::Waits
    ));
    queue.skipped(first);
    queue.skipped(second);
    assert!(queue.pop(deadline).unwrap().run.is_some());
}

#[test]
fn a_tenant_has_so_many_items_and_cheap_ones_displace_others() {
    let now = Instant::now();
    let queue = WorkQueue::new("test", 1);
    let share = Share::default();
    let refused = Rc::default();
    let push = |cost| {
        let item = Listed(Rc::clone(&refused), cost);
        queue.push(share, cost, item, now, Entry::New)
    };
    push(1_000).unwrap();
    for _ in 1..QUEUE_ITEMS_PER_TENANT_MAX {
        push(4).unwrap();
    }
    assert!(push(1_000).is_err());
    assert_eq!(*refused.borrow(), [0; 0]);
    assert!(push(4).is_ok());
    assert_eq!(*refused.borrow(), [1_000]);
    assert!(push(7).is_err(), "as cheap as those that wait");
    assert_eq!(queue.usage().waiting, QUEUE_ITEMS_PER_TENANT_MAX);
    assert_eq!(queue.usage().refused[0], ("full", 3));
}

#[test]
fn what_waits_for_too_long_is_refused_and_counted() {
    let now = Instant::now();
    let queue = WorkQueue::new("test", 1);
    let share = Share::default();
    let tickets: Vec<_> = (0..5)
        .map(|_| push(&queue, share, 250 * MILLI, now))
        .collect();
    let first = queue.pop(now).unwrap().run.unwrap();
    let later = now + QUEUE_WAIT_MAX + Duration::from_millis(1);
    let [_, _, Ok(third), ..] = tickets[..] else {
        panic!("{tickets:?}")
    };
    // It was admitted, and threads have become slower since: four items take 1.6 s.
    assert!(matches!(queue.expire(share, third, later), Expiry::Waits));
    queue.finished(first, later - now, later);
    let late = queue.pop(later).unwrap();
    assert!(late.run.is_none());
    // Those that are left do not wait for too much work of their own tenant.
    let Expiry::Waits = queue.expire(share, third, later) else {
        panic!("{queue:?}")
    };
    assert!(queue.pop(later).unwrap().run.is_some());
    assert!(matches!(queue.expire(share, third, later), Expiry::Gone));
    let usage = queue.usage();
    assert_eq!((usage.waiting, usage.taken), (2, 2));
    assert_eq!(usage.refused[2], ("late", 1));
}

/// Of two tenants that both have work waiting, one of weight 3 has three turns of four.
#[test]
fn turns_go_by_weight() {
    let now = Instant::now();
    let queue = WorkQueue::new("test", 1);
    let one = Share::default();
    let three = Share::default().with_weight(NonZeroU32::new(3).unwrap());
    for _ in 0..40 {
        push(&queue, one, MILLI, now).unwrap();
        push(&queue, three, MILLI, now).unwrap();
    }
    let turns = (0..40).map(|_| {
        let run = queue.pop(now).unwrap().run.unwrap();
        let is_three = run.share == three;
        queue.finished(run, Duration::from_millis(1), now);
        is_three
    });
    let turns: Vec<_> = turns.collect();
    for four in turns[4..36].chunks(4) {
        let three = four.iter().filter(|is_three| **is_three).count();
        assert!((2..=4).contains(&three), "{turns:?}");
    }
    let three = turns.iter().filter(|is_three| **is_three).count();
    assert!((29..=31).contains(&three), "{turns:?}");
}

#[test]
fn the_wait_of_what_comes_is_told_by_what_waits() {
    let (queue, share) = (WorkQueue::new("test", 1), Share::default());
    let began = Instant::now();
    let at = |millis| began + Duration::from_millis(millis);
    let come = |now| {
        for _ in 0..10 {
            push(&queue, share, 20 * MILLI, now).unwrap();
        }
    };
    assert_eq!(queue.wait_of_next(began), Duration::ZERO);
    come(began);
    assert_eq!(queue.wait_of_next(began), Duration::from_millis(200));
    let later = queue.wait_of_next(at(300));
    assert_eq!(later, Duration::from_millis(300), "the first has waited");
    // They are done half as fast as was estimated.
    for item in 0..10 {
        let run = queue.pop(at(40 * item)).unwrap().run.unwrap();
        queue.finished(run, Duration::from_millis(20), at(40 * (item + 1)));
    }
    assert_eq!(queue.wait_of_next(at(400)), Duration::ZERO);
    come(at(400));
    let wait = queue.wait_of_next(at(400));
    assert!(wait > Duration::from_millis(300), "{wait:?}");
}
