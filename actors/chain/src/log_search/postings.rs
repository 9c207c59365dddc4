//! One block's logs by what they contain.

use std::{hash::BuildHasher, ops::Range, sync::LazyLock};

use alloy_primitives::{B256, Log, map::FbBuildHasher};
use hashbrown::HashTable;

/// Search structure over one block's logs: for each address, each topic at each position and each pair of address and
/// topic 0, the positions of the logs that have it. Exact, without false positives.
///
/// What a log has in one field is a *key*: a small number, dense within the block, field by field. A log has one key
/// a field at most, so the lists of one field are disjoint and counting is adding up their lengths.
#[derive(Clone, Debug)]
pub struct LogPostings {
    /// Keys by the hash of their term: what is not in the block mostly costs one cache line.
    table: HashTable<u32>,
    /// First key of each field, and the number of keys at the end.
    field_starts: [u32; FIELDS + 1],
    /// What each key stands for, up to the first of [`Field::Pair`]: an address (left-padded) or a topic.
    values: Box<[B256]>,
    /// The keys of address and topic 0 that each key of [`Field::Pair`] stands for.
    pairs: Box<[[u32; 2]]>,
    /// First place of each key's list in `positions`, and the length of `positions` at the end.
    list_starts: Box<[u32]>,
    /// Lists of log positions, key by key, each ascending.
    positions: Box<[u32]>,
    /// Keys of each log, [`ABSENT`] where it has no such topic.
    log_keys: Box<[[u32; FIELDS]]>,
}

/// What logs are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Address,
    Topic0,
    Topic1,
    Topic2,
    Topic3,
    /// Address and topic 0 together.
    Pair,
}

const FIELDS: usize = 6;

/// The key of a field that a log does not have.
const ABSENT: u32 = u32::MAX;

impl Field {
    /// The fields of topics, by position.
    pub(super) const TOPICS: [Self; 4] = [Self::Topic0, Self::Topic1, Self::Topic2, Self::Topic3];
}

/// What is looked for in a field, with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// An address (left-padded) or topic; then topic 0 where the field is [`Field::Pair`], else zero.
    value: [B256; 2],
    pub(super) hash: u64,
}

/// One seed for all blocks, so that a filter is hashed once a search; a random one, so that nobody can choose topics
/// that collide.
static HASHER: LazyLock<FbBuildHasher<32>> = LazyLock::new(FbBuildHasher::default);

impl Term {
    /// A value of any field but [`Field::Pair`].
    pub(super) fn new(field: Field, value: B256) -> Self {
        // Odd and large: the same topic at two positions differs in all parts of its hash.
        let salt = (field as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = HASHER.hash_one(value) ^ salt;
        let value = [value, B256::ZERO];
        Self { value, hash }
    }

    /// An address and a topic 0.
    pub(super) const fn pair(address: &Self, topic0: &Self) -> Self {
        Self {
            value: [address.value[0], topic0.value[0]],
            hash: pair_hash(address.hash, topic0.hash),
        }
    }
}

/// Both hashes are seeded: nobody can choose pairs that collide either.
const fn pair_hash(address: u64, topic0: u64) -> u64 {
    address.rotate_left(32) ^ topic0
}

impl LogPostings {
    /// Indexes a block's logs, in block order.
    #[must_use]
    pub fn new<'a>(logs: impl Iterator<Item = &'a Log>) -> Self {
        let logs: Vec<&Log> = logs.collect();
        let mut builder = Builder::new(logs.len());
        for field in [Field::Address].into_iter().chain(Field::TOPICS) {
            builder.begin_field(field);
            for (position, log) in logs.iter().enumerate() {
                let value = match field {
                    Field::Address => Some(log.address.into_word()),
                    topic => log.topics().get(topic as usize - 1).copied(),
                };
                if let Some(value) = value {
                    builder.add(position, field, value);
                }
            }
        }
        builder.begin_field(Field::Pair);
        for position in 0..logs.len() {
            builder.add_pair(position);
        }
        builder.finish()
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.allocation_size()
            + size_of_val(&*self.values)
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

    /// What a key of this field stands for.
    pub(super) fn term(&self, field: Field, key: u32) -> Term {
        if field == Field::Pair {
            let [address, topic0] = self.pairs[key as usize - self.values.len()];
            let address = self.term(Field::Address, address);
            Term::pair(&address, &self.term(Field::Topic0, topic0))
        } else {
            Term::new(field, self.values[key as usize])
        }
    }

    /// The key of a term, if any log has it.
    pub(super) fn find(&self, field: Field, term: &Term) -> Option<u32> {
        let value = |key: u32| &self.values[key as usize];
        let is_it = |key: &u32| {
            self.keys(field).contains(key)
                && match self
                    .pairs
                    .get((*key as usize).wrapping_sub(self.values.len()))
                {
                    None => *value(*key) == term.value[0],
                    Some([address, topic0]) => {
                        *value(*address) == term.value[0] && *value(*topic0) == term.value[1]
                    }
                }
        };
        self.table.find(term.hash, is_it).copied()
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

    fn add_pair(&mut self, position: usize) {
        let [address, topic0, ..] = self.log_keys[position];
        if topic0 == ABSENT {
            return;
        }
        let first = self.values.len();
        let pair = [address, topic0];
        let is_it = |key: u32| self.pairs.get((key as usize).wrapping_sub(first)) == Some(&pair);
        let hash = pair_hash(self.hashes[address as usize], self.hashes[topic0 as usize]);
        let key = key_of(&mut self.table, &mut self.hashes, hash, is_it);
        if key as usize == first + self.pairs.len() {
            self.pairs.push(pair);
        }
        self.log_keys[position][Field::Pair as usize] = key;
    }

    fn finish(mut self) -> LogPostings {
        let key_count = self.hashes.len();
        self.field_starts[FIELDS] = key_count as u32;
        self.table.shrink_to_fit(|key| self.hashes[*key as usize]);
        // Lengths of the lists, summed up to where each ends; filling from the back moves the ends to the starts.
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
        LogPostings {
            table: self.table,
            field_starts: self.field_starts,
            values: self.values.into(),
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
