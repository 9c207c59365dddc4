//! Which blocks are safe and finalized.

use nearhead_chain::window::SettledBlocks;

use super::{
    links::Point,
    policy::{Policy, Rule},
    tally::{Tally, View},
};
use crate::upstream::chain::Chain;

/// The safe and the finalized block: of the blocks in the window, the highest that a quorum calls
/// so. The finalized block never goes back, the safe one only in a reorg.
///
/// A claim about a block below the window counts for nothing. Its hash cannot be compared with the
/// served chain, so it might be a block of another one, which would then have to be followed.
///
/// `before` are the blocks that were safe and finalized until now.
pub(crate) fn settle<C: Chain>(
    view: &View<'_, C>,
    policy: &Policy,
    before: SettledBlocks,
) -> SettledBlocks {
    let Some(held) = view.at.held else {
        return before;
    };
    let tally = Tally::new(view, policy);
    let finalized = agreed(&tally, policy, |settled| settled.finalized);
    let finalized = highest(before.finalized, finalized);
    let safe = agreed(&tally, policy, |settled| settled.safe);
    let is_served = |(number, hash): &Point| *number < held.oldest() || held.has(*number, *hash);
    let safe = highest(before.safe.filter(is_served), safe);
    SettledBlocks {
        safe: highest(safe, finalized),
        finalized,
    }
}

/// The highest block in the window that a quorum claims. Who claims a block claims its ancestors.
fn agreed<C: Chain>(
    tally: &Tally<'_, C>,
    policy: &Policy,
    claim: impl Fn(&SettledBlocks) -> Option<Point>,
) -> Option<Point> {
    let (held, head) = (tally.view.at.held?, tally.head?);
    let quorum = match policy.holds(Rule::Claims) {
        true => tally.quorum,
        false => 1,
    };
    let numbers = tally.counted.iter().filter_map(|node| {
        let (number, hash) = claim(&tally.stated(node).settled())?;
        // A claim above the served head is one about the head, but only if the upstream's chain is
        // known to contain it. What the upstream stated before it went on may have been orphaned.
        let (number, is_served) = match number > head.0 {
            true => (head.0, tally.chain_at(node, head.0) == Some(head.1)),
            false => (number, held.has(number, hash)),
        };
        is_served.then_some(number)
    });
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let number = *numbers.get(quorum.checked_sub(1)?)?;
    Some((number, held.hash_at(number)?))
}

/// The higher of two blocks; between equals, the first.
pub(crate) fn highest(one: Option<Point>, other: Option<Point>) -> Option<Point> {
    match (one, other) {
        (Some(one), Some(other)) if other.0 > one.0 => Some(other),
        (one, other) => one.or(other),
    }
}
