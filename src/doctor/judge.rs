//! What follows from what was looked at.

use std::{cmp::Reverse, net::SocketAddr, time::Duration};

use alloy_primitives::B256;
use nearhead_actors::{
    freshness::HeadAgeMax,
    upstream::{NodeFacts, Pins, majority},
};

use super::finding::Finding;
use crate::{config::Cap, thousands::thousands};

/// A head this much later than now shows that the clock is behind: a block's timestamp may be some
/// seconds ahead.
const CLOCK_BEHIND: u64 = 15;

/// A head this old, in seconds, is not one of a chain that makes blocks all the time.
const HEAD_OLD: u64 = 120;

/// Blocks by which a node may be behind another one, which has just received them.
const LAG_MAX: u64 = 3;

/// A node that takes longer for a cheap answer is far away, or busy.
const SLOW: Duration = Duration::from_millis(200);

/// The nodes, and what the configuration says of them.
pub(super) struct Nodes {
    /// What the options pin of the chain.
    pub(super) pins: Pins,
    pub(super) quorum: Cap,
    pub(super) head_age_max: HeadAgeMax,
    /// Each with its URL, and what it said.
    pub(super) facts: Vec<(String, Result<NodeFacts, String>)>,
}

/// So many descriptors are needed, and so many may be opened; `None` if there is no limit.
pub(super) fn descriptors(needed: u64, most: Option<u64>) -> Finding {
    let subject = "descriptors";
    match most {
        Some(most) if most < needed => Finding::weak(
            subject,
            format!(
                "{} may be open, {} are needed",
                thousands(most),
                thousands(needed)
            ),
            "raise the hard limit (LimitNOFILE=, ulimit -Hn), or lower --max-connections",
        ),
        _ => Finding::good(
            subject,
            format!("{} are needed, and may be open", thousands(needed)),
        ),
    }
}

/// An address that is to be listened on, and why it cannot be.
pub(super) fn address(option: &'static str, address: SocketAddr, error: Option<String>) -> Finding {
    match error {
        Some(error) => Finding::bad(
            option,
            format!("{address} cannot be listened on: {error}"),
            "stop what has it (it may be nearhead itself), or choose another address",
        ),
        None => Finding::good(option, format!("{address} is free")),
    }
}

/// `now` is in seconds since the Unix epoch.
pub(super) fn nodes(nodes: &Nodes, now: u64) -> Vec<Finding> {
    let answered = nodes
        .facts
        .iter()
        .filter_map(|(_, facts)| facts.as_ref().ok());
    let first = answered.map(|facts| (facts.chain_id, facts.genesis)).next();
    let mut of_nodes = Vec::new();
    // Those on the chain: what the others say of it is of no use.
    let mut on_chain = Vec::new();
    for (url, facts) in &nodes.facts {
        match facts {
            Err(error) => of_nodes.push(Finding::bad(
                url.as_str(),
                format!("it does not answer: {error}"),
                "start it, or correct its URL in --node",
            )),
            Ok(facts) => match chain(url, facts, nodes, first) {
                Some(other) => of_nodes.push(other),
                None => on_chain.push((url, facts)),
            },
        }
    }
    // At least half of them are as far: one alone may invent a head.
    on_chain.sort_by_key(|(_, facts)| Reverse(facts.head));
    let median = on_chain.get(on_chain.len().saturating_sub(1) / 2);
    let head = median.map_or(0, |(_, facts)| facts.head);
    let newest = median.and_then(|(_, facts)| facts.newest.as_ref().ok());
    let counted = on_chain.iter().filter(|(_, facts)| !facts.is_syncing);
    let clock = newest.map(|newest| clock(newest.timestamp, nodes.head_age_max, now));
    let mut findings: Vec<Finding> = clock.into_iter().collect();
    findings.push(quorum(nodes, counted.count()));
    findings.append(&mut of_nodes);
    for (url, facts) in on_chain {
        findings.extend(node(url, facts, head));
    }
    findings
}

/// The clock of this machine, beside the timestamp of the head.
fn clock(timestamp: u64, age_max: HeadAgeMax, now: u64) -> Finding {
    let subject = "clock";
    if timestamp > now.saturating_add(CLOCK_BEHIND) {
        return Finding::bad(
            subject,
            format!("it is {} s behind the head", thousands(timestamp - now)),
            "synchronise the clock of this machine (NTP)",
        );
    }
    let age = now.saturating_sub(timestamp);
    let is_old = match age_max {
        HeadAgeMax::Off => false,
        HeadAgeMax::Of(most) => age > most.as_secs(),
        HeadAgeMax::Auto => age > HEAD_OLD,
    };
    match is_old {
        true => Finding::weak(
            subject,
            format!("the head is {} s old", thousands(age)),
            "the nodes are behind, the clock is ahead, or the chain makes blocks on demand (--head-age-max off)",
        ),
        false => Finding::good(subject, format!("the head is {} s old", thousands(age))),
    }
}

fn quorum(nodes: &Nodes, counted: usize) -> Finding {
    let (subject, count) = ("quorum", nodes.facts.len());
    let needed = match nodes.quorum {
        Cap::Of(quorum) => quorum,
        Cap::Auto => majority(count),
    };
    let found = format!("{needed} of {count} nodes have to agree, and {counted} can");
    if counted < needed {
        let change = "nothing is served: bring nodes back, add some, or lower --quorum";
        return Finding::bad(subject, found, change);
    }
    match counted == needed {
        true => Finding::weak(
            subject,
            found,
            "the next node that fails stops the head: give three nodes of different operators",
        ),
        false => Finding::good(subject, found),
    }
}

/// Whether a node is on the chain that is to be followed.
fn chain(
    url: &str,
    facts: &NodeFacts,
    nodes: &Nodes,
    first: Option<(u64, Option<B256>)>,
) -> Option<Finding> {
    let wanted = nodes.pins.chain_id;
    let id = facts.chain_id;
    let other = |found| {
        Some(Finding::bad(
            url,
            found,
            "remove the node, or correct the option",
        ))
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != id) {
        return other(format!("it is on chain {id}, not on {wanted}"));
    }
    let is_genesis = |genesis| facts.genesis.is_none_or(|of_node| of_node == genesis);
    if let Some(genesis) = nodes.pins.genesis.filter(|it| !is_genesis(*it)) {
        return other(format!("its genesis is not {genesis}"));
    }
    match first {
        Some((chain_id, genesis)) if chain_id != id || !genesis.is_none_or(is_genesis) => {
            other(format!("it is on another chain than the first node: {id}"))
        }
        _ => None,
    }
}

/// What a node gives, and how soon. `head` is that of at least half of the nodes.
fn node(url: &str, facts: &NodeFacts, head: u64) -> Vec<Finding> {
    let mut weak = Vec::new();
    let mut add = |found: String, change| weak.push(Finding::weak(url, found, change));
    if facts.is_syncing {
        add(
            "it is syncing".to_owned(),
            "wait until it has: it does not count until then",
        );
    }
    let behind = head.saturating_sub(facts.head);
    if behind > LAG_MAX {
        let found = format!("its head is {} blocks behind", thousands(behind));
        add(found, "wait until it has synced, or replace it");
    }
    if facts.answer_time > SLOW {
        let found = format!("a cheap answer takes {} ms", facts.answer_time.as_millis());
        add(
            found,
            "take a node that is nearer: heads arrive that much later",
        );
    }
    let newest = facts.newest.as_ref().map(|newest| newest.took);
    let newest_given = newest.map(drop).map_err(Clone::clone);
    for (what, given, change) in [
        (
            "not the newest of its blocks",
            &newest_given,
            "if several nodes are behind one URL, give each its own",
        ),
        (
            "not the oldest of 128 blocks",
            &facts.window,
            "the window fills from other nodes: give one that keeps them",
        ),
        (
            "no receipts of a whole block",
            &facts.receipts,
            "each receipt is a call of its own: give a node with eth_getBlockReceipts",
        ),
        (
            "no proofs",
            &facts.proofs,
            "no state comes from it: give a node with eth_getProof",
        ),
        (
            "no traces",
            &facts.traces,
            "what blocks change is proven instead, at more calls: enable its debug namespace",
        ),
    ] {
        if let Err(error) = given {
            add(format!("it gives {what}: {error}"), change);
        }
    }
    if weak.is_empty() {
        let took = newest.unwrap_or_default();
        weak.push(Finding::good(
            url,
            format!(
                "chain {}, head {}, a cheap answer in {:.1} ms, a block in {:.1} ms, receipts, proofs and traces",
                facts.chain_id,
                facts.head,
                facts.answer_time.as_secs_f64() * 1e3,
                took.as_secs_f64() * 1e3,
            ),
        ));
    }
    weak
}

#[cfg(test)]
mod tests {
    use nearhead_actors::upstream::NewestBlock;
    use nearhead_chain::network::Network;

    use super::*;
    use crate::doctor::Verdict;

    const NOW: u64 = 1_000_000;

    fn newest(timestamp: u64) -> Result<NewestBlock, String> {
        Ok(NewestBlock {
            timestamp,
            took: Duration::from_millis(20),
        })
    }

    fn facts() -> NodeFacts {
        NodeFacts {
            chain_id: 1,
            genesis: Some(Network::Mainnet.genesis_hash()),
            is_syncing: false,
            head: 500,
            answer_time: Duration::from_millis(2),
            newest: newest(NOW - 3),
            window: Ok(()),
            receipts: Ok(()),
            proofs: Ok(()),
            traces: Ok(()),
        }
    }

    /// What is found of these nodes: the words of what is not good.
    fn check_all(
        facts: Vec<Result<NodeFacts, String>>,
        head_age_max: HeadAgeMax,
        expected: &[(Verdict, &str)],
    ) {
        let of = |(at, facts)| (format!("http://node{at}"), facts);
        let found = nodes(
            &Nodes {
                pins: Pins {
                    chain_id: Some(1),
                    genesis: Some(Network::Mainnet.genesis_hash()),
                },
                quorum: Cap::Auto,
                head_age_max,
                facts: facts.into_iter().enumerate().map(of).collect(),
            },
            NOW,
        );
        let is_not_good = |one: &&Finding| one.verdict != Verdict::Good;
        let found: Vec<&Finding> = found.iter().filter(is_not_good).collect();
        assert_eq!(found.len(), expected.len(), "{expected:?}: {found:?}");
        for (found, (verdict, words)) in found.iter().zip(expected) {
            assert_eq!(found.verdict, *verdict, "{found}");
            assert!(found.found.contains(words), "{found}");
            assert!(found.change.is_some(), "{found}");
        }
    }

    /// The same of three nodes of which the last is as given.
    fn check(last: Result<NodeFacts, String>, expected: &[(Verdict, &str)]) {
        let facts = vec![Ok(facts()), Ok(facts()), last];
        check_all(facts, HeadAgeMax::Auto, expected);
    }

    fn with(change: impl Fn(&mut NodeFacts)) -> Result<NodeFacts, String> {
        let mut facts = facts();
        change(&mut facts);
        Ok(facts)
    }

    #[test]
    fn what_a_node_lacks_is_found() {
        use Verdict::{Bad, Weak};
        let two_count = (Weak, "2 of 3 nodes have to agree, and 2 can");
        check(with(|_| {}), &[]);
        let refused = Err("connection refused".to_owned());
        check(refused, &[two_count, (Bad, "does not answer: connection")]);
        check(
            with(|it| it.chain_id = 5),
            &[two_count, (Bad, "chain 5, not on 1")],
        );
        let other = with(|it| it.genesis = Some(B256::ZERO));
        check(other, &[two_count, (Bad, "its genesis is not 0xd4e5")]);
        check(with(|it| it.genesis = None), &[]);
        check(
            with(|it| it.is_syncing = true),
            &[two_count, (Weak, "syncing")],
        );
        check(with(|it| it.head = 496), &[(Weak, "4 blocks behind")]);
        check(with(|it| it.head = 497), &[]);
        check(with(|it| it.answer_time = 2 * SLOW), &[(Weak, "400 ms")]);
        let no = || Err("no such method".to_owned());
        check(
            with(|it| it.window = no()),
            &[(Weak, "oldest of 128 blocks: no such")],
        );
        check(with(|it| it.proofs = no()), &[(Weak, "no proofs: no such")]);
        check(
            with(|it| it.newest = Err("null".into())),
            &[(Weak, "newest of its blocks: null")],
        );
        let both = with(|it| (it.receipts, it.traces) = (no(), no()));
        check(both, &[(Weak, "no receipts"), (Weak, "no traces: no such")]);
    }

    /// One of three that invents a head, or is on another chain far ahead, decides nothing.
    #[test]
    fn one_node_says_nothing_of_the_others() {
        use Verdict::{Bad, Weak};
        let invented = |it: &mut NodeFacts| {
            (it.head, it.newest) = (u64::MAX, newest(u64::MAX));
        };
        check(with(invented), &[]);
        let other = with(|it| {
            invented(it);
            it.chain_id = 5;
        });
        check(other, &[(Weak, "and 2 can"), (Bad, "chain 5")]);
    }

    #[test]
    fn the_clock_is_compared_with_the_head() {
        use Verdict::{Bad, Weak};
        let minutes = |minutes: u64| HeadAgeMax::Of(Duration::from_secs(60 * minutes));
        for (timestamp, age_max, expected) in [
            (NOW + 15, HeadAgeMax::Auto, None),
            (NOW + 16, HeadAgeMax::Off, Some((Bad, "16 s behind"))),
            (NOW - 120, HeadAgeMax::Auto, None),
            (NOW - 121, HeadAgeMax::Auto, Some((Weak, "121 s old"))),
            (NOW - 121, HeadAgeMax::Off, None),
            (NOW - 121, minutes(3), None),
            (NOW - 121, minutes(2), Some((Weak, "121 s old"))),
        ] {
            let all = vec![with(|it| it.newest = newest(timestamp)); 3];
            let expected: Vec<_> = expected.into_iter().collect();
            check_all(all, age_max, &expected);
        }
    }

    #[test]
    fn what_the_machine_lacks_is_found() {
        let at = SocketAddr::from(([127, 0, 0, 1], 1));
        for (found, expected) in [
            (descriptors(100, None), Verdict::Good),
            (descriptors(100, Some(100)), Verdict::Good),
            (descriptors(100, Some(99)), Verdict::Weak),
            (address("--listen", at, None), Verdict::Good),
            (address("--listen", at, Some("taken".into())), Verdict::Bad),
        ] {
            assert_eq!(found.verdict, expected, "{found}");
            assert_eq!(found.change.is_none(), expected == Verdict::Good, "{found}");
        }
    }
}
