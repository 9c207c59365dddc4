//! Filters of clients behind a proxy: every process answers them.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    moving_chain::{Driver, MovingChain},
    stage::{Stage, wait_heads},
    tenants::{refused, two_processes},
};
use crate::{
    harness::{Connection, KEY, RoundRobin, check, json as parse, request, wait_until},
    websocket::client::Client,
};

/// Another key, of a tenant of its own.
const OTHER_KEY: &str = "the-key-of-somebody-else";

/// The time from one step of the chain to the next.
const STEP_TIME: Duration = Duration::from_millis(80);

/// The pause of a client between two questions in a session.
const PAUSE: Duration = Duration::from_millis(15);

/// The answer of the process or proxy at an address, with its status and the block that it names.
fn ask(address: SocketAddr, key: &str, body: &Value, min_block: &str) -> (u16, Value, String) {
    let mut connection = Connection::open(address, &format!("/v3/{key}"));
    let mut headers = vec!["content-type: application/json".to_owned()];
    if !min_block.is_empty() {
        headers.push(format!("x-nearhead-min-block: {min_block}"));
    }
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let request = connection.request(&headers, body.to_string().as_bytes());
    connection.send(&request);
    let response = connection.receive();
    let block = response.header("x-nearhead-block").unwrap_or_default();
    (response.status, parse(&response.body), block.to_owned())
}

/// The answer to a call. A refusal on a slow machine loses nothing: it is asked again.
fn call(address: SocketAddr, method: &str, params: &Value) -> Value {
    let mut found = Value::Null;
    wait_until(method, || {
        let (status, answer, _) = ask(address, KEY, &request(1, method, params), "");
        found = answer;
        assert!([200, 503].contains(&status), "{method} {params}: {found}");
        status == 200
    });
    found
}

fn result(address: SocketAddr, method: &str, params: &Value) -> Value {
    let mut answer = call(address, method, params);
    assert!(answer["error"].is_null(), "{method} {params}: {answer}");
    answer["result"].take()
}

fn changes(address: SocketAddr, id: &Value) -> Vec<Value> {
    let mut found = result(address, "eth_getFilterChanges", &json!([id]));
    std::mem::take(found.as_array_mut().unwrap())
}

fn not_found(answer: &Value) -> bool {
    answer["error"] == json!({"code": -32000, "message": "filter not found"})
}

/// A client of one filter of all logs, which applies each change.
struct Poller {
    proxy: SocketAddr,
    id: Value,
    /// Whether it passes on the block that it has seen.
    passes_on: bool,
    seen: String,
    logs: Vec<Value>,
    removed: usize,
}

impl Poller {
    /// One that has these logs already.
    fn new(proxy: SocketAddr, passes_on: bool, logs: &[Value]) -> Self {
        Self {
            proxy,
            id: result(proxy, "eth_newFilter", &json!([{}])),
            passes_on,
            seen: String::new(),
            logs: logs.to_vec(),
            removed: 0,
        }
    }

    /// Asks once; returns the number of changes.
    fn poll(&mut self) -> usize {
        let body = request(1, "eth_getFilterChanges", &json!([self.id]));
        let (mut answer, mut block) = (Value::Null, String::new());
        // A refusal on a slow machine loses nothing.
        wait_until("an answer", || {
            let (status, found, named) = ask(self.proxy, KEY, &body, &self.seen);
            (answer, block) = (found, named);
            status == 200
        });
        if self.passes_on {
            self.seen = block;
        }
        let changes = answer["result"].as_array_mut();
        let changes = changes.unwrap_or_else(|| panic!("{body}: no changes"));
        for change in changes.iter_mut() {
            if change["removed"] == true {
                change["removed"] = false.into();
                check("the newest log", &self.logs.pop().as_ref(), &Some(&*change));
                self.removed += 1;
            } else {
                self.logs.push(change.take());
            }
        }
        changes.len()
    }
}

/// Two clients of one filter, neither of which knows what the other gets.
struct Shared {
    proxy: SocketAddr,
    id: Value,
}

/// How often a log was added, less how often it was removed, by its block and place.
type Net = HashMap<(String, String), i64>;

/// The block of a log, and its place in it.
fn place_of(log: &Value) -> (String, String) {
    let text = |name: &str| log[name].as_str().unwrap().to_owned();
    (text("blockHash"), text("logIndex"))
}

impl Shared {
    /// Asks once, in a session if there is one; returns the number of changes.
    fn poll(&self, session: Option<&mut Client>, net: &mut Net) -> usize {
        let params = json!([self.id]);
        let found = match session {
            Some(session) => {
                let mut answer = session.call("eth_getFilterChanges", &params);
                match answer["error"]["code"] == -32002 {
                    true => json!([]),
                    false => answer["result"].take(),
                }
            }
            None => result(self.proxy, "eth_getFilterChanges", &params),
        };
        let found = found.as_array().unwrap();
        for log in found {
            let count = if log["removed"] == true { -1 } else { 1 };
            *net.entry(place_of(log)).or_default() += count;
        }
        found.len()
    }
}

/// A fleet of three processes without any state of filters in common but what is in the store.
/// Clients poll through a proxy while the chain moves, and each gets what geth has in the end.
#[test]
fn every_process_answers_every_filter() {
    let mut chain = MovingChain::make("fleet-filters-chain", 71, 60, [5, 3]);
    let stage = Stage::at_genesis("fleet-filters", chain.genesis.clone());
    let mut engine = stage.geth.engine();
    let first = chain.take(10, &mut engine);
    let url = stage.redis.url();
    let further = ["--fleet", &url, "--api-key", OTHER_KEY];
    let leader = stage.join_by(Some(stage.geth.address()), &further);
    let replicas = [(); 2].map(|()| stage.join_by(None, &further));
    let [b, c] = &replicas;
    wait_heads(&[&leader, b, c], first);
    let all = RoundRobin::of(&[leader.address, b.address, c.address]);
    let proxy = all.address;

    // Filters begin after the head, and reorgs go back to what is below it.
    let below = json!([{"fromBlock": "0x1"}]);
    let begin = result(leader.address, "eth_getLogs", &below);
    let begin = begin.as_array().unwrap();
    let mut pollers = [false, true].map(|passes_on| Poller::new(proxy, passes_on, begin));
    let shared = Shared {
        proxy,
        id: result(proxy, "eth_newFilter", &json!([{}])),
    };
    // The leader has each block first, whichever process has made the filter.
    let mut session = Client::open(leader.address, &format!("/ws/v3/{KEY}"));
    let mut nets = [Net::new(), Net::new()];
    let is_over = AtomicBool::new(false);
    let driver = Driver::of(&mut chain, &mut engine);
    thread::scope(|scope| {
        scope.spawn(|| driver.run(STEP_TIME));
        for poller in &mut pollers {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    poller.poll();
                }
            });
        }
        let [net, other] = &mut nets;
        let (shared, is_over) = (&shared, &is_over);
        let mut session = Some(&mut session);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                shared.poll(session.as_deref_mut(), net);
                // Otherwise, it would get all before the other one has a connection.
                thread::park_timeout(PAUSE);
            }
        });
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                shared.poll(None, other);
            }
        });
        driver.wait_steps(30);
        driver.stop();
        is_over.store(true, Ordering::Relaxed);
    });
    let head = chain.take(1, &mut engine);
    wait_heads(&[&leader, b, c], head);
    let mut expected = stage.geth.connect().result("eth_getLogs", &below);
    for poller in &mut pollers {
        while poller.poll() > 0 {}
    }
    let logs = std::mem::take(expected.as_array_mut().unwrap());
    assert!(logs.len() > begin.len() + 30, "{} logs", logs.len());
    for poller in &pollers {
        assert!(poller.removed > 3, "{} logs were removed", poller.removed);
        check("the logs of the chain", &poller.logs, &logs);
    }
    while shared.poll(None, &mut nets[1]) > 0 {}
    let mut net: Net = begin.iter().map(|log| (place_of(log), 1)).collect();
    for (log, count) in nets.iter().flatten() {
        *net.entry(log.clone()).or_default() += count;
    }
    net.retain(|_, count| *count != 0);
    check("both together", &net.len(), &logs.len());
    for log in &logs {
        check("one has it", &net.get(&place_of(log)), &Some(&1));
    }

    // Another key has no such filter, at any process.
    let id = &pollers[0].id;
    for server in [&leader, b, c] {
        for method in ["eth_getFilterChanges", "eth_getFilterLogs"] {
            let body = request(1, method, &json!([id]));
            let (_, answer, _) = ask(server.address, OTHER_KEY, &body, "");
            assert!(not_found(&answer), "{method}: {answer}");
        }
        let body = request(1, "eth_uninstallFilter", &json!([id]));
        let (_, answer, _) = ask(server.address, OTHER_KEY, &body, "");
        check("removed", &answer["result"], &json!(false));
    }
    let of_filter = result(b.address, "eth_getFilterLogs", &json!([id]));
    let of_head = result(b.address, "eth_getLogs", &json!([{}]));
    check("the logs of the head", &of_filter, &of_head);
    // What is removed at one is gone at all.
    check(
        "removed",
        &result(c.address, "eth_uninstallFilter", &json!([id])),
        &json!(true),
    );
    for server in [&leader, b, c] {
        let answer = call(server.address, "eth_getFilterChanges", &json!([id]));
        assert!(not_found(&answer), "{answer}");
    }
    check(
        "again",
        &result(b.address, "eth_uninstallFilter", &json!([id])),
        &json!(false),
    );

    // A filter outlives the process that made it.
    let id = result(b.address, "eth_newBlockFilter", &json!([]));
    let [killed, c] = replicas;
    all.remove(killed.address);
    drop(killed);
    let head = chain.take(1, &mut engine);
    wait_heads(&[&leader, &c], head);
    let found = changes(proxy, &id);
    check("the head", &found.last(), &Some(&json!(head.1)));
    check("nothing twice", &changes(proxy, &id), &Vec::new());
}

/// The script that gets the key of a filter.
fn key_of(stage: &Stage, id: &Value) -> String {
    let digits = &id.as_str().unwrap()[2..];
    let pattern = format!("{}*:{digits:0>32}", stage.key("filter:"));
    let script = "return redis.call('KEYS', ARGV[1])[1]";
    // Braces mean nothing in a pattern.
    stage.redis.eval(script, &[], &[&pattern])
}

/// Refusals are answered with 503, and lose nothing.
fn check_refused(address: SocketAddr, method: &str, params: &Value) {
    let body = request(1, method, params);
    let (status, answer, _) = ask(address, KEY, &body, "");
    check(method, &status, &503);
    check(method, &answer["error"]["code"], &json!(-32002));
    let (status, answer, _) = ask(address, KEY, &json!([body]), "");
    check("a batch", &status, &200);
    check("a batch", &answer[0]["error"]["code"], &json!(-32002));
}

#[test]
fn filters_need_the_store_and_lose_nothing_without_it() {
    let (mut stage, leader, replica) = two_processes("fleet-filters-store", 73);
    let ids = [&leader, &replica].map(|server| {
        let id = result(server.address, "eth_newBlockFilter", &json!([]));
        result(server.address, "eth_getFilterChanges", &json!([id]));
        id
    });
    stage.redis.kill();
    for server in [&leader, &replica] {
        let address = server.address;
        for id in &ids {
            check_refused(address, "eth_getFilterChanges", &json!([id]));
        }
        check_refused(address, "eth_newBlockFilter", &json!([]));
        check_refused(address, "eth_newFilter", &json!([{}]));
        check_refused(address, "eth_uninstallFilter", &json!([ids[0]]));
        // Other methods go on.
        result(address, "eth_getLogs", &json!([{}]));
    }
    // The leader goes on by itself.
    let next = |stage: &mut Stage, number: u64| {
        let head = stage.go_to(number);
        wait_heads(&[&leader], head);
        head
    };
    let heads = [next(&mut stage, 131), next(&mut stage, 132)];
    stage.redis.restart(true);
    wait_heads(&[&replica], heads[1]);
    let hashes = heads.map(|(_, hash)| json!(hash)).to_vec();
    for (id, server) in ids.iter().zip([&replica, &leader]) {
        let found = changes(server.address, id);
        check("all blocks", &found, &hashes);
        for server in [&leader, &replica] {
            check("once", &changes(server.address, id), &Vec::new());
        }
    }
    let failed = r#"nearhead_fleet_filter_calls_total{outcome="failed"}"#;
    assert!(replica.metric(failed) >= 1.0);
    check(
        "given up",
        &replica.metric(&failed.replace("failed", "given_up")),
        &0.0,
    );
    // A store that lost its data has no filters, as a process that was started again.
    stage.redis.kill();
    stage.redis.restart(false);
    wait_until("not found", || {
        let body = request(1, "eth_getFilterChanges", &json!([ids[0]]));
        let (status, answer, _) = ask(replica.address, KEY, &body, "");
        assert!(status == 503 || not_found(&answer), "{answer}");
        status == 200
    });
    let id = result(replica.address, "eth_newBlockFilter", &json!([]));
    check("found", &changes(leader.address, &id), &Vec::new());
}

/// An answer that is not sent is given by whichever process is asked next.
#[test]
fn what_one_process_does_not_send_another_one_does() {
    /// More than the answers of a batch in a small session may have.
    const FILTERS: usize = 60;
    let mut stage = Stage::new("fleet-filters-moved", 79, [135, 4]);
    let first = stage.go_to(10);
    let url = stage.redis.url();
    let leader = stage.join(Some(stage.geth.address()));
    let small = ["--fleet", &url, "--session-bytes", "524288"];
    let replica = stage.join_by(None, &small);
    wait_heads(&[&leader, &replica], first);
    let make = vec![request(1, "eth_newBlockFilter", &json!([])); FILTERS];
    let (_, made, _) = ask(leader.address, KEY, &json!(make), "");
    let ids: Vec<Value> = made
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["result"].clone())
        .collect();
    let head = stage.go_to(130);
    wait_heads(&[&leader, &replica], head);
    let mut session = Client::open(replica.address, &format!("/ws/v3/{KEY}"));
    let batch = ids
        .iter()
        .map(|id| request(1, "eth_getFilterChanges", &json!([id])));
    session.text(&json!(batch.collect::<Vec<_>>()).to_string());
    let answers = session.answer();
    let mut refused = 0;
    for (id, answer) in ids.iter().zip(answers.as_array().unwrap()) {
        let is_refused = answer["error"]["code"] == -32003;
        refused += usize::from(is_refused);
        let expected = if is_refused { 120 } else { 0 };
        check("given again", &changes(leader.address, id).len(), &expected);
        check("once", &changes(replica.address, id).len(), &0);
    }
    assert!((1..FILTERS).contains(&refused), "{refused} are refused");
}

/// What others write is refused and counted, and all other filters go on.
#[test]
fn false_records_of_filters_are_refused() {
    let (mut stage, leader, replica) = two_processes("fleet-filters-false", 83);
    let make = || result(leader.address, "eth_newBlockFilter", &json!([]));
    let other = make();
    let spoil = |id: &Value, script: &str, reason: &str| {
        // The replica knows it by what it has read, the leader because it has made it.
        check("it is there", &changes(replica.address, id), &Vec::new());
        let keys = [key_of(&stage, id), key_of(&stage, &other)];
        let before = [&leader, &replica].map(|one| refused(one, reason));
        let script = format!("{script} return 'spoilt'");
        let spoilt = stage.redis.eval(&script, &[&keys[0], &keys[1]], &[]);
        check(&script, &spoilt, &"spoilt".to_owned());
        for (server, before) in [&leader, &replica].into_iter().zip(before) {
            let answer = call(server.address, "eth_getFilterChanges", &json!([id]));
            assert!(not_found(&answer), "{script}: {answer}");
            let is_counted = reason != "missing";
            let now = refused(server, reason);
            check(&script, &(now > before), &is_counted);
        }
    };
    let invented = "redis.call('HSET', KEYS[1], 'place', string.rep('x', 150))";
    spoil(&make(), invented, "mac");
    let rewritten = "local p = redis.call('HGET', KEYS[1], 'place') \
                     redis.call('HSET', KEYS[1], 'place', p:sub(1, 60) .. '!' .. p:sub(62))";
    spoil(&make(), rewritten, "mac");
    let copied = "redis.call('HSET', KEYS[1], 'place', redis.call('HGET', KEYS[2], 'place'))";
    spoil(&make(), copied, "name");
    let exchanged = "redis.call('HSET', KEYS[1], 'place', redis.call('HGET', KEYS[1], 'criteria'))";
    spoil(&make(), exchanged, "name");
    let long = "redis.call('HSET', KEYS[1], 'place', string.rep('x', 1000000))";
    spoil(&make(), long, "missing");
    for emptied in [
        "redis.call('HDEL', KEYS[1], 'place')",
        "redis.call('HSET', KEYS[1], 'place', '')",
        "redis.call('DEL', KEYS[1])",
        "redis.call('DEL', KEYS[1]) redis.call('SADD', KEYS[1], 'x')",
        "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], 'x')",
    ] {
        spoil(&make(), emptied, "missing");
    }
    // Who knows what a filter is for does not read it again.
    let id = make();
    let key = key_of(&stage, &id);
    stage
        .redis
        .call(&[b"HSET", key.as_bytes(), b"criteria", b"of another fleet"]);
    let before = refused(&replica, "malformed");
    let answer = call(replica.address, "eth_getFilterChanges", &json!([id]));
    assert!(not_found(&answer), "{answer}");
    check("counted", &refused(&replica, "malformed"), &(before + 1.0));
    check("known", &changes(leader.address, &id), &Vec::new());

    let head = stage.go_to(131);
    wait_heads(&[&leader, &replica], head);
    check(
        "it goes on",
        &changes(replica.address, &other),
        &vec![json!(head.1)],
    );
    check(
        "it goes on",
        &changes(leader.address, &id),
        &vec![json!(head.1)],
    );
}
