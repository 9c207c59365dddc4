//! Clients that mean harm, all at once, beside one that does not: it is told of every head and
//! answered, and when they are gone nothing of them is left.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use super::{
    client::{CLOSE, CONTINUATION, Client, PING, TEXT, frame},
    open,
};
use crate::harness::{Server, check, serving, wait_until};

/// What one of them does, to its end: where it is cut off, it sees that itself.
type Deed = fn(&Server);

const DEEDS: [(&str, Deed); 9] = [
    ("never reads", never_reads),
    ("reads byte by byte", reads_byte_by_byte),
    ("sends byte by byte", sends_byte_by_byte),
    ("never ends a message", never_ends_a_message),
    ("announces the largest messages", announces_large_messages),
    ("opens and drops 1,000 times", opens_and_drops),
    ("asks for 10,000 blocks and leaves", asks_and_leaves),
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

/// How often it is all done. After the first time the window is full.
const ROUNDS: usize = 5;

/// What the memory of the process may have grown by from the second time to the last: the chain's
/// state grows, and what is freed lies scattered. A leak of what a thousand sessions hold, three
/// times, is more.
const GROWTH_KIB_MAX: i64 = 20 << 10;

#[test]
fn hostile_sessions_disturb_nobody_and_leave_nothing() {
    // What is freed is given back at once, so that it is not taken for lost. Who is slow has the
    // time that the machine takes.
    let arguments = ["--block-time", "500ms", "--body-timeout", "10s"];
    let server = Server::of(serving(&arguments).env("MIMALLOC_PURGE_DELAY", "0"));
    let mut bystander = Bystander::new(&server);
    let mut resident = Vec::new();
    for _ in 0..ROUNDS {
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            let deeds = DEEDS.map(|(name, deed)| {
                let (server, done) = (&server, &done);
                let work = move || {
                    // Counted when it fails too.
                    let _done = Done(done);
                    deed(server);
                };
                thread::Builder::new()
                    .name(name.into())
                    .spawn_scoped(scope, work)
                    .unwrap()
            });
            while done.load(Ordering::Relaxed) < DEEDS.len() {
                bystander.go_on();
            }
            for (deed, (name, _)) in deeds.into_iter().zip(DEEDS) {
                assert!(deed.join().is_ok(), "{name}");
            }
        });
        bystander.go_on();
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
    check("two a round were evicted", &evicted, &two_a_round);
    let slow = server.metric(r#"nearhead_sessions_closed_total{code="1008"}"#);
    check("and two were too slow", &slow, &two_a_round);
    assert!(
        resident[ROUNDS - 1] - resident[1] < GROWTH_KIB_MAX,
        "{resident:?} KiB are resident"
    );
}

/// Counts when it is dropped.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client as there are thousands.
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

    /// Is told of the next head, which follows the one before, and reads its block.
    fn go_on(&mut self) {
        let head = self.session.notification()["result"].clone();
        if let Some(last) = &self.head {
            check(
                "a head follows the one before",
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

    /// Takes what it was told while nobody looked.
    fn drain(&mut self) {
        while !self.session.told.is_empty() {
            self.go_on();
        }
    }
}

fn permits_in_use(server: &Server) -> f64 {
    let metrics = server.get("/metrics");
    let series = metrics
        .text()
        .lines()
        .filter(|line| line.starts_with("nearhead_permits_in_use"));
    series
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

pub(super) fn resident_kib(server: &Server) -> i64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Asks until nothing more is taken.
fn ask_for_too_much(session: &mut Client) {
    let requests = frame(FIN | TEXT, ALL_LOGS.as_bytes()).repeat(100);
    let mut at = 0;
    wait_until("the server reads no more", || {
        let taken = session.try_send(&requests[at..]).unwrap();
        at = (at + taken) % requests.len();
        taken == 0
    });
}

fn never_reads(server: &Server) {
    let mut session = open(server);
    ask_for_too_much(&mut session);
    wait_until("it is cut off", || session.try_send(&[0]).is_err());
}

fn reads_byte_by_byte(server: &Server) {
    let mut session = open(server);
    ask_for_too_much(&mut session);
    wait_until("it is cut off", || {
        !session.read_byte() || session.try_send(&[0]).is_err()
    });
}

fn sends_byte_by_byte(server: &Server) {
    let mut session = open(server);
    session.send_bytes(&frame(FIN | TEXT, &[b' '; 100_000])[..10]);
    wait_until("it is closed", || session.try_send(b" ").is_err());
    check("the code", &session.close_code().0, &1008);
}

fn never_ends_a_message(server: &Server) {
    let mut session = open(server);
    session.send(TEXT, b"");
    let empty = frame(CONTINUATION, b"").repeat(1_000);
    let mut at = 0;
    wait_until("it is closed", || match session.try_send(&empty[at..]) {
        Ok(taken) => {
            at = (at + taken) % empty.len();
            false
        }
        Err(_) => true,
    });
}

fn announces_large_messages(server: &Server) {
    let header = &frame(FIN | TEXT, &vec![0; 32 << 20])[..14];
    let mut sessions: Vec<Client> = (0..100).map(|_| open(server)).collect();
    for session in &mut sessions {
        session.send_bytes(header);
        session.send_bytes(b"{");
    }
    // Others may send large messages all the same.
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

fn asks_and_leaves(server: &Server) {
    let mut session = open(server);
    let requests = frame(FIN | TEXT, FULL_BLOCK.as_bytes()).repeat(10_000);
    // What does not fit into the sockets' buffers was not asked.
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
    wait_until("the server reads no more", || {
        let taken = session.try_send(&pings[at..]).unwrap();
        at = (at + taken) % pings.len();
        taken == 0
    });
    // Those that were read are answered.
    for _ in 0..100 {
        let pong = super::client::Received::Frame(super::client::PONG, Vec::new());
        check("a pong", &session.receive(), &pong);
    }
}
