//! Many filters: which of them a log matches, at a cost that depends on the matches and not on the
//! number of filters.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use alloy_primitives::{B256, map::B256Set};

use super::{
    LogFilter, LogPostings,
    postings::{Field, Term},
};

/// An index of filters, each with a value, by what a log must have to match them.
///
/// Every filter is indexed by a set of its fields, under *anchors*: an anchor is a hash of one
/// value for each field of the set. A log is looked up once for each set of fields in use (a
/// handful in practice, at most 32), and every filter found is then checked in full.
///
/// The set has as many of the filter's fields as possible, the address first, so that few logs find
/// a filter that they do not match: a common event alone would find most filters.
#[derive(Debug)]
pub struct FilterIndex<T> {
    filters: HashMap<FilterId, IndexedFilter<T>>,
    next_id: u64,
    by_anchor: HashMap<u64, FilterIds>,
    /// The sets of fields in use, with the number of their filters.
    field_sets: Vec<(FieldSet, usize)>,
}

/// The id of a filter in its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilterId(u64);

/// A set of fields, one bit each.
type FieldSet = u8;

/// A filter has at most this many anchors, plus two for each of its values: enough to index a
/// filter with a few values in each field by all of its fields.
const ANCHORS_EXTRA: usize = 64;

const FIELDS: [Field; 5] = [
    Field::Address,
    Field::Topic0,
    Field::Topic1,
    Field::Topic2,
    Field::Topic3,
];

#[derive(Debug)]
struct IndexedFilter<T> {
    value: T,
    field_set: FieldSet,
    anchors: Vec<u64>,
    conditions: Vec<(Field, B256Set)>,
    /// The fewest topics that a matching log has.
    topics_min: usize,
}

/// Filters under one anchor. Most anchors have one filter; if many share an anchor, adding or
/// removing one still costs the same.
#[derive(Debug)]
enum FilterIds {
    One(FilterId),
    Many(HashSet<FilterId>),
}

impl FilterIds {
    fn add(&mut self, id: FilterId) {
        match self {
            Self::One(one) => *self = Self::Many(HashSet::from([*one, id])),
            Self::Many(many) => {
                many.insert(id);
            }
        }
    }

    /// Removes a filter; returns whether any is left.
    fn remove(&mut self, id: FilterId) -> bool {
        match self {
            Self::One(one) => *one != id,
            Self::Many(many) => {
                many.remove(&id);
                !many.is_empty()
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = FilterId> {
        let (one, many) = match self {
            Self::One(one) => (Some(*one), None),
            Self::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

/// A log's values by field, with their hashes.
struct LogTerms<'a>([Option<(u64, &'a B256)>; FIELDS.len()]);

impl<T> Default for FilterIndex<T> {
    fn default() -> Self {
        Self {
            filters: HashMap::new(),
            next_id: 0,
            by_anchor: HashMap::new(),
            field_sets: Vec::new(),
        }
    }
}

impl<T> FilterIndex<T> {
    /// Adds a filter.
    pub fn insert(&mut self, filter: &LogFilter, value: T) -> FilterId {
        let id = FilterId(self.next_id);
        self.next_id += 1;
        let indexed = IndexedFilter::new(filter, value);
        for anchor in &indexed.anchors {
            match self.by_anchor.entry(*anchor) {
                Entry::Vacant(vacant) => {
                    vacant.insert(FilterIds::One(id));
                }
                Entry::Occupied(occupied) => occupied.into_mut().add(id),
            }
        }
        match self
            .field_sets
            .iter_mut()
            .find(|(field_set, _)| *field_set == indexed.field_set)
        {
            Some((_, filters)) => *filters += 1,
            None => self.field_sets.push((indexed.field_set, 1)),
        }
        self.filters.insert(id, indexed);
        id
    }

    /// Removes a filter.
    pub fn remove(&mut self, id: FilterId) -> Option<T> {
        let indexed = self.filters.remove(&id)?;
        for anchor in &indexed.anchors {
            if let Entry::Occupied(mut ids) = self.by_anchor.entry(*anchor)
                && !ids.get_mut().remove(id)
            {
                ids.remove();
            }
        }
        if self.filters.is_empty() {
            // Frees the memory of the maps.
            (self.filters, self.by_anchor) = (HashMap::new(), HashMap::new());
        }
        self.field_sets.retain_mut(|(field_set, filters)| {
            *filters -= usize::from(*field_set == indexed.field_set);
            *filters > 0
        });
        Some(indexed.value)
    }

    /// The value of a filter, by mutable reference.
    pub fn get_mut(&mut self, id: FilterId) -> Option<&mut T> {
        self.filters.get_mut(&id).map(|indexed| &mut indexed.value)
    }

    /// Calls `each` with the value of every filter.
    pub fn for_each(&self, mut each: impl FnMut(&T)) {
        self.filters
            .values()
            .for_each(|indexed| each(&indexed.value));
    }

    /// Whether there are no filters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Calls `found` once for every filter that the log at `position` of a block matches.
    pub fn matches(
        &self,
        postings: &LogPostings,
        position: u32,
        mut found: impl FnMut(FilterId, &T),
    ) {
        let terms = LogTerms::of(postings, position);
        for (field_set, _) in &self.field_sets {
            let Some(anchor) = terms.anchor(*field_set) else {
                continue;
            };
            for id in self
                .by_anchor
                .get(&anchor)
                .into_iter()
                .flat_map(FilterIds::iter)
            {
                if let Some(indexed) = self.filters.get(&id)
                    && indexed.field_set == *field_set
                    && indexed.is_matched_by(&terms)
                {
                    found(id, &indexed.value);
                }
            }
        }
    }
}

impl<T> IndexedFilter<T> {
    fn new(filter: &LogFilter, value: T) -> Self {
        let addresses = filter.addresses.iter().map(|address| address.into_word());
        let topics = Field::TOPICS.iter().zip(&filter.topics);
        let mut conditions = vec![(Field::Address, addresses.collect::<B256Set>())];
        conditions.extend(topics.map(|(field, values)| (*field, values.iter().copied().collect())));
        conditions.retain(|(_, values)| !values.is_empty());
        let values_total: usize = conditions.iter().map(|(_, values)| values.len()).sum();
        let anchors_max = 2 * values_total + ANCHORS_EXTRA;
        let mut field_set = 0;
        let mut anchors = vec![LogTerms::EMPTY_ANCHOR];
        // In field order, because a log's anchor is computed in that order.
        let mut parts: Vec<&(Field, B256Set)> = Vec::new();
        let mut count = 1_usize;
        // The address first, then the conditions with the fewest values.
        let mut order: Vec<&(Field, B256Set)> = conditions.iter().collect();
        order.sort_by_key(|(field, values)| (*field != Field::Address, values.len()));
        for condition in order {
            let more = count.saturating_mul(condition.1.len());
            if more <= anchors_max {
                count = more;
                parts.push(condition);
            }
        }
        parts.sort_by_key(|(field, _)| *field as usize);
        for (field, values) in parts {
            field_set |= bit(*field);
            let terms: Vec<u64> = values
                .iter()
                .map(|value| Term::new(*field, *value).hash)
                .collect();
            anchors = anchors
                .iter()
                .flat_map(|anchor| terms.iter().map(|term| join(*anchor, *term)))
                .collect();
        }
        // Hashes of different values may collide.
        anchors.sort_unstable();
        anchors.dedup();
        Self {
            value,
            field_set,
            anchors,
            conditions,
            topics_min: filter.topics.len(),
        }
    }

    fn is_matched_by(&self, terms: &LogTerms<'_>) -> bool {
        terms.topic_count() >= self.topics_min
            && self.conditions.iter().all(|(field, values)| {
                let term = terms.0[*field as usize];
                term.is_some_and(|(_, value)| values.contains(value))
            })
    }
}

impl<'a> LogTerms<'a> {
    /// The anchor of the empty set of fields.
    const EMPTY_ANCHOR: u64 = 0;

    fn of(postings: &'a LogPostings, position: u32) -> Self {
        Self(FIELDS.map(|field| {
            let key = postings.key_of(position, field)?;
            Some(postings.term(key))
        }))
    }

    fn topic_count(&self) -> usize {
        self.0[1..].iter().flatten().count()
    }

    /// The anchor of these fields; `None` if the log lacks one of them.
    fn anchor(&self, field_set: FieldSet) -> Option<u64> {
        let mut anchor = Self::EMPTY_ANCHOR;
        for field in FIELDS {
            if field_set & bit(field) != 0 {
                anchor = join(anchor, self.0[field as usize]?.0);
            }
        }
        Some(anchor)
    }
}

const fn bit(field: Field) -> FieldSet {
    1 << field as u8
}

/// Adds a term to an anchor. The result depends on the order, so callers join terms in the order of
/// their fields.
const fn join(anchor: u64, term: u64) -> u64 {
    (anchor.rotate_left(23) ^ term).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, Bytes, Log};
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn word(byte: u8) -> B256 {
        B256::repeat_byte(byte)
    }

    fn matches(filter: &LogFilter, log: &Log) -> bool {
        let address = filter.addresses.is_empty() || filter.addresses.contains(&log.address);
        let topics = filter.topics.iter().enumerate().all(|(position, values)| {
            let topic = log.topics().get(position);
            topic.is_some_and(|topic| values.is_empty() || values.contains(topic))
        });
        address && topics
    }

    fn arbitrary_log() -> impl Strategy<Value = Log> {
        (0..4_u8, vec(0..3_u8, 0..=4)).prop_map(|(address, topics)| {
            let topics = topics.into_iter().map(word).collect();
            Log::new_unchecked(Address::repeat_byte(address), topics, Bytes::new())
        })
    }

    fn arbitrary_filter() -> impl Strategy<Value = LogFilter> {
        (vec(0..5_u8, 0..4), vec(vec(0..4_u8, 0..3), 0..=4)).prop_map(|(addresses, topics)| {
            LogFilter {
                addresses: addresses.into_iter().map(Address::repeat_byte).collect(),
                topics: topics
                    .into_iter()
                    .map(|values| values.into_iter().map(word).collect())
                    .collect(),
            }
        })
    }

    proptest! {
        #[test]
        fn a_log_finds_exactly_the_filters_that_it_matches(
            logs in vec(arbitrary_log(), 1..12),
            filters in vec((arbitrary_filter(), any::<bool>()), 0..40),
        ) {
            let mut index = FilterIndex::default();
            let ids: Vec<FilterId> = filters
                .iter()
                .enumerate()
                .map(|(number, (filter, _))| index.insert(filter, number))
                .collect();
            for (id, (_, stays)) in ids.iter().zip(&filters) {
                if !stays {
                    prop_assert!(index.remove(*id).is_some());
                    prop_assert!(index.remove(*id).is_none());
                }
            }
            let postings = LogPostings::new(logs.iter());
            for (position, log) in (0..).zip(&logs) {
                let mut found = Vec::new();
                index.matches(&postings, position, |_, number| found.push(*number));
                found.sort_unstable();
                let expected: Vec<usize> = (0..filters.len())
                    .filter(|number| filters[*number].1 && matches(&filters[*number].0, log))
                    .collect();
                prop_assert_eq!(found, expected, "{:?}", log);
            }
            for id in &ids {
                index.remove(*id);
            }
            prop_assert!(index.by_anchor.is_empty() && index.field_sets.is_empty());
            prop_assert!(index.is_empty());
        }
    }

    #[test]
    fn the_number_of_anchors_is_bounded() {
        let many = |from: u64| (from..from + 60).map(|n| B256::left_padding_from(&n.to_be_bytes()));
        let filter = LogFilter {
            addresses: many(0).map(Address::from_word).collect(),
            topics: vec![vec![word(1)], many(100).collect(), many(200).collect()],
        };
        let indexed = IndexedFilter::new(&filter, ());
        assert_eq!(
            indexed.anchors.len(),
            60,
            "the addresses, each with topic 0"
        );
        let any = IndexedFilter::new(&LogFilter::default(), ());
        assert_eq!((any.field_set, any.anchors.len()), (0, 1));
    }

    #[test]
    fn a_common_event_finds_only_filters_of_its_contract() {
        // All filters name the same two events, and each names three contracts of its own. A log of
        // one of these events finds no filter unless a filter names its contract.
        let mut index = FilterIndex::default();
        let address = |n: u64| Address::from_word(B256::left_padding_from(&n.to_be_bytes()));
        for n in 0..1_000 {
            let filter = LogFilter {
                addresses: vec![address(3 * n), address(3 * n + 1), address(3 * n + 2)],
                topics: vec![vec![word(1), word(2)]],
            };
            index.insert(&filter, n);
        }
        let candidates = |number: u64| {
            let log = Log::new_unchecked(address(number), vec![word(1), word(3)], Bytes::new());
            let postings = LogPostings::new(std::iter::once(&log));
            let terms = LogTerms::of(&postings, 0);
            let under = index.field_sets.iter().filter_map(|(field_set, _)| {
                let ids = index.by_anchor.get(&terms.anchor(*field_set)?)?;
                Some(ids.iter().count())
            });
            under.sum::<usize>()
        };
        assert_eq!((candidates(5_000), candidates(7)), (0, 1));
    }
}
