//! Many filters at once: which of them a log matches, at a cost that follows the matches and not
//! the filters.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use alloy_primitives::{B256, map::B256Set};

use super::{
    LogFilter, LogPostings,
    postings::{Field, Term},
};

/// Filters by what a log must have to match them, each with a value.
///
/// Every filter is filed under *anchors*: the fields of some of its conditions, and one value of
/// each. A log is looked up once for every set of fields that anchors name (a handful in practice,
/// 32 at most), and what is found is checked whole. As many conditions are part of the anchors as
/// can be, the address first, so that a filter is found by few logs that do not match it: an event
/// that everybody waits for tells nobody apart.
#[derive(Debug)]
pub struct FilterIndex<T> {
    filters: HashMap<FilterId, IndexedFilter<T>>,
    next: u64,
    by_anchor: HashMap<u64, FilterIds>,
    /// Sets of fields that anchors name, with the number of their filters.
    shapes: Vec<(FieldSet, usize)>,
}

/// Names a filter in its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilterId(u64);

/// A set of fields: a bit each.
type FieldSet = u8;

/// Anchors that a filter has besides two for each of its values: enough for a few of each of its
/// conditions.
const SMALL: usize = 64;

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
    shape: FieldSet,
    anchors: Vec<u64>,
    conditions: Vec<(Field, B256Set)>,
    /// Topics that a log must have at least.
    topics: usize,
}

/// Filters under one anchor. Most anchors have one; many filters may share an anchor, and each
/// comes and goes at the same cost.
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

    /// Takes one out; whether any is left.
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

/// A log's values, with their hashes.
struct LogTerms<'a>([Option<(u64, &'a B256)>; FIELDS.len()]);

impl<T> Default for FilterIndex<T> {
    fn default() -> Self {
        Self {
            filters: HashMap::new(),
            next: 0,
            by_anchor: HashMap::new(),
            shapes: Vec::new(),
        }
    }
}

impl<T> FilterIndex<T> {
    /// Files a filter.
    pub fn insert(&mut self, filter: &LogFilter, value: T) -> FilterId {
        let id = FilterId(self.next);
        self.next += 1;
        let filed = IndexedFilter::new(filter, value);
        for anchor in &filed.anchors {
            match self.by_anchor.entry(*anchor) {
                Entry::Vacant(vacant) => {
                    vacant.insert(FilterIds::One(id));
                }
                Entry::Occupied(occupied) => occupied.into_mut().add(id),
            }
        }
        match self
            .shapes
            .iter_mut()
            .find(|(shape, _)| *shape == filed.shape)
        {
            Some((_, filters)) => *filters += 1,
            None => self.shapes.push((filed.shape, 1)),
        }
        self.filters.insert(id, filed);
        id
    }

    /// Takes a filter out.
    pub fn remove(&mut self, id: FilterId) -> Option<T> {
        let filed = self.filters.remove(&id)?;
        for anchor in &filed.anchors {
            if let Entry::Occupied(mut ids) = self.by_anchor.entry(*anchor)
                && !ids.get_mut().remove(id)
            {
                ids.remove();
            }
        }
        if self.filters.is_empty() {
            // Nothing is held for filters that are gone.
            (self.filters, self.by_anchor) = (HashMap::new(), HashMap::new());
        }
        self.shapes.retain_mut(|(shape, filters)| {
            *filters -= usize::from(*shape == filed.shape);
            *filters > 0
        });
        Some(filed.value)
    }

    /// The value of a filter, to be changed.
    pub fn get_mut(&mut self, id: FilterId) -> Option<&mut T> {
        self.filters.get_mut(&id).map(|filed| &mut filed.value)
    }

    /// Calls `each` with the value of every filter.
    pub fn for_each(&self, mut each: impl FnMut(&T)) {
        self.filters.values().for_each(|filed| each(&filed.value));
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Calls `found` with every filter that the log at `position` of a block matches, each once.
    pub fn matches(
        &self,
        postings: &LogPostings,
        position: u32,
        mut found: impl FnMut(FilterId, &T),
    ) {
        let terms = LogTerms::of(postings, position);
        for (shape, _) in &self.shapes {
            let Some(anchor) = terms.anchor(*shape) else {
                continue;
            };
            for id in self
                .by_anchor
                .get(&anchor)
                .into_iter()
                .flat_map(FilterIds::iter)
            {
                if let Some(filed) = self.filters.get(&id)
                    && filed.shape == *shape
                    && filed.is_matched_by(&terms)
                {
                    found(id, &filed.value);
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
        let anchors_max = 2 * values_total + SMALL;
        let mut shape = 0;
        let mut anchors = vec![LogTerms::EMPTY_ANCHOR];
        // In the order of the fields: the anchors of a log are made in it.
        let mut parts: Vec<&(Field, B256Set)> = Vec::new();
        let mut count = 1_usize;
        // The address first, then the fewest values.
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
            shape |= bit(*field);
            let terms: Vec<u64> = values
                .iter()
                .map(|value| Term::new(*field, *value).hash)
                .collect();
            anchors = anchors
                .iter()
                .flat_map(|anchor| terms.iter().map(|term| join(*anchor, *term)))
                .collect();
        }
        // Values whose hashes collide.
        anchors.sort_unstable();
        anchors.dedup();
        Self {
            value,
            shape,
            anchors,
            conditions,
            topics: filter.topics.len(),
        }
    }

    fn is_matched_by(&self, terms: &LogTerms<'_>) -> bool {
        terms.topics() >= self.topics
            && self.conditions.iter().all(|(field, values)| {
                let term = terms.0[*field as usize];
                term.is_some_and(|(_, value)| values.contains(value))
            })
    }
}

impl<'a> LogTerms<'a> {
    /// The anchor of no fields at all.
    const EMPTY_ANCHOR: u64 = 0;

    fn of(postings: &'a LogPostings, position: u32) -> Self {
        Self(FIELDS.map(|field| {
            let key = postings.key_of(position, field)?;
            Some(postings.term(key))
        }))
    }

    fn topics(&self) -> usize {
        self.0[1..].iter().flatten().count()
    }

    /// The anchor of these fields; `None` where the log has not all of them.
    fn anchor(&self, shape: FieldSet) -> Option<u64> {
        let mut anchor = Self::EMPTY_ANCHOR;
        for field in FIELDS {
            if shape & bit(field) != 0 {
                anchor = join(anchor, self.0[field as usize]?.0);
            }
        }
        Some(anchor)
    }
}

const fn bit(field: Field) -> FieldSet {
    1 << field as u8
}

/// Order matters: the same value in another field has another hash already, and fields are joined
/// in one order.
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
        fn every_log_finds_exactly_the_filters_that_it_matches(
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
            prop_assert!(index.by_anchor.is_empty() && index.shapes.is_empty() && index.is_empty());
        }
    }

    #[test]
    fn many_values_make_no_more_than_two_anchors_each() {
        let many = |from: u64| (from..from + 60).map(|n| B256::left_padding_from(&n.to_be_bytes()));
        let filter = LogFilter {
            addresses: many(0).map(Address::from_word).collect(),
            topics: vec![vec![word(1)], many(100).collect(), many(200).collect()],
        };
        let filed = IndexedFilter::new(&filter, ());
        assert_eq!(filed.anchors.len(), 60, "the addresses, each with topic 0");
        let any = IndexedFilter::new(&LogFilter::default(), ());
        assert_eq!((any.shape, any.anchors.len()), (0, 1));
    }

    #[test]
    fn what_everybody_waits_for_finds_nobody_in_vain() {
        // As many as wait for one of two events of one of three contracts, and a log of the event
        // of another contract.
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
            let under = index.shapes.iter().filter_map(|(shape, _)| {
                let ids = index.by_anchor.get(&terms.anchor(*shape)?)?;
                Some(ids.iter().count())
            });
            under.sum::<usize>()
        };
        assert_eq!((candidates(5_000), candidates(7)), (0, 1));
    }
}
