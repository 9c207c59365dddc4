//! The current faults of a proxy, its connections and its counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Fault, Refusal, loss::Loss};

/// State shared by the proxy, its connections and its test.
#[derive(Default)]
pub(super) struct State {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    upstreams: Vec<SocketAddr>,
    /// Counts forwarded requests, to take the upstreams in turn.
    turn: usize,
    faults: Vec<Fault>,
    /// `None` if no packet is lost.
    loss: Option<Loss>,
    /// Results by method and first parameter.
    results: BTreeMap<(String, String), Value>,
    /// Counts changes of the faults.
    version: u64,
    calls: BTreeMap<String, usize>,
    applied: usize,
    /// The longest sequence of requests for state, each sent after the answer to the one before,
    /// and how much of it is answered.
    round_trips: usize,
    round_trips_ended: usize,
    connections: BTreeMap<u64, TcpStream>,
    /// Those that answer nothing any more.
    lost: BTreeSet<u64>,
    /// Number of connections so far, which gives their ids.
    opened: u64,
    has_ended: bool,
}

/// An open connection; dropping this closes it.
pub(super) struct OpenConnection<'a> {
    state: &'a State,
    id: u64,
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        let connection = self
            .state
            .inner
            .lock()
            .unwrap()
            .connections
            .remove(&self.id);
        let _ = connection.map(|connection| connection.shutdown(Shutdown::Both));
    }
}

/// The calls whose round trips are counted.
const OF_STATE: [&str; 3] = ["eth_getProof", "eth_getCode", "eth_createAccessList"];

/// A call on its way to the upstream.
pub(super) struct Call {
    id: Value,
    method: String,
    /// The first parameter, if it is text.
    first: Option<String>,
    /// The place in the longest sequence of requests, if it is for state.
    round_trip: Option<usize>,
}

impl State {
    pub(super) fn forward_to(&self, upstreams: &[SocketAddr]) {
        self.inner.lock().unwrap().upstreams = upstreams.to_vec();
    }

    /// The upstream whose turn it is.
    pub(super) fn next_upstream(&self) -> SocketAddr {
        let mut inner = self.inner.lock().unwrap();
        inner.turn += 1;
        inner.upstreams[inner.turn % inner.upstreams.len()]
    }

    pub(super) fn set(&self, faults: Vec<Fault>) {
        let mut inner = self.inner.lock().unwrap();
        inner.loss = faults.iter().find_map(|fault| match fault {
            Fault::Loss { percent, seed } => Some(Loss::new(*percent, *seed)),
            _ => None,
        });
        inner.faults = faults;
        if inner.is_black_hole() {
            inner.lost = inner.connections.keys().copied().collect();
        }
        inner.version += 1;
        inner.applied = 0;
        self.changed.notify_all();
    }

    pub(super) fn answer(&self, method: &str, first: &str, result: Value) {
        let call = (method.to_owned(), first.to_owned());
        self.inner.lock().unwrap().results.insert(call, result);
    }

    pub(super) fn calls(&self, method: &str) -> usize {
        self.inner
            .lock()
            .unwrap()
            .calls
            .get(method)
            .copied()
            .unwrap_or(0)
    }

    /// Notes that these calls are answered: what is sent now is a round trip later.
    pub(super) fn end<'a>(&self, calls: impl Iterator<Item = &'a Call>) {
        if let Some(ended) = calls.filter_map(|call| call.round_trip).max() {
            let mut inner = self.inner.lock().unwrap();
            inner.round_trips_ended = inner.round_trips_ended.max(ended);
        }
    }

    /// The same for the call that this message of a session answers.
    pub(super) fn end_answered(&self, calls: &[Call], message: &[u8]) {
        let mut of_state = calls
            .iter()
            .filter(|call| call.round_trip.is_some())
            .peekable();
        if of_state.peek().is_some() {
            let message: Value = serde_json::from_slice(message).unwrap_or_default();
            self.end(of_state.filter(|call| call.id == message["id"]));
        }
    }

    pub(super) fn round_trips(&self) -> usize {
        self.inner.lock().unwrap().round_trips
    }

    pub(super) fn applied(&self) -> usize {
        self.inner.lock().unwrap().applied
    }

    /// Registers a connection so that it can be closed; `None` when the proxy has ended.
    pub(super) fn keep(&self, connection: &TcpStream) -> Option<OpenConnection<'_>> {
        let mut inner = self.inner.lock().unwrap();
        let connection = connection.try_clone().ok().filter(|_| !inner.has_ended)?;
        inner.opened += 1;
        let id = inner.opened;
        inner.connections.insert(id, connection);
        if inner.is_black_hole() {
            inner.lost.insert(id);
        }
        Some(OpenConnection { state: self, id })
    }

    pub(super) fn disconnect(&self) {
        for connection in self.inner.lock().unwrap().connections.values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.inner.lock().unwrap().has_ended
    }

    pub(super) fn shut_down(&self) {
        self.inner.lock().unwrap().has_ended = true;
        self.set(Vec::new());
        self.disconnect();
    }

    /// Parses the calls of a message, and counts them.
    pub(super) fn calls_of(&self, message: &[u8]) -> Vec<Call> {
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        let items = match message {
            Value::Array(items) => items,
            single => vec![single],
        };
        let calls = items.into_iter().filter_map(|mut item| {
            Some(Call {
                method: item["method"].as_str()?.to_owned(),
                first: item["params"][0].as_str().map(str::to_owned),
                id: item["id"].take(),
                round_trip: None,
            })
        });
        let mut calls: Vec<Call> = calls.collect();
        let mut inner = self.inner.lock().unwrap();
        for call in &mut calls {
            *inner.calls.entry(call.method.clone()).or_default() += 1;
            if OF_STATE.contains(&&*call.method) {
                let round_trip = inner.round_trips_ended + 1;
                inner.round_trips = inner.round_trips.max(round_trip);
                call.round_trip = Some(round_trip);
            }
        }
        calls
    }

    /// Waits for as long as a fault delays what arrived then; `false` if it never comes.
    pub(super) fn wait(&self, arrived: Instant) -> bool {
        let mut inner = self.inner.lock().unwrap();
        let version = inner.version;
        let latency = inner.faults.iter().find_map(|fault| match fault {
            Fault::Slow(latency) => Some(*latency),
            Fault::Freeze => Some(Duration::MAX),
            _ => None,
        });
        let Some(latency) = latency else {
            return true;
        };
        inner.applied += 1;
        while inner.version == version {
            let left = latency.saturating_sub(arrived.elapsed());
            if left.is_zero() {
                return true;
            }
            inner = match latency {
                Duration::MAX => self.changed.wait(inner).unwrap(),
                _ => self.changed.wait_timeout(inner, left).unwrap().0,
            };
        }
        latency != Duration::MAX
    }

    /// When each of so many packets that are sent now can be read; `None` if none is lost.
    pub(super) fn arrivals(&self, packets: usize) -> Option<Vec<Instant>> {
        let inner = &mut *self.inner.lock().unwrap();
        let loss = inner.loss.as_mut()?;
        let (now, delays) = (Instant::now(), loss.delays(packets));
        inner.applied += loss.take_lost();
        Some(delays.into_iter().map(|delay| now + delay).collect())
    }

    /// Waits until then, whatever becomes of the faults; `false` if the proxy ends before.
    pub(super) fn wait_until(&self, then: Instant) -> bool {
        let mut inner = self.inner.lock().unwrap();
        while !inner.has_ended {
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            inner = self.changed.wait_timeout(inner, left).unwrap().0;
        }
        false
    }

    /// Waits until the faults change if one of these calls is stalled; returns whether that was so.
    pub(super) fn stalls(&self, calls: &[Call]) -> bool {
        let mut inner = self.inner.lock().unwrap();
        let version = inner.version;
        if !calls.iter().any(|call| inner.is_stalled(&call.method)) {
            return false;
        }
        inner.applied += 1;
        while inner.version == version {
            inner = self.changed.wait(inner).unwrap();
        }
        true
    }

    /// Whether one of these calls is answered with far too much.
    pub(super) fn floods(&self, calls: &[Call]) -> bool {
        let mut inner = self.inner.lock().unwrap();
        let is_flooded = |fault: &Fault| match fault {
            Fault::Flood(method) => calls.iter().any(|call| call.method == *method),
            _ => false,
        };
        let floods = inner.faults.iter().any(is_flooded);
        inner.applied += usize::from(floods);
        floods
    }

    /// Whether this message of a session answers a stalled call, so that it is not passed on.
    pub(super) fn withholds(&self, calls: &[Call], message: &[u8]) -> bool {
        let mut inner = self.inner.lock().unwrap();
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        let mut answered = calls.iter().filter(|call| call.id == message["id"]);
        let is_stalled = answered.any(|call| inner.is_stalled(&call.method));
        inner.applied += usize::from(is_stalled);
        is_stalled
    }

    /// Whether a message on this connection gets no answer, ever.
    pub(super) fn swallows(&self, connection: &OpenConnection<'_>) -> bool {
        let mut inner = self.inner.lock().unwrap();
        let is_lost = inner.lost.contains(&connection.id);
        inner.applied += usize::from(is_lost);
        is_lost
    }

    /// Whether the connection is closed in the middle of the answer.
    pub(super) fn cuts(&self) -> bool {
        let mut inner = self.inner.lock().unwrap();
        let cuts = inner.faults.iter().any(|fault| matches!(fault, Fault::Cut));
        inner.applied += usize::from(cuts);
        cuts
    }

    /// The `Retry-After` seconds if these calls are refused with HTTP 429.
    pub(super) fn too_many_requests(&self, calls: &[Call]) -> Option<u64> {
        let mut inner = self.inner.lock().unwrap();
        let seconds = inner.faults.iter().find_map(|fault| match fault {
            Fault::Refuse(
                method,
                Refusal::TooManyRequests {
                    retry_after_seconds,
                },
            ) if calls.iter().any(|call| applies_to(*method, &call.method)) => {
                Some(*retry_after_seconds)
            }
            _ => None,
        });
        inner.applied += usize::from(seconds.is_some());
        seconds
    }

    /// Gives the results that are known, and applies the faults to the upstream's answer to these
    /// calls; `None` if it stays unchanged.
    pub(super) fn falsify(&self, calls: &[Call], message: &[u8]) -> Option<Vec<u8>> {
        let mut inner = self.inner.lock().unwrap();
        if inner.faults.is_empty() && inner.results.is_empty() {
            return None;
        }
        let mut message: Value = serde_json::from_slice(message).ok()?;
        let answers = match &mut message {
            Value::Array(answers) => answers.as_mut_slice(),
            single => std::slice::from_mut(single),
        };
        let (mut known, mut applied) = (false, 0);
        for answer in answers {
            if let Some(result) = inner.known_result(calls, answer) {
                *answer = json!({"jsonrpc": "2.0", "id": answer["id"], "result": result});
                known = true;
            }
            for fault in &inner.faults {
                applied += usize::from(apply_fault(answer, calls, fault));
            }
        }
        inner.applied += applied;
        (known || applied > 0).then(|| message.to_string().into_bytes())
    }
}

impl Inner {
    fn is_black_hole(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault, Fault::BlackHole))
    }

    /// The result that the test gives for the call of this answer.
    fn known_result(&self, calls: &[Call], answer: &Value) -> Option<Value> {
        let call = calls.iter().find(|call| call.id == answer["id"])?;
        let key = (call.method.clone(), call.first.clone()?);
        self.results.get(&key).cloned()
    }

    fn is_stalled(&self, method: &str) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault, Fault::Stall(stalled) if *stalled == method))
    }
}

fn applies_to(only: Option<&str>, method: &str) -> bool {
    only.is_none_or(|only| only == method)
}

/// Applies one fault to one answer; returns whether it changed it.
fn apply_fault(answer: &mut Value, calls: &[Call], fault: &Fault) -> bool {
    // A notification is no answer to a call.
    if answer["method"] == "eth_subscription" {
        let result = answer.pointer_mut("/params/result");
        return match (fault, result) {
            (Fault::Lie(lie), Some(result)) => lie.apply("eth_subscription", result),
            _ => false,
        };
    }
    let Some(call) = calls.iter().find(|call| call.id == answer["id"]) else {
        return false;
    };
    match fault {
        Fault::Lie(lie) => match answer.get_mut("result") {
            Some(result) => lie.apply(&call.method, result),
            None => false,
        },
        Fault::Refuse(method, refusal) if applies_to(*method, &call.method) => {
            let Some(error) = refusal.error(&call.method) else {
                return false;
            };
            *answer = json!({"jsonrpc": "2.0", "id": call.id, "error": error});
            true
        }
        _ => false,
    }
}
