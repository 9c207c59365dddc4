//! Which upstream is asked for which hash.

use super::{
    authority::{AskHash, Fetch},
    node_set::NodeSet,
    tally::Tally,
};
use crate::upstream::chain::Chain;

/// Before the first block is served, forks are searched for a common ancestor this far below. The
/// distance doubles with each question.
const DESCENT_MAX: u64 = 128;

/// Whether a quorum agrees on a block at a number; if it may, with those that have not stated one.
enum QuorumAt {
    Reached(NodeSet),
    Possible(NodeSet),
    Impossible,
}

/// The questions to ask now: at most one of each upstream, the most urgent one.
struct Asks<'a, 'b, C> {
    tally: &'a Tally<'b, C>,
    asked: NodeSet,
    asks: Vec<AskHash>,
}

impl<C: Chain> Asks<'_, '_, C> {
    /// Asks those of `nodes` that have not stated their block at this number.
    fn ask_unknown(&mut self, nodes: NodeSet, number: u64) {
        self.ask(self.tally.unknown(nodes, number), number);
    }

    fn ask(&mut self, nodes: NodeSet, number: u64) {
        let at = self.tally.view.at;
        for node in nodes.without(self.asked).iter() {
            // An upstream that has to wait is not asked about less urgent numbers either.
            self.asked.insert(node);
            if self.tally.stated(node).may_be_asked(at.now, at.block_time) {
                self.asks.push(AskHash { node, number });
            }
        }
    }

    /// The upstreams whose heads are at this number or above.
    fn reaching(&self, number: u64) -> NodeSet {
        self.tally.counted.filter(|node| {
            let head = self.tally.stated(node).head();
            head.is_some_and(|(head, _)| head >= number)
        })
    }

    /// Goes down the numbers of heads to the first with a block that may be served, and asks for
    /// hashes where a quorum may still agree on one. An upstream that never answers does not keep
    /// the others from being asked further down.
    fn ask_for_agreement(&mut self, eligible: Option<u64>, floor: Option<u64>) {
        let Some(ceiling) = self.tally.ceiling() else {
            return;
        };
        let heads = self.tally.counted.iter();
        let heads = heads.filter_map(|node| self.tally.stated(node).head());
        let mut numbers: Vec<u64> = heads.map(|(number, _)| number).chain(floor).collect();
        numbers.retain(|number| *number <= ceiling && Some(*number) >= floor);
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.dedup();
        let mut is_possible = false;
        for number in numbers {
            match self.quorum_at(number) {
                QuorumAt::Reached(_) if Some(number) <= eligible => return,
                // Another quorum, or a larger one, may show that the block may be served.
                QuorumAt::Reached(unknown) | QuorumAt::Possible(unknown) => {
                    self.ask(unknown, number);
                    is_possible = true;
                }
                QuorumAt::Impossible => {}
            }
        }
        if is_possible || self.tally.head.is_some() {
            return;
        }
        let below = (0..=DESCENT_MAX.ilog2()).map(|doublings| 1_u64 << doublings);
        let below = below.filter_map(|below| ceiling.checked_sub(below));
        for number in below.take_while(|number| Some(*number) >= floor) {
            match self.quorum_at(number) {
                QuorumAt::Reached(_) => return,
                QuorumAt::Possible(unknown) => return self.ask(unknown, number),
                QuorumAt::Impossible => {}
            }
        }
    }

    fn quorum_at(&self, number: u64) -> QuorumAt {
        let nodes = self.reaching(number);
        let unknown = self.tally.unknown(nodes, number);
        let votes = nodes.without(unknown).iter().filter_map(|node| {
            let hash = self.tally.hash_at(node, number)?;
            Some(self.tally.voters((number, hash)).len())
        });
        let votes = votes.max().unwrap_or(0);
        if votes >= self.tally.quorum {
            QuorumAt::Reached(unknown)
        } else if votes + unknown.len() >= self.tally.quorum {
            QuorumAt::Possible(unknown)
        } else {
            QuorumAt::Impossible
        }
    }
}

/// The questions to ask now, the most urgent first. The blocks at the numbers `needed` show what
/// may be served; the best that may be is at the number `eligible`, and none is below `lowest`.
pub(super) fn asks<C: Chain>(
    tally: &Tally<'_, C>,
    needed: &[u64],
    eligible: Option<u64>,
    fetch: Option<Fetch>,
    supporters: NodeSet,
    lowest: Option<u64>,
) -> Vec<AskHash> {
    let mut asks = Asks {
        tally,
        asked: NodeSet::default(),
        asks: Vec::new(),
    };
    // Whether the chains contain what they have to.
    for &number in needed {
        let is_silent = |node| tally.chain_at(node, number).is_none();
        asks.ask(asks.reaching(number).filter(is_silent), number);
    }
    // Whether the others have the head that one of them names.
    if let Some(fetch) = fetch.filter(|fetch| !fetch.is_agreed) {
        asks.ask_unknown(tally.counted, fetch.to.0);
    }
    // Whether they still have the head that is being fetched.
    if let Some((_, point)) = tally.view.at.syncing {
        asks.ask_unknown(asks.reaching(point.0), point.0);
    }
    let is_kept = supporters.len() >= tally.quorum;
    let floor = tally.head.map(|(head, _)| match is_kept {
        true => head.saturating_add(1),
        false => head,
    });
    asks.ask_for_agreement(eligible, floor.or(lowest));
    // Whether those that are above the served head are on its branch.
    if let Some((head, _)) = tally.head {
        asks.ask_unknown(asks.reaching(head), head);
    }
    asks.asks
}
