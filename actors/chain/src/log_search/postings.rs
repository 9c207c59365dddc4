//! One block's logs by what they contain.

use std::{hash::BuildHasher, ops::Range, sync::LazyLock};

use alloy_primitives::{B256, Log, map::FbBuildHasher};
use hashbrown::HashTable;

/// Search structure over one block's logs: for each address, each topic at each position and each
/// pair of an address and a topic at its position, the positions of the logs that have it. Exact,
/// without false positives.
///
/// What a log has in one field is a *key*: a small number, dense within the block, field by field.
/// A log has one key a field at most, so the lists of one field are disjoint and counting is adding
/// up their lengths.
#[derive(Clone, Debug)]
pub struct LogPostings {
    /// Keys by the hash of their term: what is not in the block mostly costs one cache line.
    table: HashTable<u32>,
    /// First key of each field, and the number of keys at the end.
    field_starts: [u32; FIELDS + 1],
    /// What each key stands for, up to the first of [`Field::PAIRS`]: an address (left-padded) or a
    /// topic.
    values: Box<[B256]>,
    /// Hashes of `values`: a large filter is compared with these, and with a value only where one
    /// is equal.
    hashes: Box<[u64]>,
    /// The keys of address and topic that each key of [`Field::PAIRS`] stands for.
    pairs: Box<[[u32; 2]]>,
    /// First place of each key's list in `positions`, and the length of `positions` at the end.
    list_starts: Box<[u32]>,
    /// Lists of log positions, key by key, each ascending.
    positions: Box<[u32]>,
    /// Keys of each log, [`ABSENT`] where it has no such topic.
    log_keys: Box<[[u32; FIELDS]]>,
}

/// What logs are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Address,
    Topic0,
    Topic1,
    Topic2,
    Topic3,
    /// Address and topic 0 together; the others likewise.
    Pair0,
    Pair1,
    Pair2,
    Pair3,
}

const FIELDS: usize = 9;

/// The key of a field that a log does not have.
const ABSENT: u32 = u32::MAX;

impl Field {
    /// The fields of topics, by position.
    pub(super) const TOPICS: [Self; 4] = [Self::Topic0, Self::Topic1, Self::Topic2, Self::Topic3];
    /// The fields of an address and a topic, by the topic's position.
    pub(super) const PAIRS: [Self; 4] = [Self::Pair0, Self::Pair1, Self::Pair2, Self::Pair3];
}

/// A value that is looked for in a field, with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) hash: u64,
    /// An address (left-padded) or topic.
    pub(super) value: B256,
}

/// One seed for all blocks, so that a filter is hashed once a search; a random one, so that nobody
/// can choose topics that collide.
static HASHER: LazyLock<FbBuildHasher<32>> = LazyLock::new(FbBuildHasher::default);

impl Term {
    /// A value of [`Field::Address`] or one of [`Field::TOPICS`].
    pub(super) fn new(field: Field, value: B256) -> Self {
        // Odd and large: the same topic at two positions differs in all parts of its hash.
        let salt = (field as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = HASHER.hash_one(value) ^ salt;
        Self { hash, value }
    }
}

/// Both hashes are seeded: nobody can choose pairs that collide either.
const fn pair_hash(address: u64, topic: u64) -> u64 {
    address.rotate_left(32) ^ topic
}

impl LogPostings {
    /// Indexes a block's logs, in block order.
    #[must_use]
    pub fn new<'a>(logs: impl Iterator<Item = &'a Log>) -> Self {
        let logs: Vec<&Log> = logs.collect();
        let mut builder = Builder::new(logs.len());
        builder.begin_field(Field::Address);
        for (position, log) in logs.iter().enumerate() {
            builder.add(position, Field::Address, log.address.into_word());
        }
        for (index, field) in Field::TOPICS.into_iter().enumerate() {
            builder.begin_field(field);
            for (position, log) in logs.iter().enumerate() {
                if let Some(topic) = log.topics().get(index) {
                    builder.add(position, field, *topic);
                }
            }
        }
        for (topic, pair) in Field::TOPICS.into_iter().zip(Field::PAIRS) {
            builder.begin_field(pair);
            for position in 0..logs.len() {
                builder.add_pair(position, topic, pair);
            }
        }
        builder.finish()
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.allocation_size()
            + size_of_val(&*self.values)
            + size_of_val(&*self.hashes)
            + size_of_val(&*self.pairs)
            + size_of_val(&*self.list_starts)
            + size_of_val(&*self.positions)
            + size_of_val(&*self.log_keys)
    }

    /// Number of logs.
    pub(super) const fn len(&self) -> usize {
        self.log_keys.len()
    }

    /// The keys of a field.
    pub(super) const fn keys(&self, field: Field) -> Range<u32> {
        let field = field as usize;
        self.field_starts[field]..self.field_starts[field + 1]
    }

    /// The hash of what a key stands for, and the value; not of [`Field::PAIRS`].
    pub(super) fn term(&self, key: u32) -> (u64, &B256) {
        (self.hashes[key as usize], &self.values[key as usize])
    }

    /// The keys of address and topic that a key of [`Field::PAIRS`] stands for.
    pub(super) fn pair(&self, key: u32) -> [u32; 2] {
        self.pairs[key as usize - self.values.len()]
    }

    /// The key of a value of [`Field::Address`] or one of [`Field::TOPICS`], if any log has it.
    pub(super) fn find(&self, field: Field, term: &Term) -> Option<u32> {
        let is_it = |key: &u32| self.keys(field).contains(key) && *self.term(*key).1 == term.value;
        self.table.find(term.hash, is_it).copied()
    }

    /// The key of an address and a topic, if any log has both.
    pub(super) fn find_pair(&self, field: Field, address: &Term, topic: &Term) -> Option<u32> {
        let is_it = |key: &u32| {
            self.keys(field).contains(key) && {
                let values = self.pair(*key).map(|key| *self.term(key).1);
                values == [address.value, topic.value]
            }
        };
        let hash = pair_hash(address.hash, topic.hash);
        self.table.find(hash, is_it).copied()
    }

    /// Positions of the logs with one of these adjacent keys; ascending for one key.
    pub(super) fn positions(&self, keys: Range<u32>) -> &[u32] {
        let start = self.list_starts[keys.start as usize];
        let end = self.list_starts[keys.end as usize];
        &self.positions[start as usize..end as usize]
    }

    /// The key that the log at `position` has in a field.
    pub(super) fn key_of(&self, position: u32, field: Field) -> Option<u32> {
        let key = self.log_keys[position as usize][field as usize];
        (key != ABSENT).then_some(key)
    }
}

/// Postings in the making: keys are given out field by field.
struct Builder {
    table: HashTable<u32>,
    field_starts: [u32; FIELDS + 1],
    /// Of all keys.
    hashes: Vec<u64>,
    values: Vec<B256>,
    pairs: Vec<[u32; 2]>,
    log_keys: Vec<[u32; FIELDS]>,
}

impl Builder {
    fn new(logs: usize) -> Self {
        Self {
            table: HashTable::new(),
            field_starts: [0; FIELDS + 1],
            hashes: Vec::new(),
            values: Vec::new(),
            pairs: Vec::new(),
            log_keys: vec![[ABSENT; FIELDS]; logs],
        }
    }

    fn begin_field(&mut self, field: Field) {
        self.field_starts[field as usize] = self.hashes.len() as u32;
    }

    fn add(&mut self, position: usize, field: Field, value: B256) {
        let first = self.field_starts[field as usize];
        let is_it = |key: u32| key >= first && self.values[key as usize] == value;
        let hash = Term::new(field, value).hash;
        let key = key_of(&mut self.table, &mut self.hashes, hash, is_it);
        if key as usize == self.values.len() {
            self.values.push(value);
        }
        self.log_keys[position][field as usize] = key;
    }

    fn add_pair(&mut self, position: usize, topic: Field, pair: Field) {
        let keys = self.log_keys[position];
        let parts = [Field::Address, topic].map(|field| keys[field as usize]);
        if parts.contains(&ABSENT) {
            return;
        }
        let (values, first) = (self.values.len(), self.field_starts[pair as usize]);
        let is_it = |key: u32| key >= first && self.pairs[key as usize - values] == parts;
        let [address, topic] = parts.map(|key| self.hashes[key as usize]);
        let hash = pair_hash(address, topic);
        let key = key_of(&mut self.table, &mut self.hashes, hash, is_it);
        if key as usize == values + self.pairs.len() {
            self.pairs.push(parts);
        }
        self.log_keys[position][pair as usize] = key;
    }

    fn finish(mut self) -> LogPostings {
        let key_count = self.hashes.len();
        self.field_starts[FIELDS] = key_count as u32;
        self.table.shrink_to_fit(|key| self.hashes[*key as usize]);
        // Lengths of the lists, summed up to where each ends; filling from the back moves the ends
        // to the starts.
        let mut list_starts = vec![0_u32; key_count + 1];
        for key in self.log_keys.iter().flatten().filter(|key| **key != ABSENT) {
            list_starts[*key as usize] += 1;
        }
        let mut end = 0;
        for start in &mut list_starts {
            end += *start;
            *start = end;
        }
        let mut positions = vec![0_u32; end as usize];
        for (position, keys) in self.log_keys.iter().enumerate().rev() {
            for key in keys.iter().filter(|key| **key != ABSENT) {
                let start = &mut list_starts[*key as usize];
                *start -= 1;
                positions[*start as usize] = position as u32;
            }
        }
        self.hashes.truncate(self.values.len());
        LogPostings {
            table: self.table,
            field_starts: self.field_starts,
            values: self.values.into(),
            hashes: self.hashes.into(),
            pairs: self.pairs.into(),
            list_starts: list_starts.into(),
            positions: positions.into(),
            log_keys: self.log_keys.into(),
        }
    }
}

/// The key that `is_it`, or the next one.
fn key_of(
    table: &mut HashTable<u32>,
    hashes: &mut Vec<u64>,
    hash: u64,
    is_it: impl Fn(u32) -> bool,
) -> u32 {
    let next = hashes.len() as u32;
    let is_it = |key: &u32| hashes[*key as usize] == hash && is_it(*key);
    let hash_of = |key: &u32| hashes[*key as usize];
    let key = *table.entry(hash, is_it, hash_of).or_insert(next).get();
    if key == next {
        hashes.push(hash);
    }
    key
}
