#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::{BTreeSet, VecDeque};

use alloy_consensus::Header;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::test_block::{TestBlock, transaction_hash};

/// The block with this number and the transactions of these numbers.
fn held(number: u64, transactions: impl IntoIterator<Item = u64>) -> Block {
    let block = TestBlock::default().genesis();
    Block {
        header: Header {
            number,
            ..block.header.clone()
        },
        transaction_hashes: transactions.into_iter().map(transaction_hash).collect(),
        ..block.without_state()
    }
}

/// The blocks that the index has, each with its transactions, oldest first: the oracle.
#[derive(Clone, Debug)]
struct Model(VecDeque<(u64, Vec<u64>)>);

/// Transactions of the model have lower numbers.
const TRANSACTIONS: u64 = 6;

impl Model {
    fn place(&self, transaction: u64) -> Option<TransactionPlace> {
        let mut newest_first = self.0.iter().rev();
        newest_first.find_map(|(number, transactions)| {
            let index = transactions.iter().rposition(|one| *one == transaction)?;
            Some(TransactionPlace {
                number: *number,
                index: index as u32,
            })
        })
    }

    /// Distinct transactions of the chain, and the places in all blocks beyond them.
    fn lengths(&self) -> (usize, usize) {
        let distinct =
            |transactions: &Vec<u64>| transactions.iter().copied().collect::<BTreeSet<_>>();
        let of_each: Vec<_> = self.0.iter().map(|(_, list)| distinct(list)).collect();
        let count = of_each.iter().map(BTreeSet::len).sum::<usize>();
        let all: BTreeSet<_> = of_each.into_iter().flatten().collect();
        (all.len(), count - all.len())
    }

    fn check(&self, index: &TransactionIndex) {
        let mut complete = index.clone();
        complete.index_pending();
        for transaction in 0..TRANSACTIONS {
            let hash = transaction_hash(transaction);
            let want = self.place(transaction);
            assert_eq!(index.get(&hash), want, "{transaction} in {self:?}");
            assert_eq!(complete.get(&hash), want, "{transaction} in {self:?}");
        }
        let found = (complete.len(), complete.shadowed_len());
        assert_eq!(found, self.lengths(), "{self:?}");
    }
}

/// A change of the window, as the index sees it.
#[derive(Clone, Debug)]
enum Change {
    AddNewest(Vec<u64>),
    AddOldest(Vec<u64>),
    RemoveNewest,
    RemoveOldest,
    IndexPending,
}

impl Change {
    /// Makes the change, unless the window would have no block left.
    fn make(self, index: &mut TransactionIndex, Model(blocks): &mut Model) {
        let (oldest, newest) = (blocks[0].0, blocks[blocks.len() - 1].0);
        match self {
            Self::AddNewest(transactions) => {
                index.add_newest(&held(newest + 1, transactions.iter().copied()));
                blocks.push_back((newest + 1, transactions));
            }
            Self::AddOldest(transactions) => {
                index.add_oldest(&held(oldest - 1, transactions.iter().copied()));
                blocks.push_front((oldest - 1, transactions));
            }
            Self::RemoveNewest if blocks.len() > 1 => {
                let (number, transactions) = blocks.pop_back().unwrap();
                index.remove_newest(&held(number, transactions));
            }
            Self::RemoveOldest if blocks.len() > 1 => {
                let (number, transactions) = blocks.pop_front().unwrap();
                index.remove_oldest(&held(number, transactions));
            }
            Self::RemoveNewest | Self::RemoveOldest => {}
            Self::IndexPending => index.index_pending(),
        }
    }
}

fn transactions() -> impl Strategy<Value = Vec<u64>> {
    vec(0..TRANSACTIONS, 0..8)
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => transactions().prop_map(Change::AddNewest),
        1 => transactions().prop_map(Change::AddOldest),
        2 => Just(Change::RemoveNewest),
        2 => Just(Change::RemoveOldest),
        1 => Just(Change::IndexPending),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Repeats within blocks and across them, while older clones are held.
    #[test]
    fn any_change_is_that_of_the_model(
        first in transactions(),
        changes in vec(change(), 1..40),
    ) {
        let mut index = TransactionIndex::default();
        let mut model = Model(VecDeque::from([(1_000, first.clone())]));
        index.add_newest(&held(1_000, first));
        let mut before = Vec::new();
        for change in changes {
            before.push((index.clone(), model.clone()));
            change.make(&mut index, &mut model);
            model.check(&index);
        }
        for (index, model) in before {
            model.check(&index);
        }
    }
}

/// About as many transactions as a block may have, all the same. A quadratic index takes minutes.
#[test]
fn repeats_within_a_block_take_no_place() {
    let many = 160_000;
    let repeated = |number| Block {
        transaction_hashes: vec![transaction_hash(7); many].into(),
        ..held(number, [])
    };
    let mut index = TransactionIndex::default();
    let place = |number| TransactionPlace {
        number,
        index: many as u32 - 1,
    };
    let check = |index: &TransactionIndex, newest, shadowed| {
        assert_eq!(index.get(&transaction_hash(7)), newest);
        assert_eq!(index.shadowed_len(), shadowed);
    };
    index.add_newest(&repeated(10));
    index.index_pending();
    check(&index, Some(place(10)), 0);
    index.add_newest(&repeated(11));
    index.index_pending();
    index.add_oldest(&repeated(9));
    check(&index, Some(place(11)), 2);
    index.remove_newest(&repeated(11));
    check(&index, Some(place(10)), 1);
    index.remove_oldest(&repeated(9));
    index.index_pending();
    check(&index, Some(place(10)), 0);
    index.remove_newest(&repeated(10));
    check(&index, None, 0);
}

/// The same transactions in every block of two windows, from both ends. A quadratic index takes
/// minutes.
#[test]
fn repeats_across_blocks_are_found_without_a_search() {
    let (blocks, many) = (128, 2_000);
    let first = held(0, 0..many);
    let at = |number| Block {
        header: Header {
            number,
            ..first.header.clone()
        },
        ..first.without_state()
    };
    let mut index = TransactionIndex::default();
    for number in blocks..2 * blocks {
        index.add_newest(&at(number));
        index.index_pending();
    }
    for number in (0..blocks).rev() {
        index.add_oldest(&at(number));
    }
    let shadowed = |index: &TransactionIndex| index.shadowed_len() as u64;
    assert_eq!(shadowed(&index), (2 * blocks - 1) * many);
    for number in 0..blocks {
        index.remove_oldest(&at(number));
        index.remove_newest(&at(2 * blocks - 1 - number));
    }
    index.index_pending();
    assert_eq!((index.len(), shadowed(&index)), (0, 0));
}
