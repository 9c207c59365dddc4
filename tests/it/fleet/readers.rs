//! Clients that read through a proxy, and pass on the block that they have seen.

use std::{
    collections::HashSet,
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use serde_json::{Value, json};

use crate::harness::{ANSWERED_BY, KEY, Server, request};

/// The pause of a client between two requests: its load is that of a client, not a measurement.
const PAUSE: Duration = Duration::from_millis(4);

/// How long a client waits for an answer: it does not stay at a process that is paused for longer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Clients that pass on the block that they have seen. Each ends at a stale or wrong answer, with a
/// report of what was answered by whom.
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    proxy: SocketAddr,
    /// The blocks that there are.
    blocks: HashSet<(u64, B256)>,
    since: Instant,
    has_ended: AtomicBool,
    answered: AtomicUsize,
    failed: AtomicUsize,
    /// What clients have met that is stale or wrong.
    faults: Mutex<Vec<String>>,
    /// Processes that a report describes: where they serve, and where their admin listener is.
    watched: Mutex<Vec<[SocketAddr; 2]>>,
}

/// What an answer says of the head.
struct Seen {
    number: u64,
    /// Number and hash, as the header has them.
    named: String,
    /// The process, and when it was asked.
    from: String,
}

impl Readers {
    /// So many clients of this proxy; the blocks are all that an answer may be about.
    pub(super) fn start(count: usize, proxy: SocketAddr, blocks: HashSet<(u64, B256)>) -> Self {
        let shared = Arc::new(Shared {
            proxy,
            blocks,
            since: Instant::now(),
            has_ended: AtomicBool::new(false),
            answered: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            faults: Mutex::default(),
            watched: Mutex::default(),
        });
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.read())
        };
        let threads = (0..count).map(start).collect();
        Self { shared, threads }
    }

    /// A report describes this process too, if it is there by then.
    pub(super) fn watch(&self, server: &Server) {
        let mut watched = lock(&self.shared.watched);
        watched.push([server.address, server.admin.unwrap()]);
    }

    /// Requests that were answered; panics if a client has met a stale or wrong answer.
    #[track_caller]
    pub(super) fn answered(&self) -> usize {
        let has_ended = self.threads.iter().any(JoinHandle::is_finished);
        let faults = lock(&self.shared.faults);
        let text = faults.join("\n\n");
        assert!(
            faults.is_empty() && !has_ended,
            "a client has met a stale or wrong answer:\n{text}"
        );
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Requests that were refused, cut off or not answered in time.
    pub(super) fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Ends them; panics if one of them has met a stale or wrong answer.
    #[track_caller]
    pub(super) fn end(self) {
        self.answered();
        self.shared.has_ended.store(true, Ordering::Relaxed);
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        let text = lock(&self.shared.faults).join("\n\n");
        assert!(
            text.is_empty() && ended.iter().all(Result::is_ok),
            "a client has met a stale or wrong answer:\n{text}"
        );
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn read(&self) {
        let mut seen: Option<Seen> = None;
        while !self.has_ended.load(Ordering::Relaxed) {
            let asked = self.since.elapsed();
            match self.ask(seen.as_ref()) {
                Ok(Some(now)) => {
                    let now = Seen {
                        from: format!("{}, asked at {asked:?}", now.from),
                        ..now
                    };
                    seen = Some(now);
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(None) => _ = self.failed.fetch_add(1, Ordering::Relaxed),
                Err(fault) => return self.report(&fault, asked, seen.as_ref()),
            }
            thread::park_timeout(PAUSE);
        }
    }

    /// Notes a stale or wrong answer, with all that says where it comes from.
    fn report(&self, fault: &str, asked: Duration, seen: Option<&Seen>) {
        let now = self.since.elapsed();
        let mut text = format!("{fault}\n  asked at {asked:?}, reported at {now:?}");
        match seen {
            Some(seen) => _ = write!(text, "\n  seen before: {} from {}", seen.named, seen.from),
            None => text += "\n  nothing was seen before",
        }
        for [address, admin] in &*lock(&self.watched) {
            let head = json!([request(
                1,
                "eth_getBlockByNumber",
                &json!(["latest", false])
            )]);
            let head = post(*address, &head.to_string(), None);
            let head = head.map_or("no answer".to_owned(), |(head, _)| {
                member(&head, "x-nearhead-block").unwrap_or(head.clone())
            });
            let of_admin = |path: &str| {
                let text = exchange(*admin, &format!("GET {path} HTTP/1.1\r\n"), "");
                text.map_or_else(|| "no answer".to_owned(), |(_, body)| body)
            };
            let ready = of_admin("/ready");
            let metrics = of_admin("/metrics");
            let of_fleet = metrics.lines().filter(|line| {
                line.starts_with("nearhead_fleet_lease")
                    || line.starts_with("nearhead_fleet_epoch")
                    || line.starts_with("nearhead_fleet_refills")
            });
            let of_fleet = of_fleet.collect::<Vec<_>>().join("\n    ");
            let _ = write!(text, "\n  {address}: head {head}; {ready}\n    {of_fleet}");
        }
        lock(&self.faults).push(text);
    }

    /// What is answered about the head; `None` if it is refused or cut off.
    ///
    /// # Errors
    /// The answer is stale or wrong, and how.
    fn ask(&self, seen: Option<&Seen>) -> Result<Option<Seen>, String> {
        let body = json!([
            request(1, "eth_getBlockByNumber", &json!(["latest", false])),
            request(2, "eth_blockNumber", &json!([])),
        ]);
        let min_block = seen.map(|seen| seen.named.as_str());
        let Some((head, body)) = post(self.proxy, &body.to_string(), min_block) else {
            return Ok(None);
        };
        if !head.starts_with("HTTP/1.1 200 ") {
            return Ok(None);
        }
        let from = member(&head, ANSWERED_BY).unwrap_or_default();
        let named = member(&head, "x-nearhead-block");
        let answers: Value = serde_json::from_str(&body).unwrap_or_default();
        let number = number_of(&answers[0]["result"]["number"]);
        let hash = answers[0]["result"]["hash"].as_str().unwrap_or_default();
        let fault = |what: &str| {
            let [of_block, of_number] = [&answers[0], &answers[1]];
            let of_block = match &of_block["result"] {
                Value::Object(block) => format!("block {} {}", block["number"], block["hash"]),
                _ => of_block.to_string(),
            };
            Err(format!(
                "{what}: {from} answered {of_block}, eth_blockNumber {of_number}, \
                 x-nearhead-block {named:?} to min-block {min_block:?}"
            ))
        };
        let Some(number) = number else {
            return fault("no block");
        };
        if number_of(&answers[1]["result"]) != Some(number) {
            return fault("two heads in one answer");
        }
        if named.as_ref() != Some(&format!("{number}, {hash}")) {
            return fault("another head is named");
        }
        if !hash
            .parse()
            .is_ok_and(|hash| self.blocks.contains(&(number, hash)))
        {
            return fault("no block of the chain");
        }
        if seen.is_some_and(|seen| number < seen.number) {
            return fault("stale");
        }
        let named = format!("{number}, {hash}");
        Ok(Some(Seen {
            number,
            named,
            from,
        }))
    }
}

fn number_of(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// The value of a header.
fn member(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then(|| value.to_owned())
    })
}

/// Head and body of the answer to a JSON-RPC request with this min block.
fn post(address: SocketAddr, body: &str, min_block: Option<&str>) -> Option<(String, String)> {
    let mut head = format!("POST /v3/{KEY} HTTP/1.1\r\n");
    head += &format!(
        "content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    if let Some(min_block) = min_block {
        head += &format!("x-nearhead-min-block: {min_block}\r\n");
    }
    exchange(address, &head, body)
}

/// Head and body of the answer to a request; `None` if it does not come in time, or not whole.
fn exchange(address: SocketAddr, head: &str, body: &str) -> Option<(String, String)> {
    let mut connection = TcpStream::connect(address).ok()?;
    connection.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    let request = format!("{head}host: localhost\r\nconnection: close\r\n\r\n{body}");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length = member(head, "content-length");
    let is_whole = length.is_none_or(|length| length.parse() == Ok(body.len()));
    is_whole.then(|| (head.to_owned(), body.to_owned()))
}
