//! What follows from the store of a fleet and its key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nearhead_actors::fleet::store::{
    FleetStore, StoreChecks, StoreError, StoreFault, StoreProblem,
};

use super::finding::Finding;
use crate::config::FleetOptions;

/// Difference of two clocks that nobody has to look at.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(2);

const STORE: &str = "the fleet's store";

/// What the store said, and the time then by this machine's clock.
pub(super) type Asked = Result<(StoreChecks, Duration), StoreError>;

/// Asks the store what it is. Its calls have time limits.
pub(super) async fn ask(options: &FleetOptions) -> Asked {
    // Nothing is held by this name.
    let store = FleetStore::open(options.store("doctor".to_owned()))?;
    let checks = store.checks().await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok((checks, now.unwrap_or_default()))
}

/// The store.
pub(super) fn store(asked: Asked) -> Vec<Finding> {
    let (checks, now) = match asked {
        Ok(asked) => asked,
        Err(error) => {
            let change = change_of(error.fault());
            return vec![Finding::bad("--fleet", error.to_string(), change)];
        }
    };
    let is_good = checks.problems.is_empty();
    let good =
        is_good.then(|| Finding::good(STORE, format!("{}, log-in and scripts", checks.server)));
    let problems = checks.problems.iter().map(problem);
    let clock = checks.clock.map(|clock| clocks(clock, now));
    good.into_iter().chain(problems).chain(clock).collect()
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

fn clocks(store: Duration, own: Duration) -> Finding {
    let subject = "the fleet's clocks";
    let apart = store.abs_diff(own);
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
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn clocks_may_be_a_little_apart() {
        let at = Duration::from_millis;
        for (store, own, verdict, words) in [
            (5_000, 5_000, Verdict::Good, "0.0 s"),
            (7_000, 5_000, Verdict::Good, "2.0 s"),
            (5_000, 7_001, Verdict::Weak, "2.0 s"),
            (90_000, 0, Verdict::Weak, "90.0 s"),
        ] {
            let found = clocks(at(store), at(own));
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
