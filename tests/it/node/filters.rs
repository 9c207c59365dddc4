//! Filters: over reorgs of a led geth, what geth's own filters answer.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::{driven_geth::DrivenGeth, follow_with, http, wait_head};
use crate::{
    harness::{Connection, Pair, check, wait_until},
    upstreams::{Branches, Payload, quantity},
};

/// One filter in both services.
struct Filter {
    case: String,
    ids: [Value; 2],
}

impl Filter {
    fn new(pair: &mut Pair, method: &str, params: Value) -> Self {
        let case = format!("{method} {params}");
        let ids = pair.call(method, &params).map(|mut answer| {
            let id = answer["result"].take();
            assert!(is_id(&id), "{case}: {answer}");
            id
        });
        Self { case, ids }
    }

    fn ours(&self, pair: &mut Pair, method: &str) -> Value {
        pair.ours.call(method, &json!([self.ids[0]]))
    }

    fn theirs(&self, pair: &mut Pair, method: &str) -> Value {
        pair.theirs.call(method, &json!([self.ids[1]]))
    }

    /// Compares what has changed; returns how many changes there were. geth's filters get their
    /// changes some time after its head has changed.
    fn compare(&self, pair: &mut Pair) -> usize {
        let Value::Array(ours) = self.ours(pair, "eth_getFilterChanges")["result"].take() else {
            panic!("{}: no changes", self.case);
        };
        let is_of_blocks = self.case.starts_with("eth_newBlockFilter");
        let mut theirs = Vec::new();
        wait_until(&format!("{} changes of {}", ours.len(), self.case), || {
            let mut more = self.theirs(pair, "eth_getFilterChanges");
            theirs.append(more["result"].as_array_mut().unwrap());
            match is_of_blocks {
                true => theirs.last() == ours.last(),
                false => net(&theirs).len() == ours.len(),
            }
        });
        if is_of_blocks {
            // Where geth's head goes on by several blocks at once, its filter has the last alone.
            theirs.retain(|hash| ours.contains(hash));
            let ours: Vec<_> = ours.iter().filter(|hash| theirs.contains(hash)).collect();
            check(&self.case, &ours, &theirs.iter().collect());
        } else {
            check(&self.case, &ours, &net(&theirs));
        }
        ours.len()
    }
}

/// What is left of geth's changes, in our order. It gives a log that came and went between two
/// questions as well, added logs before removed ones at times, and the removed logs of a block in
/// the order in which they were added.
fn net(changes: &[Value]) -> Vec<Value> {
    let is_same = |log: &Value, other: &Value| {
        log["blockHash"] == other["blockHash"] && log["logIndex"] == other["logIndex"]
    };
    let mut left: Vec<Value> = Vec::new();
    for change in changes {
        match left.iter().position(|log| is_same(log, change)) {
            Some(at) => drop(left.remove(at)),
            None => left.push(change.clone()),
        }
    }
    let (mut removed, added): (Vec<_>, Vec<_>) =
        left.into_iter().partition(|log| log["removed"] == true);
    let place = |log: &Value| (quantity(&log["blockNumber"]), quantity(&log["logIndex"]));
    removed.sort_by_key(|log| Reverse(place(log)));
    [removed, added].concat()
}

/// 16 bytes as a quantity.
fn is_id(id: &Value) -> bool {
    let digits = id.as_str().and_then(|id| id.strip_prefix("0x"));
    digits.is_some_and(|digits| {
        let is_hex = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        (20..=32).contains(&digits.len()) && !digits.starts_with('0') && digits.bytes().all(is_hex)
    })
}

fn filters(pair: &mut Pair, trunk: &[Payload]) -> Vec<Filter> {
    let last = trunk.last().unwrap().number;
    let number = |number: u64| format!("{number:#x}");
    let logs = json!([{"fromBlock": "0x0", "toBlock": "latest"}]);
    let [_, theirs] = pair.call("eth_getLogs", &logs);
    let log = theirs["result"][0].clone();
    let (address, topic) = (&log["address"], &log["topics"][0]);
    let hash = trunk[trunk.len() - 1].hash;
    let mut filters = vec![Filter::new(pair, "eth_newBlockFilter", json!([]))];
    for filter in [
        json!({}),
        json!({"fromBlock": "latest", "toBlock": "latest"}),
        json!({"address": address}),
        json!({"address": [address, format!("0x{}", "ab".repeat(20))], "topics": [[topic, hash]]}),
        json!({"topics": [null, null]}),
        json!({"fromBlock": "0x0"}),
        json!({"fromBlock": "earliest"}),
        json!({"fromBlock": number(last - 2), "toBlock": number(last + 1)}),
        json!({"fromBlock": number(last - 1)}),
        json!({"fromBlock": "0x1", "toBlock": number(last - 1)}),
        json!({"fromBlock": "0x0", "toBlock": "0x0"}),
    ] {
        filters.push(Filter::new(pair, "eth_newFilter", json!([filter])));
    }
    filters
}

/// Requests that both refuse: ours has the code and the message of geth, unless it says more.
fn compare_errors(pair: &mut Pair, filters: &[Filter]) {
    let unknown = json!(["0x1234"]);
    for (method, params) in [
        ("eth_getFilterChanges", unknown.clone()),
        ("eth_getFilterLogs", unknown.clone()),
        ("eth_uninstallFilter", unknown),
        (
            "eth_newFilter",
            json!([{"fromBlock": "0x2", "toBlock": "0x1"}]),
        ),
        (
            "eth_newFilter",
            json!([{"fromBlock": "latest", "toBlock": "0xffff"}]),
        ),
        ("eth_newFilter", json!([{"toBlock": "finalized"}])),
        ("eth_newFilter", json!([{"fromBlock": "pending"}])),
        ("eth_newFilter", json!([{"toBlock": "pending"}])),
    ] {
        let [ours, theirs] = pair.call(method, &params);
        check(&format!("{method} {params}"), &ours, &theirs);
    }
    // geth says that there is no such filter.
    let ours = filters[0].ours(pair, "eth_getFilterLogs");
    let theirs = filters[0].theirs(pair, "eth_getFilterLogs");
    check(
        "of blocks",
        &ours["error"]["code"],
        &theirs["error"]["code"],
    );
}

#[test]
fn the_filters_of_a_led_geth_are_geths() {
    const DEPTH: usize = 6;
    let chain = Branches::make("node-filters", 5, 24, DEPTH as u64);
    let (trunk, branch) = (&chain.trunk, &chain.branch);
    let mut geth = DrivenGeth::of("node-filters-geth", &chain);
    geth.send_blocks(branch);
    let begin = trunk.len() - DEPTH - 4;
    geth.go_to(&trunk[begin]);
    let genesis = chain.genesis.to_str().unwrap();
    let server = follow_with(&[http(geth.address())], &["--genesis", genesis]);
    let mut pair = Pair {
        ours: server.connect(),
        theirs: Connection::open(geth.address(), "/"),
    };
    wait_head(&server, (trunk[begin].number, trunk[begin].hash));
    let filters = filters(&mut pair, trunk);
    let fork = trunk.len() - DEPTH;
    // Forwards, to the other branch and back, in steps and at once.
    let path = [
        &trunk[begin + 1],
        &trunk[fork],
        &trunk[fork + 2],
        &branch[3],
        &branch[DEPTH],
        &trunk[trunk.len() - 1],
        &branch[0],
        &branch[1],
        &trunk[fork + 1],
    ];
    let (mut changes, mut unasked) = (vec![0; filters.len()], Vec::new());
    for (step, to) in path.into_iter().enumerate() {
        let head = geth.go_to(to);
        wait_head(&server, head);
        for (at, filter) in filters.iter().enumerate() {
            // Some are asked after several changes of the head.
            if (step + at) % 3 == 0 {
                unasked.push(at);
            } else {
                changes[at] += filter.compare(&mut pair);
                unasked.retain(|other| *other != at);
            }
        }
    }
    for at in unasked {
        changes[at] += filters[at].compare(&mut pair);
    }
    let (last, others) = changes.split_last().unwrap();
    check("changes of block 0", last, &0);
    assert!(others.iter().all(|count| *count > 3), "{changes:?}");
    for filter in &filters[1..] {
        let [ours, theirs] = [
            filter.ours(&mut pair, "eth_getFilterLogs"),
            filter.theirs(&mut pair, "eth_getFilterLogs"),
        ];
        check(&filter.case, &ours, &theirs);
    }
    compare_errors(&mut pair, &filters);
    for filter in &filters {
        for was_there in [true, false] {
            let ours = filter.ours(&mut pair, "eth_uninstallFilter");
            let theirs = filter.theirs(&mut pair, "eth_uninstallFilter");
            check(&filter.case, &ours, &theirs);
            check(&filter.case, &ours["result"], &json!(was_there));
        }
    }
    check("open", &server.metric("nearhead_filters"), &0.0);
}
