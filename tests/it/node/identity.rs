//! Which chain is followed: what nodes state at the start, what the operator pins, and what an
//! earlier process finalized or called safe.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    arguments,
    comparison::{ANVIL_EMPTY, Comparison},
    driven_geth,
    driven_geth::DrivenGeth,
    follow_with, head, http, wait_fault, wait_head, wait_logged, ws,
};
use crate::{
    harness::{Connection, Process, Server, check, scratch, serving, wait_until},
    upstreams::{
        Anvil, Branches,
        proxy::{Change, Fault, Lie, Proxy},
    },
};

/// Within this time after it was served, a safe block is written: a second and two syncs of the
/// disk, on a machine that is busy. That writes are a second apart is tested where they are made.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

/// An anvil whose genesis differs from that of any other with another timestamp.
fn anvil(chain_id: &str, timestamp: &str) -> Anvil {
    Anvil::start(&[
        "--no-mining",
        "--chain-id",
        chain_id,
        "--timestamp",
        timestamp,
    ])
}

/// What an upstream states about its chain, as the error of a start writes it.
fn stated(chain_id: &str, connection: &mut Connection) -> String {
    let genesis = connection.result("eth_getBlockByNumber", &json!(["0x0", false]));
    let hash = genesis["hash"].as_str().unwrap();
    format!("chain id {chain_id}, genesis {hash}")
}

/// Starts a nearhead that follows these upstreams.
fn starting(upstreams: &[String], more: &[&str]) -> Process {
    Process::start(&mut serving(&[&arguments(upstreams)[..], more].concat()))
}

/// The lines of a nearhead that refuses to start with exit code 2.
#[track_caller]
fn refused(upstreams: &[String], more: &[&str]) -> Vec<String> {
    let (status, text) = starting(upstreams, more).wait();
    check(&text, &status.code(), &Some(2));
    assert!(!text.contains("\nurl "), "it has listened: {text}");
    text.lines().map(str::to_owned).collect()
}

/// Waits until this text was logged this many times, and checks that nothing is served.
#[track_caller]
fn check_logged_and_not_served(process: &Process, text: &str, times: usize) {
    let log = process.output.wait_for(text, |log| {
        (log.matches(text).count() >= times).then(|| log.to_owned())
    });
    assert!(!log.contains("\nurl "), "it serves: {log}");
}

#[test]
fn nodes_that_contradict_each_other_are_refused_with_each_answer() {
    let anvils = [
        ("31337", "1700000000"),
        ("77", "1700000000"),
        ("77", "1700000001"),
    ];
    let anvils = anvils.map(|(id, timestamp)| (id, anvil(id, timestamp)));
    for pair in [[0, 1], [1, 2]] {
        let urls = pair.map(|at: usize| http(anvils[at].1.address));
        let lines = refused(&urls, &[]);
        let error = lines.iter().position(|line| line.starts_with("nearhead: "));
        let (_, error) = lines.split_at(error.unwrap());
        let quorum = "nearhead: 2 of 2 nodes have to be on the same chain, and they are not: ";
        assert!(error[0].starts_with(quorum), "{error:?}");
        assert!(error[0].contains("--chain-id"), "{error:?}");
        let answers = [0, 1].map(|at| {
            let (id, anvil) = &anvils[pair[at]];
            let stated = stated(id, &mut anvil.connect());
            format!("  node {at}, {}: {stated}", urls[at])
        });
        check("the nodes' answers", &&error[1..], &&answers[..]);
    }
}

/// The first of three nodes is on another chain, whose head is higher.
#[test]
fn one_liar_of_three_does_not_choose_the_chain() {
    let mut liar = anvil("77", "1700000000");
    liar.mine(40);
    let mut honest = anvil("31337", "1700000000");
    honest.mine(3);
    let urls = [http(liar.address), http(honest.address), ws(honest.address)];
    let server = follow_with(&urls, &[]);
    let genesis = stated("31337", &mut honest.connect());
    let chain = genesis.trim_start_matches("chain id ");
    wait_logged(&server, &format!("\nchain   {chain}\n"));
    wait_logged(&server, "\nquorum  2 of 3 nodes\n");
    wait_fault(&server, 0, &["wrong_chain"]);
    wait_logged(&server, "chain id is 77, not 31337");
    for _ in 0..3 {
        honest.mine(1);
        wait_head(&server, honest.head());
    }
    let mut comparison = Comparison::between(&server, honest.address);
    comparison.chain();
    comparison.blocks(0..=6);
    comparison.finish(ANVIL_EMPTY);
    wait_until("both honest nodes agree", || {
        let agreeing = server.metric("nearhead_quorum_nodes{kind=\"agreeing\"}");
        agreeing == 2.0 && server.metric("nearhead_head_choice{choice=\"keep\"}") == 1.0
    });
    check(
        "needed",
        &server.metric("nearhead_quorum_nodes{kind=\"needed\"}"),
        &2.0,
    );
}

/// A node that no longer has block 0 takes neither its finalized block nor its rules from a chain
/// that is known here.
#[test]
fn nodes_without_block_0_switch_nothing_off() {
    let mut anvil = anvil("31337", "1700000000");
    anvil.mine(3);
    let proxy = Proxy::to(&[anvil.address]);
    proxy.fail(vec![Fault::Lie(Lie {
        methods: &["eth_getBlockByNumber"],
        only: Some(("/number".to_owned(), json!("0x0"))),
        path: String::new(),
        change: Change::Null,
    })]);
    let (own, pruned) = (http(anvil.address), http(proxy.address));
    let root = scratch("node-identity-pruned");
    let data = ["--data-dir", root.to_str().unwrap()];
    let check_refused = |nodes: &[String], more: &[&str], expected: &str| {
        let lines = refused(nodes, more);
        let last = lines.last().unwrap();
        assert!(last.starts_with(expected), "{last}");
    };
    let needed = "nearhead: --data-dir needs the chain's genesis, and no quorum of the nodes";
    check_refused(std::slice::from_ref(&pruned), &data, needed);
    // Another node states it, and no quorum.
    let both = [own.clone(), pruned.clone()];
    check_refused(&both, &data, needed);
    let unknown = "nearhead: --header-rules on: the rules of this chain are not known";
    let rules = ["--data-dir", "none", "--header-rules", "on"];
    check_refused(&both, &rules, unknown);
    // Its folder makes it known. That block 0 is finalized needs no proof.
    let server = follow_with(&[own], &data);
    let mut connection = server.connect();
    wait_until("finalized", || {
        let block = connection.call("eth_getBlockByNumber", &json!(["finalized", false]));
        block["result"]["number"] == "0x0"
    });
    // The last write comes with the end of the process.
    server.process.terminate();
    assert!(server.process.wait().0.success());
    check(
        "finalized",
        &finalized_file(&root)["finalized"]["number"],
        &json!(0),
    );
    let server = follow_with(&both, &data);
    let genesis = stated("31337", &mut anvil.connect());
    let chain = genesis.trim_start_matches("chain id ");
    wait_logged(&server, &format!("\nchain   {chain}\n"));
    wait_logged(&server, &format!("\ndata    {}", root.display()));
    drop(server);
    // The default folder is no reason to refuse, because nobody asked for it.
    let server = follow_with(std::slice::from_ref(&pruned), &["--data-dir", "none"]);
    wait_logged(&server, "\ndata    in memory: ");
}

/// Silence is not consent: the head stands, and `/ready` says why.
#[test]
fn two_nodes_need_each_other() {
    let mut anvil = anvil("31337", "1700000000");
    anvil.mine(3);
    let proxy = Proxy::to(&[anvil.address]);
    let server = follow_with(&[http(anvil.address), http(proxy.address)], &[]);
    wait_logged(
        &server,
        "\nquorum  2 of 2 nodes: the silence of either node stops the head: ",
    );
    wait_head(&server, anvil.head());
    let before = anvil.head();
    proxy.fail(vec![Fault::Freeze]);
    anvil.mine(1);
    let choice = "nearhead_head_choice{choice=\"too_few_nodes\"}";
    wait_until(choice, || server.metric(choice) == 1.0);
    let ready = server.get_admin("/ready");
    check("status", &ready.status, &503);
    let missing = r#""missing":["1 node agrees, 2 have to"]"#;
    assert!(ready.text().contains(missing), "{}", ready.text());
    check("the head", &head(&mut server.connect()), &before);
    proxy.heal();
    wait_head(&server, anvil.head());
    wait_until("ready", || server.get_admin("/ready").status == 200);
}

/// A genesis file pins chain id, genesis and rules.
#[test]
fn a_chain_other_than_the_pinned_one_is_never_served() {
    let (genesis, payloads) = driven_geth::chain("node-identity", 83, 12);
    let file = genesis.to_str().unwrap();
    let text: Value = serde_json::from_slice(&fs::read(&genesis).unwrap()).unwrap();
    let id = text["config"]["chainId"].as_u64().unwrap().to_string();
    let mut others = [("77", "1700000000"), (id.as_str(), "1700000000")]
        .map(|(id, timestamp)| anvil(id, timestamp));
    others.iter_mut().for_each(|other| other.mine(40));
    let urls = others.each_ref().map(|other| http(other.address));
    let mut geth = DrivenGeth::at("node-identity-geth", &genesis, &payloads);
    let own = stated(&id, &mut geth.connect());
    let (_, own) = own.split_once("genesis ").unwrap();
    let other = stated(&id, &mut others[1].connect());
    let (_, other) = other.split_once("genesis ").unwrap();
    let stated = [
        "chain id 77, genesis ".to_owned(),
        format!("chain id {id}, genesis {other}"),
    ];
    for (url, stated) in urls.iter().zip(&stated) {
        let lines = refused(std::slice::from_ref(url), &["--genesis", file]);
        let [.., error, answer] = &lines[..] else {
            panic!("{lines:?}");
        };
        let pinned = format!("the chain with chain id {id} and genesis {own}");
        assert!(error.contains(&pinned), "{error}");
        assert!(answer.contains(stated), "{answer}");
    }
    // Beside a node of the pinned chain, they do not count.
    let wanted = geth.go_to(&payloads[11]);
    let urls = [urls[0].clone(), urls[1].clone(), http(geth.address())];
    let server = follow_with(&urls, &["--genesis", file, "--quorum", "1"]);
    wait_head(&server, wanted);
    for node in [0, 1] {
        wait_fault(&server, node, &["wrong_chain"]);
    }
    // A node that has contradicted no quorum has a count too.
    let text = server.get_admin("/metrics").text().to_owned();
    for node in 0..3 {
        let counted = format!("nearhead_node_dissent_total{{node=\"{node}\"}} 0");
        assert!(text.contains(&counted), "{text}");
    }
    check("faults", &super::refuted(&server, 2).len(), &0);
    check(
        "header rules",
        &server.metric("nearhead_header_rules"),
        &1.0,
    );
    assert!(!server.get_admin("/ready").text().contains("header_rules"));
    // Options that contradict the file are refused, without a call to any node.
    let nobody = ["http://127.0.0.1:1".to_owned()];
    for (more, expected) in [
        (["--chain-id", "5"], format!("its chain id is {id}, and ")),
        (
            ["--network", "hoodi"],
            format!("its chain id is {id}, and "),
        ),
        (
            ["--trusted-block", &format!("0:{}", B256::ZERO)],
            format!("its block has the hash {own}, and "),
        ),
    ] {
        let lines = refused(&nobody, &[&["--genesis", file][..], &more].concat());
        let last = lines.last().unwrap();
        assert!(
            last.starts_with(&format!("nearhead: {file}: {expected}")),
            "{last}"
        );
    }
}

#[test]
fn it_is_said_that_header_rules_are_off() {
    let mut anvil = anvil("1", "1700000000");
    anvil.mine(3);
    let urls = [http(anvil.address)];
    let server = follow_with(&urls, &[]);
    // The chain id is mainnet's, and the genesis is not.
    wait_logged(
        &server,
        "the nodes have the chain id of mainnet and not its genesis",
    );
    wait_logged(&server, "\nrules   off: ");
    wait_logged(&server, "\nquorum  1 of 1 node\n");
    let ready = server.get_admin("/ready");
    check("status", &ready.status, &200);
    assert!(
        ready.text().contains(r#""header_rules":"off""#),
        "{}",
        ready.text()
    );
    check(
        "header rules",
        &server.metric("nearhead_header_rules"),
        &0.0,
    );
    let lines = refused(&urls, &["--header-rules", "on"]);
    let last = lines.last().unwrap();
    let unknown = "nearhead: --header-rules on: the rules of this chain are not known";
    assert!(last.starts_with(unknown), "{last}");
}

/// A geth that has the blocks of both branches, with the block of this number as its head.
fn on_branch(name: &str, chain: &Branches, number: u64, finalized: B256) -> DrivenGeth {
    let mut geth = DrivenGeth::of(name, chain);
    let is_branch = chain.branch[0].number <= number && finalized.is_zero();
    let blocks = match is_branch {
        true => {
            geth.send_blocks(&chain.branch);
            &chain.branch
        }
        false => &chain.trunk,
    };
    let at = blocks.iter().find(|block| block.number == number);
    geth.settle(at.unwrap(), finalized, finalized);
    geth
}

fn finalized_file(root: &Path) -> Value {
    let mut folders = fs::read_dir(root).unwrap();
    let folder = folders.next().unwrap().unwrap().path();
    serde_json::from_slice(&fs::read(folder.join("finalized.json")).unwrap()).unwrap()
}

/// A node of another branch that contradicts the block that an earlier process finalized is
/// refused, unless the operator trusts one of its blocks.
#[test]
fn a_finalized_block_outlives_the_process() {
    // The branches diverge after block 40.
    let chain = Branches::make("node-persisted", 91, 60, 20);
    let (trunk, branch) = (&chain.trunk, &chain.branch);
    let root = scratch("node-persisted-data");
    let data = ["--data-dir", root.to_str().unwrap()];
    let geth = on_branch("node-persisted-trunk", &chain, 50, trunk[44].hash);
    let server = follow_with(&[http(geth.address())], &data);
    let mut connection = server.connect();
    wait_until("finalized", || {
        let block = connection.call("eth_getBlockByNumber", &json!(["finalized", false]));
        block["result"]["hash"] == json!(trunk[44].hash)
    });
    // The last write comes with the end of the process.
    server.process.terminate();
    assert!(server.process.wait().0.success());
    let expected = json!({"number": 45, "hash": trunk[44].hash});
    check("file", &finalized_file(&root)["finalized"], &expected);
    let other = on_branch("node-persisted-branch", &chain, 56, B256::ZERO);
    let urls = [http(other.address())];
    let refused = starting(&urls, &data);
    let stands = "the head stands: a quorum names a chain without the finalized block";
    check_logged_and_not_served(&refused, stands, 1);
    drop(refused);
    // A trusted block below the finalized one does not replace it.
    let trusted = |number: usize| {
        let block = &branch[number - 41];
        check("number", &block.number, &(number as u64));
        format!("{number}:{}", block.hash)
    };
    let below = starting(
        &urls,
        &[&data[..], &["--trusted-block", &trusted(44)]].concat(),
    );
    check_logged_and_not_served(&below, stands, 1);
    drop(below);
    let server = follow_with(
        &urls,
        &[&data[..], &["--trusted-block", &trusted(45)]].concat(),
    );
    wait_head(&server, (56, branch[15].hash));
    drop(server);
    // A chain without the trusted block is refused.
    let untrusted = starting(
        &[http(geth.address())],
        &["--data-dir", "none", "--trusted-block", &trusted(45)],
    );
    let stands = "the head stands: a quorum names a chain without a trusted block";
    check_logged_and_not_served(&untrusted, stands, 1);
}

/// What the tags safe and finalized name: numbers.
fn settled(server: &Server) -> [Value; 2] {
    let mut connection = server.connect();
    ["safe", "finalized"].map(|tag| {
        let answer = connection.call("eth_getBlockByNumber", &json!([tag, false]));
        answer["result"]["number"].clone()
    })
}

/// A block that an earlier process served as safe is safe again, although the node names none, if
/// it is on the node's chain. It is written soon, and not at the end of the process.
#[test]
fn a_safe_block_outlives_the_process() {
    // The branches diverge after block 40.
    let chain = Branches::make("node-safe", 93, 60, 20);
    let trunk = &chain.trunk;
    let root = scratch("node-safe-data");
    let data = ["--data-dir", root.to_str().unwrap()];
    let wait_settled = |server: &Server, safe: &str, finalized: &str| {
        let expected = [json!(safe), json!(finalized)];
        wait_until(&format!("{expected:?}"), || settled(server) == expected);
    };
    let mut geth = on_branch("node-safe-trunk", &chain, 50, trunk[37].hash);
    let server = follow_with(&[http(geth.address())], &data);
    // The second write has to wait for its turn, and for no other block.
    for number in [46, 47, 48] {
        geth.settle(&trunk[49], trunk[number - 1].hash, trunk[37].hash);
        let safe = format!("{number:#x}");
        wait_settled(&server, &safe, "0x26");
        let served = Instant::now();
        let expected = json!({"number": number, "hash": trunk[number - 1].hash});
        wait_until("written", || finalized_file(&root)["safe"] == expected);
        let took = served.elapsed();
        assert!(
            took < WRITTEN_WITHIN,
            "written {took:?} after it was served"
        );
    }
    // Killed. Two nodes that call no block safe or finalized, one of them on another branch.
    drop(server);
    let mut silent = DrivenGeth::of("node-safe-silent", &chain);
    silent.go_to(&trunk[49]);
    let reverted = on_branch("node-safe-branch", &chain, 56, B256::ZERO);
    for _ in 0..2 {
        let server = follow_with(&[http(silent.address())], &data);
        wait_settled(&server, "0x30", "0x26");
        // It is killed before anything else is safe.
        drop(server);
        check("file", &finalized_file(&root)["safe"]["number"], &json!(48));
    }
    let server = follow_with(&[http(reverted.address())], &data);
    wait_settled(&server, "0x26", "0x26");
    server.process.terminate();
    server.process.check_end(0);
    // The file has what is safe now.
    check("file", &finalized_file(&root)["safe"]["number"], &json!(38));
}
