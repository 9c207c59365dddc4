//! What no change reverts.

use super::*;

/// The error of a change that would revert this block.
fn is_finalized(block: &Block) -> WindowError {
    WindowError::Finalized {
        number: block.number(),
        hash: block.hash,
    }
}

#[test]
fn a_finalized_block_is_never_reverted() {
    let (mut window, chain) = window_of(200);
    window.set_finalized(chain[190].hash).unwrap();
    let before = window.snapshot();
    let branch = block(1, &[]).child_of(&chain[189]);
    for depth in [10, 11, 100] {
        let refused = window.advance(depth, vec![Arc::clone(&branch)], None, None);
        assert_eq!(refused.unwrap_err(), is_finalized(&chain[190]), "{depth}");
    }
    assert!(Arc::ptr_eq(&before, &window.snapshot()));
    // It does not go back, and a block of another fork or above the head cannot take its place.
    window.set_finalized(chain[189].hash).unwrap();
    window.set_finalized_at(100, chain[100].hash).unwrap();
    assert!(window.set_finalized_at(195, branch.hash).is_err());
    assert!(Arc::ptr_eq(&before, &window.snapshot()));
    // The blocks above it can be replaced.
    let other = block(1, &[]).child_of(&chain[190]);
    window
        .advance(9, vec![Arc::clone(&other)], None, Some(other.hash))
        .unwrap();
    window.check_invariants().unwrap();
    assert_eq!(window.revert().unwrap_err(), is_finalized(&other));
    // It stays irreversible below the window.
    let mut head = other;
    let kept = Arc::clone(&head);
    for _ in 0..300 {
        head = block(0, &[]).child_of(&head);
        window.apply(Arc::clone(&head)).unwrap();
    }
    let at = window
        .snapshot()
        .resolve(tag(BlockTag::Finalized))
        .unwrap_err();
    assert!(matches!(at, ResolveError::BelowWindow { number: 191, .. }));
    let lower = block(2, &[]).orphan(190, Arc::from([]));
    assert_eq!(window.reset(lower).unwrap_err(), is_finalized(&kept));
}

/// A reset may be the only way to a head that is far ahead. It keeps what is finalized.
#[test]
fn a_reset_keeps_the_finalized_block() {
    let (_, chain) = window_of(400);
    let kept = &chain[180];
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[200]));
    for number in (150..200).rev() {
        window.extend_below(Arc::clone(&chain[number])).unwrap();
    }
    window.set_finalized_at(180, kept.hash).unwrap();
    let before = window.snapshot();
    let other = |number, ancestors: &[B256]| block(1, &[]).orphan(number, Arc::from(ancestors));
    for refused in [
        other(179, &[]),
        other(180, &[]),
        other(181, &[B256::ZERO]),
        other(182, &[B256::ZERO, B256::ZERO]),
    ] {
        let number = refused.number();
        let refused = window.reset(refused).unwrap_err();
        assert_eq!(refused, is_finalized(kept), "{number}");
    }
    assert!(Arc::ptr_eq(&before, &window.snapshot()));
    // Ancestors that are not known show nothing.
    for (head, is_other) in [(&chain[399], false), (&other(399, &[B256::ZERO]), true)] {
        let mut window = window.clone();
        window.reset(Arc::clone(head)).unwrap();
        window.check_invariants().unwrap();
        let (number, oldest) = (180, 399);
        let below = ResolveError::BelowWindow { number, oldest };
        let found = window.snapshot();
        let found = found.resolve(tag(BlockTag::Finalized)).unwrap_err();
        assert_eq!(found, below, "{is_other}");
        window.set_finalized_at(170, chain[170].hash).unwrap();
        let found = window.snapshot();
        let found = found.resolve(tag(BlockTag::Finalized)).unwrap_err();
        assert_eq!(found, below, "{is_other}");
    }
    // A chain that lacks it is found out when the window reaches its number.
    let mut branch = vec![block(1, &[]).child_of(&chain[170])];
    for _ in 171..300 {
        let next = block(1, &[]).child_of(&branch[branch.len() - 1]);
        branch.push(next);
    }
    let head = &branch[129];
    let named = Arc::from([head.header.parent_hash]);
    let mut without_ancestors = head.without_state();
    without_ancestors.ancestors = named;
    window.reset(Arc::new(without_ancestors)).unwrap();
    for parent in branch[10..129].iter().rev() {
        window.extend_below(Arc::clone(parent)).unwrap();
        window.check_invariants().unwrap();
    }
    assert_eq!(window.snapshot().oldest(), 181);
    let refused = window.extend_below(Arc::clone(&branch[9])).unwrap_err();
    assert_eq!(refused, is_finalized(kept));
    window.check_invariants().unwrap();
}

/// A later block that was finalized on the source's word alone gives way to the earlier one, once
/// the chain shows that it is not canonical.
#[test]
fn an_unproven_finalized_block_gives_way_to_the_proven_one() {
    let (_, chain) = window_of(400);
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[100]));
    window.set_finalized_at(100, chain[100].hash).unwrap();
    let mut head = chain[399].without_state();
    head.ancestors = Arc::from([chain[398].hash]);
    window.reset(Arc::new(head)).unwrap();
    window.set_finalized_at(396, B256::repeat_byte(9)).unwrap();
    let number_of_tag = |window: &Window| match window.snapshot().resolve(tag(BlockTag::Finalized))
    {
        Ok(block) => block.number(),
        Err(ResolveError::BelowWindow { number, .. }) => number,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(number_of_tag(&window), 396);
    for (number, finalized) in [(398, 396), (397, 396), (396, 100), (395, 100)] {
        window.extend_below(Arc::clone(&chain[number])).unwrap();
        window.check_invariants().unwrap();
        assert_eq!(number_of_tag(&window), finalized, "{number}");
    }
    window.set_finalized_at(396, chain[396].hash).unwrap();
    assert_eq!(number_of_tag(&window), 396);
}
