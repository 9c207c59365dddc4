//! One of three nodes lies, and is the first of them: the honest head goes on, and one that
//! contradicts it is quarantined.

use std::time::Instant;

use alloy_primitives::B256;

use super::{
    Claims, EXTREMES, FOLLOWED_WITHIN, HonestChain, LyingNode, SECONDS_TIMED, Target, ahead, check,
    counted, finalized_ahead, http, wait_until,
};
use crate::upstreams::proxy::Proxy;

/// Honest blocks that are made while the node lies. They are few enough that the block time is
/// still that of the timestamps.
const BLOCKS: usize = 4;

/// Heads that each liar has to name before the test ends.
const HEADS: usize = 20;

/// A node that lies to a nearhead of its own.
struct Case {
    name: &'static str,
    /// Whether it contradicts what the honest nodes say.
    contradicts: bool,
    claims: Claims,
    liar: LyingNode,
    target: Target,
}

/// Name, whether it contradicts what the honest nodes say, and the claims.
type Row = (&'static str, bool, fn(&LyingNode, u64) -> Claims);

#[test]
fn a_node_that_lies_is_outvoted_by_two() {
    let mut chain = HonestChain::start(SECONDS_TIMED);
    let proxy = Proxy::to(&[chain.anvil.address]);
    let rows: [Row; 3] = [
        ("a finalized block", true, finalized_ahead),
        ("7 blocks ahead", true, |liar, head| ahead(liar, head, 7)),
        ("200 blocks ahead", true, |liar, head| {
            ahead(liar, head, 200)
        }),
    ];
    // One with the number of the next honest block contradicts it; the others are far above.
    let extremes = EXTREMES.map(|(name, claims)| (name, name.starts_with("the next"), claims));
    let rows: Vec<Row> = rows.into_iter().chain(extremes).collect();
    let (head, _) = chain.head();
    let cases: Vec<Case> = std::thread::scope(|scope| {
        let start = |(name, contradicts, claims): Row| {
            let (liar, honest) = (chain.liar(), [chain.url(), http(proxy.address)]);
            scope.spawn(move || {
                let nodes = [&[http(liar.address)][..], &honest].concat();
                Case {
                    target: Target::follow(&nodes, &[]),
                    claims: claims(&liar, head),
                    name,
                    contradicts,
                    liar,
                }
            })
        };
        let started: Vec<_> = rows.into_iter().map(start).collect();
        started
            .into_iter()
            .map(|case| case.join().unwrap())
            .collect()
    });
    for case in &cases {
        case.liar.claim(case.claims.clone());
    }
    for _ in 0..BLOCKS {
        let wanted = chain.mine();
        let made = Instant::now();
        for case in &cases {
            case.target.wait_honest_head(&chain);
            let waited = made.elapsed();
            println!("{}: block {} after {waited:?}", case.name, wanted.0);
            assert!(waited < FOLLOWED_WITHIN, "{}: {waited:?}", case.name);
        }
    }
    for case in &cases {
        if case.contradicts {
            wait_until(&format!("{}: quarantined", case.name), || {
                case.target.check_honest(&chain);
                case.target.is_in(0, "quarantined")
            });
            let dissent = "nearhead_node_dissent_total{node=\"0\"} ";
            assert!(counted(&case.target.server, dissent) > 0, "{}", case.name);
            wait_both_named(case, &chain);
        }
        let Case { target, liar, .. } = case;
        target.check_honest_until(&chain, liar, HEADS);
        check(case.name, &target.is_ready(), &true);
        for node in [1, 2] {
            check(case.name, &target.is_in(node, "live"), &true);
        }
    }
    // The quarantined ones are still contradicted.
    for _ in 0..2 {
        chain.mine();
        for case in &cases {
            case.target.wait_honest_head(&chain);
        }
    }
}

/// Waits for a log line that says who says what: it names a hash of each side.
fn wait_both_named(case: &Case, chain: &HonestChain) {
    let theirs = case.claims.blocks.iter().map(|block| block.hash);
    let theirs: Vec<String> = theirs.map(|hash| hash.to_string()).collect();
    let ours: Vec<String> = chain.hashes.iter().map(B256::to_string).collect();
    let names = |line: &str, hashes: &[String]| hashes.iter().any(|hash| line.contains(hash));
    let output = &case.target.server.process.output;
    output.wait_for("the hashes of both sides", |log| {
        let mut lines = log.lines();
        let found = lines.any(|line| names(line, &theirs) && names(line, &ours));
        found.then_some(())
    });
}
