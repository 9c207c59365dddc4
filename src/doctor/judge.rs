//! What follows from what was looked at.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use alloy_primitives::B256;
use nearhead_actors::upstream::NodeFacts;
use nearhead_chain::network::Network;

use super::finding::Finding;
use crate::{config::Cap, thousands::thousands};

/// Room that a data folder needs, in bytes: with usage of a year, and blocks that are finalized.
const DISK_BYTES_MIN: u64 = 1 << 30;

/// A head this much later than now shows that the clock is behind: a block's timestamp may be some
/// seconds ahead.
const CLOCK_BEHIND: u64 = 15;

/// A newest head this old, in seconds, is not one of a chain that makes blocks all the time.
const HEAD_OLD: u64 = 120;

/// Blocks by which a node may be behind another one, which has just received them.
const LAG_MAX: u64 = 3;

/// A node that takes longer for a cheap answer is far away, or busy.
const SLOW: Duration = Duration::from_millis(200);

/// The data folder.
pub(super) enum Disk {
    /// All is kept in memory.
    None,
    Folder {
        path: PathBuf,
        is_writable: bool,
        /// Bytes that may still be written.
        free: u64,
    },
}

/// The nodes, and what the configuration says of them.
pub(super) struct Nodes {
    pub(super) network: Option<Network>,
    pub(super) chain_id: Option<u64>,
    pub(super) quorum: Cap,
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

pub(super) fn data_folder(disk: &Disk) -> Finding {
    let subject = "data folder";
    let (path, is_writable, free) = match disk {
        Disk::None => {
            return Finding::weak(
                subject,
                "none: keys, usage and the finalized block are lost when the process ends"
                    .to_owned(),
                "name a folder with --data-dir",
            );
        }
        Disk::Folder {
            path,
            is_writable,
            free,
        } => (path.display(), is_writable, *free),
    };
    if !is_writable {
        let change = "give it to the user that runs nearhead, or name another one with --data-dir";
        return Finding::bad(subject, format!("{path} cannot be written"), change);
    }
    let free_of = format!("{path} has {} MiB left", thousands(free >> 20));
    match free < DISK_BYTES_MIN {
        true => Finding::weak(subject, free_of, "make room: 1 GiB lasts for long"),
        false => Finding::good(subject, free_of),
    }
}

/// `now` is in seconds since the Unix epoch.
pub(super) fn nodes(nodes: &Nodes, now: u64) -> Vec<Finding> {
    let answered = nodes
        .facts
        .iter()
        .filter_map(|(_, facts)| facts.as_ref().ok());
    let answered: Vec<&NodeFacts> = answered.collect();
    let newest = answered.iter().max_by_key(|facts| facts.head);
    let mut findings: Vec<Finding> = newest.map(|facts| clock(facts, now)).into_iter().collect();
    findings.push(quorum(nodes, answered.len()));
    let first = answered
        .first()
        .map(|facts| (facts.chain_id, facts.genesis));
    for (url, facts) in &nodes.facts {
        match facts {
            Err(error) => findings.push(Finding::bad(
                url.as_str(),
                format!("it does not answer: {error}"),
                "start it, or correct its URL in --node",
            )),
            Ok(facts) => {
                let head = newest.map_or(0, |newest| newest.head);
                findings.extend(chain(url, facts, nodes, first));
                findings.extend(node(url, facts, head));
            }
        }
    }
    findings
}

/// The clock of this machine, beside the newest head.
fn clock(newest: &NodeFacts, now: u64) -> Finding {
    let (subject, at) = ("clock", newest.head_timestamp);
    if at > now + CLOCK_BEHIND {
        return Finding::bad(
            subject,
            format!("it is {} s behind the newest head", thousands(at - now)),
            "synchronise the clock of this machine (NTP)",
        );
    }
    let age = now.saturating_sub(at);
    match age > HEAD_OLD {
        true => Finding::weak(
            subject,
            format!("the newest head is {} s old", thousands(age)),
            "the nodes are behind, the clock is ahead, or the chain makes blocks on demand (--head-age-max off)",
        ),
        false => Finding::good(subject, format!("the newest head is {age} s old")),
    }
}

fn quorum(nodes: &Nodes, answered: usize) -> Finding {
    let (subject, count) = ("quorum", nodes.facts.len());
    let needed = match nodes.quorum {
        Cap::Of(quorum) => quorum,
        Cap::Auto => count / 2 + 1,
    };
    let found = format!("{needed} of {count} nodes have to agree, and {answered} answer");
    if answered < needed {
        let change = "nothing is served: bring nodes back, add some, or lower --quorum";
        return Finding::bad(subject, found, change);
    }
    match answered == needed {
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
    let wanted = nodes.chain_id.or(nodes.network.map(Network::chain_id));
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
    if let Some(network) = nodes.network.filter(|it| !is_genesis(it.genesis_hash())) {
        return other(format!("its genesis is not that of {network}"));
    }
    match first {
        Some((chain_id, genesis)) if chain_id != id || !genesis.is_none_or(is_genesis) => {
            other(format!("it is on another chain than the first node: {id}"))
        }
        _ => None,
    }
}

/// What a node gives, and how soon. `head` is the newest of all nodes.
fn node(url: &str, facts: &NodeFacts, head: u64) -> Vec<Finding> {
    let mut weak = Vec::new();
    let mut add = |found: String, change| weak.push(Finding::weak(url, found, change));
    if facts.is_syncing {
        add(
            "it is syncing".to_owned(),
            "wait until it has: it does not count until then",
        );
    }
    let behind = head - facts.head;
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
    if !facts.has_window {
        let found = "it does not have 128 blocks".to_owned();
        add(
            found,
            "the window fills from other nodes: give one that keeps them",
        );
    }
    for (what, given, change) in [
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
        weak.push(Finding::good(
            url,
            format!(
                "chain {}, head {}, a cheap answer in {:.1} ms, a block in {:.1} ms, receipts, proofs and traces",
                facts.chain_id,
                facts.head,
                facts.answer_time.as_secs_f64() * 1e3,
                facts.block_time.as_secs_f64() * 1e3,
            ),
        ));
    }
    weak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    const NOW: u64 = 1_000_000;

    fn facts() -> NodeFacts {
        NodeFacts {
            chain_id: 1,
            genesis: Some(Network::Mainnet.genesis_hash()),
            is_syncing: false,
            head: 500,
            head_timestamp: NOW - 3,
            answer_time: Duration::from_millis(2),
            block_time: Duration::from_millis(20),
            has_window: true,
            receipts: Ok(()),
            proofs: Ok(()),
            traces: Ok(()),
        }
    }

    /// What is found of three nodes of which the last is as given: the words of what is not good.
    fn check(last: Result<NodeFacts, String>, expected: &[(Verdict, &str)]) {
        let of = |at: usize, facts| (format!("http://node{at}"), facts);
        let found = nodes(
            &Nodes {
                network: Some(Network::Mainnet),
                chain_id: None,
                quorum: Cap::Auto,
                facts: vec![of(0, Ok(facts())), of(1, Ok(facts())), of(2, last.clone())],
            },
            NOW,
        );
        let not_good: Vec<&Finding> = found
            .iter()
            .filter(|one| one.verdict != Verdict::Good)
            .collect();
        assert_eq!(not_good.len(), expected.len(), "{last:?}: {not_good:?}");
        for (found, (verdict, words)) in not_good.iter().zip(expected) {
            assert_eq!(found.verdict, *verdict, "{found}");
            assert!(found.found.contains(words), "{found}");
            assert!(found.change.is_some(), "{found}");
        }
    }

    #[test]
    fn what_a_node_lacks_is_found() {
        use Verdict::{Bad, Weak};
        let with = |change: fn(&mut NodeFacts)| {
            let mut facts = facts();
            change(&mut facts);
            Ok(facts)
        };
        check(with(|_| {}), &[]);
        check(
            Err("connection refused".to_owned()),
            &[(Weak, "2 of 3 nodes"), (Bad, "does not answer: connection")],
        );
        check(with(|it| it.chain_id = 5), &[(Bad, "chain 5, not on 1")]);
        check(
            with(|it| it.genesis = Some(B256::ZERO)),
            &[(Bad, "that of mainnet")],
        );
        check(with(|it| it.genesis = None), &[]);
        check(with(|it| it.is_syncing = true), &[(Weak, "syncing")]);
        check(with(|it| it.head = 496), &[(Weak, "4 blocks behind")]);
        check(with(|it| it.head = 497), &[]);
        check(with(|it| it.answer_time = 2 * SLOW), &[(Weak, "400 ms")]);
        check(with(|it| it.has_window = false), &[(Weak, "128 blocks")]);
        let no = || Err("no such method".to_owned());
        check(
            with(|it| it.proofs = Err("pruned".to_owned())),
            &[(Weak, "no proofs: pruned")],
        );
        let both = Ok(NodeFacts {
            receipts: no(),
            traces: no(),
            ..facts()
        });
        check(both, &[(Weak, "no receipts"), (Weak, "no traces: no such")]);
        let ahead = with(|it| (it.head, it.head_timestamp) = (501, NOW + 16));
        check(ahead, &[(Bad, "16 s behind")]);
        let old = with(|it| (it.head, it.head_timestamp) = (501, NOW - 121));
        check(old, &[(Weak, "121 s old")]);
    }

    #[test]
    fn what_the_machine_lacks_is_found() {
        let folder = |is_writable, free| Disk::Folder {
            path: "/data".into(),
            is_writable,
            free,
        };
        let at = SocketAddr::from(([127, 0, 0, 1], 1));
        for (found, expected) in [
            (descriptors(100, None), Verdict::Good),
            (descriptors(100, Some(100)), Verdict::Good),
            (descriptors(100, Some(99)), Verdict::Weak),
            (data_folder(&Disk::None), Verdict::Weak),
            (data_folder(&folder(true, DISK_BYTES_MIN)), Verdict::Good),
            (
                data_folder(&folder(true, DISK_BYTES_MIN - 1)),
                Verdict::Weak,
            ),
            (data_folder(&folder(false, DISK_BYTES_MIN)), Verdict::Bad),
            (address("--listen", at, None), Verdict::Good),
            (address("--listen", at, Some("taken".into())), Verdict::Bad),
        ] {
            assert_eq!(found.verdict, expected, "{found}");
            assert_eq!(found.change.is_none(), expected == Verdict::Good, "{found}");
        }
    }
}
