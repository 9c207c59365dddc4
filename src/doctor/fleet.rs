//! What follows from the store of a fleet and its key.

use std::time::Duration;

use nearhead_actors::fleet::store::{
    FleetStore, StoreChecks, StoreError, StoreFault, StoreProblem,
};

use super::finding::Finding;
use crate::config::FleetOptions;

/// Difference of two clocks that nobody has to look at.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(2);

const STORE: &str = "the fleet's store";

/// How often a store that does not answer in time is asked: as often as a leader asks before its
/// lease is over.
const TRIES: usize = 3;

/// What the store said.
pub(super) struct Asked {
    answer: Result<StoreChecks, StoreError>,
    /// Why it was asked again, if it was.
    late: Option<StoreError>,
}

/// Asks the store what it is. Its calls have time limits.
pub(super) async fn ask(options: &FleetOptions) -> Asked {
    // Nothing is held by this name.
    match FleetStore::open(options.store("doctor".to_owned())) {
        Ok(store) => ask_patiently(async || store.checks().await).await,
        Err(error) => Asked {
            answer: Err(error),
            late: None,
        },
    }
}

async fn ask_patiently(ask: impl AsyncFn() -> Result<StoreChecks, StoreError>) -> Asked {
    let mut late = None;
    for _ in 1..TRIES {
        match ask().await {
            Err(error) if matches!(error.fault(), StoreFault::TimedOut(_)) => late = Some(error),
            answer => return Asked { answer, late },
        }
    }
    let answer = ask().await;
    Asked { answer, late }
}

/// The store.
pub(super) fn store(asked: Asked) -> Vec<Finding> {
    let checks = match asked.answer {
        Ok(checks) => checks,
        Err(error) => {
            let change = change_of(error.fault());
            return vec![Finding::bad("--fleet", error.to_string(), change)];
        }
    };
    let is_good = checks.problems.is_empty();
    let good =
        is_good.then(|| Finding::good(STORE, format!("{}, log-in and scripts", checks.server)));
    let problems = checks.problems.iter().map(problem);
    let late = asked.late.map(|error| {
        let change = "check its load and the network: a leader stops leading when three of its \
                      calls in a row are not answered";
        Finding::weak(STORE, format!("{} at first", error.fault()), change)
    });
    let clock = checks.clock_apart.map(clocks);
    let weak = late.into_iter().chain(clock);
    good.into_iter().chain(problems).chain(weak).collect()
}

/// The secret: how many bytes it has, or why it cannot be read.
pub(super) fn key(read: Result<usize, String>) -> Finding {
    let subject = "--fleet-key";
    match read {
        Ok(bytes) => Finding::good(subject, format!("{bytes} bytes")),
        Err(error) => Finding::bad(
            subject,
            error,
            "give the file that all processes of the fleet have",
        ),
    }
}

fn problem(problem: &StoreProblem) -> Finding {
    let found = problem.to_string();
    match problem {
        StoreProblem::NotDurable => Finding::weak(
            STORE,
            found,
            "a restart of the store loses the audit, and tenants and keys if no process runs",
        ),
        StoreProblem::Version(_) | StoreProblem::Evicts(_) | StoreProblem::Cluster => {
            let change = "change its configuration, or give another server";
            Finding::bad(STORE, found, change)
        }
    }
}

fn clocks(apart: Duration) -> Finding {
    let subject = "the fleet's clocks";
    let found = format!("{:.1} s apart from the store's", apart.as_secs_f64());
    match apart <= CLOCKS_APART_MAX {
        true => Finding::good(subject, found),
        false => Finding::weak(
            subject,
            found,
            "set both clocks by NTP: keys expire and usage is counted by them",
        ),
    }
}

const fn change_of(fault: &StoreFault) -> &'static str {
    match fault {
        StoreFault::Denied(_) => {
            "correct user and password of --fleet, or give the user the commands that docs/fleet.md lists"
        }
        StoreFault::NotMaster(_) => "give the master, or its sentinels by --fleet-sentinel",
        StoreFault::NoMaster(_) => "correct --fleet-sentinel, or what the sentinels watch",
        StoreFault::OutOfMemory(_) => "give it more memory: docs/fleet.md says how much it needs",
        StoreFault::Options(_) => "correct the options",
        StoreFault::TimedOut(_) | StoreFault::NotAsked(_) => {
            "check its load and the network, and try again"
        }
        StoreFault::Unreachable(_)
        | StoreFault::Busy(_)
        | StoreFault::Refused(_)
        | StoreFault::UnknownScript
        | StoreFault::TooLarge(_)
        | StoreFault::Nonsense(_) => "start it, or correct --fleet",
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::doctor::Verdict;

    /// A store that answers late now and then is no bad one.
    #[tokio::test]
    async fn a_store_that_answers_late_is_asked_again() {
        let late = || StoreFault::TimedOut(Duration::from_millis(750));
        let refused = || StoreFault::Refused("no".into());
        let good = || Ok("Redis 7.0.15");
        for (answers, verdicts, asked) in [
            (vec![good()], "good", 1),
            (vec![Err(late()), good()], "good weak", 2),
            (vec![Err(late()), Err(late()), good()], "good weak", 3),
            (vec![Err(late()), Err(late()), Err(late())], "bad", 3),
            (vec![Err(refused())], "bad", 1),
            (vec![Err(late()), Err(refused())], "bad", 2),
        ] {
            let tried = Cell::new(0);
            let answer = async || {
                let answer = answers[tried.replace(tried.get() + 1)].clone();
                let checks = |server: &str| StoreChecks {
                    server: server.into(),
                    problems: Vec::new(),
                    clock_apart: None,
                };
                answer
                    .map(checks)
                    .map_err(|fault| StoreError::new("there".into(), fault))
            };
            let found = store(ask_patiently(answer).await);
            let found = found.iter().map(|one| format!("{:?}", one.verdict));
            let found = found.collect::<Vec<_>>().join(" ").to_lowercase();
            assert_eq!((&*found, tried.get()), (verdicts, asked), "{answers:?}");
        }
    }

    #[test]
    fn clocks_may_be_a_little_apart() {
        for (apart, verdict, words) in [
            (0, Verdict::Good, "0.0 s"),
            (2_000, Verdict::Good, "2.0 s"),
            (2_001, Verdict::Weak, "2.0 s"),
            (90_000, Verdict::Weak, "90.0 s"),
        ] {
            let found = clocks(Duration::from_millis(apart));
            assert_eq!(found.verdict, verdict, "{found}");
            assert!(found.found.starts_with(words), "{found}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_read_is_found() {
        assert_eq!(key(Ok(32)).verdict, Verdict::Good);
        let bad = key(Err("/key: it has no digits".to_owned()));
        assert_eq!(bad.verdict, Verdict::Bad);
    }
}
