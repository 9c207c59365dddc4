//! Tenants that keep the pool busy are answered in proportion to their weights.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

use nearhead_tenants::{limits::TenantLimits, record::KeySettings};
use serde_json::json;

use super::prepared_store::PreparedStore;
use crate::harness::{Connection, Server, count_down, request, wait_until};

/// Connections of the first tenant of a pair, and of the second. In the order of arrival, the
/// answers would be as these are. The pool needs 20 ms for the requests of the first one, so its
/// queue does not run empty while a busy machine keeps the clients from running.
const CONNECTIONS: [usize; 2] = [40, 80];

/// Answers to each tenant before the count begins, so that both have requests waiting.
const ANSWERS_BEFORE: usize = 20;

/// Answers to both tenants that are counted.
const ANSWERS: usize = 960;

/// How often they are counted until the ratio is right. A busy machine may keep all clients of a
/// tenant from running until its queue is empty: then the tenant rightly gets less. Without fair
/// sharing, no count is right.
const COUNTS_MAX: usize = 3;

/// How far the ratio of the answers may be from that of the weights. What the pool has done is
/// exact to an item of each tenant. But an answer is counted when its client runs: on a busy
/// machine, a dozen may wait for that when the count begins or ends. In the order of arrival, the
/// ratio would be 0.5.
const TOLERANCE: f64 = 1.3;

/// Connections of each tenant that stay, also where the machine is too slow for them.
const CONNECTIONS_MIN: [usize; 2] = [4, 8];

/// What a call counts down from. A thread of the pool runs it for about 0.5 ms. The workers and the
/// clients need a tenth of that for such a call, so it is the pool that is busy. A call of four
/// times the time would have its turns only when nothing else runs on the machine.
const ROUNDS: u32 = 8_000;

/// What has become of the requests of two tenants.
struct Contest {
    connections: [AtomicUsize; 2],
    answered: [AtomicUsize; 2],
    is_over: AtomicBool,
}

impl Contest {
    fn new() -> Self {
        Self {
            connections: CONNECTIONS.map(AtomicUsize::new),
            answered: Default::default(),
            is_over: AtomicBool::default(),
        }
    }

    fn answered(&self) -> [usize; 2] {
        self.answered.each_ref().map(|count| count.load(Relaxed))
    }

    /// Whether a connection of this tenant leaves. If so, it has left.
    ///
    /// The first tenant always has half as many as the second one, or fewer.
    fn leaves(&self, tenant: usize, is_refused: bool) -> bool {
        let seconds = self.connections[1].load(Relaxed);
        let fewer = |open: usize| {
            let is_too_many = tenant == 0 && open * 2 > seconds;
            let may_leave = open > CONNECTIONS_MIN[tenant] && (is_refused || is_too_many);
            may_leave.then(|| open - 1)
        };
        let left = self.connections[tenant].try_update(Relaxed, Relaxed, fewer);
        left.is_ok()
    }
}

/// Ends the clients, also when the test fails.
struct Over<'a>(&'a Contest);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Relaxed);
    }
}

/// Of two tenants that both have requests waiting, one of weight 3 is answered three times as often
/// as one of weight 1, and one of the same weight as often. The other one has more connections.
#[test]
fn answers_go_by_weight() {
    let mut store = PreparedStore::default();
    let pairs = [[("three", 3), ("one", 1)], [("even", 1), ("equal", 1)]];
    for (name, weight) in pairs.into_iter().flatten() {
        let limits = TenantLimits {
            weight: NonZeroU32::new(weight).unwrap(),
            ..TenantLimits::default()
        };
        let tenant = store.tenant(name, limits);
        store.key_of(tenant, name, None, KeySettings::default());
    }
    // The pool has one thread, so that the workers have requests ready faster than it answers.
    let server = store.serve("weights", &["--workers", "2", "--pool-threads", "1"]);
    for pair in pairs {
        let expected = f64::from(pair[0].1) / f64::from(pair[1].1);
        let is_right = |[first, second]: [usize; 2]| {
            let ratio = first as f64 / second as f64;
            ratio > expected / TOLERANCE && ratio < expected * TOLERANCE
        };
        let counted = contend(&server, pair.map(|(name, _)| name), is_right);
        let last = *counted.last().unwrap();
        assert!(is_right(last), "{pair:?} were answered {counted:?} times");
    }
}

/// Answers to each of two tenants while both want more, counted again while that is not right.
fn contend(
    server: &Server,
    names: [&str; 2],
    is_right: impl Fn([usize; 2]) -> bool,
) -> Vec<[usize; 2]> {
    let query = request(1, "eth_call", &json!([{"data": count_down(ROUNDS, "00")}])).to_string();
    let contest = Contest::new();
    thread::scope(|scope| {
        let _over = Over(&contest);
        for (tenant, connections) in CONNECTIONS.into_iter().enumerate() {
            let url = format!("/v3/{}", names[tenant]);
            for _ in 0..connections {
                let (contest, query, url) = (&contest, &query, url.clone());
                scope.spawn(move || ask_until_over(server, &url, query, contest, tenant));
            }
        }
        wait_until("both are answered", || {
            contest
                .answered()
                .iter()
                .all(|count| *count >= ANSWERS_BEFORE)
        });
        let mut counted = Vec::new();
        while counted.len() < COUNTS_MAX && !counted.last().is_some_and(|last| is_right(*last)) {
            let before = contest.answered();
            let answered = || [0, 1].map(|at: usize| contest.answered()[at] - before[at]);
            wait_until("enough is answered", || {
                answered().iter().sum::<usize>() >= ANSWERS
            });
            counted.push(answered());
        }
        counted
    })
}

/// Sends a request again and again. On a machine that is busy with other tests, some would wait for
/// too long and are refused: such a client leaves. If it asked again at once, the workers would be
/// busy with refusals, and the pool would starve.
fn ask_until_over(server: &Server, url: &str, query: &str, contest: &Contest, tenant: usize) {
    let mut client = Connection::open(server.address, url);
    while !contest.is_over.load(Relaxed) {
        let status = client.post(query).status;
        match status {
            200 => _ = contest.answered[tenant].fetch_add(1, Relaxed),
            503 => {}
            status => panic!("{url}: {status}"),
        }
        if contest.leaves(tenant, status == 503) {
            return;
        }
    }
}
