//! What is searched for.

use alloy_primitives::{Address, B256};

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
    /// Ascending, each once.
    terms: Vec<Term>,
}

impl Query {
    /// `None` where no log can match: none has more than four topics.
    pub(super) fn new(filter: &LogFilter) -> Option<Self> {
        let fields = Field::TOPICS.get(..filter.topics.len())?;
        let addresses = filter.addresses.iter();
        let addresses = Group::new(Field::Address, addresses.map(Address::into_word));
        let topics = fields.iter().zip(&filter.topics);
        let topics = topics.map(|(field, values)| Group::new(*field, values.iter().copied()));
        let mut groups: Vec<Group> = std::iter::once(addresses).chain(topics).collect();
        let last = groups.last().filter(|last| last.terms.is_empty());
        let present = last
            .map(|last| last.field)
            .filter(|field| *field != Field::Address);
        if let [addresses, topics0, ..] = &mut groups[..]
            && let Some(pairs) = Group::pairs(addresses, topics0)
        {
            *addresses = pairs;
            topics0.terms.clear();
        }
        groups.retain(|group| !group.terms.is_empty());
        Some(Self { groups, present })
    }
}

impl Group {
    fn new(field: Field, values: impl Iterator<Item = B256>) -> Self {
        let mut terms: Vec<Term> = values.map(|value| Term::new(field, value)).collect();
        terms.sort_unstable();
        terms.dedup();
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
        let each = addresses.iter();
        let terms = each.flat_map(|address| topics0.iter().map(|topic| Term::pair(address, topic)));
        let field = Field::Pair;
        Some(Self {
            field,
            terms: terms.collect(),
        })
    }

    /// Units of work that [`Self::find`] does.
    pub(super) fn cost(&self, postings: &LogPostings) -> usize {
        self.terms.len().min(postings.keys(self.field).len())
    }

    /// Adds those of the group's terms that the block has, as keys of its postings. Whichever is less is gone through:
    /// the terms, each looked up in the block, or the block's keys, each looked up in the terms.
    pub(super) fn find(&self, postings: &LogPostings, keys: &mut Vec<u32>) {
        let in_block = postings.keys(self.field);
        if self.terms.len() <= in_block.len() {
            keys.extend(
                self.terms
                    .iter()
                    .filter_map(|term| postings.find(self.field, term)),
            );
        } else {
            keys.extend(in_block.filter(|key| {
                let value = postings.value(*key);
                let by_value = |term: &Term| term.value.cmp(&value);
                self.terms.binary_search_by(by_value).is_ok()
            }));
        }
    }
}
