//! What a proxy does now, and what it has seen.

use std::{
    collections::BTreeMap,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Fault, Refusal};

/// Shared by the proxy, its connections and its test.
#[derive(Default)]
pub(super) struct State {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Default)]
struct Now {
    nodes: Vec<SocketAddr>,
    /// Whose turn it is.
    turn: usize,
    faults: Vec<Fault>,
    /// Counts how often the faults were set.
    version: u64,
    calls: BTreeMap<String, usize>,
    applied: usize,
    connections: BTreeMap<u64, TcpStream>,
    /// Connections so far.
    kept: u64,
    is_over: bool,
}

/// A connection that is closed with this.
pub(super) struct Kept<'a> {
    state: &'a State,
    id: u64,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let connection = self.state.now.lock().unwrap().connections.remove(&self.id);
        let _ = connection.map(|connection| connection.shutdown(Shutdown::Both));
    }
}

/// A call that was seen on its way to the node.
pub(super) struct Call {
    id: Value,
    method: String,
}

impl State {
    pub(super) fn ask(&self, nodes: &[SocketAddr]) {
        self.now.lock().unwrap().nodes = nodes.to_vec();
    }

    /// The node whose turn it is.
    pub(super) fn next_node(&self) -> SocketAddr {
        let mut now = self.now.lock().unwrap();
        now.turn += 1;
        now.nodes[now.turn % now.nodes.len()]
    }

    pub(super) fn set(&self, faults: Vec<Fault>) {
        let mut now = self.now.lock().unwrap();
        now.faults = faults;
        now.version += 1;
        now.applied = 0;
        self.changed.notify_all();
    }

    pub(super) fn calls(&self, method: &str) -> usize {
        self.now
            .lock()
            .unwrap()
            .calls
            .get(method)
            .copied()
            .unwrap_or(0)
    }

    pub(super) fn applied(&self) -> usize {
        self.now.lock().unwrap().applied
    }

    /// Keeps a connection, to close it; `None` when the proxy is at its end.
    pub(super) fn keep(&self, connection: &TcpStream) -> Option<Kept<'_>> {
        let mut now = self.now.lock().unwrap();
        let connection = connection.try_clone().ok().filter(|_| !now.is_over)?;
        now.kept += 1;
        let id = now.kept;
        now.connections.insert(id, connection);
        Some(Kept { state: self, id })
    }

    pub(super) fn disconnect(&self) {
        for connection in self.now.lock().unwrap().connections.values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.now.lock().unwrap().is_over
    }

    pub(super) fn end(&self) {
        self.now.lock().unwrap().is_over = true;
        self.set(Vec::new());
        self.disconnect();
    }

    /// Reads the calls of a message, and counts them.
    pub(super) fn calls_of(&self, message: &[u8]) -> Vec<Call> {
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        let items = match message {
            Value::Array(items) => items,
            single => vec![single],
        };
        let calls = items.into_iter().filter_map(|mut item| {
            Some(Call {
                method: item["method"].as_str()?.to_owned(),
                id: item["id"].take(),
            })
        });
        let calls: Vec<Call> = calls.collect();
        let mut now = self.now.lock().unwrap();
        for call in &calls {
            *now.calls.entry(call.method.clone()).or_default() += 1;
        }
        calls
    }

    /// Waits out what keeps an answer back; `false` when it never comes.
    pub(super) fn wait(&self) -> bool {
        let mut now = self.now.lock().unwrap();
        let version = now.version;
        let latency = now.faults.iter().find_map(|fault| match fault {
            Fault::Slow(latency) => Some(*latency),
            Fault::Freeze => Some(Duration::MAX),
            _ => None,
        });
        let Some(latency) = latency else {
            return true;
        };
        now.applied += 1;
        let asked = Instant::now();
        while now.version == version {
            let left = latency.saturating_sub(asked.elapsed());
            if left.is_zero() {
                return true;
            }
            now = match latency {
                Duration::MAX => self.changed.wait(now).unwrap(),
                _ => self.changed.wait_timeout(now, left).unwrap().0,
            };
        }
        latency != Duration::MAX
    }

    /// Whether the answer is cut off in its middle.
    pub(super) fn cuts(&self) -> bool {
        let mut now = self.now.lock().unwrap();
        let cuts = now.faults.iter().any(|fault| matches!(fault, Fault::Cut));
        now.applied += usize::from(cuts);
        cuts
    }

    /// Seconds that a client is told to wait where it may not ask at all.
    pub(super) fn too_many_requests(&self, calls: &[Call]) -> Option<u64> {
        let mut now = self.now.lock().unwrap();
        let seconds = now.faults.iter().find_map(|fault| match fault {
            Fault::Refuse(
                method,
                Refusal::TooManyRequests {
                    retry_after_seconds,
                },
            ) if calls.iter().any(|call| is_meant(*method, &call.method)) => {
                Some(*retry_after_seconds)
            }
            _ => None,
        });
        now.applied += usize::from(seconds.is_some());
        seconds
    }

    /// Makes the faults in the node's answer to these calls; `None` where it stays as it is.
    pub(super) fn falsify(&self, calls: &[Call], message: &[u8]) -> Option<Vec<u8>> {
        let mut now = self.now.lock().unwrap();
        if now.faults.is_empty() {
            return None;
        }
        let mut message: Value = serde_json::from_slice(message).ok()?;
        let answers = match &mut message {
            Value::Array(answers) => answers.as_mut_slice(),
            single => std::slice::from_mut(single),
        };
        let mut applied = 0;
        for answer in answers {
            for fault in &now.faults {
                applied += usize::from(fault_in(answer, calls, fault));
            }
        }
        now.applied += applied;
        (applied > 0).then(|| message.to_string().into_bytes())
    }
}

fn is_meant(meant: Option<&str>, method: &str) -> bool {
    meant.is_none_or(|meant| meant == method)
}

/// Makes one fault in one answer; whether it is another one now.
fn fault_in(answer: &mut Value, calls: &[Call], fault: &Fault) -> bool {
    // What a session is told unasked is no answer to a call.
    if answer["method"] == "eth_subscription" {
        let result = answer.pointer_mut("/params/result");
        return match (fault, result) {
            (Fault::Lie(lie), Some(result)) => lie.tell("eth_subscription", result),
            _ => false,
        };
    }
    let Some(call) = calls.iter().find(|call| call.id == answer["id"]) else {
        return false;
    };
    match fault {
        Fault::Lie(lie) => match answer.get_mut("result") {
            Some(result) => lie.tell(&call.method, result),
            None => false,
        },
        Fault::Refuse(method, refusal) if is_meant(*method, &call.method) => {
            let Some(error) = refusal.error(&call.method) else {
                return false;
            };
            *answer = json!({"jsonrpc": "2.0", "id": call.id, "error": error});
            true
        }
        _ => false,
    }
}
