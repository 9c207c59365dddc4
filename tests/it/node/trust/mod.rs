//! What a lying, silent or broken node can do to those that read: a real lying node before a real
//! chain. Nothing that it invents is served.
//!
//! | what a node does | test |
//! |---|---|
//! | claims to have finalized an invented block; has a longer invented chain; names numbers up to 2^64-1 | `outvoted` by two of three, `undecided` against one of two, `alone` (numbers) |
//! | invents a chain while the honest nodes are stopped | `undecided` |
//! | has blocks with 8 MiB of extra data | `bytes` |
//! | has headers that break one rule each | `header_rules` |
//! | is of another chain, and is the first that answers | `identity` |
//! | is killed, stopped, slow or cut | `availability` |
//! | stalls `eth_getProof`, or limits it for ten minutes | `node::classes` |
//! | has a head that stands still | `node::freshness` |

mod alone;
mod availability;
mod bytes;
mod header_rules;
mod identity;
mod outvoted;
mod undecided;

use std::time::Duration;

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{counted, follow_with, head, http, wait_head, wait_logged};
use crate::{
    harness::{Server, check, json as parse, request, wait_until},
    upstreams::{Anvil, Claims, INVENTED_ACCOUNT, INVENTED_TOKEN, LyingNode, quantity},
};

/// Seconds between the blocks of an honest chain, by their timestamps.
const SECONDS: u64 = 1;

/// The same in tests of how soon a block is followed, which have to hold on a busy machine.
const SECONDS_TIMED: u64 = 2;

/// An honest quorum that moves is followed within this time: three block times.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(3 * SECONDS_TIMED);

/// The honest chain: an anvil, and the hashes of its blocks by number.
struct HonestChain {
    anvil: Anvil,
    hashes: Vec<B256>,
}

impl HonestChain {
    /// A chain of 20 blocks above its genesis, with so many seconds between them. Its safe and
    /// finalized blocks are just below its head.
    fn start(seconds: u64) -> Self {
        let anvil = Anvil::start(&["--no-mining", "--slots-in-an-epoch", "1"]);
        let mut chain = Self {
            anvil,
            hashes: Vec::new(),
        };
        let mut upstream = chain.anvil.connect();
        upstream.result("anvil_setBlockTimestampInterval", &json!([seconds]));
        let (_, genesis) = head(&mut upstream);
        chain.hashes.push(genesis);
        for _ in 0..20 {
            chain.mine();
        }
        chain
    }

    /// Makes a block; returns its number and hash.
    fn mine(&mut self) -> (u64, B256) {
        self.anvil.mine(1);
        let head = self.anvil.head();
        self.hashes.push(head.1);
        check("number", &head.0, &self.head().0);
        head
    }

    fn head(&self) -> (u64, B256) {
        let number = self.hashes.len() - 1;
        (number as u64, self.hashes[number])
    }

    fn url(&self) -> String {
        http(self.anvil.address)
    }

    /// A node that lies about this chain.
    fn liar(&self) -> LyingNode {
        LyingNode::before(self.anvil.address)
    }
}

/// A nearhead that a node tries to deceive.
struct Target {
    server: Server,
}

impl Target {
    /// Follows these nodes; returns when it is ready.
    fn follow(nodes: &[String], more: &[&str]) -> Self {
        let server = follow_with(nodes, more);
        Self { server }
    }

    /// Checks that nothing invented is served, and returns number and hash of the head.
    #[track_caller]
    fn check_honest(&self, chain: &HonestChain) -> (u64, B256) {
        let block = |tag: &str| ("eth_getBlockByNumber", json!([tag, false]));
        let calls = [
            block("latest"),
            block("safe"),
            block("finalized"),
            (
                "eth_getLogs",
                json!([{"fromBlock": "earliest", "address": INVENTED_TOKEN}]),
            ),
            ("eth_getBalance", json!([INVENTED_ACCOUNT, "latest"])),
        ];
        let requests = calls.iter().enumerate();
        let requests: Value = requests
            .map(|(id, (method, params))| request(id, method, params))
            .collect();
        let response = self.server.connect().post(requests.to_string());
        assert_eq!(response.status, 200, "{response:?}");
        let answers = parse(&response.body);
        let result = |at: usize| answers[at]["result"].clone();
        let mut latest = None;
        for (at, (_, params)) in calls[..3].iter().enumerate() {
            let block = result(at);
            // There may be no safe block, and state may not be known.
            if block.is_null() && at > 0 {
                continue;
            }
            let number = quantity(&block["number"]);
            let honest = usize::try_from(number).ok();
            let honest = honest.and_then(|number| chain.hashes.get(number));
            let case = format!("{params}: block {number}");
            check(&case, &block["hash"], &json!(honest));
            latest = latest.or_else(|| Some((number, *honest.unwrap())));
        }
        check("the invented transfer", &result(3), &json!([]));
        let balance = result(4);
        assert!(balance.is_null() || balance == "0x0", "invented: {balance}");
        latest.unwrap()
    }

    /// Checks that nothing invented is served until the liar has named this many heads since its
    /// last claims.
    #[track_caller]
    fn check_honest_until(&self, chain: &HonestChain, liar: &LyingNode, heads: usize) {
        wait_until("the liar is heard", || {
            self.check_honest(chain);
            liar.heads_named() >= heads
        });
    }

    /// Waits until the head is the honest one, while nothing invented is served.
    #[track_caller]
    fn wait_honest_head(&self, chain: &HonestChain) {
        let wanted = chain.head();
        wait_until(&format!("the honest head {wanted:?}"), || {
            self.check_honest(chain) == wanted
        });
    }

    fn is_ready(&self) -> bool {
        self.server.get_admin("/ready").status == 200
    }

    /// Whether `/ready` says that one of two nodes that have to agree does.
    fn is_below_quorum(&self) -> bool {
        let ready = self.server.get_admin("/ready");
        let missing = parse(&ready.body)["missing"].to_string();
        ready.status == 503 && missing.contains("1 node agrees, 2 have to")
    }

    /// Whether a node is in this state.
    fn is_in(&self, node: usize, state: &str) -> bool {
        let series = format!("nearhead_node_state{{node=\"{node}\",state=\"{state}\"}} ");
        counted(&self.server, &series) == 1
    }
}

/// The claims of a node whose invented chain leaves the honest one two blocks below its head and is
/// this many blocks ahead of it.
fn ahead(liar: &LyingNode, head: u64, blocks: usize) -> Claims {
    let base = liar.real_header(head - 2);
    Claims::chain(&liar.invent_chain(&base, blocks + 2))
}

/// The same, with a finalized block above the honest head.
fn finalized_ahead(liar: &LyingNode, head: u64) -> Claims {
    let claims = ahead(liar, head, 3);
    let finalized = claims.blocks.get(3).cloned();
    Claims {
        safe: finalized.clone(),
        finalized,
        ..claims
    }
}

/// What a node claims at this number.
type Claim = fn(&LyingNode, u64) -> Claims;

/// Heads with extreme numbers, each of which leads to the honest chain below.
const EXTREMES: [(&str, Claim); 4] = [
    ("a chain that ends at 2^64-1", |liar, head| {
        let base = liar.real_header(head);
        let first = liar.invent(&base, |header| header.number = u64::MAX - 2);
        let rest = liar.invent_chain(&first.header, 2);
        Claims::chain(&[&[first][..], &rest].concat())
    }),
    ("2^64-1 on the honest head", |liar, head| {
        let base = liar.real_header(head);
        Claims::chain(&[liar.invent(&base, |header| header.number = u64::MAX)])
    }),
    ("2^63 on 2^64-1", |liar, head| {
        let base = liar.real_header(head);
        let parent = liar.invent(&base, |header| header.number = u64::MAX);
        let child = liar.invent(&parent.header, |header| header.number = 1 << 63);
        Claims::chain(&[parent, child])
    }),
    ("the next block on 2^64-1", |liar, head| {
        let base = liar.real_header(head);
        let parent = liar.invent(&base, |header| header.number = u64::MAX);
        let child = liar.invent(&parent.header, |header| header.number = head + 1);
        Claims::chain(&[parent, child])
    }),
];
