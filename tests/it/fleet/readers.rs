//! Clients that read through a proxy, and pass on the block that they have seen.

use std::{
    collections::HashSet,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use alloy_primitives::B256;
use serde_json::{Value, json};

use crate::harness::{self, KEY, PATIENCE, check, quantity, request};

/// The pause of a client between two requests: its load is that of a client, not a measurement.
const PAUSE: Duration = Duration::from_millis(4);

/// Clients that pass on the block that they have seen. Each panics at a stale or wrong answer.
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    proxy: SocketAddr,
    /// The blocks that there are.
    blocks: HashSet<(u64, B256)>,
    has_ended: AtomicBool,
    answered: AtomicUsize,
    failed: AtomicUsize,
}

impl Readers {
    /// So many clients of this proxy; the blocks are all that an answer may be about.
    pub(super) fn start(count: usize, proxy: SocketAddr, blocks: HashSet<(u64, B256)>) -> Self {
        let shared = Arc::new(Shared {
            proxy,
            blocks,
            has_ended: AtomicBool::new(false),
            answered: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
        });
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.read())
        };
        let threads = (0..count).map(start).collect();
        Self { shared, threads }
    }

    /// Requests that were answered; panics if a client has ended.
    #[track_caller]
    pub(super) fn answered(&self) -> usize {
        let has_ended = self.threads.iter().any(JoinHandle::is_finished);
        assert!(!has_ended, "a client has met a stale or wrong answer");
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Requests that were refused or cut off.
    pub(super) fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Ends them; panics if one of them has met a stale or wrong answer.
    pub(super) fn end(self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no stale or wrong answer");
        }
    }
}

impl Shared {
    fn read(&self) {
        let mut seen = (0, String::new());
        while !self.has_ended.load(Ordering::Relaxed) {
            match self.ask(&seen.1) {
                Some(now) => {
                    assert!(now.0 >= seen.0, "stale: {now:?} after {seen:?}");
                    seen = now;
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
                None => _ = self.failed.fetch_add(1, Ordering::Relaxed),
            }
            thread::park_timeout(PAUSE);
        }
    }

    /// The head that is answered, by number and as the header has it; `None` if it is refused or
    /// cut off.
    fn ask(&self, min_block: &str) -> Option<(u64, String)> {
        let body = json!([
            request(1, "eth_getBlockByNumber", &json!(["latest", false])),
            request(2, "eth_blockNumber", &json!([])),
        ]);
        let body = body.to_string();
        let mut head = format!("POST /v3/{KEY} HTTP/1.1\r\nhost: localhost\r\n");
        head += &format!(
            "content-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        );
        if !min_block.is_empty() {
            head += &format!("x-nearhead-min-block: {min_block}\r\n");
        }
        let mut connection = TcpStream::connect(self.proxy).ok()?;
        connection.set_read_timeout(Some(PATIENCE)).ok()?;
        connection
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .ok()?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8(answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return None;
        }
        let header = |name: &str| {
            let mut lines = head.lines();
            lines.find_map(|line| {
                let (found, value) = line.split_once(": ")?;
                found.eq_ignore_ascii_case(name).then_some(value)
            })
        };
        // It was cut off.
        if header("content-length")?.parse() != Ok(body.len()) {
            return None;
        }
        let answers: Value = harness::json(body.as_bytes());
        let block = &answers[0]["result"];
        let (number, hash) = (quantity(&block["number"]), block["hash"].as_str().unwrap());
        check("one head", &quantity(&answers[1]["result"]), &number);
        let named = header("x-nearhead-block").unwrap();
        check(
            "the head that is named",
            &named,
            &&*format!("{number}, {hash}"),
        );
        let is_known = self.blocks.contains(&(number, hash.parse().unwrap()));
        assert!(is_known, "wrong: {number} {hash}");
        Some((number, named.to_owned()))
    }
}
