//! A walk down a chain, several blocks at a time.

use std::collections::BTreeMap;

use alloy_primitives::B256;

/// A block to ask an upstream for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// The block with this hash, which its child names as its parent.
    Hash {
        /// The number that it must have.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The upstream's canonical block at this number: a guess, made before the hash is known.
    Number(u64),
}

impl Ask {
    /// The number of the block.
    pub(crate) const fn number(&self) -> u64 {
        match self {
            Self::Hash { number, .. } | Self::Number(number) => *number,
        }
    }
}

/// A verified block. Number, hash and parent hash are those of its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchedBlock<T> {
    /// Its number.
    pub(crate) number: u64,
    /// Its hash.
    pub(crate) hash: B256,
    /// Its parent's hash.
    pub(crate) parent_hash: B256,
    /// The block.
    pub(crate) block: T,
}

/// A walk from a block to its ancestors. At most `width` blocks are asked for, or fetched and not
/// yet taken.
#[derive(Clone, Debug)]
pub(super) struct Descent<T> {
    /// Number and hash of the next block to take; `None` below block 0.
    next: Option<(u64, B256)>,
    entries: BTreeMap<u64, DescentEntry<T>>,
    /// Blocks that an earlier walk has fetched, by their numbers. They are likely on the way.
    known: BTreeMap<u64, FetchedBlock<T>>,
}

#[derive(Clone, Debug)]
enum DescentEntry<T> {
    Asked(Ask),
    /// The call failed, or gave another block. The block is asked for by hash when it is next.
    Failed,
    Fetched(FetchedBlock<T>),
}

impl<T> Descent<T> {
    pub(super) const fn from(number: u64, hash: B256) -> Self {
        Self {
            next: Some((number, hash)),
            entries: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// The same walk, which takes these blocks where it comes to them, and does not ask for them.
    pub(super) fn knowing(self, blocks: impl IntoIterator<Item = FetchedBlock<T>>) -> Self {
        let known = blocks.into_iter().map(|block| (block.number, block));
        Self {
            known: known.collect(),
            ..self
        }
    }

    /// The blocks that were fetched, or were known, and not taken.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = FetchedBlock<T>> {
        let fetched = self.entries.into_values().filter_map(|entry| match entry {
            DescentEntry::Fetched(fetched) => Some(fetched),
            DescentEntry::Asked(_) | DescentEntry::Failed => None,
        });
        fetched.chain(self.known.into_values())
    }

    /// Number and hash of the next block to take.
    pub(super) const fn next(&self) -> Option<(u64, B256)> {
        self.next
    }

    /// What to ask for so that `width` blocks are asked for or fetched: the next block first, none
    /// below `lowest`.
    pub(super) fn ask(&mut self, width: usize, lowest: u64) -> Vec<Ask> {
        let Some((number, hash)) = self.next.filter(|(number, _)| *number >= lowest) else {
            return Vec::new();
        };
        let mut asks = Vec::new();
        if let Some(DescentEntry::Failed) = self.entries.get(&number) {
            self.entries.remove(&number);
        }
        let is_next_known = self
            .known
            .get(&number)
            .is_some_and(|known| known.hash == hash);
        let known = &self.known;
        let mut want = |ask: Ask| {
            self.entries.entry(ask.number()).or_insert_with(|| {
                asks.push(ask);
                DescentEntry::Asked(ask)
            });
        };
        if !is_next_known {
            want(Ask::Hash { number, hash });
        }
        let guesses = (lowest..number).rev().take(width.saturating_sub(1));
        let guesses = guesses.filter(|number| !known.contains_key(number));
        guesses.map(Ask::Number).for_each(&mut want);
        asks
    }

    /// Records an answer, and returns whether its block is of use. It is ignored if `ask` is not in
    /// progress, and counts as failed if the block is not the one that was asked for.
    pub(super) fn got(&mut self, ask: Ask, fetched: FetchedBlock<T>) -> bool {
        let fits = match ask {
            Ask::Hash { number, hash } => (fetched.number, fetched.hash) == (number, hash),
            Ask::Number(number) => fetched.number == number,
        };
        if !fits {
            self.failed(ask);
            return false;
        }
        let entry = self.open_entry(ask);
        entry.is_some_and(|entry| {
            *entry = DescentEntry::Fetched(fetched);
            true
        })
    }

    /// Records that a call failed, and returns whether it was in progress. The block is asked for
    /// again, by hash.
    pub(super) fn failed(&mut self, ask: Ask) -> bool {
        let entry = self.open_entry(ask);
        entry.is_some_and(|entry| {
            *entry = DescentEntry::Failed;
            true
        })
    }

    /// Has a block asked for again whose call is in progress.
    pub(super) fn forget(&mut self, ask: Ask) {
        if self.open_entry(ask).is_some() {
            self.entries.remove(&ask.number());
        }
    }

    /// The entry of a call that is in progress.
    fn open_entry(&mut self, ask: Ask) -> Option<&mut DescentEntry<T>> {
        let entry = self.entries.get_mut(&ask.number());
        entry.filter(|entry| matches!(entry, DescentEntry::Asked(asked) if *asked == ask))
    }

    /// Takes the next block, if it was fetched or is known.
    pub(super) fn take(&mut self) -> Option<FetchedBlock<T>> {
        let (number, hash) = self.next?;
        let fetched = match self.entries.remove(&number) {
            Some(DescentEntry::Fetched(fetched)) if fetched.hash == hash => Some(fetched),
            // Its answer is on its way, and has to find its entry.
            Some(asked @ DescentEntry::Asked(_)) => {
                self.entries.insert(number, asked);
                return None;
            }
            // A wrong guess, or nothing.
            Some(DescentEntry::Fetched(_) | DescentEntry::Failed) | None => {
                let known = self.known.remove(&number);
                known.filter(|known| known.hash == hash)
            }
        }?;
        let below = number.checked_sub(1);
        self.next = below.map(|below| (below, fetched.parent_hash));
        Some(fetched)
    }
}
