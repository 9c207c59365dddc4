//! An upstream that refuses or stalls calls for state: the head goes on, and so do all other reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{counted, faults, follow_with, head, http, limited, wait_head, ws};
use crate::{
    harness::{Connection, Server, check, json as parse, request, wait_until},
    upstreams::{
        Anvil, anvil_with_traffic,
        proxy::{Fault, Proxy, Refusal},
    },
};

/// Blocks that are made while calls for state fail.
const BLOCKS: u64 = 3;

/// Follows these upstreams without merges of state: while an anvil mines, its proofs for the block
/// before are of the next state, and a fault.
fn follow_reads(upstreams: &[String], more: &[&str]) -> Server {
    follow_with(upstreams, &[&["--state-follow", "off"], more].concat())
}

/// An anvil with some blocks, behind a proxy.
fn behind_a_proxy(name: &str) -> (Anvil, Proxy) {
    let anvil = anvil_with_traffic(name, 61, 12);
    let proxy = Proxy::to(&[anvil.address]);
    (anvil, proxy)
}

/// Reads the balance of an account that no other read needs, and returns the error, if any.
fn read_state(connection: &mut Connection, account: u64) -> Option<Value> {
    let address = format!("0x{account:040x}");
    let call = request(1, "eth_getBalance", &json!([address, "latest"]));
    let response = connection.post(call.to_string());
    parse(&response.body).get("error").cloned()
}

/// Makes blocks, and checks that each becomes the head and is read, while `meanwhile` runs after
/// each.
fn check_goes_on(server: &Server, anvil: &mut Anvil, mut meanwhile: impl FnMut(u64)) {
    let mut ours = server.connect();
    for round in 0..BLOCKS {
        anvil.mine(1);
        let wanted = anvil.head();
        wait_head(server, wanted);
        let logs = ours.call("eth_getLogs", &json!([{"blockHash": wanted.1}]));
        assert!(logs["result"].is_array(), "{logs}");
        let receipts = ours.call("eth_getBlockReceipts", &json!(["0x5"]));
        assert!(receipts["result"].is_array(), "{receipts}");
        check("ready", &server.get_admin("/ready").status, &200);
        meanwhile(round);
    }
    let live = "nearhead_node_state{node=\"0\",state=\"live\"} ";
    // A busy machine may have delayed a call for its head.
    wait_until("live", || counted(server, live) == 1);
}

/// Every read of state takes as long as the upstream may take for a call, and is refused then.
#[test]
fn a_stall_of_proofs_stops_neither_the_head_nor_other_reads() {
    let (mut anvil, proxy) = behind_a_proxy("node-classes-stall");
    for url in [http, ws] {
        let server = follow_reads(&[url(proxy.address)], &["--node-timeout", "1s"]);
        wait_head(&server, anvil.head());
        proxy.fail(vec![Fault::Stall("eth_getProof")]);
        let mut ours = server.connect();
        check_goes_on(&server, &mut anvil, |round| {
            let error = read_state(&mut ours, 1_000 + round).unwrap();
            check("refused", &error["code"], &json!(-32000));
        });
        // The fault is counted, and no other.
        let reasons: Vec<_> = faults(&server, 0).into_keys().collect();
        check("faults", &reasons, &vec!["timeout".to_owned()]);
        assert!(proxy.applied() >= BLOCKS as usize, "{}", proxy.applied());
        proxy.heal();
        wait_until("state is read again", || {
            read_state(&mut ours, 2_000).is_none()
        });
    }
}

/// The same, with reads that wait all the time.
#[test]
fn reads_that_wait_for_a_stalled_proof_stop_neither_the_head_nor_other_reads() {
    let (mut anvil, proxy) = behind_a_proxy("node-classes-wait");
    for url in [http, ws] {
        let patient = ["--node-timeout", "5m", "--node-concurrency", "2"];
        let server = follow_reads(&[url(proxy.address)], &patient);
        wait_head(&server, anvil.head());
        proxy.fail(vec![Fault::Stall("eth_getProof")]);
        std::thread::scope(|scope| {
            // More than the calls that may be in progress at once.
            for account in 0..4 {
                let mut ours = server.connect();
                scope.spawn(move || read_state(&mut ours, 3_000 + account));
            }
            let awaited = "nearhead_permits_in_use{kind=\"remote_accounts\"} ";
            wait_until("the reads wait", || counted(&server, awaited) == 4);
            check_goes_on(&server, &mut anvil, |_| {
                check("they wait", &counted(&server, awaited), &4);
            });
            check("faults", &faults(&server, 0), &BTreeMap::new());
            // Over HTTP this ends their calls; over WebSocket the session has to end.
            proxy.heal();
            proxy.disconnect();
        });
        let mut ours = server.connect();
        wait_until("state is read again", || {
            read_state(&mut ours, 4_000).is_none()
        });
    }
}

/// The upstream is not asked for state before the time that it names; it is asked for everything
/// else. (A WebSocket session has no HTTP status.)
#[test]
fn a_limit_of_proofs_stops_neither_the_head_nor_other_reads() {
    let (mut anvil, proxy) = behind_a_proxy("node-classes-limit");
    let server = follow_reads(&[http(proxy.address)], &[]);
    wait_head(&server, anvil.head());
    let too_many = Refusal::TooManyRequests {
        retry_after_seconds: 600,
    };
    proxy.fail(vec![Fault::Refuse(Some("eth_getProof"), too_many)]);
    let mut ours = server.connect();
    let unavailable = json!(-32002);
    let error = read_state(&mut ours, 5_000).unwrap();
    check("refused", &error["code"], &unavailable);
    wait_until("limited", || limited(&server, 0) == 1);
    let asked = proxy.calls("eth_getProof");
    check_goes_on(&server, &mut anvil, |round| {
        let error = read_state(&mut ours, 6_000 + round).unwrap();
        check("refused", &error["code"], &unavailable);
    });
    check("not asked again", &proxy.calls("eth_getProof"), &asked);
    check("limited once", &limited(&server, 0), &1);
    check("faults", &faults(&server, 0), &BTreeMap::new());
    // Another upstream is asked instead, and the limited one is still followed.
    let server = follow_reads(&[http(proxy.address), http(anvil.address)], &[]);
    let mut ours = server.connect();
    check_goes_on(&server, &mut anvil, |round| {
        check(
            "another gives it",
            &read_state(&mut ours, 7_000 + round),
            &None,
        );
    });
}

/// A refusal of calls for blocks does not keep an upstream from being asked for state.
#[test]
fn a_limit_of_blocks_does_not_stop_reads_of_state() {
    let (mut anvil, proxy) = behind_a_proxy("node-classes-blocks");
    let server = follow_reads(&[http(proxy.address)], &[]);
    wait_head(&server, anvil.head());
    let before = anvil.head();
    let too_many = Refusal::TooManyRequests {
        retry_after_seconds: 600,
    };
    let block = Some("eth_getBlockByHash");
    proxy.fail(vec![Fault::Refuse(block, too_many)]);
    anvil.mine(1);
    wait_until("limited", || limited(&server, 0) > 0);
    let mut ours = server.connect();
    for account in 8_000..8_005 {
        check("state", &read_state(&mut ours, account), &None);
    }
    check("the head stays", &head(&mut ours), &before);
    // It is still asked for its head.
    let asked = proxy.calls("eth_getBlockByNumber");
    wait_until("polled", || proxy.calls("eth_getBlockByNumber") > asked + 6);
}

/// An upstream that limits calls for heads for ten minutes still gives blocks and state, which the
/// other one, whose heads are followed, refuses.
#[test]
fn a_limit_of_heads_stops_neither_blocks_nor_state() {
    let (mut anvil, muted) = behind_a_proxy("node-classes-heads");
    let heads_only = Proxy::to(&[anvil.address]);
    let urls = [&muted, &heads_only].map(|proxy| http(proxy.address));
    let server = follow_reads(&urls, &["--quorum", "1"]);
    wait_head(&server, anvil.head());
    let too_many = Refusal::TooManyRequests {
        retry_after_seconds: 600,
    };
    let refuse = |method| Fault::Refuse(Some(method), too_many);
    muted.fail(vec![refuse("eth_chainId")]);
    wait_until("limited", || limited(&server, 0) > 0);
    heads_only.fail(["eth_getBlockByHash", "eth_getProof"].map(refuse).into());
    let mut ours = server.connect();
    for account in 11_000..11_003 {
        anvil.mine(1);
        wait_head(&server, anvil.head());
        check("state", &read_state(&mut ours, account), &None);
    }
    let asked = muted.calls("eth_chainId");
    server.process.output.wait_for("debug", |log| {
        for line in log
            .lines()
            .filter(|l| l.contains("state of block") || l.contains("root"))
        {
            eprintln!("{line}");
        }
        Some(())
    });
    check("limited once", &limited(&server, 0), &1);
    check("not asked again", &muted.calls("eth_chainId"), &asked);
    check("faults", &faults(&server, 0), &BTreeMap::new());
}

/// A tenant that causes more calls than it may is refused; another one is not.
#[test]
fn each_tenant_has_its_own_budget_of_calls() {
    let (_anvil, proxy) = behind_a_proxy("node-classes-budget");
    let more = ["--api-key", "other=other-key", "--node-calls-per-key", "1"];
    let server = follow_reads(&[http(proxy.address)], &more);
    let mut ours = server.connect();
    // Slots of many accounts in one read: it is let in, and leaves a debt for a minute.
    let slots = (0..60).map(|account| (format!("0x{:040x}", 9_000 + account), json!(["0x0"])));
    let slots: serde_json::Map<String, Value> = slots.collect();
    ours.result("eth_getStorageValues", &json!([slots, "latest"]));
    let asked = proxy.calls("eth_getProof");
    check("calls", &asked, &60);
    let error = read_state(&mut ours, 10_000).unwrap();
    check("over the budget", &error["code"], &json!(-32002));
    check("held", &read_state(&mut ours, 9_000), &None);
    check("no call", &proxy.calls("eth_getProof"), &asked);
    let mut other = Connection::open(server.address, "/v3/other-key");
    check("another tenant", &read_state(&mut other, 10_000), &None);
}
