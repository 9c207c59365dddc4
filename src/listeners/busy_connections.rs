//! How many connections a busy worker needs.

use std::{cell::Cell, rc::Rc, time::Duration};

use rustix::time::{ClockId, clock_gettime};

use crate::limits::{
    BUSY_CONNECTIONS_MAX, BUSY_CONNECTIONS_MIN, BUSY_LOOK_TIME, BUSY_REQUESTS, BUSY_TIME,
};

/// How many connections keep a worker busy for [`BUSY_TIME`], by what their requests cost.
///
/// A CPU quota stops a worker. When it runs again, each connection has one request ready. If these
/// requests take less time than the quota allows, the worker then waits for single requests, and an
/// answer costs up to half as much again.
pub(super) struct BusyConnections {
    requests_begun: RequestsBegun,
    costs: Cell<Costs>,
}

/// Requests that a worker has begun since its start.
pub(super) type RequestsBegun = Rc<dyn Fn() -> u64>;

/// What the requests of a worker cost.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Requests and CPU time since the start, when they were looked at last.
    requests: u64,
    cpu: Duration,
    /// Connections that the worker needs.
    needed: usize,
}

impl BusyConnections {
    /// Those of the worker whose thread this is.
    pub(super) fn new(requests_begun: RequestsBegun) -> Self {
        Self {
            requests_begun,
            costs: Cell::new(Costs::new(cpu_time())),
        }
    }

    /// How many there are to be.
    pub(super) fn needed(&self) -> usize {
        let mut costs = self.costs.get();
        let (requests, cpu) = ((self.requests_begun)(), cpu_time());
        if costs.are_due(requests, cpu) {
            costs.update(requests, cpu);
            self.costs.set(costs);
        }
        costs.needed
    }
}

impl Costs {
    /// Those of a thread that has begun no request, and has used so much CPU time.
    const fn new(cpu: Duration) -> Self {
        Self {
            requests: 0,
            cpu,
            needed: BUSY_CONNECTIONS_MIN,
        }
    }

    /// Whether there was enough since the last look to say what a request costs.
    fn are_due(&self, requests: u64, cpu: Duration) -> bool {
        requests.saturating_sub(self.requests) >= BUSY_REQUESTS
            || cpu.saturating_sub(self.cpu) >= BUSY_LOOK_TIME
    }

    /// Moves a quarter of the way to what these requests need.
    fn update(&mut self, requests: u64, cpu: Duration) {
        let begun = u128::from(requests.saturating_sub(self.requests));
        let used = cpu.saturating_sub(self.cpu).as_nanos().max(1);
        let needed = usize::try_from(BUSY_TIME.as_nanos() * begun / used)
            .map_or(BUSY_CONNECTIONS_MAX, |needed| {
                needed.clamp(BUSY_CONNECTIONS_MIN, BUSY_CONNECTIONS_MAX)
            });
        *self = Self {
            requests,
            cpu,
            needed: (3 * self.needed + needed) / 4,
        };
    }
}

/// CPU time of the current thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks after so many requests of this cost, and what is needed in the end.
    #[test]
    fn as_many_are_needed_as_make_work_for_a_while() {
        let by_cost = |parts: u32| BUSY_TIME / parts;
        for (looks, cost, expected) in [
            (0, by_cost(100), BUSY_CONNECTIONS_MIN),
            // A quarter of the way from 64 to 128.
            (1, by_cost(128), 80),
            (2, by_cost(128), 92),
            (40, by_cost(128), 125),
            (40, by_cost(10), BUSY_CONNECTIONS_MIN),
            (1, Duration::from_secs(1), BUSY_CONNECTIONS_MIN),
            (40, Duration::from_nanos(1), BUSY_CONNECTIONS_MAX - 3),
            (40, Duration::ZERO, BUSY_CONNECTIONS_MAX - 3),
        ] {
            let mut costs = Costs::new(Duration::from_secs(5));
            for _ in 0..looks {
                let requests = costs.requests + BUSY_REQUESTS;
                assert!(costs.are_due(requests, costs.cpu));
                assert!(costs.are_due(costs.requests, costs.cpu + BUSY_LOOK_TIME));
                assert!(!costs.are_due(requests - 1, costs.cpu));
                let used = cost * u32::try_from(BUSY_REQUESTS).unwrap_or(u32::MAX);
                costs.update(requests, costs.cpu + used);
            }
            assert_eq!(costs.needed, expected, "{looks} looks, {cost:?} each");
        }
    }

    #[test]
    fn a_worker_is_looked_at_while_requests_begin() {
        let begun = Rc::new(Cell::new(0));
        let counted = Rc::clone(&begun);
        let busy = BusyConnections::new(Rc::new(move || counted.get()));
        assert_eq!(busy.needed(), BUSY_CONNECTIONS_MIN);
        // This thread does nothing for them, so they seem to cost nothing.
        begun.set(1 << 40);
        let needed = busy.needed();
        assert_eq!(
            needed,
            (3 * BUSY_CONNECTIONS_MIN + BUSY_CONNECTIONS_MAX) / 4
        );
        begun.set(begun.get() + BUSY_REQUESTS - 1);
        assert_eq!(busy.needed(), needed);
    }
}
