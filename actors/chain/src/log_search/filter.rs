//! What is searched for.

use alloy_primitives::{Address, B256};
use hashbrown::{HashTable, hash_table::Entry};

use super::postings::{Field, LogPostings, Term};

/// A filter as eth_getLogs means it: AND over members, OR within each; empty means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// Emitters; empty = any.
    pub addresses: Vec<Address>,
    /// Up to four positions; an empty position matches any topic that is there.
    pub topics: Vec<Vec<B256>>,
}

/// A filter made ready once for all blocks: every group must have one of its terms in a log.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) groups: Vec<Group>,
    /// A position whose topic must be there, whatever it is: a filter that ends in a wildcard.
    pub(super) present: Option<Field>,
}

/// Terms of one field, any of which will do.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) field: Field,
    /// Each once.
    terms: HashTable<Term>,
}

impl Query {
    /// `None` where no log can match: none has more than four topics.
    pub(super) fn new(filter: &LogFilter) -> Option<Self> {
        let fields = Field::TOPICS.get(..filter.topics.len())?;
        let addresses = filter.addresses.iter().map(Address::into_word);
        let mut addresses = Group::new(Field::Address, addresses);
        let topics = fields.iter().zip(&filter.topics);
        let topics = topics.map(|(field, values)| Group::new(*field, values.iter().copied()));
        let mut topics: Vec<Group> = topics.collect();
        let last = topics.last().filter(|last| last.terms.is_empty());
        let present = last.map(|last| last.field);
        if let Some(topics0) = topics.first_mut()
            && let Some(pairs) = Group::pairs(&addresses, topics0)
        {
            addresses = pairs;
            topics0.terms.clear();
        }
        let groups = std::iter::once(addresses).chain(topics);
        Some(Self {
            groups: groups.filter(|group| !group.terms.is_empty()).collect(),
            present,
        })
    }
}

impl Group {
    fn new(field: Field, values: impl ExactSizeIterator<Item = B256>) -> Self {
        let mut terms = HashTable::<Term>::with_capacity(values.len());
        for term in values.map(|value| Term::new(field, value)) {
            let hash_of = |term: &Term| term.hash;
            if let Entry::Vacant(vacant) = terms.entry(term.hash, |other| *other == term, hash_of) {
                vacant.insert(term);
            }
        }
        Self { field, terms }
    }

    /// Both groups as one, where that needs no more than twice the probes. Address and event is what most filters name,
    /// and the postings answer it at once, however many logs have one of the two.
    fn pairs(addresses: &Self, topics0: &Self) -> Option<Self> {
        let (addresses, topics0) = (&addresses.terms, &topics0.terms);
        let count = addresses.len() * topics0.len();
        if count == 0 || count > 2 * (addresses.len() + topics0.len()) {
            return None;
        }
        let mut terms = HashTable::with_capacity(count);
        for address in addresses {
            for topic0 in topics0 {
                let pair = Term::pair(address, topic0);
                terms.insert_unique(pair.hash, pair, |term: &Term| term.hash);
            }
        }
        let field = Field::Pair;
        Some(Self { field, terms })
    }

    /// Units of work that [`Self::find`] does.
    pub(super) fn cost(&self, postings: &LogPostings) -> usize {
        self.terms.len().min(postings.keys(self.field).len())
    }

    /// Adds those of the group's terms that the block has, as keys of its postings. Whichever is less is gone through:
    /// the terms, each looked up in the block, or the block's keys, each looked up in the terms.
    pub(super) fn find(&self, postings: &LogPostings, keys: &mut Vec<u32>) {
        let field = self.field;
        let in_block = postings.keys(field);
        if self.terms.len() <= in_block.len() {
            let found = self
                .terms
                .iter()
                .filter_map(|term| postings.find(field, term));
            keys.extend(found);
        } else {
            keys.extend(in_block.filter(|key| {
                let term = postings.term(field, *key);
                self.terms.find(term.hash, |other| *other == term).is_some()
            }));
        }
    }
}
