//! Threads that work a queue off, in simulated time: what a flood of one tenant does to another
//! one, and what is left of it when it ends.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

const MILLI: u64 = 1_000_000;
const FLOOD_ENDS: u32 = 10_000;
const ENDS: u32 = 13_000;
/// By then it is clear that the flood's queue stands.
const STANDS_AT: u32 = 4_000;

/// Threads, and what they are asked to do.
#[derive(Clone, Copy, Debug)]
struct World {
    threads: usize,
    /// How much longer an item takes than it is estimated to, in percent.
    slowness: u64,
    /// The flood, as a multiple of what the threads do.
    load: u64,
    /// Estimated milliseconds of an item of the flood.
    cost: u64,
}

/// What happened, in milliseconds and items.
#[derive(Debug, Default)]
struct Outcome {
    flood_done: u64,
    flood_refused: u64,
    /// The longest wait of the flood's items once its queue could be known to stand.
    flood_wait_max: Duration,
    others: u64,
    others_refused: u64,
    others_wait_max: Duration,
    /// Of the last refusal.
    retry_after: Option<Duration>,
    /// From the end of the flood until nothing of it waits.
    emptied: Option<u32>,
}

impl World {
    /// Milliseconds that an item of this estimate really takes.
    fn takes(&self, cost: u64) -> u32 {
        u32::try_from((cost * self.slowness).div_ceil(100))
            .unwrap()
            .max(1)
    }

    fn run(&self) -> Outcome {
        let queue = WorkQueue::new("test", self.threads);
        let (flood, other) = (Share::default(), Share::default());
        let start = Instant::now();
        let mut outcome = Outcome::default();
        // When each thread is done, with what.
        let mut threads: Vec<Option<(u32, Share, u64)>> = vec![None; self.threads];
        let mut offered = 0;
        for at in 0..ENDS {
            let now = start + Duration::from_millis(at.into());
            // Work that the threads do in a millisecond, in hundredths of what is estimated.
            let capacity = self.threads as u64 * 10_000 / self.slowness;
            while at < FLOOD_ENDS && offered < u64::from(at + 1) * capacity * self.load {
                offered += self.cost * 100;
                match queue.push(flood, self.cost * MILLI, (), now) {
                    Ok(_) => {}
                    Err(QueryError::Overloaded { retry_after }) => {
                        outcome.flood_refused += 1;
                        outcome.retry_after = Some(retry_after);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            if at % 50 == 0 {
                outcome.others += 1;
                let pushed = queue.push(other, 2 * MILLI, (), now);
                outcome.others_refused += u64::from(pushed.is_err());
            }
            for thread in &mut threads {
                if let Some((end, share, cost)) = *thread {
                    if end > at {
                        continue;
                    }
                    let took = Duration::from_millis(self.takes(cost / MILLI).into());
                    queue.finished(share, cost, took, now);
                    outcome.flood_done += u64::from(share == flood);
                }
                *thread = loop {
                    let Some(taken) = queue.pop(now) else {
                        break None;
                    };
                    let is_flood = taken.share == flood;
                    if taken.is_late {
                        outcome.flood_refused += u64::from(is_flood);
                        outcome.others_refused += u64::from(!is_flood);
                        continue;
                    }
                    let longest = match is_flood {
                        true => &mut outcome.flood_wait_max,
                        false => &mut outcome.others_wait_max,
                    };
                    if !is_flood || at > STANDS_AT {
                        *longest = taken.waited.max(*longest);
                    }
                    let end = at + self.takes(taken.cost / MILLI);
                    break Some((end, taken.share, taken.cost));
                };
            }
            if at >= FLOOD_ENDS && queue.usage().waiting == 0 {
                outcome.emptied.get_or_insert(at - FLOOD_ENDS);
            }
        }
        outcome
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_flood_delays_itself_alone(
        threads in 1..5_usize,
        slowness in 20..400_u64,
        load in 2..11_u64,
        cost in 1..31_u64,
    ) {
        let world = World { threads, slowness, load, cost };
        let outcome = world.run();
        // The other tenant waits for what runs, and for one item of the flood at most.
        let item = world.takes(cost);
        prop_assert_eq!(outcome.others_refused, 0, "{:?}", outcome);
        let at_most = Duration::from_millis(u64::from(2 * item + world.takes(2) + 2));
        prop_assert!(outcome.others_wait_max <= at_most, "{:?}", outcome);
        // No thread is idle meanwhile: what the other one does not take is the flood's.
        let busy = u64::from(FLOOD_ENDS) * threads as u64;
        let others = outcome.others * u64::from(world.takes(2));
        let done = outcome.flood_done * u64::from(item);
        prop_assert!(done + others >= busy * 95 / 100, "{:?}", outcome);
        prop_assert!(outcome.flood_refused > 0);
        prop_assert!(outcome.flood_wait_max <= QUEUE_WAIT_MAX, "{:?}", outcome);
        let emptied = Duration::from_millis(outcome.emptied.unwrap().into());
        prop_assert!(emptied <= Duration::from_secs(1), "{:?}", outcome);
        // Of larger items, too few wait to say whether the queue stands.
        if item <= 10 {
            // It stands, so it is refused at the target. When the flood ends, so does its queue:
            // about when the last refusal said, which may have given a part to the other tenant.
            prop_assert!(outcome.flood_wait_max <= QUEUE_TARGET, "{:?}", outcome);
            let said = outcome.retry_after.unwrap();
            let slack = Duration::from_millis(50);
            prop_assert!(said <= emptied * 4 + slack, "{:?}", outcome);
            prop_assert!(emptied <= said * 2 + slack, "{:?}", outcome);
        }
    }

    /// Clients that each wait for their answer before they send another request are all answered,
    /// however many wait, unless that takes longer than the longest wait.
    #[test]
    fn clients_that_wait_for_their_answers_are_not_refused(
        threads in 1..4_usize,
        wait in 100..900_usize,
    ) {
        let queue = WorkQueue::new("test", threads);
        let share = Share::default();
        let start = Instant::now();
        for _ in 0..threads * wait {
            prop_assert!(queue.push(share, MILLI, (), start).is_ok());
        }
        for at in 1..5_000 {
            let now = start + Duration::from_millis(at);
            for _ in 0..threads {
                let taken = queue.pop(now).unwrap();
                prop_assert!(!taken.is_late);
                queue.finished(share, MILLI, Duration::from_millis(1), now);
                prop_assert!(queue.push(share, MILLI, (), now).is_ok(), "at {at}");
            }
        }
    }
}
