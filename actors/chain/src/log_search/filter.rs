//! A log filter, and the query that is made from it.

use std::cmp::Reverse;

use alloy_primitives::{Address, B256};
use hashbrown::{HashTable, hash_table::Entry};

use super::{
    SearchError,
    cancellation::CancelChecker,
    postings::{Field, LogPostings, Term},
};

/// The filter of eth_getLogs: AND over members, OR within each; an empty member matches anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogFilter {
    /// Emitters; empty matches any.
    pub addresses: Vec<Address>,
    /// Topics of up to four positions; an empty position matches any topic, but the log must have
    /// one.
    pub topics: Vec<Vec<B256>>,
}

impl LogFilter {
    /// Number of addresses and topics.
    #[must_use]
    pub fn value_count(&self) -> usize {
        self.addresses.len() + self.topics.iter().map(Vec::len).sum::<usize>()
    }
}

/// The terms of a filter, hashed once for all blocks.
#[derive(Debug)]
pub(super) struct FilterTerms {
    addresses: TermSet,
    /// By position.
    topics: Vec<TermSet>,
}

/// The distinct terms of one field.
#[derive(Debug)]
struct TermSet(HashTable<Term>);

/// What a matching log has: one term of every group.
#[derive(Debug)]
pub(super) struct Query<'a> {
    /// In the order of the look-ups in a block, which end at the first group that the block lacks.
    pub(super) groups: Vec<Group<'a>>,
    /// The field that a log must have with any value: the last position of a filter that ends in a
    /// wildcard.
    pub(super) present: Option<Field>,
}

/// Terms of one field, of which any one suffices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    pub(super) field: Field,
    any_of: AnyOf<'a>,
}

#[derive(Clone, Copy, Debug)]
enum AnyOf<'a> {
    /// Addresses, or topics at one position.
    Values(&'a TermSet),
    /// All pairs of a term of the one and a term of the other.
    Pairs(&'a TermSet, &'a TermSet),
}

impl FilterTerms {
    /// `None` if no log can match, because the filter has more than four topic positions.
    pub(super) fn new(
        filter: &LogFilter,
        checker: &mut CancelChecker<'_>,
    ) -> Result<Option<Self>, SearchError> {
        let Some(fields) = Field::TOPICS.get(..filter.topics.len()) else {
            return Ok(None);
        };
        let addresses = filter.addresses.iter().map(Address::into_word);
        let addresses = TermSet::new(Field::Address, addresses, checker)?;
        let topics = fields.iter().zip(&filter.topics);
        let topics =
            topics.map(|(field, values)| TermSet::new(*field, values.iter().copied(), checker));
        let topics = topics.collect::<Result<_, _>>()?;
        Ok(Some(Self { addresses, topics }))
    }
}

impl TermSet {
    fn new(
        field: Field,
        values: impl ExactSizeIterator<Item = B256>,
        checker: &mut CancelChecker<'_>,
    ) -> Result<Self, SearchError> {
        let mut terms = HashTable::<Term>::with_capacity(values.len());
        for value in values {
            checker.count(1)?;
            let term = Term::new(field, value);
            let hash_of = |term: &Term| term.hash;
            if let Entry::Vacant(vacant) = terms.entry(term.hash, |other| *other == term, hash_of) {
                vacant.insert(term);
            }
        }
        Ok(Self(terms))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn contains(&self, (hash, value): (u64, &B256)) -> bool {
        self.0.find(hash, |term| term.value == *value).is_some()
    }
}

impl<'a> Query<'a> {
    /// The query of these terms.
    ///
    /// It combines terms of two fields into pairs, at most twice as many as the filter has terms.
    /// The postings find a pair in one look-up, however many logs have only one of its values. Most
    /// filters name an address and an event, so that an address is a part of each pair if there is
    /// one.
    pub(super) fn new(terms: &'a FilterTerms) -> Self {
        let FilterTerms { addresses, topics } = terms;
        let topic_terms: usize = topics.iter().map(TermSet::len).sum();
        let mut pairs_left = 2 * (addresses.len() + topic_terms);
        let terms_of = |field: Field| match (field as usize).checked_sub(Field::Topic0 as usize) {
            Some(position) => topics.get(position).filter(|topics| topics.len() > 0),
            None => (addresses.len() > 0).then_some(addresses),
        };
        let mut groups = Vec::new();
        let mut is_paired = [false; 1 + Field::TOPICS.len()];
        for (pair, parts) in Field::PAIRS {
            let [Some(first), Some(second)] = parts.map(terms_of) else {
                continue;
            };
            let pairs = first.len() * second.len();
            let is_wanted = parts[0] == Field::Address || addresses.len() == 0;
            if is_wanted && pairs <= pairs_left {
                pairs_left -= pairs;
                for field in parts {
                    is_paired[field as usize] = true;
                }
                groups.push(Group::new(pair, AnyOf::Pairs(first, second)));
            }
        }
        for field in [Field::Address].into_iter().chain(Field::TOPICS) {
            if let Some(terms) = terms_of(field)
                && !is_paired[field as usize]
            {
                groups.push(Group::new(field, AnyOf::Values(terms)));
            }
        }
        // Groups of few terms come first. Among equals, the later position is rarer: every block
        // has a common event, but few name a given account, and a block that lacks it needs no
        // further look-up.
        groups.sort_by_key(|group| (group.count(), Reverse(group.field)));
        let last = topics.len().checked_sub(1);
        let wildcard = last.filter(|last| topics[*last].len() == 0);
        let present = wildcard.map(|last| Field::TOPICS[last]);
        Self { groups, present }
    }
}

impl<'a> Group<'a> {
    const fn new(field: Field, any_of: AnyOf<'a>) -> Self {
        Self { field, any_of }
    }

    fn count(&self) -> usize {
        match self.any_of {
            AnyOf::Values(terms) => terms.len(),
            AnyOf::Pairs(first, second) => first.len() * second.len(),
        }
    }

    /// Adds the terms that the block has, as keys of its postings. It iterates over the smaller
    /// side: the terms, each looked up in the block, or the block's keys, each looked up in the
    /// terms.
    pub(super) fn find(
        &self,
        postings: &LogPostings,
        keys: &mut Vec<u32>,
        checker: &mut CancelChecker<'_>,
    ) -> Result<(), SearchError> {
        let in_block = postings.keys(self.field);
        if self.count() > in_block.len() {
            for key in in_block {
                checker.count(1)?;
                keys.extend(self.matches_key(postings, key).then_some(key));
            }
            return Ok(());
        }
        match self.any_of {
            AnyOf::Values(terms) => {
                for term in &terms.0 {
                    checker.count(1)?;
                    keys.extend(postings.find(self.field, term));
                }
            }
            AnyOf::Pairs(first, second) => {
                for first in &first.0 {
                    for second in &second.0 {
                        checker.count(1)?;
                        keys.extend(postings.find_pair(self.field, first, second));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a key of the block stands for one of the terms.
    fn matches_key(&self, postings: &LogPostings, key: u32) -> bool {
        match self.any_of {
            AnyOf::Values(terms) => terms.contains(postings.term(key)),
            AnyOf::Pairs(first, second) => {
                let values = postings.pair(key).map(|key| postings.term(key));
                first.contains(values[0]) && second.contains(values[1])
            }
        }
    }
}
