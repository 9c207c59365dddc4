//! Threads that drain a queue, in simulated time: what a flood of one tenant does to another
//! one, and what is left of it when it ends.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::Range;

use proptest::prelude::*;

use super::*;

const MILLI: u64 = 1_000_000;
const FLOOD_ENDS: u32 = 10_000;
const ENDS: u32 = 23_000;
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
    /// Worlds of these slownesses and costs, with a few threads that are asked for too much.
    fn any(slowness: Range<u64>, cost: Range<u64>) -> impl Strategy<Value = Self> {
        let parts = (1..5_usize, slowness, 2..11_u64, cost);
        parts.prop_map(|(threads, slowness, load, cost)| Self {
            threads,
            slowness,
            load,
            cost,
        })
    }

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
        let mut threads: Vec<Option<(u32, Run, u32)>> = (0..self.threads).map(|_| None).collect();
        let mut offered = 0;
        for at in 0..ENDS {
            let now = start + Duration::from_millis(at.into());
            // Work that the threads do in a millisecond, in hundredths of what is estimated.
            let capacity = self.threads as u64 * 10_000 / self.slowness;
            while at < FLOOD_ENDS && offered < u64::from(at + 1) * capacity * self.load {
                offered += self.cost * 100;
                match queue.push(flood, self.cost * MILLI, (), now, Entry::New) {
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
                let pushed = queue.push(other, 2 * MILLI, (), now, Entry::New);
                outcome.others_refused += u64::from(pushed.is_err());
            }
            for thread in &mut threads {
                if thread.as_ref().is_some_and(|(end, ..)| *end > at) {
                    continue;
                }
                if let Some((_, run, took)) = thread.take() {
                    outcome.flood_done += u64::from(run.share == flood);
                    queue.finished(run, Duration::from_millis(took.into()), now);
                }
                *thread = loop {
                    let waited_before = queue.usage().waited;
                    let Some(taken) = queue.pop(now) else {
                        // A thread of the pool looks again until this holds.
                        assert!(queue.is_empty());
                        break None;
                    };
                    let is_flood = taken.share == flood;
                    let Some(run) = taken.run else {
                        outcome.flood_refused += u64::from(is_flood);
                        outcome.others_refused += u64::from(!is_flood);
                        continue;
                    };
                    let waited = queue.usage().waited - waited_before;
                    let longest = match is_flood {
                        true => &mut outcome.flood_wait_max,
                        false => &mut outcome.others_wait_max,
                    };
                    if !is_flood || at > STANDS_AT {
                        *longest = waited.max(*longest);
                    }
                    let took = self.takes(if is_flood { self.cost } else { 2 });
                    break Some((at + took, run, took));
                };
            }
            if at >= FLOOD_ENDS && queue.usage().waiting == 0 {
                outcome.emptied.get_or_insert(at - FLOOD_ENDS);
            }
        }
        outcome
    }

    /// Checks what holds for items of every length. Returns the time from the end of the flood
    /// until nothing of it waits, and what the last refusal said.
    fn check(&self, outcome: &Outcome) -> Result<(Duration, Duration), TestCaseError> {
        // The other tenant waits for what runs, for one item of the flood at most, and for its own
        // items that have come meanwhile.
        let item = self.takes(self.cost);
        prop_assert_eq!(outcome.others_refused, 0, "{:?}", outcome);
        let own = (2 * item / 50 + 1) * self.takes(2);
        let at_most = Duration::from_millis(u64::from(2 * item + own + 2));
        prop_assert!(outcome.others_wait_max <= at_most, "{:?}", outcome);
        // No thread is idle meanwhile: what the other one does not take is the flood's.
        let busy = u64::from(FLOOD_ENDS) * self.threads as u64;
        let others = outcome.others * u64::from(self.takes(2));
        let done = outcome.flood_done * u64::from(item);
        prop_assert!(done + others >= busy * 95 / 100, "{:?}", outcome);
        prop_assert!(outcome.flood_refused > 0);
        let emptied = Duration::from_millis(outcome.emptied.unwrap().into());
        Ok((emptied, outcome.retry_after.unwrap()))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_flood_delays_itself_alone(world in World::any(20..400, 1..31)) {
        let outcome = world.run();
        let (emptied, said) = world.check(&outcome)?;
        prop_assert!(outcome.flood_wait_max <= QUEUE_WAIT_MAX, "{:?}", outcome);
        prop_assert!(emptied <= Duration::from_secs(1), "{:?}", outcome);
        // Of larger items, too few wait to say whether the queue stands.
        if world.takes(world.cost) <= 10 {
            // It stands, so it is refused at the target. When the flood ends, so does its queue:
            // about when the last refusal said, which may have given a part to the other tenant.
            let slack = Duration::from_millis(50);
            prop_assert!(outcome.flood_wait_max <= QUEUE_TARGET + slack, "{:?}", outcome);
            prop_assert!(said <= emptied * 4 + slack, "{:?}", outcome);
            prop_assert!(emptied <= said * 2 + slack, "{:?}", outcome);
        }
    }

    /// Items that take longer than anything may wait, and than the rate is measured.
    #[test]
    fn a_flood_of_long_items_does_too(world in World::any(50..200, 1_000..2_000)) {
        let outcome = world.run();
        let (emptied, said) = world.check(&outcome)?;
        // One of its items runs, and one waits, or as many as are done in the longest wait.
        let item = Duration::from_millis(world.takes(world.cost).into());
        prop_assert!(emptied <= 2 * item + QUEUE_WAIT_MAX, "{:?}", outcome);
        // Half of the threads may be the other tenant's.
        prop_assert!(said <= 4 * item + 2 * QUEUE_WAIT_MAX, "{:?}", outcome);
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
            prop_assert!(queue.push(share, MILLI, (), start, Entry::New).is_ok());
        }
        for at in 1..5_000 {
            let now = start + Duration::from_millis(at);
            for _ in 0..threads {
                let run = queue.pop(now).unwrap().run;
                prop_assert!(run.is_some());
                queue.finished(run.unwrap(), Duration::from_millis(1), now);
                let pushed = queue.push(share, MILLI, (), now, Entry::New);
                prop_assert!(pushed.is_ok(), "at {at}");
            }
        }
    }
}
