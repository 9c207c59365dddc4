#![expect(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod follower;
mod kinds;
mod movement;
mod required;
mod served;
mod settle;
mod sim_call;
mod sim_node;
mod simulation;
mod table;
mod tree;
mod world;

use std::time::Duration;

use alloy_primitives::B256;
use nearhead_chain::window::SettledBlocks;

use super::{HeadAuthority, Links, NodeAccess, Point, Policy, Quorum, Said, Situation};
use crate::upstream::{
    chain::Chain,
    client::HeadClaim,
    health::{Moment, heads_timeout},
};

const BLOCK_TIME: Duration = Duration::from_secs(4);

/// The branches of the tests' tree, each with the block above which it leaves branch `a`. Block
/// `b95` is therefore the block `a95`.
const BRANCHES: [(char, u64); 5] = [('a', 0), ('b', 98), ('c', 80), ('d', 99), ('z', 0)];

/// A block by its name, such as `a100`.
fn block(name: &str) -> Point {
    let (branch, number) = name.split_at(1);
    let branch = branch.chars().next().unwrap();
    let number = match number {
        "max" => u64::MAX,
        number => number.parse().unwrap(),
    };
    let (_, fork) = BRANCHES.iter().find(|(name, _)| *name == branch).unwrap();
    let branch = match branch {
        'z' => 'z',
        _ if number <= *fork => 'a',
        branch => branch,
    };
    let bytes = [&[branch as u8][..], &number.to_be_bytes()].concat();
    (number, B256::left_padding_from(&bytes))
}

/// The name of a block.
fn name((number, hash): Point) -> String {
    let number = match number {
        u64::MAX => "max".to_owned(),
        number => number.to_string(),
    };
    format!("{}{number}", char::from(hash[23]))
}

/// The block with this name as a head.
fn claim(name: &str) -> HeadClaim {
    let (number, hash) = block(name);
    let parent = match number {
        0 => "z0".to_owned(),
        u64::MAX => "z1".to_owned(),
        number => format!("{}{}", &name[..1], number - 1),
    };
    HeadClaim {
        number,
        hash,
        parent_hash: block(&parent).1,
    }
}

/// The served chain: a branch from `oldest` to `head`.
struct ServedBranch {
    branch: char,
    oldest: u64,
    head: u64,
}

impl Chain for ServedBranch {
    fn head(&self) -> Point {
        block(&format!("{}{}", self.branch, self.head))
    }

    fn oldest(&self) -> u64 {
        self.oldest
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        let is_held = (self.oldest..=self.head).contains(&number);
        is_held.then(|| block(&format!("{}{number}", self.branch)).1)
    }
}

/// A situation in words, for one row of a table: the quorum, the served chain, and what each
/// upstream stated, separated by bars.
///
/// - The quorum: `2`, or `2 without finalized`.
/// - The served chain: `a90..a100`, or nothing. After it: `F=a95` is finalized, `S=a97` is safe,
///   `R=a97` was safe before a restart, `T=c81` is trusted, `sync=a101` is being fetched from the
///   first upstream, `linked=c101` is a verified block whose path is known down to branch `a`,
///   `known=z101..98` are verified blocks. `since=1` says that the head changed half a block time
///   ago, and not long ago.
/// - For each upstream, its statements in order, separated by commas. `a100` is a head, and
///   `a100@3` one that it named three half block times ago; it still names the last one now. `!`
///   says that it does not. `?99=a99` is an answer, `f=a90` and `s=a95` are settled blocks,
///   `failed` is a fault, `syncing` and `-` (nothing) are what they say. `busy` upstreams are not
///   asked for blocks.
struct Scene {
    quorum: Quorum,
    held: Option<ServedBranch>,
    head_since: Moment,
    links: Links,
    syncing: Option<(usize, Point)>,
    nodes: Vec<NodeAccess>,
}

/// The time of all decisions.
const NOW: Moment = Duration::from_secs(1_000);

impl Scene {
    fn new(text: &str) -> Self {
        let parts: Vec<&str> = text.split('|').map(str::trim).collect();
        let [quorum, served, nodes] = parts[..] else {
            panic!("{text}: three parts");
        };
        let nodes: Vec<&str> = nodes.split_whitespace().collect();
        let (mut held, mut finalized, mut safe, mut saved_safe) = (None, None, None, None);
        let mut head_since = Duration::ZERO;
        let (mut trusted, mut syncing, mut links) = (Vec::new(), None, Links::default());
        for word in served.split_whitespace() {
            match word.split_once('=') {
                Some(("F", at)) => finalized = Some(block(at)),
                Some(("S", at)) => safe = Some(block(at)),
                Some(("R", at)) => saved_safe = Some(block(at)),
                Some(("since", ago)) => head_since = NOW - BLOCK_TIME / 2 * ago.parse().unwrap(),
                Some(("T", at)) => trusted.push(block(at)),
                Some(("sync", at)) => syncing = Some((0, block(at))),
                Some(("linked", at)) => link(&mut links, at),
                Some(("known", span)) => {
                    let (top, low) = span.split_once("..").unwrap();
                    for number in low.parse().unwrap()..=block(top).0 {
                        let named = |number: u64| block(&format!("{}{number}", &top[..1]));
                        links.insert(named(number), named(number - 1).1);
                    }
                }
                _ => {
                    let (oldest, head) = word.split_once("..").unwrap();
                    held = Some(ServedBranch {
                        branch: head.chars().next().unwrap(),
                        oldest: block(oldest).0,
                        head: block(head).0,
                    });
                }
            }
        }
        let policy = Policy::new(quorum.parse().unwrap(), nodes.len());
        let quorum = Quorum::new(policy, nodes.len(), finalized, trusted);
        let mut quorum = quorum.with_saved_safe(saved_safe);
        quorum.set_safe(safe);
        let mut access = Vec::new();
        for (node, words) in nodes.iter().enumerate() {
            access.push(NodeAccess {
                may_fetch: !words.contains("busy"),
                delays: 0,
                strikes: 0,
            });
            state(&mut quorum, node, words);
        }
        Self {
            quorum,
            held,
            head_since,
            links,
            syncing,
            nodes: access,
        }
    }

    fn situation<T>(&mut self, act: impl Fn(&mut Quorum, &Situation<'_, ServedBranch>) -> T) -> T {
        let situation = Situation {
            now: NOW,
            block_time: BLOCK_TIME,
            held: self.held.as_ref(),
            head_since: self.head_since,
            links: &self.links,
            syncing: self.syncing,
            nodes: &self.nodes,
        };
        act(&mut self.quorum, &situation)
    }
}

/// Links the blocks of a branch from this one down to branch `a`.
fn link(links: &mut Links, head: &str) {
    let (branch, top) = (&head[..1], block(head).0);
    for number in (1..=top).rev() {
        let named = |number: u64| block(&format!("{branch}{number}"));
        let (point, parent) = (named(number), named(number - 1));
        links.insert(point, parent.1);
        if name(parent).starts_with('a') {
            break;
        }
    }
}

/// Passes on what one upstream stated.
fn state(quorum: &mut Quorum, node: usize, words: &str) {
    let mut last = None;
    let words: Vec<&str> = words.split(',').collect();
    for word in &words {
        let (word, ago) = word.split_once('@').unwrap_or((word, "0"));
        let at = NOW - BLOCK_TIME / 2 * ago.parse::<u32>().unwrap();
        let said = match word.split_once('=') {
            Some(("f", block_name)) => Said::Settled(SettledBlocks {
                safe: None,
                finalized: Some(block(block_name)),
            }),
            Some(("s", block_name)) => Said::Settled(SettledBlocks {
                safe: Some(block(block_name)),
                finalized: None,
            }),
            Some((asked, block_name)) => Said::HashAt {
                number: asked[1..].parse().unwrap(),
                hash: (block_name != "none").then(|| block(block_name).1),
            },
            None if word == "failed" => {
                last = None;
                Said::Failed
            }
            None if word == "syncing" => Said::Syncing(true),
            None if matches!(word, "-" | "!" | "busy") => continue,
            None => {
                last = Some(claim(word));
                Said::Head(claim(word))
            }
        };
        quorum.heard(at, node, said);
    }
    if let Some(head) = last.filter(|_| !words.contains(&"!")) {
        quorum.heard(NOW, node, Said::Head(head));
    }
}
