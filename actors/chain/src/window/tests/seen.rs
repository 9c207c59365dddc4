//! Which blocks a window remembers that it had.

use super::*;

#[test]
fn a_block_stays_seen_when_it_is_replaced_leaves_or_is_released() {
    let (mut window, chain) = window_of(130);
    let known = |window: &Window, hash: &B256| {
        let snapshot = window.snapshot();
        (snapshot.by_hash(hash).is_some(), snapshot.has_seen(hash))
    };
    assert_eq!(known(&window, &chain[129].hash), (true, true), "the head");
    assert_eq!(known(&window, &chain[1].hash), (false, true), "it has left");
    let sibling = block(1, &[]).child_of(&chain[128]);
    assert_eq!(known(&window, &sibling.hash), (false, false), "never seen");
    let replaced = [Arc::clone(&sibling)];
    let old = window.snapshot();
    window.advance(1, replaced.to_vec(), None, None).unwrap();
    assert!(
        !old.has_seen(&sibling.hash),
        "an old snapshot never changes"
    );
    assert_eq!(known(&window, &chain[129].hash), (true, true), "replaced");
    // More blocks are replaced than are held: the first of them is released.
    for salt in 2..=REPLACED_BLOCKS_MAX as u64 + 2 {
        let next = block(salt, &[]).child_of(&chain[128]);
        window.advance(1, vec![next], None, None).unwrap();
    }
    assert_eq!(known(&window, &chain[129].hash), (false, true), "released");
    let head = window.snapshot().head().hash;
    window.reset(block(9, &[]).child_of(&chain[20])).unwrap();
    window.check_invariants().unwrap();
    for seen in [chain[1].hash, chain[100].hash, head] {
        assert_eq!(known(&window, &seen), (false, true), "before the reset");
    }
    assert!(!window.snapshot().has_seen(&B256::ZERO));
}
