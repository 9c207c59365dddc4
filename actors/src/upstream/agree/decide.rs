//! The decision about the head: one pure function.

use std::cmp::Reverse;

use alloy_primitives::B256;

use super::{
    asks,
    authority::{Choice, Decision, Dissent, Effect, Fetch, Refusal},
    links::Point,
    node_set::NodeSet,
    policy::{Policy, Rule},
    tally::{Agreed, Contains, Tally, View},
};
use crate::upstream::{chain::Chain, health::UpstreamId};

/// How far above or below the served head a block may be that is fetched before a quorum vouches
/// for it. That is enough to catch up with a missed block or a short reorg. A longer path is worth
/// the wait for the others' answers, and a liar could make it as long as the window.
const PREFETCH_MAX: u64 = 2;

/// What may be done with a block that a quorum vouches for.
enum Eligibility {
    /// It may be served.
    Eligible,
    /// It is not known whether its chain contains the blocks at these numbers that it has to.
    Unproven(Vec<u64>),
    /// It may not be served.
    Refused(Choice),
}

/// The best blocks that a quorum vouches for.
#[derive(Default)]
struct Survey {
    /// The highest one that may be served, or the one that is being fetched.
    eligible: Option<Agreed>,
    /// The highest one of which it is not known yet whether it may be served.
    unproven: Option<Agreed>,
    /// The numbers that would show it, for each such block. Every upstream that counts is asked for
    /// them: one voter that keeps silent must not hide that the others are enough, here or for a
    /// lower block.
    needed: Vec<u64>,
    /// The first one that may not be served.
    refusal: Option<Refusal>,
}

/// Decides about the head. It changes if a quorum vouches for another block that may be served, is
/// kept if a quorum is on its chain, and stands otherwise.
///
/// The decision's `dissent` has every contradiction, however short.
pub(crate) fn decide<C: Chain>(view: &View<'_, C>, policy: &Policy) -> Decision {
    let tally = Tally::new(view, policy);
    let lowest = required(&tally, policy)
        .map(|((number, _), _)| number)
        .max();
    let survey = match tally.counted.len() >= tally.quorum {
        true => survey(&tally, policy, lowest),
        false => Survey::default(),
    };
    let supporters = tally.supporters();
    let mut dissent = dissent(&tally, &survey, supporters);
    let mut choice = choose(&tally, &survey, supporters, &dissent);
    if choice == Choice::Disagree && dissent.is_empty() {
        dissent = disputes(&tally);
    }
    if let Some(refusal) = survey.refusal.filter(|refusal| refusal.choice == choice)
        && matches!(choice, Choice::Finalized | Choice::Untrusted)
    {
        dissent.extend(insistence(&dissent, refusal));
    }
    let adopt = survey
        .eligible
        .filter(|_| choice.effect() == Effect::Adopt)
        .map(|block| block.point);
    let fetch = fetch(&tally, &survey, choice, adopt);
    let asks = asks::asks(
        &tally,
        &survey.needed,
        survey.eligible.map(|block| block.point.0),
        fetch,
        supporters,
        lowest,
    );
    if choice == Choice::Disagree && tally.head.is_none() && !asks.is_empty() {
        choice = Choice::Checking;
    }
    let agreeing = match choice {
        Choice::TooFewNodes => tally.counted.len(),
        Choice::Disagree => most_votes(&tally).max(supporters.len()),
        _ => {
            let eligible = survey.eligible.filter(|block| !is_behind(&tally, *block));
            let blocks = eligible.into_iter().chain(survey.unproven);
            let votes = blocks.map(|block| block.voters.len()).max();
            votes.unwrap_or(0).max(supporters.len())
        }
    };
    Decision {
        choice,
        adopt,
        fetch,
        asks,
        agreeing,
        heads: heads(&tally).collect(),
        refusal: survey.refusal,
        dissent,
        quarantined: view.quarantined,
    }
}

/// Finds the best blocks that a quorum vouches for.
///
/// None below `lowest` may be served. They are of interest only if a quorum has nothing above.
fn survey<C: Chain>(tally: &Tally<'_, C>, policy: &Policy, lowest: Option<u64>) -> Survey {
    let mut survey = Survey::default();
    let mut next = tally.ceiling();
    let is_behind = next < lowest;
    while let Some(number) = next.filter(|number| is_behind || Some(*number) >= lowest)
        && survey.eligible.is_none()
    {
        for block in tally.agreed_at(number) {
            let eligibility = match is_behind {
                true => Eligibility::Refused(Choice::Behind),
                false => assess(tally, policy, block),
            };
            match eligibility {
                Eligibility::Eligible => survey.eligible = survey.eligible.or(Some(block)),
                Eligibility::Unproven(numbers) => {
                    survey.unproven = survey.unproven.or(Some(block));
                    survey.needed.extend(numbers);
                }
                Eligibility::Refused(choice) => {
                    survey.refusal = survey.refusal.or(Some(Refusal {
                        choice,
                        head: block.point,
                        by: block.voters,
                    }));
                }
            }
        }
        next = tally.next_below(number);
    }
    keep_sync(tally, policy, &mut survey);
    survey
        .eligible
        .take_if(|block| waits_for_higher(tally, *block, survey.unproven));
    survey
}

/// Whether a block above the head waits for a block time after the last change, because a quorum
/// vouches for a higher one. That one has to contain each new head as soon as it is finalized. If
/// the head went on block by block, it would never be proven.
fn waits_for_higher<C: Chain>(
    tally: &Tally<'_, C>,
    block: Agreed,
    unproven: Option<Agreed>,
) -> bool {
    let at = tally.view.at;
    let is_higher = unproven.is_some_and(|higher| higher.point.0 > block.point.0);
    let is_recent = at.now.saturating_sub(at.head_since) < at.block_time;
    is_higher && is_recent && tally.head.is_some() && !is_behind(tally, block)
}

/// Keeps a sync as long as a quorum vouches for its head, although there is a higher head by now.
/// Otherwise, a sync would never end on a fast chain.
fn keep_sync<C: Chain>(tally: &Tally<'_, C>, policy: &Policy, survey: &mut Survey) {
    let Some((_, point)) = tally.view.at.syncing else {
        return;
    };
    let voters = tally.voters(point);
    let block = Agreed { point, voters };
    if voters.len() < tally.quorum || is_behind(tally, block) || !is_due(tally, block) {
        return;
    }
    let is_eligible_above = survey
        .eligible
        .is_some_and(|eligible| !is_behind(tally, eligible));
    match assess(tally, policy, block) {
        Eligibility::Eligible => survey.eligible = Some(block),
        Eligibility::Unproven(numbers) if !is_eligible_above => {
            survey.unproven = Some(block);
            survey.needed.extend(numbers);
        }
        Eligibility::Unproven(_) | Eligibility::Refused(_) => {}
    }
}

/// The blocks that a served chain has to contain, and what a chain without them is called.
fn required<C: Chain>(
    tally: &Tally<'_, C>,
    policy: &Policy,
) -> impl Iterator<Item = (Point, Choice)> {
    let finalized = tally.view.finalized.into_iter();
    let finalized = finalized.filter(|_| policy.holds(Rule::Finalized));
    let trusted = tally.view.trusted.iter();
    let trusted = trusted.filter(|_| policy.holds(Rule::Trusted));
    finalized
        .map(|point| (point, Choice::Finalized))
        .chain(trusted.map(|point| (*point, Choice::Untrusted)))
}

fn assess<C: Chain>(tally: &Tally<'_, C>, policy: &Policy, block: Agreed) -> Eligibility {
    let mut needed = Vec::new();
    for (point, refused) in required(tally, policy) {
        match tally.contains(block, point) {
            Contains::Yes => {}
            Contains::No => return Eligibility::Refused(refused),
            Contains::Unknown => needed.push(point.0),
        }
    }
    if let Some(head) = tally.head
        && !is_behind(tally, block)
        && rivals(tally, block).len() >= tally.quorum
    {
        match tally.contains(block, head) {
            Contains::Yes => {}
            Contains::No => return Eligibility::Refused(Choice::Contested),
            Contains::Unknown => needed.push(head.0),
        }
    }
    match needed.is_empty() {
        true => Eligibility::Eligible,
        false => Eligibility::Unproven(needed),
    }
}

/// The upstreams that keep the served branch against another block: not those whose heads stand
/// still while the other branch moves.
fn rivals<C: Chain>(tally: &Tally<'_, C>, block: Agreed) -> NodeSet {
    let moves = |node| tally.stated(node).head_age(tally.view.at.now) < tally.lifetime();
    let rivals = tally.supporters().without(block.voters);
    match block.voters.filter(moves).len() >= tally.quorum {
        true => rivals.filter(moves),
        false => rivals,
    }
}

fn choose<C: Chain>(
    tally: &Tally<'_, C>,
    survey: &Survey,
    supporters: NodeSet,
    dissent: &[Dissent],
) -> Choice {
    if tally.counted.len() < tally.quorum {
        return Choice::TooFewNodes;
    }
    let Some(head) = tally.head else {
        return match (survey.eligible, survey.unproven, survey.refusal) {
            (Some(_), _, _) => Choice::First,
            (_, Some(_), _) => Choice::Checking,
            (_, _, Some(refusal)) => refusal.choice,
            _ => Choice::Disagree,
        };
    };
    match survey.eligible {
        Some(block) if goes_back(tally, block) => return Choice::GoBack,
        Some(block) if !is_behind(tally, block) && is_due(tally, block) => {
            return match tally.contains(block, head) {
                Contains::No => Choice::Replace,
                Contains::Yes | Contains::Unknown => Choice::Extend,
            };
        }
        _ => {}
    }
    if supporters.len() >= tally.quorum {
        let is_rival = |dissent: &Dissent| tally.voters(dissent.theirs).len() >= tally.quorum;
        return match dissent.iter().any(is_rival) {
            true => Choice::Contested,
            false => Choice::Keep,
        };
    }
    let unknown = tally.unknown(tally.counted.without(supporters), head.0);
    let above = unknown.filter(|node| {
        let named = tally.stated(node).head();
        named.is_some_and(|(number, _)| number > head.0)
    });
    match survey.refusal {
        _ if survey.unproven.is_some() => Choice::Checking,
        Some(refusal) => refusal.choice,
        None if supporters.len() + above.len() >= tally.quorum => Choice::Checking,
        None => Choice::Disagree,
    }
}

/// Whether a block is on the served chain and not above its head. A block below the window counts
/// as one: no node goes back that far to another branch.
fn is_behind<C: Chain>(tally: &Tally<'_, C>, block: Agreed) -> bool {
    let held = tally.view.at.held;
    held.is_some_and(|held| block.point.0 < held.oldest()) || tally.is_held(block.point)
}

/// Whether a quorum has gone back to this served block for good. Nodes that were restarted have
/// not: they are merely behind.
fn goes_back<C: Chain>(tally: &Tally<'_, C>, block: Agreed) -> bool {
    let is_below = |head: &Point| is_behind(tally, block) && block.point.0 < head.0;
    let Some(head) = tally.head.filter(is_below) else {
        return false;
    };
    let gone = block.voters.filter(|node| {
        let stated = tally.stated(node);
        let is_below = stated.head().is_some_and(|(number, _)| number < head.0);
        is_below && stated.went_back() && stated.head_age(tally.view.at.now) >= tally.lifetime()
    });
    gone.len() >= tally.quorum && tally.voters(head).len() < tally.quorum
}

/// Whether a block of another branch may be served now. A lower one has to wait: one URL may stand
/// for several backends.
fn is_due<C: Chain>(tally: &Tally<'_, C>, block: Agreed) -> bool {
    let patience = tally.view.at.block_time / 2;
    let is_patient = |node| tally.stated(node).branch_age(tally.view.at.now) >= patience;
    let is_lower = tally.head.is_some_and(|(head, _)| block.point.0 < head);
    !is_lower || block.voters.filter(is_patient).len() >= tally.quorum
}

/// What to fetch: the path to a block that a quorum vouches for, else one that may get a quorum.
fn fetch<C: Chain>(
    tally: &Tally<'_, C>,
    survey: &Survey,
    choice: Choice,
    adopt: Option<Point>,
) -> Option<Fetch> {
    let is_wanted = |block: &Agreed| adopt == Some(block.point) || !is_behind(tally, *block);
    let block = survey.eligible.filter(is_wanted).or(survey.unproven);
    if let Some(block) = block {
        return Some(Fetch {
            from: source(tally, block.voters)?,
            voters: block.voters,
            to: block.point,
            is_agreed: true,
        });
    }
    match choice {
        Choice::TooFewNodes => None,
        _ => prefetch(tally),
    }
}

/// The upstream to fetch from: of those that may be asked now and are not quarantined, one that was
/// not slow lately; of these the one in use, else the one with the fewest faults. Every block is
/// checked by its hash, so that even a quarantined one will do. If no voter may be asked, one whose
/// calls for heads fail may have the block as well. If none may be asked for a moment, the path is
/// kept for one that may be asked soon.
fn source<C: Chain>(tally: &Tally<'_, C>, voters: NodeSet) -> Option<UpstreamId> {
    let (at, quarantined) = (tally.view.at, tally.view.quarantined);
    let in_use = at.syncing.map(|(node, _)| node);
    // The first block of a window takes calls for heads.
    let is_mute = |node| tally.head.is_some() && tally.stated(node).is_mute();
    let nodes = at.nodes.iter().enumerate();
    let nodes =
        nodes.filter(|(node, access)| voters.has(*node) || access.may_fetch && is_mute(*node));
    let best = nodes.min_by_key(|(node, access)| {
        let (is_busy, is_new) = (!access.may_fetch, Some(*node) != in_use);
        let (is_mute, is_quarantined) = (!voters.has(*node), quarantined.has(*node));
        let (delays, strikes) = (access.delays, access.strikes);
        (
            is_busy,
            is_mute,
            is_quarantined,
            delays,
            is_new,
            strikes,
            *node,
        )
    });
    best.map(|(node, _)| node)
}

/// A head just above the served one, to be fetched while the other upstreams are asked for it. The
/// lowest one comes first, because the others are most likely to have a block at its number.
fn prefetch<C: Chain>(tally: &Tally<'_, C>) -> Option<Fetch> {
    let (head, _) = tally.head?;
    let at = tally.view.at;
    let askable = tally.counted.without(tally.view.quarantined);
    let named = askable.iter().filter_map(|node| {
        let point = tally.stated(node).head()?;
        let ahead = point.0.checked_sub(head)?;
        let may_fetch = at.nodes.get(node).is_some_and(|access| access.may_fetch);
        let missing = tally.first_missing(point).unwrap_or(head);
        let is_near =
            (1..=PREFETCH_MAX).contains(&ahead) && missing.saturating_add(PREFETCH_MAX) >= head;
        if !may_fetch || !is_near || tally.deniers(tally.counted, point).len() >= tally.quorum {
            return None;
        }
        // One with a quorum is refused, or it would be fetched by now.
        let votes = tally.voters(point).len();
        (votes < tally.quorum).then_some((node, point, votes))
    });
    let best = named.min_by_key(|(node, point, votes)| {
        let is_new = at.syncing != Some((*node, *point));
        let age = tally.stated(*node).head_age(at.now);
        (point.0, Reverse(*votes), is_new, Reverse(age), *node)
    });
    best.map(|(from, to, _)| Fetch {
        from,
        voters: tally.voters(to),
        to,
        is_agreed: false,
    })
}

/// The most upstreams that vouch for the head of one of them.
fn most_votes<C: Chain>(tally: &Tally<'_, C>) -> usize {
    let votes = heads(tally).map(|(_, head)| tally.voters(head).len());
    votes.max().unwrap_or(0)
}

/// The upstreams that contradict a block that a quorum vouches for.
fn dissent<C: Chain>(tally: &Tally<'_, C>, survey: &Survey, supporters: NodeSet) -> Vec<Dissent> {
    let agreed = survey.eligible.or(survey.unproven);
    let agreed = agreed.filter(|block| !is_behind(tally, *block));
    let is_served_agreed = supporters.len() >= tally.quorum;
    let others = tally.counted.iter();
    let found = others.filter_map(|node| {
        let stated = tally.stated(node);
        let differs = |ours: Point| {
            let theirs = tally.hash_at(node, ours.0)?;
            (theirs != ours.1).then_some(((ours.0, theirs), ours.1))
        };
        let held = |theirs: Point| {
            let ours: B256 = tally.view.at.held?.hash_at(theirs.0)?;
            (theirs.1 != ours).then_some((theirs, ours))
        };
        let served = || {
            let by_head = || stated.head().and_then(held);
            let by_finalized = || stated.settled().finalized.and_then(held);
            let at_head = tally.head.and_then(differs);
            at_head.or_else(by_head).or_else(by_finalized)
        };
        let found = agreed.and_then(|block| differs(block.point));
        let (theirs, ours) = found.or_else(|| is_served_agreed.then(served).flatten())?;
        let ours = Some(ours);
        Some(Dissent { node, theirs, ours })
    });
    found.collect()
}

/// The upstreams that contradict each other where no quorum agrees. Nothing shows who is right.
fn disputes<C: Chain>(tally: &Tally<'_, C>) -> Vec<Dissent> {
    let mut found: Vec<Dissent> = Vec::new();
    let mut add = |node, theirs| {
        if found.iter().all(|dissent| dissent.node != node) {
            let ours = None;
            found.push(Dissent { node, theirs, ours });
        }
    };
    for (node, head) in heads(tally) {
        for denier in tally.deniers(tally.counted, head).iter() {
            add(node, head);
            if let Some(hash) = tally.hash_at(denier, head.0) {
                add(denier, (head.0, hash));
            }
        }
    }
    found
}

/// The upstreams that name a chain without a block that it has to contain, and are not in `found`.
/// They are a quorum, so that none agrees with us.
fn insistence(found: &[Dissent], refusal: Refusal) -> Vec<Dissent> {
    let is_new = |node: &UpstreamId| found.iter().all(|dissent| dissent.node != *node);
    let nodes = refusal.by.iter().filter(is_new);
    let (theirs, ours) = (refusal.head, None);
    nodes.map(|node| Dissent { node, theirs, ours }).collect()
}

/// The heads that the upstreams name that count.
fn heads<C: Chain>(tally: &Tally<'_, C>) -> impl Iterator<Item = (UpstreamId, Point)> {
    let nodes = tally.counted.iter();
    nodes.filter_map(|node| Some((node, tally.stated(node).head()?)))
}
