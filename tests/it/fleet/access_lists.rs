//! An access list that one process asks of a node is there for all.

use alloy_primitives::{B256, keccak256};
use serde_json::json;

use super::{
    redis::Redis,
    stage::{SECRET, leads, wait_heads},
};
use crate::{
    harness::{Server, check, serving},
    node::access_lists::{Chain, METHOD},
};

const NAME: &str = "fleet-access-lists";

/// Starts a process on this chain, with its node or without one; returns when it is ready.
fn join(chain: &Chain, redis: &Redis, has_node: bool) -> Server {
    let genesis = chain
        .geth
        .connect()
        .result("eth_getBlockByNumber", &json!(["0x0", false]));
    let genesis: B256 = genesis["hash"].as_str().unwrap().parse().unwrap();
    let (chain_id, trusted) = (chain.chain_id.to_string(), format!("0:{genesis}"));
    let (url, node) = (redis.url(), format!("http://{}", chain.geth.proxy.address));
    let mut arguments = vec![
        ["--source", "node"],
        ["--chain-id", &chain_id],
        ["--trusted-block", &trusted],
        ["--head-age-max", "off"],
        ["--fleet", &url],
        ["--fleet-key", SECRET],
        ["--fleet-prefix", NAME],
    ];
    if has_node {
        arguments.push(["--node", &node]);
    }
    Server::of(&mut serving(arguments.as_flattened()))
}

/// A member of a metric.
fn count(server: &Server, metric: &str, event: &str) -> f64 {
    server.metric(&format!(
        "nearhead_fleet_state_{metric}_total{{event=\"{event}\"}}"
    ))
}

/// Processes without nodes have all lists, and nodes are asked for each once, whichever process
/// reads it.
#[test]
fn a_list_is_asked_of_nodes_once() {
    let mut chain = Chain::start(NAME);
    for transactions in [0, 1, 5] {
        chain.extend(transactions);
    }
    let redis = Redis::start(&format!("{NAME}-redis"));
    let leader = join(&chain, &redis, true);
    assert!(leads(&leader));
    let other = join(&chain, &redis, true);
    let replicas = [(); 2].map(|()| join(&chain, &redis, false));
    let all = [&leader, &other, &replicas[0], &replicas[1]];
    wait_heads(&all, chain.head());
    let lists = chain.blocks.len() - 1;
    for server in [&replicas[0], &other, &replicas[1], &leader] {
        chain.check_served(server);
        let asked = chain.geth.proxy.calls(METHOD);
        check("lists that nodes were asked for", &asked, &lists);
    }
    assert!(count(&replicas[0], "wants", "left") >= lists as f64);
    check("wants", &count(&replicas[1], "wants", "left"), &0.0);
    check(
        "loaded",
        &count(&replicas[1], "items", "loaded"),
        &(lists as f64),
    );

    // One that a process with nodes has read is there for those without.
    let head = chain.extend(3);
    wait_heads(&all, head);
    let left = count(&replicas[0], "wants", "left");
    chain.check_served(&other);
    chain.check_served(&replicas[0]);
    chain.check_served(&leader);
    check("wants", &count(&replicas[0], "wants", "left"), &left);
    check("asked", &chain.geth.proxy.calls(METHOD), &(lists + 1));

    // What others write under a hash is refused, and the true list is put there again.
    let (_, _, list) = chain.blocks.last().unwrap();
    assert!(list.is_some());
    let rewrite = "for _, key in ipairs(KEYS) do \
                   for _, hash in ipairs(redis.call('HKEYS', key)) do \
                   redis.call('HSET', key, hash, ARGV[1]) end end return 'OK'";
    let halves = ["items-0", "items-1"].map(|key| format!("{{{NAME}}}:{key}"));
    let lie = keccak256(b"a lie").to_string();
    redis.eval(rewrite, &halves.each_ref().map(String::as_str), &[&lie]);
    chain.check_served(&replicas[1]);
    check("refused", &count(&replicas[1], "items", "refused"), &1.0);
    check("asked", &chain.geth.proxy.calls(METHOD), &(lists + 1));
}
