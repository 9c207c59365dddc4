//! Thousands of schedules, and what must hold after every step of each.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use super::{campaign::rounds, kinds::Kinds, schedule::Schedule};
use crate::policy::{Policy, Rule};

/// Runs one schedule; the error says which invariant broke.
fn run(seed: u64, rule: Option<Rule>) -> Result<(Kinds, u64), String> {
    let mut schedule = Schedule::new(seed, Policy::without(rule));
    schedule.run()?;
    Ok((schedule.oracle.kinds, schedule.oracle.applied))
}

/// What many schedules came to.
#[derive(Default)]
struct Sum {
    /// The first that broke an invariant, and how.
    broken: Option<(u64, String)>,
    kinds: Kinds,
    applied: u64,
}

/// Runs schedules on all cores, up to the first that breaks an invariant: with an error that has
/// one of these words, which `|` separates.
fn run_all(seeds: u64, rule: Option<Rule>, want: &str) -> Sum {
    let (next, broken_at) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let work = || {
        let mut sum = Sum::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.min(broken_at.load(Ordering::Relaxed)) {
                return sum;
            }
            match run(seed, rule) {
                Ok((kinds, applied)) => {
                    sum.kinds.add(&kinds);
                    sum.applied += applied;
                }
                Err(error) if !want.split('|').any(|want| error.contains(want)) => {}
                Err(error) => {
                    broken_at.fetch_min(seed, Ordering::Relaxed);
                    sum.broken = Some((seed, error));
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let mut all = Sum::default();
        for worker in workers {
            let sum = worker.join().unwrap();
            all.kinds.add(&sum.kinds);
            all.applied += sum.applied;
            all.broken = match (all.broken, sum.broken) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        all
    })
}

/// A seed that fails is in the message; [`schedules_that_failed_once_hold`] runs it again.
#[test]
fn invariants_hold_whatever_fails() {
    let seeds = rounds(10_000, 100_000);
    let sum = run_all(seeds, None, "");
    assert!(sum.broken.is_none(), "{:?}", sum.broken);
    // The schedules allow progress, and have everything in them.
    assert!(sum.applied > seeds * 50, "{}", sum.applied);
    for (kind, count) in sum.kinds.counts() {
        assert!(count > seeds / 50, "{kind:?} in {count} of {seeds}");
    }
}

/// Schedules that once broke an invariant.
#[test]
fn schedules_that_failed_once_hold() {
    for seed in [13, 59] {
        if let Err(broken) = run(seed, None) {
            panic!("{seed}: {broken}");
        }
    }
}

/// Each rule is needed: without it, some schedule breaks an invariant.
#[test]
fn every_rule_is_needed() {
    for (rule, want) in [
        (Rule::Fence, "was accepted after epoch"),
        (Rule::Continuity, "was next"),
        (Rule::Floor, "was begun by who has seen"),
        (Rule::Epoch, "went back"),
        (Rule::Mac, "false block|is invented|that nobody made"),
        (Rule::Verify, "false block"),
        (Rule::Margin, "reads next"),
        (Rule::Chain, "jumped|is at"),
        (Rule::Report, "has not caught up"),
        (Rule::Split, "leads back"),
    ] {
        let sum = run_all(2_000, Some(rule), want);
        assert!(sum.broken.is_some(), "nothing needs {rule:?}");
    }
}

#[test]
fn equal_seeds_give_equal_schedules() {
    for seed in 0..20 {
        let applied = |_| run(seed, None).map(|(_, applied)| applied);
        assert_eq!(applied(1), applied(2));
    }
}
