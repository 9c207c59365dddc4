//! Unread answers: their memory is bounded, and a disconnect cancels them.

use std::net::Shutdown;

use serde_json::{Value, json};

use super::{
    GOOD,
    client::{Client, Received, TEXT, connect},
    open, path,
};
use crate::harness::{self, Server, check, wait_until};

pub(super) const LOGS_ANSWERED: &str =
    r#"nearhead_requests_total{method="eth_getLogs",outcome="ok"}"#;

/// The same over HTTP: `admission::a_disconnect_cancels_the_remaining_queries`.
#[test]
fn a_disconnect_cancels_the_remaining_queries() {
    let still = ["--block-time", "0", "--workers", "1"];
    let server = Server::start(&still);
    let topics: Vec<String> = (1..=15).map(|topic| format!("{topic:#066x}")).collect();
    let params = json!([{"fromBlock": "earliest", "topics": [topics]}]);
    let query = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": params});
    let batch = Value::from(vec![query; 400]).to_string();
    let answered = || server.metric(LOGS_ANSWERED);
    for _ in 0..2 {
        let before = answered();
        let mut leaving = open(&server);
        let batches = 16;
        for _ in 0..batches {
            leaving.text(&batch);
        }
        // One more request, which waits, and then the end of the client's stream.
        leaving.text(GOOD);
        leaving.stream.get_ref().shutdown(Shutdown::Write).unwrap();
        wait_until("the session is gone", || {
            server.metric("nearhead_sessions") == 0.0
        });
        let (run, requested) = (answered() - before, f64::from(batches * 400));
        assert!(
            run < requested,
            "all {requested} ran for a disconnected client"
        );
    }
}

/// A proof of 1,024 slots of the dev chain's token: over a megabyte.
fn large_proof(id: u32) -> Value {
    let keys: Vec<String> = (0..1024).map(|key| format!("{key:#x}")).collect();
    let params = json!(["0xde00000000000000000000000000000000000001", keys, "latest"]);
    json!({"jsonrpc": "2.0", "id": id, "method": "eth_getProof", "params": params})
}

#[test]
fn unread_answers_hold_little_memory() {
    let server = Server::start(&["--block-time", "0"]);
    let request = large_proof(1).to_string();
    // Read one answer first, so that one-time allocations do not count.
    let mut reader = open(&server);
    reader.text(&request);
    let whole = reader.receive();
    let Received::Frame(TEXT, payload) = &whole else {
        panic!("{whole:?}");
    };
    assert!(payload.len() > 1_000_000, "{} bytes", payload.len());
    let answered =
        || server.metric(r#"nearhead_requests_total{method="eth_getProof",outcome="ok"}"#);
    let before = super::hostile::resident_kib(&server);
    let mut stalled: Vec<Client> = (0..100)
        .map(|_| Client::on(connect(server.address, Some(4 << 10)), &path()))
        .collect();
    for session in &mut stalled {
        let before = answered();
        for _ in 0..16 {
            session.text(&request);
        }
        wait_until("the first answer is ready", || answered() > before);
    }
    let grown = super::hostile::resident_kib(&server) - before;
    let most = 512 * stalled.len() as i64;
    assert!(grown < most, "memory grew by {grown} KiB");
    reader.text(&request);
    check("afterwards", &(reader.receive() == whole), &true);
}

#[test]
fn a_batch_is_answered_up_to_the_session_budget() {
    let server = Server::start(&["--block-time", "0", "--session-bytes", "524288"]);
    let slots: Vec<String> = (0..1024).map(|slot| format!("{slot:#x}")).collect();
    let token = "0xde00000000000000000000000000000000000001";
    // Each answer is built for its request: 70 KB of the session's budget.
    let values = |id: u32| {
        let params = json!([{ token: slots }, "latest"]);
        json!({"jsonrpc": "2.0", "id": id, "method": "eth_getStorageValues", "params": params})
    };
    // Code is shared with the chain's state, so these answers take almost none of the budget.
    let code = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "eth_getCode", "params": [token, "latest"]});
    let batch: Value = (0..100).map(code).chain((100..104).map(values)).collect();
    let mut session = open(&server);
    session.text(&batch.to_string());
    let over_ws = session.message();
    let over_http = server.connect().post(batch.to_string());
    let over_http = harness::json(&over_http.body);
    for (index, (item, http)) in over_ws
        .as_array()
        .unwrap()
        .iter()
        .zip(over_http.as_array().unwrap())
        .enumerate()
    {
        assert!(http["error"].is_null(), "item {index} over HTTP: {http}");
        if index < 101 {
            check("an item within the budget", item, http);
        } else {
            check(
                "an item over the budget",
                &item["error"]["code"],
                &json!(-32003),
            );
        }
    }
    session.text(GOOD);
    let good = session.message();
    check("afterwards", &good["id"], &json!(1));
}
