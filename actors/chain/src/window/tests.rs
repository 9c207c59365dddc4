//! Every bound at its edge, every refusal, and what a reader sees.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bytes;
mod finalized;
mod seen;

use std::sync::Arc;

use alloy_primitives::B256;

use super::{
    BlockId, BlockNumberOrTag, BlockTag, Cursor, CursorLost, REPLACED_BLOCKS_MAX, ResolveError,
    WINDOW_BLOCKS, Window, WindowError,
};
use crate::{
    block::Block,
    test_block::{TestBlock, transaction_hash},
    trie::{NodeStore, State},
};

const CHAIN_ID: u64 = 7;

/// A recipe for a block with the transactions of these numbers.
pub(super) fn block(salt: u64, transactions: &[u64]) -> TestBlock {
    let transactions = transactions
        .iter()
        .map(|number| (*number, Vec::new()))
        .collect();
    TestBlock { salt, transactions }
}

/// A window with blocks `0..count`, and the blocks; transaction N is in block N.
pub(super) fn window_of(count: u64) -> (Window, Vec<Arc<Block>>) {
    let mut chain = vec![block(0, &[0]).genesis()];
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[0]));
    for number in 1..count {
        let next = block(0, &[number]).child_of(&chain[chain.len() - 1]);
        window.apply(Arc::clone(&next)).unwrap();
        window.check_invariants().unwrap();
        chain.push(next);
    }
    (window, chain)
}

fn number(number: u64) -> BlockNumberOrTag {
    BlockNumberOrTag::Number(number)
}

fn tag(tag: BlockTag) -> BlockNumberOrTag {
    BlockNumberOrTag::Tag(tag)
}

fn hash(hash: B256, require_canonical: bool) -> BlockId {
    BlockId::Hash {
        hash,
        require_canonical,
    }
}

/// The number of the resolved block.
fn resolved(result: Result<&Arc<Block>, ResolveError>) -> Result<u64, ResolveError> {
    result.map(|block| block.number())
}

#[test]
fn a_window_may_begin_anywhere() {
    let first = block(0, &[]).orphan(1_000, Arc::from([B256::repeat_byte(1)]));
    let window = Window::new(CHAIN_ID, Arc::clone(&first));
    window.check_invariants().unwrap();
    let snapshot = window.snapshot();
    assert_eq!(
        (
            snapshot.chain_id(),
            snapshot.oldest(),
            snapshot.head().number()
        ),
        (CHAIN_ID, 1_000, 1_000)
    );
    assert!(snapshot.genesis().is_none());
    let below = ResolveError::BelowWindow {
        number: 0,
        oldest: 1_000,
    };
    assert_eq!(resolved(snapshot.resolve_block(number(0))), Err(below));
}

#[test]
fn only_a_child_of_the_head_is_applied() {
    let (mut window, chain) = window_of(4);
    let before = window.snapshot();
    let head = chain[3].hash;
    let skipped = block(0, &[]).orphan(5, Arc::from([head]));
    let not_a_child = block(0, &[]).orphan(4, Arc::from([B256::ZERO]));
    for block in [&chain[3], &chain[2], &skipped, &not_a_child] {
        let refused = window.apply(Arc::clone(block)).unwrap_err();
        let (number, hash) = (block.number(), block.hash);
        assert_eq!(refused, WindowError::NotAChild { number, hash, head });
    }
    window.check_invariants().unwrap();
    assert!(
        Arc::ptr_eq(&before, &window.snapshot()),
        "a refused block changes nothing"
    );
}

#[test]
fn the_window_holds_128_blocks_and_keeps_the_genesis() {
    let (window, chain) = window_of(128);
    let snapshot = window.snapshot();
    assert_eq!(
        (snapshot.oldest(), snapshot.canonical().len()),
        (0, WINDOW_BLOCKS)
    );
    assert!(Arc::ptr_eq(snapshot.genesis().unwrap(), &chain[0]));
    assert_eq!(
        resolved(snapshot.resolve_id(hash(chain[0].hash, true))),
        Ok(0)
    );

    let (window, chain) = window_of(131);
    let snapshot = window.snapshot();
    assert_eq!(
        (snapshot.oldest(), snapshot.canonical().len()),
        (3, WINDOW_BLOCKS)
    );
    let below = |number| ResolveError::BelowWindow { number, oldest: 3 };
    // The genesis by number: its state was released, the block is kept.
    assert_eq!(resolved(snapshot.resolve(number(0))), Err(below(0)));
    assert_eq!(
        resolved(snapshot.resolve_id(BlockId::Number(number(0)))),
        Err(below(0))
    );
    assert_eq!(resolved(snapshot.resolve_block(number(0))), Ok(0));
    assert_eq!(resolved(snapshot.resolve_block(number(1))), Err(below(1)));
    assert_eq!(resolved(snapshot.resolve_block(number(3))), Ok(3));
    assert_eq!(resolved(snapshot.resolve(number(130))), Ok(130));
    assert_eq!(
        resolved(snapshot.resolve(number(131))),
        Err(ResolveError::AboveHead { number: 131 })
    );
    assert_eq!(
        resolved(snapshot.resolve_block(tag(BlockTag::Earliest))),
        Ok(3)
    );
    assert_eq!(resolved(snapshot.resolve(tag(BlockTag::Pending))), Ok(130));
    // By hash.
    assert_eq!(
        snapshot.by_hash(&chain[0].hash).unwrap().hash,
        chain[0].hash
    );
    assert!(snapshot.is_canonical(&chain[0]));
    assert!(snapshot.by_hash(&chain[2].hash).is_none());
    assert!(!snapshot.is_canonical(&chain[2]));
    for require_canonical in [true, false] {
        let genesis = hash(chain[0].hash, require_canonical);
        assert_eq!(resolved(snapshot.resolve_id(genesis)), Err(below(0)));
        let left = hash(chain[2].hash, require_canonical);
        assert_eq!(
            resolved(snapshot.resolve_id(left)),
            Err(ResolveError::UnknownHash)
        );
    }
    // Transactions leave with their blocks.
    assert!(snapshot.transaction(&transaction_hash(2)).is_none());
    let (found, index) = snapshot.transaction(&transaction_hash(3)).unwrap();
    assert_eq!((found.number(), index), (3, 0));
}

#[test]
fn ranges_are_clipped_to_the_window() {
    let snapshot = window_of(131).0.snapshot();
    let numbers = |from, to| {
        let range = snapshot.range(from, to).iter();
        range.map(|block| block.number()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(3, 5), [3, 4, 5]);
    assert_eq!(numbers(130, 130), [130]);
    assert_eq!(numbers(0, 3), [3]);
    assert_eq!(numbers(129, u64::MAX), [129, 130]);
    assert!(numbers(5, 4).is_empty());
    assert!(numbers(0, 2).is_empty());
    assert!(numbers(131, 140).is_empty());
    assert_eq!(snapshot.range(0, u64::MAX).len(), WINDOW_BLOCKS);
}

#[test]
fn a_snapshot_never_changes() {
    let (mut window, chain) = window_of(128);
    let old = window.snapshot();
    assert!(
        Arc::ptr_eq(&old, &window.snapshot()),
        "one snapshot for one state of the window"
    );
    let sibling = block(1, &[127, 500]).child_of(&chain[126]);
    window
        .advance(1, vec![Arc::clone(&sibling)], None, None)
        .unwrap();
    let next = block(1, &[501]).child_of(&sibling);
    window.apply(next).unwrap();
    window.check_invariants().unwrap();

    assert_eq!((old.oldest(), old.head().hash), (0, chain[127].hash));
    for (number, block) in (0..).zip(&chain) {
        let (found, index) = old.transaction(&transaction_hash(number)).unwrap();
        assert_eq!((found.hash, index), (block.hash, 0));
        assert!(Arc::ptr_eq(old.by_hash(&block.hash).unwrap(), block));
    }
    assert!(old.transaction(&transaction_hash(500)).is_none());
    assert!(old.by_hash(&sibling.hash).is_none());

    let new = window.snapshot();
    assert_eq!((new.oldest(), new.head().number()), (1, 128));
    assert!(new.transaction(&transaction_hash(0)).is_none());
    let (found, _) = new.transaction(&transaction_hash(127)).unwrap();
    assert_eq!(
        found.hash, sibling.hash,
        "a transaction of both branches is the canonical one"
    );
    assert!(Arc::ptr_eq(
        new.by_hash(&chain[127].hash).unwrap(),
        &chain[127]
    ));
    let replaced =
        |require_canonical| resolved(new.resolve_id(hash(chain[127].hash, require_canonical)));
    assert_eq!(replaced(false), Ok(127));
    assert_eq!(replaced(true), Err(ResolveError::NotCanonical));
}

#[test]
fn nothing_keeps_the_state_of_a_block_that_left() {
    let store = NodeStore::new();
    let with_state = |block: Arc<Block>| {
        let mut block = Arc::into_inner(block).unwrap();
        block.state = Some(State::empty(&store));
        Arc::new(block)
    };
    let genesis = with_state(block(0, &[0]).genesis());
    let mut states = vec![Arc::downgrade(genesis.state.as_ref().unwrap())];
    let mut window = Window::new(CHAIN_ID, genesis);
    let mut advance = |window: &mut Window, reverted: usize, salt| {
        let parent_place = window.snapshot().canonical().len() - 1 - reverted;
        let parent = Arc::clone(&window.snapshot().canonical()[parent_place]);
        let next = with_state(block(salt, &[]).child_of(&parent));
        states.push(Arc::downgrade(next.state.as_ref().unwrap()));
        window.advance(reverted, vec![next], None, None).unwrap();
        window.check_invariants().unwrap();
    };
    advance(&mut window, 0, 0);
    advance(&mut window, 1, 1);
    for _ in 0..127 {
        advance(&mut window, 0, 0);
    }
    // Head 128: the genesis has left, but block 1 and the block that it replaced are held.
    let held = |states: &[std::sync::Weak<State>]| {
        states
            .iter()
            .map(|state| state.strong_count() > 0)
            .collect::<Vec<_>>()
    };
    assert_eq!(held(&states)[..4], [false, true, true, true]);
    assert!(window.snapshot().genesis().unwrap().state.is_none());
    let parent = Arc::clone(window.snapshot().head());
    window.apply(block(0, &[]).child_of(&parent)).unwrap();
    assert_eq!(held(&states)[..4], [false, false, false, true]);
}

#[test]
fn a_reorg_may_be_as_deep_as_the_window() {
    let (mut window, chain) = window_of(130);
    assert_eq!(
        window.advance(128, vec![], None, None).unwrap_err(),
        WindowError::NothingToRevert
    );
    let mut branch = vec![block(1, &[900]).child_of(&chain[2])];
    for number in 901..1_030 {
        let next = block(1, &[number]).child_of(&branch[branch.len() - 1]);
        branch.push(next);
    }
    let delta = window.advance(127, branch.clone(), None, None).unwrap();
    window.check_invariants().unwrap();
    let newest_first: Vec<_> = chain[3..].iter().rev().map(|block| block.hash).collect();
    assert_eq!(
        delta
            .reverted
            .iter()
            .map(|block| block.hash)
            .collect::<Vec<_>>(),
        newest_first
    );
    assert_eq!(delta.applied.len(), branch.len());
    let snapshot = window.snapshot();
    assert_eq!((snapshot.head().number(), snapshot.oldest()), (132, 5));
    // Replaced blocks are held while their numbers are in the window.
    assert!(snapshot.by_hash(&chain[4].hash).is_none());
    assert!(snapshot.by_hash(&chain[5].hash).is_some());
    assert!(snapshot.transaction(&transaction_hash(5)).is_none());

    // After a reorg back, replaced blocks are canonical again.
    let (mut window, chain) = window_of(128);
    let sibling = block(1, &[]).child_of(&chain[126]);
    window
        .advance(1, vec![Arc::clone(&sibling)], None, None)
        .unwrap();
    window
        .advance(1, vec![Arc::clone(&chain[127])], None, None)
        .unwrap();
    window.check_invariants().unwrap();
    let snapshot = window.snapshot();
    assert!(snapshot.is_canonical(&chain[127]) && !snapshot.is_canonical(&sibling));
}

#[test]
fn replaced_blocks_are_bounded() {
    let (mut window, chain) = window_of(3);
    let siblings: Vec<_> = (1..=REPLACED_BLOCKS_MAX as u64 + 2)
        .map(|salt| block(salt, &[salt]).child_of(&chain[2]))
        .collect();
    window.apply(Arc::clone(&siblings[0])).unwrap();
    for sibling in &siblings[1..] {
        window
            .advance(1, vec![Arc::clone(sibling)], None, None)
            .unwrap();
    }
    window.check_invariants().unwrap();
    let snapshot = window.snapshot();
    let held: Vec<_> = siblings
        .iter()
        .map(|block| snapshot.by_hash(&block.hash).is_some())
        .collect();
    // The last one is the head; the one replaced first is released.
    assert_eq!(
        held.iter().filter(|held| **held).count(),
        REPLACED_BLOCKS_MAX + 1
    );
    assert!(!held[0]);
}

#[test]
fn an_advance_is_all_or_nothing() {
    let (mut window, chain) = window_of(129);
    window.set_safe(chain[120].hash).unwrap();
    let before = window.snapshot();
    let branch = block(1, &[900]).child_of(&chain[126]);
    let unknown = B256::repeat_byte(9);
    let (good, bad) = (
        Arc::clone(&branch),
        block(0, &[]).orphan(128, Arc::from([unknown])),
    );
    let not_canonical = |hash| WindowError::NotCanonical { hash };
    let not_a_child = WindowError::NotAChild {
        number: 128,
        hash: bad.hash,
        head: branch.hash,
    };
    type Advance = (
        usize,
        Vec<Arc<Block>>,
        Option<B256>,
        Option<B256>,
        WindowError,
    );
    let table: Vec<Advance> = vec![
        (128, vec![], None, None, WindowError::NothingToRevert),
        (2, vec![Arc::clone(&good), bad], None, None, not_a_child),
        (
            2,
            vec![Arc::clone(&good)],
            Some(unknown),
            None,
            not_canonical(unknown),
        ),
        (
            2,
            vec![Arc::clone(&good)],
            None,
            Some(unknown),
            not_canonical(unknown),
        ),
        // The same advance reverts it.
        (
            2,
            vec![good],
            Some(chain[127].hash),
            None,
            not_canonical(chain[127].hash),
        ),
    ];
    for (reverted, applied, safe, finalized, want) in table {
        let refused = window
            .advance(reverted, applied, safe, finalized)
            .unwrap_err();
        assert_eq!(refused, want);
        window.check_invariants().unwrap();
        assert!(Arc::ptr_eq(&before, &window.snapshot()));
    }
    window
        .advance(
            2,
            vec![Arc::clone(&branch)],
            Some(branch.hash),
            Some(chain[126].hash),
        )
        .unwrap();
    window.check_invariants().unwrap();
    let snapshot = window.snapshot();
    assert_eq!(resolved(snapshot.resolve(tag(BlockTag::Safe))), Ok(127));
    assert_eq!(
        resolved(snapshot.resolve(tag(BlockTag::Finalized))),
        Ok(126)
    );
}

#[test]
fn safe_and_finalized_follow_the_source() {
    let (mut window, chain) = window_of(200);
    let tags = [BlockTag::Safe, BlockTag::Finalized];
    let resolve = |window: &Window| tags.map(|name| resolved(window.snapshot().resolve(tag(name))));
    assert_eq!(resolve(&window), [Err(ResolveError::UnknownTag); 2]);
    let unknown = B256::repeat_byte(9);
    let replaced = block(1, &[]).child_of(&chain[198]);
    window
        .advance(1, vec![Arc::clone(&replaced)], None, None)
        .unwrap();
    window
        .advance(1, vec![Arc::clone(&chain[199])], None, None)
        .unwrap();
    for hash in [unknown, replaced.hash] {
        assert_eq!(
            window.set_safe(hash),
            Err(WindowError::NotCanonical { hash })
        );
        assert_eq!(
            window.set_finalized(hash),
            Err(WindowError::NotCanonical { hash })
        );
    }
    // Below the window they are known but not served.
    window.set_finalized(chain[40].hash).unwrap();
    window.set_safe(chain[72].hash).unwrap();
    window.check_invariants().unwrap();
    let below = |number, oldest| Err(ResolveError::BelowWindow { number, oldest });
    assert_eq!(resolve(&window), [Ok(72), below(40, 72)]);
    let next = block(0, &[]).child_of(&chain[199]);
    window.advance(0, vec![next], None, None).unwrap();
    assert_eq!(resolve(&window), [below(72, 73), below(40, 73)]);
    // The genesis is below the window but readable.
    window.set_safe(chain[0].hash).unwrap();
    let snapshot = window.snapshot();
    assert_eq!(resolved(snapshot.resolve_block(tag(BlockTag::Safe))), Ok(0));
    // A reverted block is no longer safe; a finalized block below it stays.
    window.set_safe(chain[199].hash).unwrap();
    window.set_finalized(chain[198].hash).unwrap();
    window.advance(2, vec![replaced], None, None).unwrap();
    window.check_invariants().unwrap();
    assert_eq!(resolve(&window), [Err(ResolveError::UnknownTag), Ok(198)]);
}

#[test]
fn a_settled_block_stays_known_however_far_below_it_is() {
    let (mut window, chain) = window_of(2);
    window.set_finalized(chain[1].hash).unwrap();
    let mut head = Arc::clone(&chain[1]);
    for _ in 0..500 {
        head = block(0, &[]).child_of(&head);
        window
            .advance(0, vec![Arc::clone(&head)], None, Some(chain[1].hash))
            .unwrap();
    }
    window.check_invariants().unwrap();
    let below = ResolveError::BelowWindow {
        number: 1,
        oldest: 374,
    };
    assert_eq!(
        resolved(window.snapshot().resolve(tag(BlockTag::Finalized))),
        Err(below)
    );
    // A hash that was never set and is not a known ancestor of the oldest block.
    let hash = chain[0].hash;
    window.set_safe(hash).unwrap();
    let orphan = block(0, &[]).orphan(1_000, Arc::from([B256::repeat_byte(1)]));
    let refused = Window::new(CHAIN_ID, orphan).set_safe(hash);
    assert_eq!(refused, Err(WindowError::NotCanonical { hash }));
}

/// A window begins with the head and is filled newest first, as from an upstream.
#[test]
fn a_window_is_filled_from_its_head_down() {
    let (_, chain) = window_of(140);
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[139]));
    let mut version = 0;
    for number in (12..139).rev() {
        window.extend_below(Arc::clone(&chain[number])).unwrap();
        window.check_invariants().unwrap();
        let snapshot = window.snapshot();
        assert_eq!(
            (snapshot.oldest(), snapshot.head().number()),
            (number as u64, 139)
        );
        assert!(snapshot.version() > version);
        version = snapshot.version();
        let (found, index) = snapshot
            .transaction(&transaction_hash(number as u64))
            .unwrap();
        assert_eq!((found.hash, index), (chain[number].hash, 0));
        assert!(snapshot.by_hash(&chain[number].hash).is_some());
    }
    let before = window.snapshot();
    assert_eq!(before.canonical().len(), WINDOW_BLOCKS);
    assert_eq!(
        window.extend_below(Arc::clone(&chain[11])),
        Err(WindowError::Full)
    );
    assert!(Arc::ptr_eq(&before, &window.snapshot()));
    assert!(before.genesis().is_none());
    // It moves on like any other window.
    window
        .apply(block(0, &[140]).child_of(&chain[139]))
        .unwrap();
    window.check_invariants().unwrap();
    assert_eq!(window.snapshot().oldest(), 13);
}

#[test]
fn a_short_chain_is_filled_down_to_its_genesis() {
    let (_, chain) = window_of(3);
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[2]));
    for number in [1, 0] {
        window.extend_below(Arc::clone(&chain[number])).unwrap();
        window.check_invariants().unwrap();
    }
    let snapshot = window.snapshot();
    assert!(Arc::ptr_eq(snapshot.genesis().unwrap(), &chain[0]));
    let again = window.extend_below(Arc::clone(&chain[0]));
    assert!(matches!(again, Err(WindowError::NotTheParent { .. })));
}

#[test]
fn a_genesis_is_kept_below_a_window_that_began_above_it() {
    let (_, chain) = window_of(200);
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[199]));
    let hash = chain[1].hash;
    let refused = window.keep_genesis(&chain[1]);
    assert_eq!(refused, Err(WindowError::NotCanonical { hash }));
    window.keep_genesis(&chain[0]).unwrap();
    window.check_invariants().unwrap();
    let snapshot = window.snapshot();
    let by_number = snapshot.resolve_block(BlockNumberOrTag::Number(0)).unwrap();
    assert_eq!(by_number.hash, chain[0].hash);
    assert_eq!(
        snapshot.by_hash(&chain[0].hash).unwrap().hash,
        chain[0].hash
    );
    // Its state is not held.
    let (number, oldest) = (0, 199);
    let below = ResolveError::BelowWindow { number, oldest };
    for at in [
        BlockId::Number(BlockNumberOrTag::Number(0)),
        BlockId::Hash {
            hash: chain[0].hash,
            require_canonical: true,
        },
    ] {
        assert_eq!(snapshot.resolve_id(at).unwrap_err(), below);
    }
    // The first one stays.
    window.keep_genesis(&block(9, &[]).genesis()).unwrap();
    assert!(Arc::ptr_eq(&snapshot, &window.snapshot()));
    // A genesis that the window reaches replaces it, because the chain links to that one.
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[1]));
    window.keep_genesis(&block(9, &[]).genesis()).unwrap();
    window.extend_below(Arc::clone(&chain[0])).unwrap();
    window.check_invariants().unwrap();
    assert!(Arc::ptr_eq(window.snapshot().genesis().unwrap(), &chain[0]));
}

#[test]
fn a_settled_block_0_is_the_kept_genesis() {
    let (_, chain) = window_of(200);
    let mut window = Window::new(CHAIN_ID, block(0, &[]).orphan(500, Arc::from([])));
    window.set_safe_at(0, B256::repeat_byte(9)).unwrap();
    window.set_finalized_at(0, chain[0].hash).unwrap();
    window.keep_genesis(&chain[0]).unwrap();
    window.check_invariants().unwrap();
    let snapshot = window.snapshot();
    let resolve = |name| resolved(snapshot.resolve_block(tag(name)));
    assert_eq!(resolve(BlockTag::Safe), Err(ResolveError::UnknownTag));
    assert_eq!(resolve(BlockTag::Finalized), Ok(0));
    // The oldest block names another genesis as an ancestor; the one that is served counts.
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[1]));
    window.keep_genesis(&block(9, &[]).genesis()).unwrap();
    let hash = chain[0].hash;
    let refused = Err(WindowError::NotCanonical { hash });
    assert_eq!(window.set_safe_at(0, hash), refused);
    assert_eq!(window.set_safe(hash), refused);
    window.check_invariants().unwrap();
}

#[test]
fn a_cursor_at_the_last_number_is_lost() {
    let last = block(0, &[]).orphan(u64::MAX, Arc::from([]));
    let (window, _) = window_of(2);
    let lost = Cursor::after(&last).step(&window.snapshot()).unwrap_err();
    assert_eq!(lost, CursorLost { number: u64::MAX });
}

#[test]
fn only_the_parent_of_the_oldest_block_extends_the_window() {
    let (_, chain) = window_of(10);
    let mut window = Window::new(CHAIN_ID, Arc::clone(&chain[8]));
    let before = window.snapshot();
    let sibling = block(1, &[]).child_of(&chain[6]);
    let parent = chain[7].hash;
    for block in [&chain[8], &chain[9], &chain[6], &sibling] {
        let refused = window.extend_below(Arc::clone(block)).unwrap_err();
        let (number, hash) = (block.number(), block.hash);
        let want = WindowError::NotTheParent {
            number,
            hash,
            parent,
        };
        assert_eq!(refused, want);
    }
    assert!(Arc::ptr_eq(&before, &window.snapshot()));
    // No hash covers the total difficulty, so a wrong one is no reason to refuse the block.
    let mut other_total = chain[7].without_state();
    other_total.total_difficulty = Some(alloy_primitives::U256::from(70));
    window.extend_below(Arc::new(other_total)).unwrap();
    window.check_invariants().unwrap();
}

/// A look-up finds the newer of two places of a transaction, and the older one after a revert.
#[test]
fn a_duplicate_transaction_is_found_in_the_newer_block() {
    let first = block(0, &[5, 5, 6]).genesis();
    let second = block(0, &[7, 5]).child_of(&first);
    let third = block(0, &[5]).child_of(&second);
    let mut window = Window::new(CHAIN_ID, Arc::clone(&third));
    let mut check = |change: &dyn Fn(&mut Window), five, six| {
        change(&mut window);
        window.check_invariants().unwrap();
        let snapshot = window.snapshot();
        let place = |number| {
            let (block, index) = snapshot.transaction(&transaction_hash(number))?;
            Some((block.number(), index))
        };
        assert_eq!((place(5), place(6)), (five, six));
    };
    check(&|_| {}, Some((2, 0)), None);
    check(
        &|window| window.extend_below(Arc::clone(&second)).unwrap(),
        Some((2, 0)),
        None,
    );
    check(
        &|window| window.extend_below(Arc::clone(&first)).unwrap(),
        Some((2, 0)),
        Some((0, 2)),
    );
    check(
        &|window| drop(window.revert().unwrap()),
        Some((1, 1)),
        Some((0, 2)),
    );
    check(
        &|window| drop(window.revert().unwrap()),
        Some((0, 1)),
        Some((0, 2)),
    );
}

#[test]
fn a_reorg_deeper_than_the_window_resets_it() {
    let (mut window, chain) = window_of(200);
    let sibling = block(1, &[]).child_of(&chain[198]);
    window
        .advance(1, vec![sibling.clone()], Some(chain[150].hash), None)
        .unwrap();
    let old = window.snapshot();
    let mut branch = vec![block(2, &[]).child_of(&chain[20])];
    for _ in 0..178 {
        let next = block(2, &[]).child_of(&branch[branch.len() - 1]);
        branch.push(next);
    }
    let head = Arc::clone(&branch[branch.len() - 1]);
    let delta = window.reset(Arc::clone(&head)).unwrap();
    window.check_invariants().unwrap();
    assert_eq!(delta.reverted.len(), WINDOW_BLOCKS);
    assert_eq!(delta.reverted[0].hash, sibling.hash);
    assert_eq!(delta.applied[0].hash, head.hash);
    let snapshot = window.snapshot();
    assert!(snapshot.version() > old.version());
    assert_eq!((snapshot.oldest(), snapshot.head().number()), (199, 199));
    assert!(
        snapshot.by_hash(&sibling.hash).is_none() && snapshot.by_hash(&chain[199].hash).is_none()
    );
    assert!(snapshot.transaction(&transaction_hash(150)).is_none());
    assert_eq!(
        snapshot.genesis().unwrap().hash,
        chain[0].hash,
        "both chains have this genesis"
    );
    assert_eq!(
        resolved(snapshot.resolve(tag(BlockTag::Safe))),
        Err(ResolveError::UnknownTag)
    );
    for parent in branch.iter().rev().skip(1).take(127) {
        window.extend_below(Arc::clone(parent)).unwrap();
    }
    window.check_invariants().unwrap();
    assert_eq!(window.snapshot().oldest(), 72);
    // The old snapshot is unchanged.
    assert_eq!((old.oldest(), old.head().hash), (72, sibling.hash));
    // A window that begins at block 0 has its own genesis.
    let other = block(9, &[]).genesis();
    window.reset(Arc::clone(&other)).unwrap();
    window.check_invariants().unwrap();
    assert_eq!(window.snapshot().genesis().unwrap().hash, other.hash);
}

#[test]
fn a_settled_block_far_below_is_trusted_until_the_window_reaches_it() {
    let (_, chain) = window_of(400);
    let orphan = block(0, &[]).orphan(399, Arc::from([chain[398].hash]));
    let mut window = Window::new(CHAIN_ID, orphan);
    let unknown = B256::repeat_byte(9);
    let refused = Err(WindowError::NotCanonical { hash: unknown });
    // Numbers of the block itself, of its parent, and above the head.
    for number in [399, 398, 400, u64::MAX] {
        assert_eq!(window.set_safe_at(number, unknown), refused);
        assert_eq!(window.set_finalized_at(number, unknown), refused);
    }
    window.set_safe_at(397, chain[397].hash).unwrap();
    window.set_finalized_at(396, unknown).unwrap();
    window.check_invariants().unwrap();
    let tags = [BlockTag::Safe, BlockTag::Finalized];
    let resolve = |window: &Window| tags.map(|name| resolved(window.snapshot().resolve(tag(name))));
    let below = |number, oldest| Err(ResolveError::BelowWindow { number, oldest });
    assert_eq!(resolve(&window), [below(397, 399), below(396, 399)]);
    for number in [398, 397, 396] {
        window.extend_below(Arc::clone(&chain[number])).unwrap();
        window.check_invariants().unwrap();
    }
    assert_eq!(resolve(&window), [Ok(397), Err(ResolveError::UnknownTag)]);
    window.set_finalized_at(396, chain[396].hash).unwrap();
    assert_eq!(resolve(&window), [Ok(397), Ok(396)]);
    // Setting them again changes nothing.
    let before = window.snapshot();
    window.set_safe_at(397, chain[397].hash).unwrap();
    window.set_finalized_at(396, chain[396].hash).unwrap();
    assert!(Arc::ptr_eq(&before, &window.snapshot()));
    // The genesis is known too, if it is held.
    let (mut window, chain) = window_of(400);
    assert_eq!(window.set_safe_at(0, unknown), refused);
    window.set_safe_at(0, chain[0].hash).unwrap();
    window.check_invariants().unwrap();
}
