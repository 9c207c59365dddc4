//! Which blocks are safe and finalized.

use super::{
    authority::Settled,
    links::Point,
    policy::{Policy, Rule},
    tally::{Tally, View},
};
use crate::upstream::chain::Chain;

/// The safe and the finalized block: of the served chain, the highest blocks that a quorum calls
/// so. The finalized block never goes back, the safe one only in a reorg.
///
/// `before` are the blocks that were safe and finalized until now.
pub(crate) fn settle<C: Chain>(view: &View<'_, C>, policy: &Policy, before: Settled) -> Settled {
    let Some(held) = view.at.held else {
        return before;
    };
    let tally = Tally::new(view, policy);
    let finalized = agreed(&tally, policy, |settled| settled.finalized);
    let finalized = highest(before.finalized, finalized);
    let safe = agreed(&tally, policy, |settled| settled.safe);
    let is_served = |(number, hash): &Point| *number < held.oldest() || held.has(*number, *hash);
    let safe = highest(before.safe.filter(is_served), safe);
    Settled {
        safe: highest(safe, finalized),
        finalized,
    }
}

/// The highest block of the served chain that a quorum claims, at it or above it.
fn agreed<C: Chain>(
    tally: &Tally<'_, C>,
    policy: &Policy,
    claim: impl Fn(&Settled) -> Option<Point>,
) -> Option<Point> {
    let (held, head) = (tally.view.at.held?, tally.head?);
    let quorum = match policy.holds(Rule::Claims) {
        true => tally.quorum,
        false => 1,
    };
    let claims = tally.fresh.iter().filter_map(|node| {
        let claim = claim(&tally.stated(node).settled())?;
        Some((node, claim))
    });
    let claims: Vec<_> = claims.collect();
    // Of claims above the served head, only those of upstreams on the served chain say anything
    // about it.
    let numbers = claims.iter().filter_map(|(node, (number, hash))| {
        if *number > head.0 {
            (tally.hash_at(*node, head.0) == Some(head.1)).then_some(head.0)
        } else {
            held.has(*number, *hash).then_some(*number)
        }
    });
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    if let Some(number) = numbers.get(quorum - 1) {
        return Some((*number, held.hash_at(*number)?));
    }
    // Below the window, nothing but agreement on the very block shows its hash.
    let below = claims.iter().map(|(_, claim)| *claim);
    let below = below.filter(|(number, _)| *number < held.oldest());
    let is_agreed = |point: &Point| {
        let same = claims.iter().filter(|(_, claim)| claim == point);
        same.count() >= quorum
    };
    below.filter(is_agreed).max()
}

/// The higher of two blocks; between equals, the first.
fn highest(one: Option<Point>, other: Option<Point>) -> Option<Point> {
    match (one, other) {
        (Some(one), Some(other)) if other.0 > one.0 => Some(other),
        (one, other) => one.or(other),
    }
}
