use alloy_primitives::B256;
use nearhead_chain::{campaign, window::WINDOW_BLOCKS};

use super::*;

/// The path from a window to a block, derived from the whole tree.
fn expected(held: &TreeWindow<'_>, head: usize) -> PathOutcome<usize> {
    let tree = held.tree;
    let (held_number, _) = held.head();
    let mut applied = Vec::new();
    let mut block = head;
    while held.hash_at(tree.number(block)) != Some(tree.hash(block)) {
        applied.push(block);
        match tree.parent(block) {
            Some(parent) => block = parent,
            None => return PathOutcome::Reset,
        }
    }
    if tree.number(head) >= held_number + WINDOW_BLOCKS as u64 {
        return PathOutcome::Reset;
    }
    applied.reverse();
    PathOutcome::Advance {
        reverted: (held_number - tree.number(block)) as usize,
        applied,
    }
}

/// The path to the head of `upstream`.
fn path_to(held: &TreeWindow<'_>, upstream: &ScriptedUpstream<'_>) -> SyncPath<usize> {
    let tree = held.tree;
    SyncPath::to(tree.number(upstream.head), tree.hash(upstream.head), held)
}

/// Follows the path to the head of `upstream` to its end.
fn follow(
    held: &TreeWindow<'_>,
    upstream: &mut ScriptedUpstream<'_>,
    width: usize,
    rng: &mut Rng,
) -> PathOutcome<usize> {
    follow_path(path_to(held, upstream), held, upstream, width, rng)
}

fn follow_path(
    mut path: SyncPath<usize>,
    held: &TreeWindow<'_>,
    upstream: &mut ScriptedUpstream<'_>,
    width: usize,
    rng: &mut Rng,
) -> PathOutcome<usize> {
    loop {
        if let Some(outcome) = path.outcome(held) {
            return outcome;
        }
        upstream.receive(path.ask(width, held));
        match upstream.answer(rng).expect("an incomplete path asks") {
            (ask, Some(found)) => _ = path.got(ask, found),
            (ask, None) => _ = path.failed(ask),
        }
    }
}

#[test]
fn a_sync_path_leads_through_the_common_ancestor() {
    let (mut advances, mut resets) = (0, 0);
    for seed in 1..=campaign::rounds(400, 4_000) {
        let mut rng = Rng::new(seed);
        let tree = Tree::random(&mut rng);
        let width = 1 + rng.below(16) as usize;
        let held = tree.window(rng.below(tree.len()) as usize, 1 + rng.below(128));
        let mut upstream = ScriptedUpstream::new(&tree, rng.below(tree.len()) as usize);
        let is_held = held.hash_at(tree.number(upstream.head)) == Some(tree.hash(upstream.head));
        if is_held {
            continue;
        }
        // It sometimes answers from other chains, and some calls fail.
        upstream.others = (0..rng.below(3))
            .map(|_| rng.below(tree.len()) as usize)
            .collect();
        upstream.fails_one_in = [0, 2, 5][rng.below(3) as usize];
        let outcome = follow(&held, &mut upstream, width, &mut rng);
        assert_eq!(outcome, expected(&held, upstream.head), "seed {seed}");
        assert!(upstream.open_max <= width, "seed {seed}");
        match outcome {
            PathOutcome::Advance { .. } => advances += 1,
            PathOutcome::Reset => resets += 1,
        }
    }
    assert!(advances > 80 && resets > 80, "{advances} {resets}");
}

/// A path that is left for one to a later head is not fetched again, wherever it was left.
#[test]
fn a_path_goes_on_with_the_blocks_of_an_earlier_one() {
    const WIDTH: usize = 8;
    for (reorg, blocks, later, answers) in [
        (60, 60, 3, 0),
        (60, 60, 3, 1),
        (60, 60, 3, 20),
        (60, 60, 3, 60),
        (60, 61, 1, 61),
        (0, 40, 2, 30),
        (0, 40, 2, 40),
        (126, 120, 9, 100),
    ] {
        let case = format!("{reorg} {blocks} {later} {answers}");
        let mut tree = Tree::chain(300);
        let fork = tree.ancestor(300, 300 - reorg).expect("in the chain");
        let middle = tree.grow(fork, blocks);
        let head = tree.grow(middle, later);
        let held = tree.window(300, 128);
        let mut upstream = ScriptedUpstream::new(&tree, middle);
        let mut earlier = path_to(&held, &upstream);
        for _ in 0..answers {
            assert_eq!(earlier.outcome(&held), None, "{case}");
            upstream.receive(earlier.ask(WIDTH, &held));
            let (ask, found) = upstream
                .answer(&mut Rng::new(7))
                .expect("an incomplete path asks");
            earlier.got(ask, found.expect("an honest upstream"));
        }
        let mut upstream = ScriptedUpstream::new(&tree, head);
        let path = path_to(&held, &upstream).knowing(earlier.into_blocks());
        let outcome = follow_path(path, &held, &mut upstream, WIDTH, &mut Rng::new(7));
        assert_eq!(outcome, expected(&held, head), "{case}");
        let missing = later + blocks.saturating_sub(answers);
        // Guesses are made before it is known that a block is the one of the earlier path.
        assert!(
            (later..=missing + 2 * WIDTH).contains(&upstream.asked),
            "{case}: {}",
            upstream.asked
        );
    }
}

/// Blocks of other chains do no harm.
#[test]
fn known_blocks_are_taken_only_on_the_path() {
    for seed in 1..=campaign::rounds(200, 2_000) {
        let mut rng = Rng::new(seed);
        let tree = Tree::random(&mut rng);
        let held = tree.window(rng.below(tree.len()) as usize, 1 + rng.below(128));
        let mut upstream = ScriptedUpstream::new(&tree, rng.below(tree.len()) as usize);
        if held.hash_at(tree.number(upstream.head)) == Some(tree.hash(upstream.head)) {
            continue;
        }
        let known: Vec<_> = (0..64)
            .map(|_| tree.found(rng.below(tree.len()) as usize))
            .collect();
        let path = path_to(&held, &upstream).knowing(known);
        let head = upstream.head;
        let outcome = follow_path(path, &held, &mut upstream, 4, &mut rng);
        assert_eq!(outcome, expected(&held, head), "seed {seed}");
    }
}

/// Checks the number of calls that a path takes with an honest upstream.
fn check_asks(reorg: u64, blocks: usize, width: usize, asks: std::ops::RangeInclusive<usize>) {
    let mut tree = Tree::chain(300);
    let fork = tree.ancestor(300, 300 - reorg).expect("in the chain");
    let head = tree.grow(fork, blocks);
    let held = tree.window(300, 128);
    let mut upstream = ScriptedUpstream::new(&tree, head);
    let outcome = follow(&held, &mut upstream, width, &mut Rng::new(7));
    assert!(
        matches!(&outcome, PathOutcome::Advance { reverted, applied }
            if *reverted as u64 == reorg && applied.len() == blocks),
        "{reorg} {blocks}: {outcome:?}"
    );
    assert!(
        asks.contains(&upstream.asked),
        "{reorg} {blocks}: {} asked",
        upstream.asked
    );
}

#[test]
fn a_sync_path_asks_for_little_more_than_it_needs() {
    check_asks(0, 1, 16, 1..=1);
    check_asks(0, 127, 16, 127..=127);
    check_asks(1, 1, 16, 1..=1);
    check_asks(1, 2, 16, 2..=2);
    check_asks(2, 3, 16, 3..=5);
    check_asks(5, 6, 16, 6..=16);
    check_asks(60, 61, 16, 61..=77);
    check_asks(127, 127, 16, 127..=143);
    check_asks(127, 128, 1, 128..=128);
}

#[test]
fn a_head_without_a_path_costs_no_calls() {
    let mut tree = Tree::chain(600);
    let fork = tree.grow(100, 300);
    let below = tree.grow(50, 2);
    let held = tree.window(300, 128);
    // Too far ahead; below the window; at the height of its oldest block, which cannot be reverted.
    let at_oldest = tree.hash(below);
    for (number, hash) in [(428, tree.hash(428)), (52, at_oldest), (173, at_oldest)] {
        let mut path = SyncPath::<usize>::to(number, hash, &held);
        assert_eq!(path.ask(16, &held), [], "{number}");
        assert_eq!(path.outcome(&held), Some(PathOutcome::Reset), "{number}");
    }
    // A reorg deeper than the window: known when the path reaches the oldest block.
    let mut upstream = ScriptedUpstream::new(&tree, fork);
    assert_eq!(
        follow(&held, &mut upstream, 16, &mut Rng::new(7)),
        PathOutcome::Reset
    );
    let needed = 400 - 173;
    assert!(
        (needed..=needed + 16).contains(&upstream.asked),
        "{}",
        upstream.asked
    );
}

#[test]
fn an_answer_to_another_call_is_ignored() {
    let tree = Tree::chain(300);
    let held = tree.window(290, 128);
    let mut path = SyncPath::to(292, tree.hash(292), &held);
    let asks = path.ask(4, &held);
    let by_hash = Ask::Hash {
        number: 292,
        hash: tree.hash(292),
    };
    assert_eq!(asks, [by_hash, Ask::Number(291)]);
    // Not the block that was asked for: asked for again by hash, not guessed again by number.
    path.got(by_hash, tree.found(291));
    path.got(Ask::Number(291), tree.found(290));
    assert_eq!(path.ask(4, &held), [by_hash]);
    // Never asked for.
    path.got(Ask::Number(292), tree.found(292));
    path.got(Ask::Number(280), tree.found(280));
    path.failed(Ask::Number(292));
    assert_eq!(path.ask(4, &held), []);
    assert_eq!(path.outcome(&held), None);
    // The same answer twice.
    for _ in 0..2 {
        path.got(by_hash, tree.found(292));
        path.failed(by_hash);
    }
    assert_eq!(path.outcome(&held), None);
    let by_hash = Ask::Hash {
        number: 291,
        hash: tree.hash(291),
    };
    assert_eq!(path.ask(4, &held), [by_hash]);
    path.got(by_hash, tree.found(291));
    let outcome = PathOutcome::Advance {
        reverted: 0,
        applied: vec![291, 292],
    };
    assert_eq!(path.outcome(&held), Some(outcome));
}

/// A window of one chain at any numbers.
struct AnyWindow {
    oldest: u64,
    head: u64,
}

impl Chain for AnyWindow {
    fn head(&self) -> (u64, B256) {
        (self.head, B256::ZERO)
    }

    fn oldest(&self) -> u64 {
        self.oldest
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        (self.oldest..=self.head)
            .contains(&number)
            .then_some(B256::ZERO)
    }
}

/// An upstream may name any number.
#[test]
fn a_path_at_the_end_of_the_numbers_asks_like_any_other() {
    const MAX: u64 = u64::MAX;
    let other = B256::with_last_byte(1);
    for (oldest, head, named, expected) in [
        (MAX - 127, MAX - 1, MAX, &[MAX][..]),
        (MAX - 127, MAX, MAX, &[MAX]),
        (MAX - 127, MAX, MAX - 1, &[MAX - 1, MAX - 2]),
        (MAX - 127, MAX - 3, MAX, &[MAX, MAX - 1, MAX - 2]),
        (MAX, MAX, MAX, &[]),
        (0, 0, MAX, &[]),
        (0, 127, MAX, &[]),
        (MAX, MAX, 0, &[]),
        (MAX - 127, MAX, 0, &[]),
    ] {
        let held = AnyWindow { oldest, head };
        let mut path = SyncPath::<usize>::to(named, other, &held);
        let outcome = path.outcome(&held);
        let is_reset = matches!(outcome, Some(PathOutcome::Reset));
        assert_eq!(is_reset, expected.is_empty(), "{oldest} {head} {named}");
        let asks = path.ask(16, &held);
        let numbers: Vec<_> = asks.iter().map(Ask::number).collect();
        assert_eq!(numbers, expected, "{oldest} {head} {named}");
    }
}
