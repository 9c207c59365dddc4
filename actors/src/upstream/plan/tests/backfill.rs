use alloy_primitives::B256;
use nearhead_chain::campaign;

use super::*;

/// Fills a window that begins with `held` blocks, while the head advances.
fn fill(seed: u64, held: u64) {
    let mut rng = Rng::new(seed);
    let mut tree = Tree::random(&mut rng);
    let mut head = rng.below(tree.len()) as usize;
    let head_max = tree.number(head) + 200;
    let top = tree.grow(head, 200);
    let width = 1 + rng.below(16) as usize;
    let tree = tree;
    let mut oldest = tree
        .ancestor(head, (tree.number(head) + 1).saturating_sub(held))
        .expect("in the chain");
    let parent_hash = tree.found(oldest).parent_hash;
    let with_parents = seed.is_multiple_of(2);
    let (number, head_number) = (tree.number(oldest), tree.number(head));
    let mut backfill = Backfill::below(number, parent_hash, head_number, with_parents);
    let mut upstream = ScriptedUpstream::new(&tree, top);
    upstream.others = vec![rng.below(tree.len()) as usize];
    upstream.fails_one_in = [0, 2, 5][rng.below(3) as usize];
    while backfill.remaining() > 0 {
        upstream.receive(backfill.ask(width));
        match upstream
            .answer(&mut rng)
            .expect("an incomplete backfill asks")
        {
            (ask, Some(found)) => backfill.got(ask, found),
            (ask, None) => backfill.failed(ask),
        }
        while let Some(BlockBelow { block, parent }) = backfill.take() {
            assert_eq!(tree.parent(oldest), Some(block), "seed {seed}");
            let expected = tree.parent(block).filter(|_| with_parents);
            assert_eq!(parent, expected, "seed {seed}");
            oldest = block;
        }
        if rng.below(20) == 0 && tree.number(head) < head_max {
            head = tree
                .ancestor(top, tree.number(head) + 1)
                .expect("below the top");
            backfill.set_head(tree.number(head));
        }
    }
    let lowest = (tree.number(head) + 1).saturating_sub(128);
    assert!(tree.number(oldest) <= lowest, "seed {seed}");
    assert!(
        upstream.open_max <= width,
        "seed {seed}: {}",
        upstream.open_max
    );
    assert_eq!(backfill.ask(width), []);
    assert_eq!(backfill.take(), None);
}

#[test]
fn a_window_is_filled_downwards_without_a_gap() {
    for seed in 1..=campaign::rounds(200, 2_000) {
        fill(seed, 1 + seed % 130);
    }
}

/// Checks the first blocks that are asked for.
fn check_asks(oldest: u64, head: u64, with_parents: bool, width: usize, expected: &[u64]) {
    let tree = Tree::chain(300);
    let parent_hash = tree.found(oldest as usize).parent_hash;
    let mut backfill = Backfill::<usize>::below(oldest, parent_hash, head, with_parents);
    let asks = backfill.ask(width);
    let numbers: Vec<_> = asks.iter().map(Ask::number).collect();
    assert_eq!(numbers, expected, "{oldest} {head}");
    let is_by_hash = |ask: &Ask| matches!(ask, Ask::Hash { .. });
    assert_eq!(
        asks.iter().filter(|ask| is_by_hash(ask)).count(),
        asks.len().min(1)
    );
}

#[test]
fn newest_blocks_are_asked_for_first_and_only_those_needed() {
    check_asks(200, 200, false, 4, &[199, 198, 197, 196]);
    check_asks(200, 200, false, 0, &[199]);
    check_asks(75, 200, false, 4, &[74, 73]);
    check_asks(73, 200, false, 4, &[]);
    check_asks(2, 2, false, 4, &[1, 0]);
    check_asks(1, 127, false, 4, &[0]);
    check_asks(1, 128, false, 4, &[]);
    check_asks(0, 0, false, 4, &[]);
    check_asks(0, 300, false, 4, &[]);
    // One more, which the lowest block of the window is checked against.
    check_asks(75, 200, true, 4, &[74, 73, 72]);
    check_asks(73, 200, true, 4, &[]);
    check_asks(2, 2, true, 4, &[1, 0]);
    check_asks(2, 128, true, 4, &[1, 0]);
    check_asks(1, 128, true, 4, &[]);
}

/// An upstream may name any number.
#[test]
fn a_window_at_the_end_of_the_numbers_is_filled_like_any_other() {
    for below in [0, 1, 127, 128] {
        let head = u64::MAX - below;
        let mut backfill = Backfill::<usize>::below(head, B256::ZERO, head, false);
        assert_eq!(backfill.remaining(), 127, "{head}");
        let asks = backfill.ask(200);
        let numbers: Vec<_> = asks.iter().map(Ask::number).collect();
        let expected: Vec<_> = (head - 127..head).rev().collect();
        assert_eq!(numbers, expected);
        backfill.set_head(u64::MAX);
        assert_eq!(
            backfill.remaining(),
            127_u64.saturating_sub(below),
            "{head}"
        );
    }
}
