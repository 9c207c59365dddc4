//! Answers that nobody reads: what they may hold, and that they are cancelled.

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

/// The twin of `admission::a_client_that_leaves_cancels_its_queries`.
#[test]
fn a_client_that_leaves_cancels_its_queries() {
    let still = ["--block-time", "0", "--workers", "1"];
    let server = Server::start(&still);
    let topics: Vec<String> = (1..=15).map(|topic| format!("{topic:#066x}")).collect();
    let params = json!([{"fromBlock": "earliest", "topics": [topics]}]);
    let query = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": params});
    let batch = Value::from(vec![query; 400]).to_string();
    let answered = || server.metric(LOGS_ANSWERED);
    for _ in 0..2 {
        let before = answered();
        let mut leaver = open(&server);
        let batches = 16;
        for _ in 0..batches {
            leaver.text(&batch);
        }
        // One that is held back, and the end of what comes behind it.
        leaver.text(GOOD);
        leaver.stream.get_ref().shutdown(Shutdown::Write).unwrap();
        wait_until("it is gone", || server.metric("nearhead_sessions") == 0.0);
        let (run, asked) = (answered() - before, f64::from(batches * 400));
        assert!(run < asked, "all {asked} were run for nobody");
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
    let ask = large_proof(1).to_string();
    // One answer is read, so that what the first one needs is there.
    let mut reader = open(&server);
    reader.text(&ask);
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
            session.text(&ask);
        }
        wait_until("it has an answer", || answered() > before);
    }
    let grown = super::hostile::resident_kib(&server) - before;
    let most = 512 * stalled.len() as i64;
    assert!(grown < most, "by {grown} KiB");
    reader.text(&ask);
    check("afterwards", &(reader.receive() == whole), &true);
}

#[test]
fn a_batch_is_answered_up_to_the_session_budget() {
    let server = Server::start(&["--block-time", "0", "--session-bytes", "524288"]);
    let slots: Vec<String> = (0..1024).map(|slot| format!("{slot:#x}")).collect();
    let token = "0xde00000000000000000000000000000000000001";
    // 70 KB each that are made for it alone.
    let values = |id: u32| {
        let params = json!([{ token: slots }, "latest"]);
        json!({"jsonrpc": "2.0", "id": id, "method": "eth_getStorageValues", "params": params})
    };
    // What is put together as it is taken holds next to nothing.
    let code = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "eth_getCode", "params": [token, "latest"]});
    let batch: Value = (0..100).map(code).chain((100..104).map(values)).collect();
    let mut session = open(&server);
    session.text(&batch.to_string());
    let told = session.message();
    let http = server.connect().post(batch.to_string());
    let http = harness::json(&http.body);
    for (index, (told, http)) in told
        .as_array()
        .unwrap()
        .iter()
        .zip(http.as_array().unwrap())
        .enumerate()
    {
        assert!(http["error"].is_null(), "item {index} over HTTP: {http}");
        if index < 101 {
            check("an item for which there is room", told, http);
        } else {
            check("one too many", &told["error"]["code"], &json!(-32003));
        }
    }
    session.text(GOOD);
    let good = session.message();
    check("afterwards", &good["id"], &json!(1));
}
