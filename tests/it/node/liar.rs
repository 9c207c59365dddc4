//! Upstreams that lie about a block, each about one thing: every lie is detected, and none is
//! served.
//!
//! A server has one honest upstream, which is a block behind, and up to 15 liars. It follows the
//! liars one after the other until every lie is detected, and none of their blocks is served. Then
//! the honest upstream gets the block. Every other liar is followed over WebSocket.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::SocketAddr,
    path::PathBuf,
    sync::{LazyLock, Mutex, PoisonError},
    time::Instant,
};

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    chain_of_execution_apis,
    comparison::{Comparison, ExpectedDifferences, GETH, GETH_OMMERS},
    driven_geth,
    driven_geth::DrivenGeth,
    exceptions, faults, follow, follow_while_filling, follow_with, head, http, refuted, refuted_in,
    wait_head, ws,
};
use crate::{
    harness::{Connection, KEY, PATIENCE, POLL_PAUSE_MAX, Server, check, wait_until},
    upstreams::{
        Anvil, Geth, Payload,
        proxy::{Change, Fault, Lie, Proxy, Refusal, rows, rows::Recorded},
        quantity,
    },
    websocket::client::Client,
};

/// Liars of one server, besides the honest upstream: a server has 16 upstreams at most.
const LIARS: usize = 15;

/// Servers that run at a time.
const SERVERS: usize = 4;

/// Held while a test's servers run: the machine has enough to do with those of one test.
static RUNNING: Mutex<()> = Mutex::new(());

/// Blocks that lies are about. The numbers are even, so that a lie about the number makes it
/// higher: an upstream with a lower head lags, and is not asked for it.
pub(super) const BLOCKS: [u64; 3] = [10, 12, 14];

/// A lie and the number of its block.
pub(super) struct Row {
    pub(super) lie: Lie,
    block: u64,
}

/// The recorded answer that a lie changes.
pub(super) fn answer<'a>(lie: &Lie, recorded: &'a [Recorded]) -> &'a Recorded {
    let (path, value) = lie.only.as_ref().unwrap();
    let mut answers = recorded.iter();
    let matches = |answer: &&Recorded| {
        lie.methods.contains(&answer.method) && answer.result.pointer(path) == Some(value)
    };
    answers.find(matches).unwrap()
}

/// One row for each member of these answers, without the lies that cannot be detected.
pub(super) fn rows_of(recorded: &[Recorded]) -> Vec<Row> {
    let mut lies = rows::lies(recorded);
    lies.retain(|lie| exceptions::of(lie, &answer(lie, recorded).result).is_none());
    let mut lies = rows::one_per_member(&lies);
    // Single receipts are checked like those of a list, for which every member has a row: a quarter
    // is enough.
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

/// The faults that a liar's proxy gets.
fn faults_of(lie: &Lie) -> Vec<Fault> {
    let mut faults = vec![Fault::Lie(lie.clone())];
    // nearhead fetches single receipts only if there is no eth_getBlockReceipts.
    if lie.methods == ["eth_getTransactionReceipt"] {
        let method = Some("eth_getBlockReceipts");
        faults.push(Fault::Refuse(method, Refusal::NoMethod));
    }
    faults
}

/// A server, its liars, the honest upstream, and a session that is notified.
struct LiarSetup<'a> {
    server: Server,
    liars: Vec<(&'a Row, Proxy)>,
    honest: Proxy,
    session: Client,
}

impl<'a> LiarSetup<'a> {
    /// Starts a server whose upstreams are all at the block before the one that lies are about.
    fn start(rows: &'a [&'a Row], before: SocketAddr) -> Self {
        let liars: Vec<_> = rows
            .iter()
            .map(|row| (*row, Proxy::to(&[before])))
            .collect();
        for (row, proxy) in &liars {
            // Every fault but the lie itself.
            proxy.fail(faults_of(&row.lie).split_off(1));
        }
        let honest = Proxy::to(&[before]);
        let urls = liars.iter().zip([http, ws].iter().cycle());
        let urls = urls.map(|((_, proxy), url)| url(proxy.address));
        let urls: Vec<String> = urls.chain([http(honest.address)]).collect();
        // A lie about the hash of a head would else be a vote against the honest one.
        let server = follow_with(&urls, &["--quorum", "1"]);
        let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
        for kind in ["newHeads", "reorgs"] {
            session.call("eth_subscribe", &json!([kind]));
        }
        Self {
            server,
            liars,
            honest,
            session,
        }
    }

    /// The liars get the next block, and lie about it.
    fn lie(&self, next: SocketAddr) {
        for (row, proxy) in &self.liars {
            proxy.fail(faults_of(&row.lie));
            proxy.forward_to(&[next]);
            // A WebSocket session stays with its upstream.
            proxy.disconnect();
        }
    }

    /// Waits until every lie is detected, and checks that nothing false is served; returns each row
    /// with the reason of its fault.
    fn wait(&mut self, before: (u64, B256)) -> Vec<(&'a Row, Option<String>)> {
        let mut ours = self.server.connect();
        let deadline = Instant::now() + PATIENCE;
        let beyond = json!([format!("{:#x}", before.0 + 1), true]);
        loop {
            check("the head", &head(&mut ours), &before);
            let answer = ours.result("eth_getBlockByNumber", &beyond);
            check("beyond the head", &answer, &Value::Null);
            let page = self.server.get_admin("/metrics");
            let liars = self.liars.iter().enumerate();
            let found = liars.map(|(upstream, (row, proxy))| {
                // A fault counts only if the lie was sent: the test itself closed the connection,
                // which may be a fault too.
                let reason = refuted_in(page.text(), upstream).into_keys().next();
                let reason = reason.filter(|_| proxy.applied() > 0);
                (*row, reason)
            });
            let found: Vec<_> = found.collect();
            let is_over = found.iter().all(|(_, reason)| reason.is_some());
            if is_over || Instant::now() > deadline {
                return found;
            }
            // Answers pings: a session that does not is closed.
            self.session.call("eth_chainId", &json!([]));
            std::thread::park_timeout(POLL_PAUSE_MAX);
        }
    }

    /// The honest upstream gets the block: it is served, and the session is notified of it alone.
    fn finish(mut self, next: SocketAddr, wanted: (u64, B256), expected: ExpectedDifferences<'_>) {
        self.honest.forward_to(&[next]);
        wait_head(&self.server, wanted);
        let hash = self.session.notification()["result"]["hash"].clone();
        check("notified", &hash, &json!(wanted.1));
        let mut comparison = Comparison::between(&self.server, next);
        comparison.block(wanted.0);
        comparison.finish(expected);
    }
}

/// Counts of detected lies by reason, and the lies that were missed.
#[derive(Default)]
struct Tally {
    reasons: BTreeMap<String, usize>,
    missed: Vec<String>,
}

/// Runs all lies about a block.
fn run_lies(
    upstreams: [SocketAddr; 2],
    rows: &[&Row],
    expected: ExpectedDifferences<'_>,
    tally: &mut Tally,
) {
    let [before, next] = upstreams;
    let [from, to] = upstreams.map(|upstream| head(&mut Connection::open(upstream, "/")));
    let groups: Vec<&[&Row]> = rows.chunks(LIARS).collect();
    for groups in groups.chunks(SERVERS) {
        let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let found = std::thread::scope(|scope| {
            let servers = groups.iter().map(|rows| {
                scope.spawn(move || {
                    let mut setup = LiarSetup::start(rows, before);
                    setup.lie(next);
                    let found = setup.wait(from);
                    setup.finish(next, to, expected);
                    found
                })
            });
            let servers: Vec<_> = servers.collect();
            let found = servers.into_iter().map(|server| server.join().unwrap());
            found.flatten().collect::<Vec<_>>()
        });
        for (row, reason) in found {
            match reason {
                Some(reason) => *tally.reasons.entry(reason).or_default() += 1,
                None => tally.missed.push(format!("{:?}", row.lie)),
            }
        }
    }
}

/// A dev chain, the answers of a geth at its head about [`BLOCKS`], and the rows made from them.
struct LiarChain {
    genesis: PathBuf,
    payloads: Vec<Payload>,
    recorded: Vec<Recorded>,
    rows: Vec<Row>,
}

/// Shared by the tests; its geth has ended.
static CHAIN: LazyLock<LiarChain> = LazyLock::new(|| {
    let (genesis, payloads) = driven_geth::chain("node-liar", 3, *BLOCKS.last().unwrap());
    let mut geth = DrivenGeth::at("node-liar-rows", &genesis, &payloads);
    geth.go_to(payloads.last().unwrap());
    let mut upstream = geth.connect();
    let recorded = BLOCKS.map(|number| Recorded::of_block(&mut upstream, number));
    let recorded: Vec<Recorded> = recorded.into_iter().flatten().collect();
    LiarChain {
        rows: rows_of(&recorded),
        genesis,
        payloads,
        recorded,
    }
});

#[test]
fn a_lie_about_any_member_of_a_block_is_detected() {
    let LiarChain {
        genesis,
        payloads,
        rows,
        ..
    } = &*CHAIN;
    let mut upstreams =
        ["node-liar-before", "node-liar-next"].map(|name| DrivenGeth::at(name, genesis, &[]));
    let mut tally = Tally::default();
    let count = rows.len();
    for number in BLOCKS {
        let number = usize::try_from(number).unwrap();
        // A block above its head would be served by hash, and the honest upstream is asked too.
        for (upstream, head) in upstreams.iter_mut().zip([number - 1, number]) {
            upstream.send_blocks(&payloads[..head]);
            upstream.go_to(&payloads[head - 1]);
        }
        let rows = rows.iter().filter(|row| row.block == number as u64);
        let rows: Vec<&Row> = rows.collect();
        assert!(!rows.is_empty(), "no lie about block {number}");
        let upstreams = upstreams.each_ref().map(DrivenGeth::address);
        run_lies(upstreams, &rows, GETH, &mut tally);
    }
    println!("{count} lies: {:?}", tally.reasons);
    check("missed", &tally.missed, &Vec::new());
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
        assert!(tally.reasons.contains_key(reason), "no fault {reason}");
    }
}

#[test]
fn a_lie_about_any_member_of_an_ommer_is_detected() {
    let upstreams = [2, 3]
        .map(|blocks: usize| chain_of_execution_apis(&format!("node-liar-ommer-{blocks}"), blocks));
    let rows = rows_of(&Recorded::of_block(&mut upstreams[1].connect(), 3));
    let rows = rows.iter().filter(|row| {
        let is_of_ommer = row.lie.methods[0].starts_with("eth_getUncle");
        // Apart from its ommer, block 3 is like any other block.
        is_of_ommer || row.lie.path.starts_with("/uncles")
    });
    let rows: Vec<&Row> = rows.collect();
    let mut tally = Tally::default();
    let upstreams = upstreams.each_ref().map(|geth: &Geth| geth.address);
    run_lies(upstreams, &rows, GETH_OMMERS, &mut tally);
    println!("{} lies: {:?}", rows.len(), tally.reasons);
    check("missed", &tally.missed, &Vec::new());
    assert!(rows.len() >= 20, "{} lies", rows.len());
}

/// All lies that are not detected, at once: the block that is served is true.
#[test]
fn an_undetected_lie_is_not_served() {
    let LiarChain {
        genesis,
        payloads,
        recorded,
        ..
    } = &*CHAIN;
    let mut geth = DrivenGeth::at("node-liar-exceptions-geth", genesis, payloads);
    geth.go_to(payloads.last().unwrap());
    let all = rows::lies(recorded);
    let mut seen = HashSet::new();
    let lies = all.into_iter().filter(|lie| {
        let answers = recorded
            .iter()
            .filter(|answer| lie.methods.contains(&answer.method));
        let row = answers
            .filter(|answer| {
                let (path, value) = lie.only.as_ref().unwrap();
                answer.result.pointer(path) == Some(value)
            })
            .find_map(|answer| exceptions::of(lie, &answer.result));
        // Either v or yParity has to be present.
        row.filter(|row| *row != "v")
            .is_some_and(|row| seen.insert((row, lie.methods[0], lie.change)))
    });
    let lies: Vec<Fault> = lies.map(Fault::Lie).collect();
    println!("{} lies are not detected: {seen:?}", lies.len());
    let proxy = Proxy::to(&[geth.address()]);
    proxy.fail(lies);
    let server = follow(&[http(proxy.address)]);
    assert!(proxy.applied() > 0, "no lie was sent");
    let mut comparison = Comparison::between(&server, geth.address());
    comparison.blocks(0..=*BLOCKS.last().unwrap());
    comparison.finish(GETH);
    // Where the machine is short of CPU, a call may time out.
    check("faults", &refuted(&server, 0).len(), &0);
}

/// A false block does not fill the window: the blocks above it are served, and the block itself is
/// an error, not null.
#[test]
fn a_window_is_not_filled_with_lies() {
    let LiarChain {
        genesis,
        payloads,
        rows,
        ..
    } = &*CHAIN;
    let mut geth = DrivenGeth::at("node-liar-window-geth", genesis, payloads);
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

fn check_unfilled(row: &Row, upstream: SocketAddr, wanted: (u64, B256)) {
    let proxy = Proxy::to(&[upstream]);
    proxy.fail(faults_of(&row.lie));
    let server = follow_while_filling(&[http(proxy.address)]);
    wait_head(&server, wanted);
    let mut ours = server.connect();
    let at = json!([format!("{:#x}", row.block), true]);
    // null means that the upstream does not have the block, which is no fault for an old one.
    let is_absent = row.lie.path.is_empty() && row.lie.change == Change::Null;
    wait_until(&format!("{:?} is detected", row.lie), || {
        let answer = ours.call("eth_getBlockByNumber", &at);
        let case = format!("{:?}: {answer}", row.lie);
        check(&case, &answer["error"]["code"], &json!(4444));
        proxy.applied() > 2 && (is_absent || !faults(&server, 0).is_empty())
    });
    check("ready", &server.get_admin("/ready").status, &503);
    proxy.heal();
    wait_until("the window is filled", || {
        server.get_admin("/ready").status == 200
    });
    let mut comparison = Comparison::between(&server, upstream);
    comparison.block(row.block);
    comparison.finish(GETH);
}

/// The total difficulty cannot be verified. A value that contradicts its neighbours' may be
/// refused; the other members are true, and following continues.
#[test]
fn the_total_difficulty_is_served_as_the_upstream_states_it() {
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
    // anvil states a size that is one byte short.
    for member in ["totalDifficulty", "size"] {
        served[member] = truth[member].clone();
    }
    check("the other members", &served, &truth);
}
