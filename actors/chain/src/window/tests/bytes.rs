//! The budgets of bytes.

use super::{super::WindowLimits, *};

/// A block with this much extra data in its header.
fn large_block(parent: &Block, salt: u64, bytes: usize) -> Arc<Block> {
    let small = block(salt, &[]).child_of(parent);
    let mut large = small.without_state();
    large.header.extra_data = vec![7; bytes].into();
    Arc::new(large)
}

#[test]
fn the_bytes_of_a_block_are_those_of_its_parts() {
    let parent = block(0, &[]).genesis();
    let [empty, full] = [block(0, &[]), block(0, &[1, 2, 3])].map(|it| it.child_of(&parent));
    for block in [&empty, &full] {
        let json = [
            block.json().block(true),
            block.json().block(false),
            block.json().receipts(),
        ];
        let json: usize = json.iter().map(|json| json.len()).sum();
        assert!(block.bytes() > json + size_of::<Block>());
        assert!(block.bytes() < json + size_of::<Block>() + 4_096);
    }
    let grown = full.json().bytes() - empty.json().bytes();
    // Of each transaction, its hash, and its tip and gas.
    assert_eq!(full.bytes() - empty.bytes(), grown + 3 * (32 + 32));
    let large = large_block(&parent, 0, 100_000);
    assert_eq!(large.bytes(), empty.bytes() - 8 + 100_000);
}

#[test]
fn the_oldest_blocks_give_way_to_large_ones() {
    const LARGE: usize = 1 << 20;
    let limits = WindowLimits {
        bytes: 40 * LARGE,
        replaced_bytes: 3 * LARGE,
    };
    let genesis = block(0, &[]).genesis();
    let mut window = Window::with_limits(CHAIN_ID, Arc::clone(&genesis), limits);
    let mut chain = vec![genesis];
    let apply = |window: &mut Window, chain: &mut Vec<Arc<Block>>, bytes| {
        let salt = chain.len() as u64;
        let next = large_block(&chain[chain.len() - 1], salt, bytes);
        window.apply(Arc::clone(&next)).unwrap();
        window.check_invariants().unwrap();
        chain.push(next);
    };
    for _ in 0..50 {
        apply(&mut window, &mut chain, 0);
    }
    for _ in 0..30 {
        apply(&mut window, &mut chain, LARGE);
    }
    let snapshot = window.snapshot();
    assert_eq!(snapshot.canonical().len(), 81, "all of it fits");
    for _ in 0..30 {
        apply(&mut window, &mut chain, LARGE);
    }
    let snapshot = window.snapshot();
    let (held, oldest) = (snapshot.canonical().len(), snapshot.oldest() as usize);
    assert!((37..40).contains(&held), "{held} blocks");
    assert!(snapshot.is_filled() && snapshot.by_hash(&chain[oldest - 1].hash).is_none());
    // No older block fits, and the window knows.
    let refused = window.extend_below(Arc::clone(&chain[oldest - 1]));
    assert_eq!(refused, Err(WindowError::Full));
    assert!(Arc::ptr_eq(&snapshot, &window.snapshot()));
    // Of the replaced blocks, the first ones go, and no canonical block does.
    let fork = Arc::clone(&chain[chain.len() - 6]);
    let branch = large_block(&fork, 900, 0);
    window
        .advance(5, vec![Arc::clone(&branch)], None, None)
        .unwrap();
    window.check_invariants().unwrap();
    let snapshot = window.snapshot();
    let is_held = |block: &Arc<Block>| snapshot.by_hash(&block.hash).is_some();
    let replaced: Vec<_> = chain[chain.len() - 5..].iter().map(is_held).collect();
    // The head was reverted first.
    assert_eq!(replaced, [true, true, false, false, false]);
    assert_eq!(snapshot.oldest() as usize, oldest);
    // Replaced blocks go before canonical ones.
    chain.truncate(chain.len() - 5);
    chain.push(branch);
    for _ in 0..5 {
        apply(&mut window, &mut chain, LARGE);
    }
    let snapshot = window.snapshot();
    assert!(window.replaced.is_empty());
    assert_eq!(snapshot.oldest() as usize, oldest);
    // However large blocks are, 16 stay.
    for _ in 0..30 {
        apply(&mut window, &mut chain, 5 * LARGE);
    }
    assert_eq!(window.snapshot().canonical().len(), 16);
    // Small blocks have room again.
    for _ in 0..200 {
        apply(&mut window, &mut chain, 0);
    }
    assert_eq!(window.snapshot().canonical().len(), WINDOW_BLOCKS);
}

#[test]
fn a_window_of_large_blocks_is_filled_as_far_as_they_fit() {
    const LARGE: usize = 1 << 20;
    let mut chain = vec![block(0, &[]).genesis()];
    for number in 0..130 {
        let next = large_block(&chain[number], 0, LARGE);
        chain.push(next);
    }
    for (most, held) in [(0, 16), (15, 16), (30, 29), (500, WINDOW_BLOCKS)] {
        let limits = WindowLimits {
            bytes: most * LARGE,
            replaced_bytes: 0,
        };
        let mut window = Window::with_limits(CHAIN_ID, Arc::clone(&chain[130]), limits);
        let mut below = chain[..130].iter().rev();
        let refused = loop {
            assert!(!window.snapshot().is_filled() || held == WINDOW_BLOCKS);
            let parent = Arc::clone(below.next().unwrap());
            if let Err(refused) = window.extend_below(parent) {
                break refused;
            }
            window.check_invariants().unwrap();
        };
        assert_eq!(refused, WindowError::Full);
        let snapshot = window.snapshot();
        assert_eq!(
            (snapshot.canonical().len(), snapshot.is_filled()),
            (held, true)
        );
    }
}
