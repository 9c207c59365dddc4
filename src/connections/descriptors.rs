//! File descriptors: each open connection takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for the files of a source, the log, and the threads that are not workers.
const OTHERS: u64 = 128;

/// Descriptors with which a worker listens, polls and wakes.
const OTHERS_PER_WORKER: u64 = 4;

/// Raises the process's limit of open files, if it is too low for `wanted` connections and these
/// workers, and returns how many connections may then be open at once: at most `wanted`.
pub(crate) fn allow_connections(wanted: usize, workers: usize) -> usize {
    let others = OTHERS + OTHERS_PER_WORKER * workers as u64;
    let needed = others + wanted as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut allowed = current.unwrap_or(u64::MAX);
    if allowed < needed {
        let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
        let limit = Rlimit {
            current: Some(raised),
            maximum,
        };
        if raised > allowed && setrlimit(Resource::Nofile, limit).is_ok() {
            allowed = raised;
        }
    }
    if allowed < needed {
        tracing::warn!(
            wanted,
            allowed,
            "fewer connections than configured: the process may not open that many descriptors, raise its limit (ulimit -n)"
        );
    }
    let connections = allowed.saturating_sub(others).max(1);
    usize::try_from(connections).map_or(wanted, |connections| connections.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_do_not_exceed_the_descriptors() {
        let most = getrlimit(Resource::Nofile).maximum;
        assert_eq!(allow_connections(10, 1), 10);
        if let Some(most) = most {
            let allowed = most - OTHERS - 2 * OTHERS_PER_WORKER;
            assert_eq!(allow_connections(usize::MAX >> 1, 2) as u64, allowed);
            let raised = getrlimit(Resource::Nofile).current;
            assert_eq!(raised, Some(most), "the limit was raised");
        }
    }
}
