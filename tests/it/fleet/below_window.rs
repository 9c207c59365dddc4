//! Blocks below the window are the leader's at every process: the genesis, and the tags of settled
//! blocks.

use serde_json::{Value, json};

use super::stage::{Stage, leads, wait_heads};
use crate::harness::{Server, check, wait_until};

/// The genesis as a process has it, by number and by hash, is the one of geth, which states no
/// total difficulty.
fn check_genesis(server: &Server, genesis: &Value) {
    let mut connection = server.connect();
    wait_until("the genesis", || {
        let answer = connection.call("eth_getBlockByNumber", &json!(["0x0", false]));
        answer["result"].is_object()
    });
    for (method, at) in [
        ("eth_getBlockByNumber", &json!("0x0")),
        ("eth_getBlockByHash", &genesis["hash"]),
    ] {
        for full in [true, false] {
            let mut ours = connection.result(method, &json!([at, full]));
            let members = ours.as_object_mut().unwrap();
            check(
                "difficulty",
                &members.remove("totalDifficulty"),
                &Some(Value::Null),
            );
            check(method, &ours, genesis);
        }
    }
}

/// What a process answers for blocks of these tags, which are below its window: the same as the
/// leader.
fn check_tags(server: &Server, leader: &Server) {
    for tag in ["safe", "finalized"] {
        let params = json!([tag, false]);
        let answer = |server: &Server| {
            server.connect().call("eth_getBlockByNumber", &params)["error"].clone()
        };
        wait_until(tag, || answer(leader)["code"] == json!(4444));
        wait_until(tag, || answer(server) == answer(leader));
    }
}

#[test]
fn what_is_below_the_window_is_the_same_at_every_process() {
    let mut stage = Stage::new("fleet-below", 61, [150, 4]);
    let [safe, finalized] = [8, 5].map(|number| stage.block(number).1);
    let settle = |stage: &mut Stage, head: usize| {
        let payload = &stage.chain.trunk[head - 1];
        stage.geth.settle(payload, safe, finalized)
    };
    let first = settle(&mut stage, 132);
    let genesis = stage
        .geth
        .connect()
        .result("eth_getBlockByNumber", &json!(["0x0", false]));
    // Something else is in its place.
    let key = stage.key("below");
    stage.redis.call(&[b"SADD", key.as_bytes(), b"x"]);
    let leader = stage.join(Some(stage.geth.address()));
    assert!(leads(&leader));
    wait_heads(&[&leader], first);
    for (tag, number) in [("safe", "0x8"), ("finalized", "0x5")] {
        let params = json!([tag, false]);
        wait_until(tag, || {
            let answer = leader.connect().call("eth_getBlockByNumber", &params);
            answer["result"]["number"] == json!(number)
        });
    }
    // Both fall below the window before others join.
    let head = settle(&mut stage, 140);
    wait_heads(&[&leader], head);
    let replica = stage.join(None);
    let other = stage.join(Some(stage.geth.address()));
    wait_heads(&[&leader, &replica, &other], head);
    for server in [&leader, &replica, &other] {
        check_genesis(server, &genesis);
        check_tags(server, &leader);
    }
    // Its state is not there, as at the leader.
    let params = json!(["0x00000000000000000000000000000000000000aa", "0x0"]);
    let [theirs, ours] = [&leader, &replica]
        .map(|server| server.connect().call("eth_getBalance", &params)["error"].clone());
    check("state", &ours, &theirs);

    // What others write there is refused. No process is left that writes it again.
    drop((leader, other));
    stage.redis.call(&[b"SET", key.as_bytes(), b"a lie"]);
    let late = stage.join(None);
    wait_heads(&[&late], head);
    let refused = "nearhead_fleet_state_items_total{event=\"refused\"}";
    wait_until("refused", || late.metric(refused) > 0.0);
    let answer = late
        .connect()
        .call("eth_getBlockByNumber", &json!(["0x0", false]));
    check("not there", &answer["error"]["code"], &json!(4444));

    // The next leader writes it.
    let leader = stage.join(Some(stage.geth.address()));
    let head = stage.go_to(145);
    wait_heads(&[&leader, &replica, &late], head);
    for server in [&leader, &replica, &late] {
        check_genesis(server, &genesis);
    }
}
