use std::collections::VecDeque;

use nearhead_chain::window::WINDOW_BLOCKS;

use super::*;

/// The path from a window to a block, found by looking at the whole tree.
fn expected(ours: &View<'_>, head: usize) -> PathOutcome<usize> {
    let tree = ours.tree;
    let (ours_number, _) = ours.head();
    let mut applied = Vec::new();
    let mut block = head;
    while ours.hash_at(tree.number(block)) != Some(tree.hash(block)) {
        applied.push(block);
        match tree.parent(block) {
            Some(parent) => block = parent,
            None => return PathOutcome::Reset,
        }
    }
    if tree.number(head) >= ours_number + WINDOW_BLOCKS as u64 {
        return PathOutcome::Reset;
    }
    applied.reverse();
    PathOutcome::Advance {
        reverted: (ours_number - tree.number(block)) as usize,
        applied,
    }
}

/// Follows a path to its end.
fn go(
    ours: &View<'_>,
    upstream: &mut Node<'_>,
    width: usize,
    dice: &mut Dice,
) -> PathOutcome<usize> {
    let tree = ours.tree;
    let mut path = SyncPath::to(tree.number(upstream.head), tree.hash(upstream.head), ours);
    loop {
        if let Some(outcome) = path.outcome(ours) {
            return outcome;
        }
        upstream.is_asked(path.ask(width, ours));
        match upstream.answers(dice).expect("an incomplete path asks") {
            (ask, Some(found)) => path.got(ask, found),
            (ask, None) => path.lost(ask),
        }
    }
}

#[test]
fn a_sync_path_leads_over_the_common_ancestor() {
    let (mut advances, mut refills) = (0, 0);
    for seed in 1..=400 {
        let mut dice = Dice(seed << 20);
        let tree = Tree::of(&mut dice);
        let width = 1 + dice.roll(16) as usize;
        let ours = tree.window(dice.roll(tree.len()) as usize, 1 + dice.roll(128));
        let mut upstream = Node::new(&tree, dice.roll(tree.len()) as usize);
        let is_ours = ours.hash_at(tree.number(upstream.head)) == Some(tree.hash(upstream.head));
        if is_ours {
            continue;
        }
        // It has other chains in between, and forgets to answer.
        upstream.others = (0..dice.roll(3))
            .map(|_| dice.roll(tree.len()) as usize)
            .collect();
        upstream.loses_one_in = [0, 2, 5][dice.roll(3) as usize];
        let outcome = go(&ours, &mut upstream, width, &mut dice);
        assert_eq!(outcome, expected(&ours, upstream.head), "seed {seed}");
        assert!(upstream.most_open <= width, "seed {seed}");
        match outcome {
            PathOutcome::Advance { .. } => advances += 1,
            PathOutcome::Reset => refills += 1,
        }
    }
    assert!(advances > 80 && refills > 80, "{advances} {refills}");
}

/// Checks how many calls a path takes if the upstream is honest.
fn check_asks(reorg: u64, blocks: usize, width: usize, asks: std::ops::RangeInclusive<usize>) {
    let mut tree = Tree::chain(300);
    let fork = tree.ancestor(300, 300 - reorg).expect("in the chain");
    let head = tree.grow(fork, blocks);
    let ours = tree.window(300, 128);
    let mut upstream = Node::new(&tree, head);
    let outcome = go(&ours, &mut upstream, width, &mut Dice(7));
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
    let ours = tree.window(300, 128);
    // Too far ahead; below the window; at its oldest block, which cannot be reverted.
    let at_oldest = tree.hash(below);
    for (number, hash) in [(428, tree.hash(428)), (52, at_oldest), (173, at_oldest)] {
        let mut path = SyncPath::<usize>::to(number, hash, &ours);
        assert_eq!(path.ask(16, &ours), [], "{number}");
        assert_eq!(path.outcome(&ours), Some(PathOutcome::Reset), "{number}");
    }
    // Deeper than the window: known when its end is reached.
    let mut upstream = Node::new(&tree, fork);
    assert_eq!(
        go(&ours, &mut upstream, 16, &mut Dice(7)),
        PathOutcome::Reset
    );
    let needed = 400 - 173;
    assert!(
        (needed..=needed + 16).contains(&upstream.asked),
        "{}",
        upstream.asked
    );
}

/// Checks how the path to this many blocks after a reorg leaves the held chain: known before a
/// block below the head is asked for.
fn check_divergence(reorg: u64, blocks: usize, divergence: Option<Divergence>) {
    let mut tree = Tree::chain(300);
    let fork = tree.ancestor(300, 300 - reorg).expect("in the chain");
    let head = tree.grow(fork, blocks);
    let ours = tree.window(300, 128);
    let mut path = SyncPath::to(tree.number(head), tree.hash(head), &ours);
    let mut asked = VecDeque::new();
    while path.outcome(&ours).is_none() && path.divergence(&ours).is_none() {
        asked.extend(path.ask(4, &ours));
        let ask = asked.pop_front().expect("an incomplete path asks");
        assert!(ask.number() > 300, "{ask:?}");
        let found = tree.ancestor(head, ask.number()).expect("in the chain");
        path.got(ask, tree.found(found));
    }
    assert_eq!(path.divergence(&ours), divergence, "{reorg} {blocks}");
}

#[test]
fn a_divergence_is_known_before_blocks_below_the_head_are_fetched() {
    check_divergence(0, 1, None);
    check_divergence(0, 127, None);
    check_divergence(0, 128, Some(Divergence::Far));
    check_divergence(1, 1, Some(Divergence::Below));
    check_divergence(1, 2, Some(Divergence::Below));
    check_divergence(5, 3, Some(Divergence::Below));
    check_divergence(100, 200, Some(Divergence::Below));
    check_divergence(100, 300, Some(Divergence::Far));
}

#[test]
fn an_answer_to_another_question_is_not_taken() {
    let tree = Tree::chain(300);
    let ours = tree.window(290, 128);
    let mut path = SyncPath::to(292, tree.hash(292), &ours);
    let asks = path.ask(4, &ours);
    let by_hash = Ask::Hash {
        number: 292,
        hash: tree.hash(292),
    };
    assert_eq!(asks, [by_hash, Ask::Number(291)]);
    // Another block than was asked for: asked for again, and not guessed again.
    path.got(by_hash, tree.found(291));
    path.got(Ask::Number(291), tree.found(290));
    assert_eq!(path.ask(4, &ours), [by_hash]);
    // Never asked for.
    path.got(Ask::Number(292), tree.found(292));
    path.got(Ask::Number(280), tree.found(280));
    path.lost(Ask::Number(292));
    assert_eq!(path.ask(4, &ours), []);
    assert_eq!(path.outcome(&ours), None);
    // The same answer twice.
    for _ in 0..2 {
        path.got(by_hash, tree.found(292));
        path.lost(by_hash);
    }
    assert_eq!(path.outcome(&ours), None);
    let by_hash = Ask::Hash {
        number: 291,
        hash: tree.hash(291),
    };
    assert_eq!(path.ask(4, &ours), [by_hash]);
    path.got(by_hash, tree.found(291));
    let outcome = PathOutcome::Advance {
        reverted: 0,
        applied: vec![291, 292],
    };
    assert_eq!(path.outcome(&ours), Some(outcome));
}
