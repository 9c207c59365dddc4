//! Hostile clients, all at once, beside one honest client: it receives every head and every answer,
//! and the hostile ones leave nothing behind.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use super::{
    client::{CLOSE, CONTINUATION, Client, PING, TEXT, frame},
    open,
};
use crate::harness::{Server, check, serving, wait_until};

/// Runs one attack to its end. An attack that should be cut off checks that it is.
type Attack = fn(&Server);

const ATTACKS: [(&str, Attack); 9] = [
    ("never reads", never_reads),
    ("reads byte by byte", reads_byte_by_byte),
    ("sends byte by byte", sends_byte_by_byte),
    ("never ends a message", never_ends_a_message),
    ("announces the largest messages", announces_large_messages),
    ("opens and drops 1,000 times", opens_and_drops),
    (
        "requests 10,000 blocks and disconnects",
        requests_and_disconnects,
    ),
    (
        "subscribes to everything 1,000 times",
        subscribes_to_everything,
    ),
    ("floods pings", floods_pings),
];

const FIN: u8 = 0x80;
const FULL_BLOCK: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["latest",true]}"#;
const ALL_LOGS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"earliest","toBlock":"latest"}]}"#;

/// Rounds of all attacks; after the first, the window is full.
const ROUNDS: usize = 5;

/// Upper bound on the growth of resident memory from the second round to the last. It allows for
/// the chain's growing state and fragmentation; three rounds that each leak a thousand sessions
/// exceed it.
const GROWTH_KIB_MAX: i64 = 20 << 10;

#[test]
fn hostile_sessions_affect_no_other_and_leave_nothing() {
    // The allocator returns freed memory at once, so that it does not count as leaked. The body
    // timeout is below the default to save time, and still long enough for a slow machine.
    let arguments = ["--block-time", "500ms", "--body-timeout", "10s"];
    let server = Server::of(serving(&arguments).env("MIMALLOC_PURGE_DELAY", "0"));
    let mut bystander = Bystander::new(&server);
    let mut resident = Vec::new();
    for _ in 0..ROUNDS {
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            let attacks = ATTACKS.map(|(name, attack)| {
                let (server, done) = (&server, &done);
                let work = move || {
                    // A failed attack counts too.
                    let _done = CountOnDrop(done);
                    attack(server);
                };
                thread::Builder::new()
                    .name(name.into())
                    .spawn_scoped(scope, work)
                    .unwrap()
            });
            while done.load(Ordering::Relaxed) < ATTACKS.len() {
                bystander.follow_head();
            }
            for (attack, (name, _)) in attacks.into_iter().zip(ATTACKS) {
                assert!(attack.join().is_ok(), "{name}");
            }
        });
        bystander.follow_head();
        wait_until("only the bystander is left", || {
            bystander.drain();
            server.metric("nearhead_sessions") == 1.0
                && server.metric("nearhead_subscriptions") == 1.0
                && permits_in_use(&server) == 0.0
        });
        resident.push(resident_kib(&server));
    }
    let evicted = server.metric(r#"nearhead_sessions_closed_total{code="1013"}"#);
    let two_a_round = 2.0 * ROUNDS as f64;
    check("two evictions a round", &evicted, &two_a_round);
    let slow = server.metric(r#"nearhead_sessions_closed_total{code="1008"}"#);
    check("two slow clients a round", &slow, &two_a_round);
    assert!(
        resident[ROUNDS - 1] - resident[1] < GROWTH_KIB_MAX,
        "resident memory in KiB by round: {resident:?}"
    );
}

/// Increments a counter when dropped.
struct CountOnDrop<'a>(&'a AtomicUsize);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An ordinary client, which subscribes to heads and reads their blocks.
struct Bystander {
    session: Client,
    head: Option<Value>,
}

impl Bystander {
    fn new(server: &Server) -> Self {
        let mut session = open(server);
        let answer = session.call("eth_subscribe", &json!(["newHeads"]));
        assert!(answer["result"].is_string(), "{answer}");
        Self {
            session,
            head: None,
        }
    }

    /// Receives the next head, checks that it extends the last one, and reads its block.
    fn follow_head(&mut self) {
        let head = self.session.notification()["result"].clone();
        if let Some(last) = &self.head {
            check(
                "a head extends the last one",
                &head["parentHash"],
                &last["hash"],
            );
        }
        let answer = self
            .session
            .call("eth_getBlockByHash", &json!([head["hash"], false]));
        check("its block", &answer["result"]["number"], &head["number"]);
        self.head = Some(head);
    }

    /// Handles the queued notifications.
    fn drain(&mut self) {
        while !self.session.pending.is_empty() {
            self.follow_head();
        }
    }
}

fn permits_in_use(server: &Server) -> f64 {
    let metrics = server.get_admin("/metrics");
    let series = metrics
        .text()
        .lines()
        .filter(|line| line.starts_with("nearhead_permits_in_use"));
    series
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

pub(super) fn resident_kib(server: &Server) -> i64 {
    server.process.resident_kib().try_into().unwrap()
}

/// Sends requests until the server reads no more.
fn flood_requests(session: &mut Client) {
    let requests = frame(FIN | TEXT, ALL_LOGS.as_bytes()).repeat(100);
    let mut at = 0;
    wait_until("the server stops reading", || {
        let sent = session.try_send(&requests[at..]).unwrap();
        at = (at + sent) % requests.len();
        sent == 0
    });
}

fn never_reads(server: &Server) {
    let mut session = open(server);
    flood_requests(&mut session);
    wait_until("the session is cut off", || session.try_send(&[0]).is_err());
}

fn reads_byte_by_byte(server: &Server) {
    let mut session = open(server);
    flood_requests(&mut session);
    wait_until("the session is cut off", || {
        !session.read_byte() || session.try_send(&[0]).is_err()
    });
}

fn sends_byte_by_byte(server: &Server) {
    let mut session = open(server);
    session.send_bytes(&frame(FIN | TEXT, &[b' '; 100_000])[..10]);
    wait_until("the session is closed", || session.try_send(b" ").is_err());
    check("the code", &session.close_code().0, &1008);
}

fn never_ends_a_message(server: &Server) {
    let mut session = open(server);
    session.send(TEXT, b"");
    let empty = frame(CONTINUATION, b"").repeat(1_000);
    let mut at = 0;
    wait_until("the session is closed", || {
        match session.try_send(&empty[at..]) {
            Ok(sent) => {
                at = (at + sent) % empty.len();
                false
            }
            Err(_) => true,
        }
    });
}

fn announces_large_messages(server: &Server) {
    let header = &frame(FIN | TEXT, &vec![0; 32 << 20])[..14];
    let mut sessions: Vec<Client> = (0..100).map(|_| open(server)).collect();
    for session in &mut sessions {
        session.send_bytes(header);
        session.send_bytes(b"{");
    }
    // Other sessions can still send large messages.
    let mut other = open(server);
    let padded = FULL_BLOCK.to_owned() + &" ".repeat(1 << 20);
    other.text(&padded);
    assert!(other.answer()["result"].is_object());
}

fn opens_and_drops(server: &Server) {
    for _ in 0..1_000 {
        open(server);
    }
}

fn requests_and_disconnects(server: &Server) {
    let mut session = open(server);
    let requests = frame(FIN | TEXT, FULL_BLOCK.as_bytes()).repeat(10_000);
    // Requests beyond the socket buffers are not sent.
    assert!(session.try_send(&requests).unwrap() > 0);
}

fn subscribes_to_everything(server: &Server) {
    let mut session = open(server);
    for number in 0..1_000 {
        let kind = ["newHeads", "logs", "reorgs"][number % 3];
        let answer = session.call("eth_subscribe", &json!([kind]));
        if number < 128 {
            assert!(answer["result"].is_string(), "{answer}");
        } else {
            check("one too many", &answer["error"]["code"], &json!(-32000));
        }
    }
    session.send(FIN | CLOSE, &[]);
    check("the close", &session.close_code().0, &1005);
}

fn floods_pings(server: &Server) {
    let mut session = open(server);
    let pings = frame(FIN | PING, b"").repeat(100_000);
    let mut at = 0;
    wait_until("the server stops reading", || {
        let sent = session.try_send(&pings[at..]).unwrap();
        at = (at + sent) % pings.len();
        sent == 0
    });
    // The server answers the pings that it has read.
    for _ in 0..100 {
        let pong = super::client::Received::Frame(super::client::PONG, Vec::new());
        check("a pong", &session.receive(), &pong);
    }
}
