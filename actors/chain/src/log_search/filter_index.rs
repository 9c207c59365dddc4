//! Many filters at once: which of them a log matches, at a cost that follows the matches and not the filters.

use std::collections::HashMap;

use alloy_primitives::{B256, map::B256Set};

use super::{
    LogFilter, LogPostings,
    postings::{Field, Term},
};

/// Filters by what a log must have to match them, each with a value.
///
/// Every filter is filed under *anchors*: the fields of some of its conditions, and one value of each. A log is looked up
/// once for every set of fields that anchors name (a handful in practice, 32 at most), and what is found is checked whole.
/// Conditions of one value are always part of the anchors, so that a filter is found by few logs that do not match it.
#[derive(Debug)]
pub struct FilterIndex<T> {
    filters: HashMap<FilterId, Filed<T>>,
    next: u64,
    by_anchor: HashMap<u64, Vec<FilterId>>,
    /// Sets of fields that anchors name, with the number of their filters.
    shapes: Vec<(Shape, usize)>,
}

/// Names a filter in its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilterId(u64);

/// A set of fields: a bit each.
type Shape = u8;

const FIELDS: [Field; 5] = [
    Field::Address,
    Field::Topic0,
    Field::Topic1,
    Field::Topic2,
    Field::Topic3,
];

#[derive(Debug)]
struct Filed<T> {
    value: T,
    shape: Shape,
    anchors: Vec<u64>,
    conditions: Vec<(Field, B256Set)>,
    /// Topics that a log must have at least.
    topics: usize,
}

/// A log's values, with their hashes.
struct Terms<'a>([Option<(u64, &'a B256)>; FIELDS.len()]);

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
        let filed = Filed::new(filter, value);
        for anchor in &filed.anchors {
            self.by_anchor.entry(*anchor).or_default().push(id);
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
            if let Some(ids) = self.by_anchor.get_mut(anchor) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.by_anchor.remove(anchor);
                }
            }
        }
        self.shapes.retain_mut(|(shape, filters)| {
            *filters -= usize::from(*shape == filed.shape);
            *filters > 0
        });
        Some(filed.value)
    }

    /// The value of a filter.
    #[must_use]
    pub fn get(&self, id: FilterId) -> Option<&T> {
        self.filters.get(&id).map(|filed| &filed.value)
    }

    /// The value of a filter, to be changed.
    pub fn get_mut(&mut self, id: FilterId) -> Option<&mut T> {
        self.filters.get_mut(&id).map(|filed| &mut filed.value)
    }

    /// Calls `each` with the value of every filter.
    pub fn for_each(&self, mut each: impl FnMut(&T)) {
        self.filters.values().for_each(|filed| each(&filed.value));
    }

    /// Number of filters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.filters.len()
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
        let terms = Terms::of(postings, position);
        for (shape, _) in &self.shapes {
            let Some(anchor) = terms.anchor(*shape) else {
                continue;
            };
            for id in self.by_anchor.get(&anchor).into_iter().flatten() {
                if let Some(filed) = self.filters.get(id)
                    && filed.shape == *shape
                    && filed.is_matched_by(&terms)
                {
                    found(*id, &filed.value);
                }
            }
        }
    }
}

impl<T> Filed<T> {
    fn new(filter: &LogFilter, value: T) -> Self {
        let addresses = filter.addresses.iter().map(|address| address.into_word());
        let topics = Field::TOPICS.iter().zip(&filter.topics);
        let mut conditions = vec![(Field::Address, addresses.collect::<B256Set>())];
        conditions.extend(topics.map(|(field, values)| (*field, values.iter().copied().collect())));
        conditions.retain(|(_, values)| !values.is_empty());
        // The fewest first; no more anchors than the filter has values.
        conditions.sort_by_key(|(_, values)| values.len());
        let values_total: usize = conditions.iter().map(|(_, values)| values.len()).sum();
        let mut shape = 0;
        let mut anchors = vec![Terms::EMPTY_ANCHOR];
        // In the order of the fields: the anchors of a log are made in it.
        let mut parts: Vec<&(Field, B256Set)> = Vec::new();
        let mut count = 1;
        for condition in &conditions {
            count *= condition.1.len();
            if count > values_total {
                break;
            }
            parts.push(condition);
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

    fn is_matched_by(&self, terms: &Terms<'_>) -> bool {
        terms.topics() >= self.topics
            && self.conditions.iter().all(|(field, values)| {
                let term = terms.0[*field as usize];
                term.is_some_and(|(_, value)| values.contains(value))
            })
    }
}

impl<'a> Terms<'a> {
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
    fn anchor(&self, shape: Shape) -> Option<u64> {
        let mut anchor = Self::EMPTY_ANCHOR;
        for field in FIELDS {
            if shape & bit(field) != 0 {
                anchor = join(anchor, self.0[field as usize]?.0);
            }
        }
        Some(anchor)
    }
}

const fn bit(field: Field) -> Shape {
    1 << field as u8
}

/// Order matters: the same value in another field has another hash already, and fields are joined in one order.
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
    fn many_values_make_no_more_anchors_than_values() {
        let many = |from: u64| (from..from + 60).map(|n| B256::left_padding_from(&n.to_be_bytes()));
        let filter = LogFilter {
            addresses: many(0).map(Address::from_word).collect(),
            topics: vec![vec![word(1)], many(100).collect(), many(200).collect()],
        };
        let filed = Filed::new(&filter, ());
        assert_eq!(
            filed.anchors.len(),
            60,
            "one of the large conditions, and topic 0"
        );
        let any = Filed::new(&LogFilter::default(), ());
        assert_eq!((any.shape, any.anchors.len()), (0, 1));
    }
}
