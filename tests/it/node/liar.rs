//! Nodes that lie about a block, each about one thing: all of them are found out, and nothing of it
//! is served.
//!
//! A server has an honest node that is a block behind, and as many liars as it may have nodes: they
//! are followed one after the other, until each has been found out, and none of them got its block
//! served. Then the honest one has the block. Every other liar is asked over WebSocket.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    begin, chain_of_execution_apis, exceptions, faults, follow, head, http, led,
    led::Led,
    refuted,
    same::{GETH, GETH_OMMERS, Only, Same},
    wait_head, ws,
};
use crate::{
    harness::{Connection, KEY, PATIENCE, Server, check, wait_until},
    peers::{
        Anvil, Geth, Payload,
        proxy::{Change, Fault, Lie, Proxy, Refusal, rows, rows::Recorded},
        quantity,
    },
    websocket::client::Client,
};

/// Liars that one server has beside the honest node: 16 nodes are the most.
const LIARS: usize = 15;

/// Servers at a time.
const SERVERS: usize = 4;

/// Blocks that are lied about. Even, so that whoever says another number says a higher one: a lower
/// one is lag, and nobody is asked for it.
pub(super) const BLOCKS: [u64; 3] = [10, 12, 14];

/// A lie, and the block that it is about.
pub(super) struct Row {
    pub(super) lie: Lie,
    block: u64,
}

/// The answer that a lie is told in.
pub(super) fn answer<'a>(lie: &Lie, recorded: &'a [Recorded]) -> &'a Recorded {
    let (path, value) = lie.only.as_ref().unwrap();
    let mut answers = recorded.iter();
    let is_meant = |one: &&Recorded| {
        lie.methods.contains(&one.method) && one.result.pointer(path) == Some(value)
    };
    answers.find(is_meant).unwrap()
}

/// The rows about these answers, one for each member; what is not found out is left out.
pub(super) fn rows_of(recorded: &[Recorded]) -> Vec<Row> {
    let mut lies = rows::lies(recorded);
    lies.retain(|lie| exceptions::of(lie, &answer(lie, recorded).result).is_none());
    let mut lies = rows::one_a_member(&lies);
    // Receipts one by one are checked as a list is, where each of them is lied about.
    let mut single = (0..).map(|count| count % 4 == 0);
    lies.retain(|lie| lie.methods != ["eth_getTransactionReceipt"] || single.next() == Some(true));
    let row = |lie: Lie| {
        let result = &answer(&lie, recorded).result;
        let places = ["/number", "/blockNumber", "/0/blockNumber"];
        let number = places.iter().find_map(|place| result.pointer(place));
        Row {
            block: number.map(quantity).unwrap(),
            lie,
        }
    };
    lies.into_iter().map(row).collect()
}

/// What is wrong with a liar.
fn faults_of(lie: &Lie) -> Vec<Fault> {
    let mut faults = vec![Fault::Lie(lie.clone())];
    // Nobody would ask for single receipts otherwise.
    if lie.methods == ["eth_getTransactionReceipt"] {
        let method = Some("eth_getBlockReceipts");
        faults.push(Fault::Refuse(method, Refusal::NoMethod));
    }
    faults
}

/// A server, its liars, and a session with its notifications.
struct Stage<'a> {
    server: Server,
    liars: Vec<(&'a Row, Proxy)>,
    honest: Proxy,
    session: Client,
}

impl<'a> Stage<'a> {
    /// All nodes are at the block before.
    fn set(rows: &'a [&'a Row], before: SocketAddr) -> Self {
        let liars: Vec<_> = rows
            .iter()
            .map(|row| (*row, Proxy::to(&[before])))
            .collect();
        for (row, proxy) in &liars {
            // All but the lie.
            proxy.fail(faults_of(&row.lie).split_off(1));
        }
        let honest = Proxy::to(&[before]);
        let urls = liars.iter().zip([http, ws].iter().cycle());
        let urls = urls.map(|((_, proxy), url)| url(proxy.address));
        let urls: Vec<String> = urls.chain([http(honest.address)]).collect();
        let server = follow(&urls);
        let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
        for subject in ["newHeads", "reorgs"] {
            session.call("eth_subscribe", &json!([subject]));
        }
        Self {
            server,
            liars,
            honest,
            session,
        }
    }

    /// The liars have the next block, and lie about it.
    fn lie(&self, next: SocketAddr) {
        for (row, proxy) in &self.liars {
            proxy.fail(faults_of(&row.lie));
            proxy.ask(&[next]);
            // A session stays with its node.
            proxy.disconnect();
        }
    }

    /// Waits until everybody is found out, and nothing of what they said is served; by what they
    /// were.
    fn wait(&self, before: (u64, B256)) -> Vec<(&'a Row, Option<String>)> {
        let mut ours = self.server.connect();
        let deadline = Instant::now() + PATIENCE;
        let beyond = json!([format!("{:#x}", before.0 + 1), true]);
        loop {
            check("the head", &head(&mut ours), &before);
            let answer = ours.result("eth_getBlockByNumber", &beyond);
            check("beyond the head", &answer, &Value::Null);
            let liars = self.liars.iter().enumerate();
            let found = liars.map(|(node, (row, proxy))| {
                // Its connection was ended, by which it came to the next block.
                let reason = refuted(&self.server, node).into_keys().next();
                let reason = reason.filter(|_| proxy.applied() > 0);
                (*row, reason)
            });
            let found: Vec<_> = found.collect();
            let is_over = found.iter().all(|(_, reason)| reason.is_some());
            if is_over || Instant::now() > deadline {
                return found;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// The honest node has the block: it is served, and it is all that a session has been told of.
    fn heal(mut self, next: SocketAddr, wanted: (u64, B256), only: Only<'_>) {
        self.honest.ask(&[next]);
        wait_head(&self.server, wanted);
        let told = self.session.notification()["result"]["hash"].clone();
        check("told", &told, &json!(wanted.1));
        let mut same = Same::between(&self.server, next);
        same.block(wanted.0);
        same.finish(only);
    }
}

/// What was found out.
#[derive(Default)]
struct Tally {
    reasons: BTreeMap<String, usize>,
    missed: Vec<String>,
}

/// Has all liars of a block lie.
fn tell(nodes: [SocketAddr; 2], rows: &[&Row], only: Only<'_>, tally: &mut Tally) {
    let [before, next] = nodes;
    let [from, to] = nodes.map(|node| head(&mut Connection::open(node, "/")));
    let groups: Vec<&[&Row]> = rows.chunks(LIARS).collect();
    for groups in groups.chunks(SERVERS) {
        let stages: Vec<Stage<'_>> = std::thread::scope(|scope| {
            let set = groups
                .iter()
                .map(|rows| scope.spawn(move || Stage::set(rows, before)));
            let set: Vec<_> = set.collect();
            set.into_iter().map(|stage| stage.join().unwrap()).collect()
        });
        stages.iter().for_each(|stage| stage.lie(next));
        for stage in &stages {
            for (row, reason) in stage.wait(from) {
                match reason {
                    Some(reason) => *tally.reasons.entry(reason).or_default() += 1,
                    None => tally.missed.push(format!("{:?}", row.lie)),
                }
            }
        }
        for stage in stages {
            stage.heal(next, to, only);
        }
    }
}

/// What a geth at block 14 of a dev chain says of the blocks that are lied about.
fn dev_chain(name: &str) -> (PathBuf, Vec<Payload>, Vec<Row>) {
    let (genesis, payloads) = led::chain(name, 3, *BLOCKS.last().unwrap());
    let mut geth = Led::at(&format!("{name}-rows"), &genesis, &payloads);
    geth.go_to(payloads.last().unwrap());
    let mut node = geth.connect();
    let recorded = BLOCKS.map(|number| Recorded::of_block(&mut node, number));
    let rows = rows_of(&recorded.into_iter().flatten().collect::<Vec<_>>());
    (genesis, payloads, rows)
}

#[test]
fn every_member_of_a_block() {
    let (genesis, payloads, rows) = dev_chain("node-liar");
    let mut nodes =
        ["node-liar-before", "node-liar-next"].map(|name| Led::at(name, &genesis, &payloads));
    let mut tally = Tally::default();
    let count = rows.len();
    for number in BLOCKS {
        let number = usize::try_from(number).unwrap();
        nodes[0].go_to(&payloads[number - 2]);
        nodes[1].go_to(&payloads[number - 1]);
        let rows = rows.iter().filter(|row| row.block == number as u64);
        let rows: Vec<&Row> = rows.collect();
        assert!(!rows.is_empty(), "nobody lies about block {number}");
        let nodes = nodes.each_ref().map(Led::address);
        tell(nodes, &rows, GETH, &mut tally);
    }
    println!("{count} lies: {:?}", tally.reasons);
    check("not found", &tally.missed, &Vec::new());
    assert!(count >= 250, "{count} lies");
    for reason in [
        "block_hash",
        "transactions_root",
        "receipts_root",
        "block_member",
        "receipt_member",
        "malformed_member",
        "missing_member",
        "withdrawals_root",
    ] {
        assert!(tally.reasons.contains_key(reason), "nobody was {reason}");
    }
}

#[test]
fn every_member_of_an_ommer() {
    let nodes = [2, 3]
        .map(|blocks: usize| chain_of_execution_apis(&format!("node-liar-ommer-{blocks}"), blocks));
    let rows = rows_of(&Recorded::of_block(&mut nodes[1].connect(), 3));
    let rows = rows.iter().filter(|row| {
        let is_of_ommer = row.lie.methods[0].starts_with("eth_getUncle");
        // Block 3 itself has nothing that others have not but its ommer.
        is_of_ommer || row.lie.path.starts_with("/uncles")
    });
    let rows: Vec<&Row> = rows.collect();
    let mut tally = Tally::default();
    let nodes = nodes.each_ref().map(|geth: &Geth| geth.address);
    tell(nodes, &rows, GETH_OMMERS, &mut tally);
    println!("{} lies: {:?}", rows.len(), tally.reasons);
    check("not found", &tally.missed, &Vec::new());
    assert!(rows.len() >= 20, "{} lies", rows.len());
}

/// All that is not found, at once: the block is served, and is true.
#[test]
fn what_is_not_found_is_not_served() {
    let (genesis, payloads, _) = dev_chain("node-liar-exceptions");
    let mut geth = Led::at("node-liar-exceptions-geth", &genesis, &payloads);
    geth.go_to(payloads.last().unwrap());
    let mut node = geth.connect();
    let recorded = BLOCKS.map(|number| Recorded::of_block(&mut node, number));
    let recorded: Vec<Recorded> = recorded.into_iter().flatten().collect();
    let all = rows::lies(&recorded);
    let mut seen = HashSet::new();
    let lies = all.into_iter().filter(|lie| {
        let answers = recorded
            .iter()
            .filter(|one| lie.methods.contains(&one.method));
        let row = answers
            .filter(|one| {
                let (path, value) = lie.only.as_ref().unwrap();
                one.result.pointer(path) == Some(value)
            })
            .find_map(|one| exceptions::of(lie, &one.result));
        // Of v and yParity one has to be there.
        row.filter(|row| *row != "v")
            .is_some_and(|row| seen.insert((row, lie.methods[0], lie.change)))
    });
    let lies: Vec<Fault> = lies.map(Fault::Lie).collect();
    println!("{} lies are not found: {seen:?}", lies.len());
    let proxy = Proxy::to(&[geth.address()]);
    proxy.fail(lies);
    let server = follow(&[http(proxy.address)]);
    assert!(proxy.applied() > 0, "nothing was false");
    let mut same = Same::between(&server, geth.address());
    same.blocks(0..=*BLOCKS.last().unwrap());
    same.finish(GETH);
    check("faults", &faults(&server, 0).len(), &0);
}

/// Neither is the window filled with it: what is above is served, what is false is not there, and
/// not null.
#[test]
fn a_window_is_not_filled_with_lies() {
    let (genesis, payloads, rows) = dev_chain("node-liar-window");
    let mut geth = Led::at("node-liar-window-geth", &genesis, &payloads);
    let wanted = geth.go_to(payloads.last().unwrap());
    let mut seen = BTreeSet::new();
    let rows = rows.iter().filter(|row| {
        let is_below = row.block < wanted.0;
        let kind = (row.lie.methods[0], format!("{:?}", row.lie.change));
        is_below && seen.insert(kind)
    });
    let rows: Vec<&Row> = rows.take(16).collect();
    assert!(rows.len() >= 12, "{} lies", rows.len());
    std::thread::scope(|scope| {
        for row in &rows {
            scope.spawn(|| check_unfilled(row, geth.address(), wanted));
        }
    });
}

fn check_unfilled(row: &Row, node: SocketAddr, wanted: (u64, B256)) {
    let proxy = Proxy::to(&[node]);
    proxy.fail(faults_of(&row.lie));
    let server = begin(&[http(proxy.address)]);
    wait_head(&server, wanted);
    let mut ours = server.connect();
    let at = json!([format!("{:#x}", row.block), true]);
    // What is null is a block that the node does not have, which is no fault of an old one.
    let is_absent = row.lie.path.is_empty() && row.lie.change == Change::Null;
    wait_until(&format!("{:?} is found out", row.lie), || {
        let answer = ours.call("eth_getBlockByNumber", &at);
        let case = format!("{:?}: {answer}", row.lie);
        check(&case, &answer["error"]["code"], &json!(4444));
        proxy.applied() > 2 && (is_absent || !faults(&server, 0).is_empty())
    });
    check("ready", &server.get("/ready").status, &503);
    proxy.heal();
    wait_until("filled", || server.get("/ready").status == 200);
    let mut same = Same::between(&server, node);
    same.block(row.block);
    same.finish(GETH);
}

/// The one thing that nobody can check. Where it does not fit that of its neighbours it may be
/// refused; everything else is true, and nothing ends for it.
#[test]
fn the_total_difficulty_is_the_nodes() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(3);
    let params = json!(["0x2", false]);
    let truth = anvil.connect().result("eth_getBlockByNumber", &params);
    let proxy = Proxy::to(&[anvil.address]);
    proxy.fail(vec![Fault::Lie(Lie {
        methods: &["eth_getBlockByNumber", "eth_getBlockByHash"],
        only: Some(("/hash".into(), truth["hash"].clone())),
        path: "/totalDifficulty".into(),
        change: Change::OtherValue,
    })]);
    let server = follow(&[http(proxy.address)]);
    assert!(proxy.applied() > 0, "anvil states no total difficulty");
    let mut served = server.connect().result("eth_getBlockByNumber", &params);
    // A byte less is what anvil counts.
    for uncovered in ["totalDifficulty", "size"] {
        served[uncovered] = truth[uncovered].clone();
    }
    check("all the rest", &served, &truth);
}
