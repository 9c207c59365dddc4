//! Headers that break one rule each, with a correct hash, from the only node: none is followed. The
//! chain's rules are known by its genesis file.

use std::{
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::{SystemTime, UNIX_EPOCH},
};

use alloy_consensus::Header;
use alloy_primitives::{B64, B256, U256};

use super::{Claims, LyingNode, check, http, parse, wait_head, wait_logged, wait_until};
use crate::{
    harness::{Process, Server, serving},
    node::{arguments, driven_geth, driven_geth::DrivenGeth, faults, follow_with, head, refuted},
    upstreams::{InventedBlock, Payload},
};

/// How a header is changed: it gets the header of its parent.
type Edit = fn(&mut Header, &Header);

/// The rule as the log names it, and a header that breaks it.
type Row = (&'static str, Edit);

/// Each breaks one rule, and obeys those that are checked before it.
const ROWS: [Row; 13] = [
    ("timestamp: expected above", |header, parent| {
        header.timestamp = parent.timestamp;
    }),
    ("timestamp: expected above", |header, parent| {
        header.timestamp = parent.timestamp - 1;
    }),
    ("extra data: expected at most 32 bytes", |header, _| {
        header.extra_data = vec![7; 33].into();
    }),
    ("gas limit: expected", |header, parent| {
        header.gas_limit = parent.gas_limit + parent.gas_limit / 1_024;
    }),
    ("gas limit: expected", |header, parent| {
        header.gas_limit = parent.gas_limit - parent.gas_limit / 1_024;
    }),
    ("gas limit: expected", |header, _| header.gas_limit = 4_999),
    ("gas used: expected at most the limit", |header, _| {
        header.gas_used = header.gas_limit + 1;
    }),
    ("base fee: expected", |header, _| {
        header.base_fee_per_gas = Some(1);
    }),
    ("excess blob gas: expected", |header, _| {
        header.excess_blob_gas = header.excess_blob_gas.map(|gas| gas + 1);
    }),
    ("difficulty: expected 0", |header, _| {
        header.difficulty = U256::from(1);
    }),
    ("nonce: expected", |header, _| {
        header.nonce = B64::with_last_byte(1);
    }),
    ("requests hash: expected true", |header, _| {
        header.requests_hash = None;
    }),
    ("block access list hash: expected false", |header, _| {
        header.block_access_list_hash = Some(B256::repeat_byte(1));
    }),
];

/// Cases that run at a time.
const CASES: usize = 7;

/// A nearhead and its only node, which lies.
struct Case {
    row: Row,
    liar: LyingNode,
    server: Server,
}

/// Genesis file and blocks of a chain, which the tests share.
static CHAIN: LazyLock<(PathBuf, Vec<Payload>)> =
    LazyLock::new(|| driven_geth::chain("node-trust-rules", 89, 14));

/// A geth with the chain, whose rules are known.
struct Chain {
    genesis: &'static str,
    payloads: &'static [Payload],
    geth: DrivenGeth,
    /// The number of its head.
    at: usize,
}

impl Chain {
    fn start(name: &str) -> Self {
        let (genesis, payloads) = &*CHAIN;
        let mut geth = DrivenGeth::at(name, genesis, payloads);
        geth.go_to(&payloads[9]);
        Self {
            genesis: genesis.to_str().unwrap(),
            payloads,
            geth,
            at: 10,
        }
    }

    fn head(&self) -> (u64, B256) {
        (self.at as u64, self.payloads[self.at - 1].hash)
    }

    fn advance(&mut self) -> (u64, B256) {
        self.at += 1;
        self.geth.go_to(&self.payloads[self.at - 1])
    }

    fn liar(&self) -> LyingNode {
        LyingNode::before(self.geth.address())
    }

    /// A nearhead that knows the rules and follows this node alone.
    fn follow(&self, liar: &LyingNode, more: &[&str]) -> Server {
        let rules = ["--genesis", self.genesis];
        follow_with(&[http(liar.address)], &[&rules[..], more].concat())
    }

    /// The next block with this change, as a claim.
    fn claim(&self, liar: &LyingNode, edit: impl FnOnce(&mut Header, &Header)) -> Claims {
        let parent = &self.payloads[self.at - 1].raw.header;
        Claims::chain(&[liar.invent(parent, |header| edit(header, parent))])
    }
}

#[test]
fn a_header_that_breaks_a_rule_is_refused() {
    let mut chain = Chain::start("node-trust-refused");
    for rows in ROWS.chunks(CASES) {
        let cases: Vec<Case> = std::thread::scope(|scope| {
            let start = |row: &Row| {
                let (chain, row) = (&chain, *row);
                scope.spawn(move || {
                    let liar = chain.liar();
                    let server = chain.follow(&liar, &[]);
                    Case { row, liar, server }
                })
            };
            let started: Vec<_> = rows.iter().map(start).collect();
            started
                .into_iter()
                .map(|case| case.join().unwrap())
                .collect()
        });
        let before = chain.head();
        for Case { row, liar, server } in &cases {
            wait_head(server, before);
            check(row.0, &refuted(server, 0).len(), &0);
            liar.claim(chain.claim(liar, row.1));
        }
        for Case { row, server, .. } in &cases {
            wait_until(&format!("{} is refused", row.0), || {
                check(row.0, &head(&mut server.connect()), &before);
                !refuted(server, 0).is_empty()
            });
            let reasons: Vec<_> = refuted(server, 0).into_keys().collect();
            check(row.0, &reasons, &vec!["header".to_owned()]);
            wait_logged(server, row.0);
            let ready = server.get_admin("/ready");
            assert!(!ready.text().contains("header_rules"), "{}", ready.text());
            check(row.0, &server.metric("nearhead_header_rules"), &1.0);
        }
        let wanted = chain.advance();
        cases.iter().for_each(|case| case.liar.be_honest());
        for case in &cases {
            wait_head(&case.server, wanted);
        }
    }
}

/// A block that breaks rules, on this one.
fn breaking(liar: &LyingNode, parent: &Header) -> Arc<InventedBlock> {
    liar.invent(parent, |header| {
        header.timestamp = parent.timestamp;
        header.gas_limit = parent.gas_limit * 10;
    })
}

/// Nothing links the first block of a window to earlier ones, neither at the start nor after a jump
/// further than the window is long: its parent is fetched with it.
#[test]
fn a_window_starts_with_no_header_that_breaks_a_rule() {
    let mut chain = Chain::start("node-trust-first");
    let liar = chain.liar();
    let first = breaking(&liar, &chain.payloads[chain.at - 1].raw.header);
    liar.claim(Claims::chain(&[first]));
    let urls = [http(liar.address)];
    let rules = ["--genesis", chain.genesis];
    let arguments = [&arguments(&urls)[..], &rules].concat();
    let process = Process::start(&mut serving(&arguments));
    let log = process.output.wait_for("refused", |log| {
        let is_refused = log.contains("timestamp: expected above");
        is_refused.then(|| log.to_owned())
    });
    assert!(!log.contains("\nurl "), "it serves: {log}");
    liar.be_honest();
    let started = |log: &str| log.contains("\nurl ").then_some(());
    process
        .output
        .wait_for("it serves the honest head", started);
    drop(process);
    // A jump.
    let server = chain.follow(&liar, &[]);
    let before = chain.head();
    wait_head(&server, before);
    let base = &chain.payloads[chain.at - 1].raw.header;
    let parent = liar.invent(base, |header| header.number += 200);
    let broken = breaking(&liar, &parent.header);
    liar.claim(Claims::chain(&[Arc::clone(&parent), broken]));
    wait_until("the jump is refused", || {
        check("the head", &head(&mut server.connect()), &before);
        refuted(&server, 0).contains_key("header")
    });
    liar.be_honest();
    wait_head(&server, chain.advance());
    // The rules decide, and nothing else about these blocks.
    let obeying = liar.invent(&parent.header, |_| {});
    let wanted = (obeying.header.number, obeying.hash);
    liar.claim(Claims::chain(&[parent, obeying]));
    wait_head(&server, wanted);
}

/// Below the first block too, no block is served that breaks a rule: a block is added to the window
/// once it was checked against its parent.
#[test]
fn a_window_is_not_filled_below_a_header_that_breaks_a_rule() {
    let chain = Chain::start("node-trust-below");
    let liar = chain.liar();
    let base = &chain.payloads[chain.at - 1].raw.header;
    let broken = breaking(&liar, base);
    let first = liar.invent(&broken.header, |_| {});
    let wanted = (first.header.number, first.hash);
    liar.claim(Claims::chain(&[broken, first]));
    let urls = [http(liar.address)];
    let rules = ["--genesis", chain.genesis];
    let arguments = [&arguments(&urls)[..], &rules].concat();
    let server = Server::listening(&mut serving(&arguments));
    wait_head(&server, wanted);
    wait_until("the window ends there", || {
        refuted(&server, 0).contains_key("header")
    });
    wait_logged(&server, "timestamp: expected above");
    let ready = server.get_admin("/ready");
    check("status", &ready.status, &503);
    check("blocks", &parse(&ready.body)["blocks"], &1.into());
}

/// The rules decide, and nothing else about these blocks: one that obeys them is followed, and one
/// that does not is followed without them.
#[test]
fn a_header_is_followed_that_breaks_no_rule_or_is_not_checked() {
    let mut chain = Chain::start("node-trust-unchecked");
    let liars = [chain.liar(), chain.liar()];
    let [checked, unchecked] = [
        chain.follow(&liars[0], &["--header-rules", "on"]),
        chain.follow(&liars[1], &["--header-rules", "off"]),
    ];
    let obeying = chain.claim(&liars[0], |_, _| {});
    let breaking = chain.claim(&liars[1], |header, parent| {
        header.timestamp = parent.timestamp;
        header.extra_data = vec![7; 33].into();
        header.gas_limit = parent.gas_limit * 10;
        header.base_fee_per_gas = Some(1);
        header.nonce = B64::with_last_byte(1);
    });
    for ((liar, server), claims) in liars
        .iter()
        .zip([&checked, &unchecked])
        .zip([obeying, breaking])
    {
        let wanted = claims.latest.as_ref().unwrap().point();
        liar.claim(claims);
        wait_head(server, wanted);
        check("faults", &refuted(server, 0).len(), &0);
    }
    let ready = unchecked.get_admin("/ready");
    check("fact", &parse(&ready.body)["header_rules"], &"off".into());
    wait_logged(&unchecked, "rules   off");
    check("metric", &unchecked.metric("nearhead_header_rules"), &0.0);
    chain.advance();
    let wanted = chain.advance();
    liars.iter().for_each(LyingNode::be_honest);
    for server in [&checked, &unchecked] {
        wait_head(server, wanted);
    }
}

/// A block is asked for again until the clock is at most 15 seconds behind it. Clocks differ, so
/// that is no fault.
#[test]
fn a_block_ahead_of_the_clock_is_followed_later() {
    /// Seconds ahead: a little more than a block may be.
    const AHEAD: u64 = 19;
    let now = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.unwrap().as_secs()
    };
    let mut chain = Chain::start("node-trust-early");
    let liar = chain.liar();
    let server = chain.follow(&liar, &[]);
    let before = chain.head();
    wait_head(&server, before);
    let timestamp = now() + AHEAD;
    let early = chain.claim(&liar, |header, _| header.timestamp = timestamp);
    let wanted = early.latest.as_ref().unwrap().point();
    liar.claim(early);
    let mut ours = server.connect();
    wait_until("the early block is followed", || {
        let served = head(&mut ours);
        if served == before {
            return false;
        }
        check("the head", &served, &wanted);
        assert!(timestamp <= now() + 15, "{} s early", timestamp - now());
        true
    });
    check("faults", &faults(&server, 0).len(), &0);
    // It was refused many times, and reported once, with both times.
    let reported = "ahead of our clock";
    let lines = server.process.output.wait_for(reported, |log| {
        let lines = log.lines().filter(|line| line.contains(reported));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        (!lines.is_empty()).then_some(lines)
    });
    check("reports", &lines.len(), &1);
    for expected in [format!("timestamp={timestamp}"), "clock=".to_owned()] {
        assert!(lines[0].contains(&expected), "{lines:?}");
    }
    // The honest chain is behind the clock.
    liar.be_honest();
    wait_head(&server, chain.advance());
}
