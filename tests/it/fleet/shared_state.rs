//! State that one process asks of a node is there for all.

use std::{sync::Barrier, thread};

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::stage::{Stage, leads, wait_heads};
use crate::{
    harness::{Server, check, request, wait_until},
    node::comparison::{Comparison, GETH},
    upstreams::proxy::Proxy,
};

/// A member of a metric.
fn count(server: &Server, metric: &str, event: &str) -> f64 {
    server.metric(&format!(
        "nearhead_fleet_state_{metric}_total{{event=\"{event}\"}}"
    ))
}

/// Blocks that were merged; only as far as all that was held if `is_whole`.
fn merged(server: &Server, is_whole: bool) -> f64 {
    let metrics = server.get_admin("/metrics");
    let lines = metrics.text().lines().filter(|line| {
        line.starts_with("nearhead_state_merges_total") && (!is_whole || line.contains("\"whole\""))
    });
    let values = lines.map(|line| line.rsplit(' ').next().unwrap());
    values.map(|value| value.parse::<f64>().unwrap()).sum()
}

/// Goes on by a block at a time, which all processes follow, until the leader, the first of them,
/// has merged one whole: on a busy machine, a merge may be late.
fn go_on_until_merged(stage: &mut Stage, servers: &[&Server]) {
    let whole = merged(servers[0], true);
    while merged(servers[0], true) <= whole {
        let ended = merged(servers[0], false);
        let next = stage.head().0 + 1;
        let head = stage.go_to(next);
        wait_heads(servers, head);
        wait_until("a merge ends", || merged(servers[0], false) > ended);
    }
}

/// The addresses that the transactions of a block name.
fn accounts(block: &Value) -> Vec<Value> {
    let transactions = block["transactions"].as_array().unwrap();
    let of = |name: &'static str| transactions.iter().map(move |one| one[name].clone());
    let mut accounts: Vec<Value> = of("from").chain(of("to")).collect();
    accounts.retain(Value::is_string);
    accounts.sort_by_key(Value::to_string);
    accounts.dedup();
    accounts
}

/// Answers of a process about accounts are those of geth; proofs lead to the block's state root.
fn check_state(server: &Server, stage: &Stage, accounts: &[Value], block: &Value) {
    let mut comparison = Comparison::between(server, stage.geth.address());
    let (number, root) = (&block["number"], &block["stateRoot"]);
    let root: B256 = root.as_str().unwrap().parse().unwrap();
    comparison.compare("block", "eth_getBlockByNumber", json!([number, false]));
    for account in accounts {
        comparison.queue("state", "eth_getBalance", json!([account, number]));
        comparison.queue("state", "eth_getTransactionCount", json!([account, number]));
        comparison.queue("state", "eth_getCode", json!([account, number]));
        comparison.queue("state", "eth_getStorageAt", json!([account, "0x0", number]));
        comparison.queue_proof(json!([account, ["0x0", "0x1"], number]), root);
    }
    comparison.flush();
    comparison.finish(GETH);
    // Contracts may refuse the call: both give the same data.
    for account in accounts {
        let params = json!([{"to": account, "data": "0x"}, number]);
        let ours = server.connect().call("eth_call", &params);
        let theirs = stage.geth.connect().call("eth_call", &params);
        for pointer in ["/result", "/error/data"] {
            let case = format!("eth_call {params} {pointer}");
            check(&case, &ours.pointer(pointer), &theirs.pointer(pointer));
        }
    }
}

fn proofs(proxies: &[&Proxy]) -> usize {
    proxies
        .iter()
        .map(|proxy| proxy.calls("eth_getProof"))
        .sum()
}

/// Processes read the same accounts at the same time, which nobody has yet: nodes are asked as
/// often as for one process, once for each account. Returns how often that was.
fn read_at_once(
    servers: [&Server; 3],
    stage: &Stage,
    accounts: &[Value],
    number: &Value,
    asked: impl Fn() -> usize,
) -> usize {
    let all_before = asked();
    for account in accounts {
        let params = json!([account, number]);
        let expected = stage.geth.connect().result("eth_getBalance", &params);
        let (before, barrier) = (asked(), Barrier::new(servers.len()));
        thread::scope(|scope| {
            for server in servers {
                let (barrier, params, expected) = (&barrier, &params, &expected);
                scope.spawn(move || {
                    let mut connection = server.connect();
                    barrier.wait();
                    let balance = connection.result("eth_getBalance", params);
                    check("balance", &balance, expected);
                });
            }
        });
        let calls = asked() - before;
        assert!(calls <= 1, "{calls} calls for {account}");
    }
    asked() - all_before
}

/// Replicas without nodes answer about state as geth does. What one of them has read, nodes are not
/// asked for again, whichever process reads it; after a block, what the leader merged is there for
/// all.
#[test]
fn state_is_asked_of_nodes_once() {
    let mut stage = Stage::new("fleet-state", 47, [150, 4]);
    let first = stage.go_to(130);
    let proxies = [(); 2].map(|()| stage.proxy());
    let leader = stage.join(Some(proxies[0].address));
    assert!(leads(&leader));
    let other = stage.join(Some(proxies[1].address));
    let replicas = [stage.join(None), stage.join(None)];
    wait_heads(&[&leader, &other, &replicas[0], &replicas[1]], first);

    let latest = |stage: &Stage| {
        let params = json!([format!("{:#x}", stage.head().0), true]);
        stage.geth.connect().result("eth_getBlockByNumber", &params)
    };
    let block = latest(&stage);
    let accounts = accounts(&block);
    assert!(accounts.len() >= 4, "{accounts:?}");
    let cold = read_at_once(
        [&replicas[0], &replicas[1], &other],
        &stage,
        &accounts,
        &block["number"],
        || proofs(&[&proxies[0], &proxies[1]]),
    );
    assert!(cold >= 3, "{cold} accounts were read by nobody before");
    check_state(&replicas[0], &stage, &accounts, &block);
    let calls = proofs(&[&proxies[0], &proxies[1]]);
    assert!(calls > 0);
    for server in [&replicas[1], &leader, &other, &replicas[0]] {
        check_state(server, &stage, &accounts, &block);
    }
    let again = proofs(&[&proxies[0], &proxies[1]]);
    check("calls for what one process has read", &again, &calls);
    assert!(count(&replicas[1], "items", "loaded") > 0.0);
    assert!(count(&replicas[0], "wants", "left") > 0.0);
    let served = count(&leader, "wants", "served") + count(&other, "wants", "served");
    assert!(served > 0.0);

    // The leader merges what a block changes: nobody has to want it again.
    let all = [&leader, &other, &replicas[0], &replicas[1]];
    go_on_until_merged(&mut stage, &all);
    let block = latest(&stage);
    let halves = ["items-0", "items-1"].map(|key| stage.key(key));
    let halves = halves.each_ref().map(String::as_str);
    // What a block changes is given after the next one.
    go_on_until_merged(&mut stage, &all);
    let root = latest(&stage)["stateRoot"].clone();
    let is_there = format!(
        "local root = '{}'
        root = string.gsub(root, '..', function(byte) return string.char(tonumber(byte, 16)) end)
        local there = redis.call('HEXISTS', KEYS[1], root) + redis.call('HEXISTS', KEYS[2], root)
        return tostring(there)",
        root.as_str().unwrap().trim_start_matches("0x"),
    );
    wait_until("given", || stage.redis.eval(&is_there, &halves, &[]) == "1");
    let wants = count(&replicas[1], "wants", "left");
    check_state(&replicas[1], &stage, &accounts, &block);
    check("wants", &count(&replicas[1], "wants", "left"), &wants);

    // What others write under a hash is refused, and asked for again.
    let rewrite = "for _, key in ipairs(KEYS) do \
                   for _, hash in ipairs(redis.call('HKEYS', key)) do \
                   redis.call('HSET', key, hash, 'false') end end return 'OK'";
    go_on_until_merged(&mut stage, &all);
    stage.redis.eval(rewrite, &halves, &[]);
    check_state(&replicas[0], &stage, &accounts, &latest(&stage));
    assert!(count(&replicas[0], "items", "refused") > 0.0);

    // Without the store, a replica says that another attempt may succeed, and it does.
    stage.redis.kill();
    let absent = json!([format!("0x{}", "ab".repeat(20)), "latest"]);
    let call = request(1, "eth_getBalance", &absent).to_string();
    let mut connection = replicas[0].connect();
    let refusal = connection.post(&call);
    assert_eq!(
        (refusal.status, refusal.header("retry-after")),
        (503, Some("1"))
    );
    stage.redis.restart(true);
    wait_until("state", || connection.post(&call).status == 200);
}
