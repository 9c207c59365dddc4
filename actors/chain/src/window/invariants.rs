//! The invariants of the window, as one check that tests call.

use std::{collections::HashMap, sync::Arc};

use super::{
    limits::{CANONICAL_BLOCKS_MIN, REPLACED_BLOCKS_MAX, WINDOW_BLOCKS},
    snapshot::{SettledBlock, Snapshot},
    transactions::TransactionPlace,
    window::Window,
};
use crate::block::Block;

impl Window {
    /// Checks every invariant of the window; the cost grows with its transactions.
    ///
    /// # Errors
    /// The first violation, as a sentence with its numbers.
    pub fn check_invariants(&self) -> Result<(), String> {
        let snapshot = &*self.snapshot;
        canonical_is_a_chain(snapshot)?;
        each_block_has_a_suggested_tip(snapshot)?;
        replaced_are_bounded(self)?;
        held_is_canonical_and_replaced(self)?;
        transactions_are_the_canonical_ones(snapshot)?;
        genesis_is_the_first(snapshot)?;
        settled_is_canonical("safe", snapshot.safe, snapshot)?;
        settled_is_canonical("finalized", snapshot.finalized, snapshot)?;
        irreversible_is_kept(self)?;
        bytes_are_counted(self)?;
        bytes_are_bounded(self)
    }
}

fn canonical_is_a_chain(snapshot: &Snapshot) -> Result<(), String> {
    let count = snapshot.canonical.len();
    ensure((1..=WINDOW_BLOCKS).contains(&count), || {
        format!("{count} canonical blocks, want 1 to {WINDOW_BLOCKS}")
    })?;
    for pair in snapshot.canonical.windows(2) {
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

fn each_block_has_a_suggested_tip(snapshot: &Snapshot) -> Result<(), String> {
    let (tips, blocks) = (snapshot.suggested_tips.len(), snapshot.canonical.len());
    ensure(tips == blocks, || {
        format!("{tips} suggested tips for {blocks} blocks")
    })
}

fn replaced_are_bounded(window: &Window) -> Result<(), String> {
    let (count, oldest) = (window.replaced.len(), window.snapshot.oldest());
    ensure(count <= REPLACED_BLOCKS_MAX, || {
        format!("{count} replaced blocks, want at most {REPLACED_BLOCKS_MAX}")
    })?;
    for block in &window.replaced {
        let number = block.number();
        ensure(number >= oldest, || {
            format!("replaced block {number} is below the window, oldest is {oldest}")
        })?;
        ensure(!window.snapshot.is_canonical(block), || {
            format!("replaced block {number} is canonical")
        })?;
    }
    Ok(())
}

fn held_is_canonical_and_replaced(window: &Window) -> Result<(), String> {
    let snapshot = &*window.snapshot;
    for block in snapshot.canonical.iter().chain(&window.replaced) {
        let held = snapshot.held.get(&block.hash);
        ensure(held.is_some_and(|held| Arc::ptr_eq(held, block)), || {
            format!("block {} is not held by its hash", block.number())
        })?;
    }
    let (held, want) = (
        snapshot.held.len(),
        snapshot.canonical.len() + window.replaced.len(),
    );
    ensure(held == want, || {
        format!("{held} blocks held by hash, want {want}")
    })
}

fn transactions_are_the_canonical_ones(snapshot: &Snapshot) -> Result<(), String> {
    let mut complete = snapshot.transactions.clone();
    complete.index_pending();
    let mut newest = HashMap::new();
    // Blocks that have a transaction, summed over all transactions.
    let mut count = 0;
    for block in &snapshot.canonical {
        for (index, hash) in (0..).zip(&*block.transaction_hashes) {
            let number = block.number();
            let before = newest.insert(hash, TransactionPlace { number, index });
            count += usize::from(before.is_none_or(|before| before.number != number));
        }
    }
    for (hash, want) in &newest {
        for index in [&snapshot.transactions, &complete] {
            let found = index.get(hash);
            ensure(found == Some(*want), || {
                format!("transaction {hash} is found at {found:?}, want {want:?}")
            })?;
        }
    }
    let (found, want) = (complete.len(), newest.len());
    ensure(found == want, || {
        format!("{found} transactions by hash, want {want}")
    })?;
    let (found, want) = (complete.shadowed_len(), count - newest.len());
    ensure(found == want, || {
        format!("{found} shadowed transactions, want {want}")
    })
}

fn genesis_is_the_first(snapshot: &Snapshot) -> Result<(), String> {
    let first = &snapshot.canonical[0];
    let Some(genesis) = &snapshot.genesis else {
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
    snapshot: &Snapshot,
) -> Result<(), String> {
    let Some(SettledBlock { number, hash }) = settled else {
        return Ok(());
    };
    let head = snapshot.head().number();
    ensure(number <= head, || {
        format!("{tag} block {number} is above the head {head}")
    })?;
    let genesis = snapshot.genesis().filter(|_| number == 0);
    let canonical = snapshot.by_number(number).or(genesis);
    ensure(canonical.is_none_or(|block| block.hash == hash), || {
        format!("{tag} block {number} {hash} is not canonical")
    })
}

fn irreversible_is_kept(window: &Window) -> Result<(), String> {
    let Some(kept) = window.irreversible else {
        return Ok(());
    };
    let (SettledBlock { number, hash }, finalized) = (kept, window.snapshot.finalized);
    let is_kept = finalized.is_some_and(|at| at == kept || at.number > number);
    ensure(is_kept, || {
        format!("block {number} {hash} is irreversible, and finalized is {finalized:?}")
    })?;
    settled_is_canonical("irreversible", Some(kept), &window.snapshot)
}

fn bytes_are_counted(window: &Window) -> Result<(), String> {
    let sum = |blocks: &mut dyn Iterator<Item = &Arc<Block>>| -> usize {
        blocks.map(|block| block.bytes()).sum()
    };
    for (kind, counted, want) in [
        (
            "canonical",
            window.bytes.canonical,
            sum(&mut window.snapshot.canonical.iter()),
        ),
        (
            "replaced",
            window.bytes.replaced,
            sum(&mut window.replaced.iter()),
        ),
    ] {
        ensure(counted == want, || {
            format!("{counted} bytes of {kind} blocks, want {want}")
        })?;
    }
    Ok(())
}

fn bytes_are_bounded(window: &Window) -> Result<(), String> {
    let (bytes, limits) = (window.bytes, window.limits);
    ensure(bytes.replaced <= limits.replaced_bytes, || {
        let max = limits.replaced_bytes;
        format!(
            "{} bytes of replaced blocks, want at most {max}",
            bytes.replaced
        )
    })?;
    let is_smallest =
        window.replaced.is_empty() && window.snapshot.canonical.len() <= CANONICAL_BLOCKS_MIN;
    let (total, max) = (bytes.canonical + bytes.replaced, limits.bytes);
    ensure(total <= max || is_smallest, || {
        format!("{total} bytes of all blocks, want at most {max}")
    })
}

fn ensure(holds: bool, violation: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(violation()) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
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
            ("0 canonical blocks, want 1 to 128", |_, snapshot| {
                snapshot.canonical.clear()
            }),
            ("129 canonical blocks, want 1 to 128", |_, snapshot| {
                let next = block(0, &[]).child_of(snapshot.head());
                snapshot.canonical.push(next);
            }),
            ("block 4 follows block 2", |_, snapshot| {
                drop(snapshot.canonical.remove(1))
            }),
            ("names the parent", |_, snapshot| {
                let parent = snapshot.canonical[126].hash;
                snapshot.canonical[127] = block(0, &[]).orphan(129, Arc::from([!parent]));
            }),
            ("127 suggested tips for 128 blocks", |_, snapshot| {
                snapshot.suggested_tips.pop();
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
            ("replaced block 129 is canonical", |window, snapshot| {
                window.replaced.push_back(Arc::clone(snapshot.head()));
            }),
            ("block 129 is not held by its hash", |_, snapshot| {
                let head = snapshot.head().hash;
                snapshot.held.remove(&head);
            }),
            ("block 129 is not held by its hash", |_, snapshot| {
                let (head, other) = (snapshot.head().hash, Arc::clone(&snapshot.canonical[0]));
                snapshot.held.insert(head, other);
            }),
            ("130 blocks held by hash, want 129", |_, snapshot| {
                let other = block(9, &[]).orphan(100, Arc::from([]));
                snapshot.held.insert(other.hash, other);
            }),
            ("is found at None", |_, snapshot| {
                snapshot.transactions.remove_oldest(&snapshot.canonical[7])
            }),
            (
                "is found at Some(TransactionPlace { number: 60",
                |_, snapshot| {
                    snapshot
                        .transactions
                        .add_newest(&block(0, &[129]).orphan(60, Arc::from([])));
                },
            ),
            ("129 transactions by hash, want 128", |window, snapshot| {
                snapshot.transactions.add_newest(&window.replaced[0]);
            }),
            ("2 shadowed transactions, want 0", |_, snapshot| {
                let head = Arc::clone(snapshot.head());
                let below = block(0, &[129]).orphan(60, Arc::from([]));
                snapshot.transactions.add_newest(&below);
                snapshot.transactions.add_newest(&head);
            }),
            ("block 129 is held as the genesis", |_, snapshot| {
                snapshot.genesis = Some(Arc::clone(snapshot.head()));
            }),
            (
                "the genesis holds a state below the window",
                |_, snapshot| {
                    let mut genesis = snapshot.genesis.as_ref().unwrap().without_state();
                    genesis.state = Some(State::empty(&NodeStore::new()));
                    snapshot.genesis = Some(Arc::new(genesis));
                },
            ),
            ("safe block 130 is above the head 129", |_, snapshot| {
                let hash = snapshot.head().hash;
                snapshot.safe = Some(SettledBlock { number: 130, hash });
            }),
            ("finalized block 50", |_, snapshot| {
                let hash = snapshot.head().hash;
                snapshot.finalized = Some(SettledBlock { number: 50, hash });
            }),
            ("safe block 0", |_, snapshot| {
                let hash = snapshot.head().hash;
                snapshot.safe = Some(SettledBlock { number: 0, hash });
            }),
            (
                "is irreversible, and finalized is None",
                |window, snapshot| {
                    let (number, hash) = (129, snapshot.head().hash);
                    window.irreversible = Some(SettledBlock { number, hash });
                },
            ),
            ("irreversible block 60", |window, snapshot| {
                let hash = snapshot.head().hash;
                window.irreversible = Some(SettledBlock { number: 60, hash });
                snapshot.finalized = Some(SettledBlock { number: 129, hash });
            }),
            ("bytes of canonical blocks, want", |window, _| {
                window.bytes.canonical += 1;
            }),
            ("bytes of replaced blocks, want", |window, _| {
                window.bytes.replaced -= 1;
            }),
            ("bytes of replaced blocks, want at most 7", |window, _| {
                window.limits.replaced_bytes = 7;
            }),
            ("bytes of all blocks, want at most 9", |window, _| {
                window.limits.bytes = 9;
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
            let mut snapshot = Snapshot::clone(&window.snapshot);
            corrupt(&mut window, &mut snapshot);
            window.snapshot = Arc::new(snapshot);
            let violation = window.check_invariants().unwrap_err();
            assert!(
                violation.contains(want),
                "want {want:?}, found {violation:?}"
            );
        }
        let (mut window, _) = window_of(3);
        let snapshot = Arc::make_mut(&mut window.snapshot);
        snapshot.genesis = Some(Arc::new(snapshot.canonical[0].without_state()));
        assert_eq!(
            window.check_invariants(),
            Err("the genesis is not canonical block 0".to_owned())
        );
        Arc::make_mut(&mut window.snapshot).genesis = None;
        assert_eq!(
            window.check_invariants(),
            Err("block 0 is not held as the genesis".to_owned())
        );
    }
}
