//! One block's logs by their addresses and topics.

use std::{hash::BuildHasher, ops::Range, sync::LazyLock};

use alloy_primitives::{B256, Log, map::FbBuildHasher};
use hashbrown::HashTable;

/// Search structure over one block's logs.
///
/// It holds the positions of the logs with each address, with each topic at its position, and with
/// each pair of two of these. It is exact: there are no false positives.
///
/// A log's value in a field is a *key*: a small number, dense within the block, numbered field by
/// field. A log has at most one key per field, so the lists of one field are disjoint, and counting
/// is adding up their lengths.
#[derive(Clone, Debug)]
pub struct LogPostings {
    /// Keys by the hash of their term. Looking up an absent term usually costs one cache line.
    table: HashTable<u32>,
    /// First key of each field, and the number of keys at the end.
    field_starts: [u32; FIELDS + 1],
    /// The value of each key below the first of [`Field::PAIRS`]: an address (left-padded) or a
    /// topic.
    values: Box<[B256]>,
    /// Hashes of `values`. A large filter is compared with these, and with a value only if its hash
    /// is equal.
    hashes: Box<[u64]>,
    /// For each key of [`Field::PAIRS`], the keys of its two values.
    pairs: Box<[[u32; 2]]>,
    /// Start of each key's list in `positions`, and the length of `positions` at the end.
    list_starts: Box<[u32]>,
    /// Lists of log positions, key by key, each ascending.
    positions: Box<[u32]>,
    /// Keys of each log; [`ABSENT`] if the log has no such topic.
    log_keys: Box<[[u32; FIELDS]]>,
}

/// A field that logs are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Address,
    Topic0,
    Topic1,
    Topic2,
    Topic3,
    /// Address and topic 0 as a pair; the others likewise.
    AddressTopic0,
    AddressTopic1,
    AddressTopic2,
    AddressTopic3,
    /// Topics 0 and 1 as a pair; the others likewise.
    Topics01,
    Topics02,
    Topics03,
    Topics12,
    Topics13,
    Topics23,
}

const FIELDS: usize = 15;

/// The key of a field that a log does not have.
const ABSENT: u32 = u32::MAX;

impl Field {
    /// The fields of topics, by position.
    pub(super) const TOPICS: [Self; 4] = [Self::Topic0, Self::Topic1, Self::Topic2, Self::Topic3];
    /// The fields of pairs, each with the fields of its two values, in order.
    pub(super) const PAIRS: [(Self, [Self; 2]); 10] = [
        (Self::AddressTopic0, [Self::Address, Self::Topic0]),
        (Self::AddressTopic1, [Self::Address, Self::Topic1]),
        (Self::AddressTopic2, [Self::Address, Self::Topic2]),
        (Self::AddressTopic3, [Self::Address, Self::Topic3]),
        (Self::Topics01, [Self::Topic0, Self::Topic1]),
        (Self::Topics02, [Self::Topic0, Self::Topic2]),
        (Self::Topics03, [Self::Topic0, Self::Topic3]),
        (Self::Topics12, [Self::Topic1, Self::Topic2]),
        (Self::Topics13, [Self::Topic1, Self::Topic3]),
        (Self::Topics23, [Self::Topic2, Self::Topic3]),
    ];
}

/// A value to look up in a field, with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) hash: u64,
    /// An address (left-padded) or topic.
    pub(super) value: B256,
}

/// The hasher of all terms. All blocks share its seed, so that a filter is hashed once per search.
/// The seed is random, so that nobody can choose topics that collide.
static HASHER: LazyLock<FbBuildHasher<32>> = LazyLock::new(FbBuildHasher::default);

impl Term {
    /// A value of [`Field::Address`] or one of [`Field::TOPICS`].
    pub(super) fn new(field: Field, value: B256) -> Self {
        // Multiples of a large odd number, so that a topic's hashes at two positions differ in all
        // bytes.
        let salt = (field as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = HASHER.hash_one(value) ^ salt;
        Self { hash, value }
    }
}

/// The hash of a pair. Both hashes are seeded, so nobody can choose pairs that collide either.
const fn pair_hash(first: u64, second: u64) -> u64 {
    first.rotate_left(32) ^ second
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
        for (pair, parts) in Field::PAIRS {
            builder.begin_field(pair);
            for position in 0..logs.len() {
                builder.add_pair(position, parts, pair);
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
    pub(crate) const fn len(&self) -> usize {
        self.log_keys.len()
    }

    /// The keys of a field.
    pub(super) const fn keys(&self, field: Field) -> Range<u32> {
        let field = field as usize;
        self.field_starts[field]..self.field_starts[field + 1]
    }

    /// The hash and value of a key; not for keys of [`Field::PAIRS`].
    pub(super) fn term(&self, key: u32) -> (u64, &B256) {
        (self.hashes[key as usize], &self.values[key as usize])
    }

    /// For a key of [`Field::PAIRS`], the keys of its two values.
    pub(super) fn pair(&self, key: u32) -> [u32; 2] {
        self.pairs[key as usize - self.values.len()]
    }

    /// The key of a value of [`Field::Address`] or one of [`Field::TOPICS`], if any log has it.
    pub(super) fn find(&self, field: Field, term: &Term) -> Option<u32> {
        let is_key = |key: &u32| self.keys(field).contains(key) && *self.term(*key).1 == term.value;
        self.table.find(term.hash, is_key).copied()
    }

    /// The key of a pair, if any log has both values.
    pub(super) fn find_pair(&self, field: Field, first: &Term, second: &Term) -> Option<u32> {
        let is_key = |key: &u32| {
            self.keys(field).contains(key) && {
                let values = self.pair(*key).map(|key| *self.term(key).1);
                values == [first.value, second.value]
            }
        };
        let hash = pair_hash(first.hash, second.hash);
        self.table.find(hash, is_key).copied()
    }

    /// Positions of the logs that have one of these adjacent keys; ascending for a single key.
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

/// Builds postings, assigning keys field by field.
struct Builder {
    table: HashTable<u32>,
    field_starts: [u32; FIELDS + 1],
    /// Hashes of all keys.
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
        let is_key = |key: u32| key >= first && self.values[key as usize] == value;
        let hash = Term::new(field, value).hash;
        let key = find_or_add_key(&mut self.table, &mut self.hashes, hash, is_key);
        if key as usize == self.values.len() {
            self.values.push(value);
        }
        self.log_keys[position][field as usize] = key;
    }

    fn add_pair(&mut self, position: usize, parts: [Field; 2], pair: Field) {
        let keys = self.log_keys[position];
        let parts = parts.map(|field| keys[field as usize]);
        if parts.contains(&ABSENT) {
            return;
        }
        let (values, first) = (self.values.len(), self.field_starts[pair as usize]);
        let is_key = |key: u32| key >= first && self.pairs[key as usize - values] == parts;
        let [first_hash, second_hash] = parts.map(|key| self.hashes[key as usize]);
        let hash = pair_hash(first_hash, second_hash);
        let key = find_or_add_key(&mut self.table, &mut self.hashes, hash, is_key);
        if key as usize == values + self.pairs.len() {
            self.pairs.push(parts);
        }
        self.log_keys[position][pair as usize] = key;
    }

    fn finish(mut self) -> LogPostings {
        let key_count = self.hashes.len();
        self.field_starts[FIELDS] = key_count as u32;
        self.table.shrink_to_fit(|key| self.hashes[*key as usize]);
        // Each element is first the length of its list, then the list's end. Filling the lists
        // from the back moves each end to the list's start.
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

/// The key for which `is_key` holds; if there is none, adds the next free one.
fn find_or_add_key(
    table: &mut HashTable<u32>,
    hashes: &mut Vec<u64>,
    hash: u64,
    is_key: impl Fn(u32) -> bool,
) -> u32 {
    let next = hashes.len() as u32;
    let is_key = |key: &u32| hashes[*key as usize] == hash && is_key(*key);
    let hash_of = |key: &u32| hashes[*key as usize];
    let key = *table.entry(hash, is_key, hash_of).or_insert(next).get();
    if key == next {
        hashes.push(hash);
    }
    key
}
