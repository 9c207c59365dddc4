//! Which upstream is asked for which hash.

use super::{
    authority::{AskHash, Fetch},
    node_set::NodeSet,
    tally::{Agreed, Tally},
};
use crate::upstream::chain::Chain;

/// Before the first block is served, forks are searched for a common ancestor this far below. The
/// distance doubles with each question.
const DESCENT_MAX: u64 = 128;

/// The questions to ask now: at most one of each upstream, the most urgent one.
struct Asks<'a, 'b, C> {
    tally: &'a Tally<'b, C>,
    asked: NodeSet,
    asks: Vec<AskHash>,
}

impl<C: Chain> Asks<'_, '_, C> {
    /// Asks those of `nodes` that have not stated their block at this number.
    fn ask(&mut self, nodes: NodeSet, number: u64) {
        let at = self.tally.view.at;
        let nodes = self.tally.unknown(nodes.without(self.asked), number);
        for node in nodes.iter() {
            // An upstream that has to wait is not asked about less urgent numbers either.
            self.asked.insert(node);
            if self.tally.stated(node).may_be_asked(at.now, at.block_time) {
                self.asks.push(AskHash { node, number });
            }
        }
    }

    /// The upstreams whose heads are at this number or above.
    fn reaching(&self, number: u64) -> NodeSet {
        self.tally.fresh.filter(|node| {
            let head = self.tally.stated(node).head();
            head.is_some_and(|(head, _)| head >= number)
        })
    }

    /// Asks at the highest number at which a quorum may still agree.
    fn ask_for_agreement(&mut self, floor: Option<u64>) {
        let Some(ceiling) = self.tally.ceiling() else {
            return;
        };
        let heads = self.tally.fresh.iter();
        let heads = heads.filter_map(|node| self.tally.stated(node).head());
        let mut numbers: Vec<u64> = heads.map(|(number, _)| number).chain(floor).collect();
        if self.tally.head.is_none() {
            let below = (0..=DESCENT_MAX.ilog2()).map(|doublings| 1_u64 << doublings);
            numbers.extend(below.filter_map(|below| ceiling.checked_sub(below)));
        }
        numbers.retain(|number| *number <= ceiling && floor.is_none_or(|floor| *number >= floor));
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.dedup();
        for number in numbers {
            let nodes = self.reaching(number);
            let unknown = self.tally.unknown(nodes, number);
            let votes = nodes.without(unknown).iter().filter_map(|node| {
                let hash = self.tally.hash_at(node, number)?;
                Some(self.tally.voters((number, hash)).len())
            });
            let votes = votes.max().unwrap_or(0);
            if votes >= self.tally.quorum {
                return;
            }
            if votes + unknown.len() >= self.tally.quorum {
                self.ask(unknown, number);
                return;
            }
        }
    }
}

/// The questions to ask now, the most urgent first.
pub(super) fn asks<C: Chain>(
    tally: &Tally<'_, C>,
    pending: Option<(Agreed, u64)>,
    fetch: Option<Fetch>,
    supporters: NodeSet,
) -> Vec<AskHash> {
    let mut asks = Asks {
        tally,
        asked: NodeSet::default(),
        asks: Vec::new(),
    };
    // Whether the best block's chain contains what it has to.
    if let Some((block, number)) = pending {
        asks.ask(block.voters, number);
    }
    // Whether the others have the head that one of them names.
    if let Some(fetch) = fetch.filter(|fetch| !fetch.is_agreed) {
        asks.ask(tally.fresh, fetch.to.0);
    }
    // Whether they still have the head that is being fetched.
    if let Some((_, point)) = tally.view.at.syncing {
        asks.ask(asks.reaching(point.0), point.0);
    }
    let is_kept = supporters.len() >= tally.quorum;
    let floor = tally.head.map(|(head, _)| match is_kept {
        true => head.saturating_add(1),
        false => head,
    });
    asks.ask_for_agreement(floor);
    // Whether those that are above the served head are on its branch.
    if let Some((head, _)) = tally.head {
        asks.ask(asks.reaching(head), head);
    }
    asks.asks
}
