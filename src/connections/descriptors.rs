//! File descriptors: each open connection takes one.

use crate::limits::{INTAKE_MAX, TRIAL_CONNECTIONS_MAX};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for the files of a source, the log, the threads that are not workers, and the
/// connections of one trial after an overload.
const OTHERS: u64 = 128 + TRIAL_CONNECTIONS_MAX as u64;

/// Descriptors with which a worker and its thread for large bodies poll and wake, and connections
/// that wait for the worker: as many as it takes at a time, and the one that it looks at. If more
/// wait, it has slots for them.
const OTHERS_PER_WORKER: u64 = 4 + 4 + INTAKE_MAX as u64 + 1;

/// What takes descriptors besides the connections of clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Besides {
    /// Threads that serve connections.
    pub(crate) workers: usize,
    /// Connections of operators.
    pub(crate) connections: usize,
}

/// How many this many connections need, besides these.
pub(crate) fn needed(connections: usize, besides: Besides) -> u64 {
    others(besides) + connections as u64
}

/// How many the process may open, if it raises its limit; `None` if there is no bound.
pub(crate) fn most() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

fn others(besides: Besides) -> u64 {
    OTHERS + OTHERS_PER_WORKER * besides.workers as u64 + besides.connections as u64
}

/// Raises the process's limit of open files, if it is too low for `wanted` connections besides
/// these, and returns how many connections may then be open at once: at most `wanted`.
pub(crate) fn allow_connections(wanted: usize, besides: Besides) -> usize {
    let (others, needed) = (others(besides), needed(wanted, besides));
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
        let besides = |workers, connections| Besides {
            workers,
            connections,
        };
        assert_eq!(allow_connections(10, besides(1, 0)), 10);
        if let Some(most) = most {
            let allowed = most - OTHERS - 2 * OTHERS_PER_WORKER - 64;
            let found = allow_connections(usize::MAX >> 1, besides(2, 64));
            assert_eq!(found as u64, allowed);
            let raised = getrlimit(Resource::Nofile).current;
            assert_eq!(raised, Some(most), "the limit was raised");
        }
    }
}
