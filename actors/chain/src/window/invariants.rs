//! What is true of every window.

use std::{collections::HashMap, sync::Arc};

use super::{
    snapshot::{SettledBlock, Snapshot},
    transactions::TransactionPlace,
    window::{REPLACED_BLOCKS_MAX, WINDOW_BLOCKS, Window},
};
use crate::block::Block;

/// Checks every invariant; costs as much as the window has transactions.
pub(super) fn check(window: &Window) -> Result<(), String> {
    let view = &*window.view;
    canonical_is_a_chain(view)?;
    replaced_are_bounded(window)?;
    held_is_canonical_and_replaced(window)?;
    transactions_are_the_canonical_ones(view)?;
    genesis_is_the_first(view)?;
    settled_is_canonical("safe", view.safe, view)?;
    settled_is_canonical("finalized", view.finalized, view)
}

fn canonical_is_a_chain(view: &Snapshot) -> Result<(), String> {
    let count = view.canonical.len();
    ensure((1..=WINDOW_BLOCKS).contains(&count), || {
        format!("{count} canonical blocks, want 1 to {WINDOW_BLOCKS}")
    })?;
    for pair in view.canonical.windows(2) {
        let (parent, child) = (&*pair[0], &*pair[1]);
        let number = child.number();
        ensure(number == parent.number() + 1, || {
            format!("block {number} follows block {}", parent.number())
        })?;
        ensure(child.header.parent_hash == parent.hash, || {
            let (want, found) = (child.header.parent_hash, parent.hash);
            format!("block {number} names the parent {want}, its parent is {found}")
        })?;
    }
    Ok(())
}

fn replaced_are_bounded(window: &Window) -> Result<(), String> {
    let (count, oldest) = (window.replaced.len(), window.view.oldest());
    ensure(count <= REPLACED_BLOCKS_MAX, || {
        format!("{count} replaced blocks, want at most {REPLACED_BLOCKS_MAX}")
    })?;
    for block in &window.replaced {
        let number = block.number();
        ensure(number >= oldest, || {
            format!("replaced block {number} is below the window, oldest is {oldest}")
        })?;
        ensure(!window.view.is_canonical(block), || {
            format!("replaced block {number} is canonical")
        })?;
    }
    Ok(())
}

fn held_is_canonical_and_replaced(window: &Window) -> Result<(), String> {
    let view = &*window.view;
    for block in view.canonical.iter().chain(&window.replaced) {
        let held = view.held.get(&block.hash);
        ensure(held.is_some_and(|held| Arc::ptr_eq(held, block)), || {
            format!("block {} is not held by its hash", block.number())
        })?;
    }
    let (held, want) = (
        view.held.len(),
        view.canonical.len() + window.replaced.len(),
    );
    ensure(held == want, || {
        format!("{held} blocks held by hash, want {want}")
    })
}

fn transactions_are_the_canonical_ones(view: &Snapshot) -> Result<(), String> {
    let mut caught_up = view.transactions.clone();
    caught_up.catch_up();
    let mut newest = HashMap::new();
    let mut count = 0;
    for block in &view.canonical {
        for (index, hash) in (0..).zip(&*block.transaction_hashes) {
            let number = block.number();
            newest.insert(hash, TransactionPlace { number, index });
            count += 1;
        }
    }
    for (hash, want) in &newest {
        for index in [&view.transactions, &caught_up] {
            let found = index.get(hash);
            ensure(found == Some(*want), || {
                format!("transaction {hash} is found at {found:?}, want {want:?}")
            })?;
        }
    }
    let (found, want) = (caught_up.len(), newest.len());
    ensure(found == want, || {
        format!("{found} transactions by hash, want {want}")
    })?;
    let (found, want) = (caught_up.shadowed_len(), count - newest.len());
    ensure(found == want, || {
        format!("{found} shadowed transactions, want {want}")
    })
}

fn genesis_is_the_first(view: &Snapshot) -> Result<(), String> {
    let first = &view.canonical[0];
    let Some(genesis) = &view.genesis else {
        return ensure(first.number() > 0, || {
            "block 0 is not held as the genesis".to_owned()
        });
    };
    let number = genesis.number();
    ensure(number == 0, || {
        format!("block {number} is held as the genesis")
    })?;
    if first.number() == 0 {
        ensure(Arc::ptr_eq(first, genesis), || {
            "the genesis is not canonical block 0".to_owned()
        })
    } else {
        ensure(genesis.state.is_none(), || {
            "the genesis holds a state below the window".to_owned()
        })
    }
}

fn settled_is_canonical(
    tag: &str,
    settled: Option<SettledBlock>,
    view: &Snapshot,
) -> Result<(), String> {
    let Some(SettledBlock { number, hash }) = settled else {
        return Ok(());
    };
    let head = view.head().number();
    ensure(number <= head, || {
        format!("{tag} block {number} is above the head {head}")
    })?;
    let is_same = |canonical: &Arc<Block>| canonical.hash == hash;
    ensure(view.by_number(number).is_none_or(is_same), || {
        format!("{tag} block {number} {hash} is not canonical")
    })
}

fn ensure(holds: bool, violation: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(violation()) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests are made to fail")]
mod tests {
    use super::{
        super::tests::{block, window_of},
        *,
    };
    use crate::trie::{NodeStore, State};

    type Corrupt = fn(&mut Window, &mut Snapshot);

    #[test]
    fn every_invariant_can_fail() {
        let table: &[(&str, Corrupt)] = &[
            ("0 canonical blocks, want 1 to 128", |_, view| {
                view.canonical.clear()
            }),
            ("129 canonical blocks, want 1 to 128", |_, view| {
                let next = block(0, &[]).child_of(view.head());
                view.canonical.push(next);
            }),
            ("block 4 follows block 2", |_, view| {
                drop(view.canonical.remove(1))
            }),
            ("names the parent", |_, view| {
                let parent = view.canonical[126].hash;
                view.canonical[127] = block(0, &[]).orphan(129, Arc::from([!parent]));
            }),
            ("513 replaced blocks, want at most 512", |window, _| {
                let again = Arc::clone(&window.replaced[0]);
                window.replaced.resize(513, again);
            }),
            (
                "replaced block 1 is below the window, oldest is 2",
                |window, _| {
                    let below = block(0, &[]).orphan(1, Arc::from([]));
                    window.replaced.push_back(below);
                },
            ),
            ("replaced block 129 is canonical", |window, view| {
                window.replaced.push_back(Arc::clone(view.head()));
            }),
            ("block 129 is not held by its hash", |_, view| {
                let head = view.head().hash;
                view.held.remove(&head);
            }),
            ("block 129 is not held by its hash", |_, view| {
                let (head, other) = (view.head().hash, Arc::clone(&view.canonical[0]));
                view.held.insert(head, other);
            }),
            ("130 blocks held by hash, want 129", |_, view| {
                let other = block(9, &[]).orphan(100, Arc::from([]));
                view.held.insert(other.hash, other);
            }),
            ("is found at None", |_, view| {
                view.transactions.remove_oldest(&view.canonical[7])
            }),
            (
                "is found at Some(TransactionPlace { number: 60",
                |_, view| {
                    view.transactions
                        .add_newest(&block(0, &[129]).orphan(60, Arc::from([])));
                },
            ),
            ("129 transactions by hash, want 128", |window, view| {
                view.transactions.add_newest(&window.replaced[0]);
            }),
            ("1 shadowed transactions, want 0", |_, view| {
                let head = Arc::clone(view.head());
                view.transactions.add_newest(&head);
            }),
            ("block 129 is held as the genesis", |_, view| {
                view.genesis = Some(Arc::clone(view.head()));
            }),
            ("the genesis holds a state below the window", |_, view| {
                let mut genesis = view.genesis.as_ref().unwrap().without_state();
                genesis.state = Some(State::empty(&NodeStore::new()));
                view.genesis = Some(Arc::new(genesis));
            }),
            ("safe block 130 is above the head 129", |_, view| {
                let hash = view.head().hash;
                view.safe = Some(SettledBlock { number: 130, hash });
            }),
            ("finalized block 50", |_, view| {
                let hash = view.head().hash;
                view.finalized = Some(SettledBlock { number: 50, hash });
            }),
        ];
        for (want, corrupt) in table {
            let (mut window, chain) = window_of(129);
            let replaced = block(1, &[1_000]).child_of(&chain[128]);
            window.apply(replaced).unwrap();
            window
                .advance(1, vec![block(0, &[129]).child_of(&chain[128])], None, None)
                .unwrap();
            window.check_invariants().unwrap();
            let mut view = Snapshot::clone(&window.view);
            corrupt(&mut window, &mut view);
            window.view = Arc::new(view);
            let violation = window.check_invariants().unwrap_err();
            assert!(
                violation.contains(want),
                "want {want:?}, found {violation:?}"
            );
        }
        let (mut window, _) = window_of(3);
        let view = Arc::make_mut(&mut window.view);
        view.genesis = Some(Arc::new(view.canonical[0].without_state()));
        assert_eq!(
            window.check_invariants(),
            Err("the genesis is not canonical block 0".to_owned())
        );
        Arc::make_mut(&mut window.view).genesis = None;
        assert_eq!(
            window.check_invariants(),
            Err("block 0 is not held as the genesis".to_owned())
        );
    }
}
