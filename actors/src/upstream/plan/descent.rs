//! Down a chain, several blocks at a time.

use std::collections::BTreeMap;

use alloy_primitives::B256;

/// A question for an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// The block with this hash, which its child names.
    Hash {
        /// The number that it must have.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The block that the upstream has at this number, a guess.
    Number(u64),
}

impl Ask {
    /// The number of the block.
    #[must_use]
    pub const fn number(&self) -> u64 {
        match self {
            Self::Hash { number, .. } | Self::Number(number) => *number,
        }
    }
}

/// A block that was found and verified: its header has this hash, and these are in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedBlock<T> {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Its parent's hash.
    pub parent_hash: B256,
    /// The block.
    pub block: T,
}

/// A walk from a block towards its ancestors. What is asked for or found and not taken yet is at
/// most as many blocks as are asked for at once.
#[derive(Clone, Debug)]
pub(super) struct Descent<T> {
    /// The next block; `None` below block 0.
    next: Option<(u64, B256)>,
    waiting: BTreeMap<u64, DescentEntry<T>>,
}

#[derive(Clone, Debug)]
enum DescentEntry<T> {
    Asked(Ask),
    /// A guess that was not answered as it should: the block is asked for by hash, in its turn.
    Missed,
    Fetched(FetchedBlock<T>),
}

impl<T> Descent<T> {
    pub(super) const fn from(number: u64, hash: B256) -> Self {
        Self {
            next: Some((number, hash)),
            waiting: BTreeMap::new(),
        }
    }

    /// Number and hash of the next block.
    pub(super) const fn next(&self) -> Option<(u64, B256)> {
        self.next
    }

    /// What to ask for so that `width` blocks are asked for or there, the next one first and none
    /// below `lowest`.
    pub(super) fn ask(&mut self, width: usize, lowest: u64) -> Vec<Ask> {
        let Some((number, hash)) = self.next.filter(|(number, _)| *number >= lowest) else {
            return Vec::new();
        };
        let mut asks = Vec::new();
        if let Some(DescentEntry::Missed) = self.waiting.get(&number) {
            self.waiting.remove(&number);
        }
        let mut want = |ask: Ask| {
            self.waiting.entry(ask.number()).or_insert_with(|| {
                asks.push(ask);
                DescentEntry::Asked(ask)
            });
        };
        want(Ask::Hash { number, hash });
        let guesses = (lowest..number).rev().take(width.saturating_sub(1));
        guesses.map(Ask::Number).for_each(&mut want);
        asks
    }

    /// A question was answered. What was not asked for, or is another block than was asked for, is
    /// not taken.
    pub(super) fn got(&mut self, ask: Ask, found: FetchedBlock<T>) {
        let fits = match ask {
            Ask::Hash { number, hash } => (found.number, found.hash) == (number, hash),
            Ask::Number(number) => found.number == number,
        };
        if !fits {
            self.lost(ask);
        } else if let Some(waiting) = self.asked(ask) {
            *waiting = DescentEntry::Fetched(found);
        }
    }

    /// A question was not answered: it is asked again, by hash.
    pub(super) fn lost(&mut self, ask: Ask) {
        if let Some(waiting) = self.asked(ask) {
            *waiting = DescentEntry::Missed;
        }
    }

    /// The place of a question that is open.
    fn asked(&mut self, ask: Ask) -> Option<&mut DescentEntry<T>> {
        let waiting = self.waiting.get_mut(&ask.number());
        waiting.filter(|waiting| matches!(waiting, DescentEntry::Asked(asked) if *asked == ask))
    }

    /// The next block, once it is there.
    pub(super) fn take(&mut self) -> Option<FetchedBlock<T>> {
        let (number, hash) = self.next?;
        match self.waiting.remove(&number)? {
            DescentEntry::Fetched(found) if found.hash == hash => {
                let below = number.checked_sub(1);
                self.next = below.map(|below| (below, found.parent_hash));
                Some(found)
            }
            // A guess that was wrong.
            DescentEntry::Fetched(_) | DescentEntry::Missed => None,
            asked @ DescentEntry::Asked(_) => {
                self.waiting.insert(number, asked);
                None
            }
        }
    }
}
