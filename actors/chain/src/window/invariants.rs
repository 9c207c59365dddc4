//! What is true of every window.

use std::{collections::HashMap, sync::Arc};

use super::{
    snapshot::{Settled, Snapshot},
    transactions::Place,
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
        if let (Some(before), Some(after)) = (parent.total_difficulty, child.total_difficulty) {
            ensure(before + child.header.difficulty == after, || {
                format!("block {number} has total difficulty {after} after {before}")
            })?;
        }
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
    let mut newest = HashMap::new();
    let mut count = 0;
    for block in &view.canonical {
        for (index, hash) in (0..).zip(&block.transaction_hashes) {
            let number = block.number();
            newest.insert(hash, Place { number, index });
            count += 1;
        }
    }
    for (hash, want) in &newest {
        let found = view.transactions.get(hash);
        ensure(found == Some(*want), || {
            format!("transaction {hash} is found at {found:?}, want {want:?}")
        })?;
    }
    let (found, want) = (view.transactions.len(), newest.len());
    ensure(found == want, || {
        format!("{found} transactions by hash, want {want}")
    })?;
    let (found, want) = (view.transactions.shadowed_len(), count - newest.len());
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
    settled: Option<Settled>,
    view: &Snapshot,
) -> Result<(), String> {
    let Some(Settled { number, hash }) = settled else {
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
