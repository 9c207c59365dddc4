//! Many connections that ask at once for what takes a pool's thread a short time: all of them are
//! answered, and their memory is given back.

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
