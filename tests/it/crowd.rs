//! Many connections that ask at once. For what takes a pool's thread a short time, all of them are
//! answered, and their memory is given back. Another tenant does not wait for them. Those who ask
//! nothing may ask for much.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    harness::{Connection, KEY, Server, check, json as parse, wait_until},
    proofs,
};

/// Connections of a crowd.
const CROWD: usize = 2_000;
/// Slots of each proof.
const SLOTS: usize = 64;

fn open_connections(server: &Server) -> f64 {
    server.metric(r#"nearhead_connections{key="accepted",listener="public"}"#)
}

/// On a busy machine, the server may be overloaded.
fn connect(server: &Server) -> Connection {
    Connection::open_when_accepted(server.address, &format!("/v3/{KEY}"))
}

/// All ask at once, and again if they or their connections are refused: a busy machine has no time
/// for all of them.
fn answer_crowd(server: &Server, request: &str, expected: &Value) {
    let mut crowd: Vec<Connection> = (0..CROWD).map(|_| connect(server)).collect();
    wait_until("all are answered", || {
        for client in &mut crowd {
            let request = client.request(&["content-type: application/json"], request.as_bytes());
            client.send_until_closed(&request);
        }
        crowd.retain_mut(|client| match client.try_receive() {
            None => {
                *client = connect(server);
                true
            }
            Some(response) if response.status == 503 => true,
            Some(response) => {
                check("the status", &response.status, &200);
                check("the proof", &parse(&response.body)["result"], expected);
                false
            }
        });
        crowd.is_empty()
    });
    wait_until("the crowd is gone", || open_connections(server) == 0.0);
}

#[test]
fn a_crowd_that_asks_for_proofs_is_answered_and_leaves_nothing() {
    let server = Server::giving_memory_back(&["--block-time", "0s", "--workers", "2"]);
    let keys: Vec<String> = (0..SLOTS).map(|key| format!("{key:#x}")).collect();
    let params = json!(["0xde00000000000000000000000000000000000001", keys, "latest"]);
    let mut first = server.connect();
    let block = first.result("eth_getBlockByNumber", &json!(["latest", false]));
    let expected = first.result("eth_getProof", &params);
    let present = proofs::verify(&params, &expected, proofs::state_root(&block));
    assert!(present > 0, "all slots are zero");
    drop(first);
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getProof", "params": params});
    let request = request.to_string();
    server.check_memory_is_back(|| answer_crowd(&server, &request, &expected));
}

/// Of those who have just connected and ask nothing, a worker takes the 64 that it needs; and then
/// 16 in 100 ms, 64 in the next, and so on. So the last one's request waits.
#[test]
fn newcomers_who_ask_nothing_keep_others_waiting() {
    let server = Server::start(&["--block-time", "0s", "--workers", "1"]);
    let began = Instant::now();
    let silent: Vec<Connection> = (0..200).map(|_| connect(&server)).collect();
    let chain_id = connect(&server).result("eth_chainId", &json!([]));
    let waited = began.elapsed();
    assert!(chain_id.is_string());
    assert!(waited >= Duration::from_millis(200), "{waited:?}");
    drop(silent);
}

/// Connections of a tenant that ask for something cheap.
const CHEAP: usize = 400;

/// Whether there is something to read.
fn is_answered(client: &Connection) -> bool {
    let stream = client.stream();
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    peeked.is_ok()
}

/// When a worker gets to its sockets, requests of one tenant are on hundreds of connections, and
/// one of another tenant came last. It waits for few of them.
#[test]
fn a_crowd_of_one_tenant_keeps_no_other_waiting() {
    let still = ["--block-time", "0s", "--workers", "1"];
    let keys = ["--api-key", "crowd=crowd-key"];
    let server = Server::start(&[&still[..], &keys].concat());
    let balance = json!(["0xde00000000000000000000000000000000000001", "latest"]);
    // One that is answered at once, and one that is a message to another actor.
    for (method, params) in [("eth_chainId", json!([])), ("eth_getBalance", balance)] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = request.to_string();
        let open = |key| Connection::open_when_answered(server.address, &format!("/v3/{key}"));
        let mut other = open(KEY);
        let mut crowd: Vec<Connection> = (0..CHEAP).map(|_| open("crowd-key")).collect();
        // A busy machine may keep this test from looking until all are answered.
        wait_until("few are answered before the other one", || {
            server.process.freeze();
            for client in crowd.iter_mut().chain([&mut other]) {
                client.begin_post(request.as_bytes());
            }
            server.process.thaw();
            check(method, &other.receive().status, &200);
            let before = crowd.iter().filter(|client| is_answered(client)).count();
            for client in &mut crowd {
                check(method, &client.receive().status, &200);
            }
            before < CHEAP / 2
        });
    }
}
