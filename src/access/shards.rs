//! A map whose versions share what did not change between them.

use std::{
    array,
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash},
    marker::PhantomData,
    sync::Arc,
};

use hashbrown::{HashTable, hash_table::Entry};

/// Groups of shards, and shards of a group. Of 100,000 values, a shard has some 24.
const FAN_OUT: usize = 64;

/// What a value is found by. It never changes.
pub(super) trait FoundBy<Id> {
    /// What this value is found by.
    fn id(&self) -> &Id;
}

impl<Id, T: FoundBy<Id>> FoundBy<Id> for Arc<T> {
    fn id(&self) -> &Id {
        T::id(self)
    }
}

type Shard<T> = Arc<HashTable<T>>;
type Group<T> = Arc<[Shard<T>; FAN_OUT]>;

/// A map; cloning shares it. A change copies the shard that it is in and the way to it, and leaves
/// all else to both versions, so its cost does not depend on how many values there are.
///
/// The hash of an id chooses the shard, in which a look-up is one in a hash table.
#[derive(Clone)]
pub(super) struct Shards<Id, T, S = RandomState> {
    groups: Arc<[Group<T>; FAN_OUT]>,
    len: usize,
    hasher: S,
    found_by: PhantomData<fn(&Id)>,
}

impl<Id, T, S: Default> Default for Shards<Id, T, S> {
    fn default() -> Self {
        let shard = Shard::default();
        let group: Group<T> = Arc::new(array::from_fn(|_| Arc::clone(&shard)));
        Self {
            groups: Arc::new(array::from_fn(|_| Arc::clone(&group))),
            len: 0,
            hasher: S::default(),
            found_by: PhantomData,
        }
    }
}

/// The group and the shard of a hash. The hash table of a shard uses the lowest and the highest
/// bits of it, so these are from the middle.
const fn place(hash: u64) -> (usize, usize) {
    let bits = (hash >> 32) as usize;
    (bits % FAN_OUT, bits / FAN_OUT % FAN_OUT)
}

impl<Id: Hash + Eq, T: FoundBy<Id> + Clone, S: BuildHasher> Shards<Id, T, S> {
    /// The value that is found by `id`.
    pub(super) fn get(&self, id: &Id) -> Option<&T> {
        let hash = self.hasher.hash_one(id);
        let (group, shard) = place(hash);
        self.groups[group][shard].find(hash, |value| value.id() == id)
    }

    /// Adds a value, or replaces the one that is found by the same.
    pub(super) fn insert(&mut self, value: T) {
        let hasher = &self.hasher;
        let hash = hasher.hash_one(value.id());
        let is_same = |known: &T| known.id() == value.id();
        let shard = Self::shard_mut(&mut self.groups, hash);
        match shard.entry(hash, is_same, |known| hasher.hash_one(known.id())) {
            Entry::Occupied(mut known) => *known.get_mut() = value,
            Entry::Vacant(free) => {
                free.insert(value);
                self.len += 1;
            }
        }
    }

    /// Removes the value that is found by `id`, if there is one.
    pub(super) fn remove(&mut self, id: &Id) {
        if self.get(id).is_none() {
            return;
        }
        let hash = self.hasher.hash_one(id);
        let shard = Self::shard_mut(&mut self.groups, hash);
        if let Ok(known) = shard.find_entry(hash, |value| value.id() == id) {
            known.remove();
            self.len -= 1;
        }
    }

    /// The shard of a hash, which no other version has.
    fn shard_mut(groups: &mut Arc<[Group<T>; FAN_OUT]>, hash: u64) -> &mut HashTable<T> {
        let (group, shard) = place(hash);
        let group = Arc::make_mut(&mut Arc::make_mut(groups)[group]);
        Arc::make_mut(&mut group[shard])
    }
}

impl<Id, T, S> Shards<Id, T, S> {
    /// How many values there are.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// All values, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let shards = self.groups.iter().flat_map(|group| group.iter());
        shards.flat_map(|shard| shard.iter())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Numbered(u16, u64);

    impl FoundBy<u16> for Numbered {
        fn id(&self) -> &u16 {
            &self.0
        }
    }

    type Tested = Shards<u16, Numbered>;

    fn all(shards: &Tested) -> BTreeMap<u16, u64> {
        shards.iter().map(|value| (value.0, value.1)).collect()
    }

    proptest! {
        /// It is a map, and what comes later does not reach an earlier version.
        #[test]
        fn versions_are_maps(
            steps in prop::collection::vec((0..400_u16, any::<Option<u64>>()), 0..600),
        ) {
            let (mut shards, mut map) = (Tested::default(), BTreeMap::new());
            let mut versions = Vec::new();
            for (step, (id, value)) in steps.into_iter().enumerate() {
                match value {
                    Some(value) => {
                        shards.insert(Numbered(id, value));
                        map.insert(id, value);
                    }
                    None => {
                        shards.remove(&id);
                        map.remove(&id);
                    }
                }
                prop_assert_eq!(shards.get(&id).map(|value| value.1), map.get(&id).copied());
                prop_assert_eq!(shards.len(), map.len());
                if step % 50 == 0 {
                    versions.push((shards.clone(), map.clone()));
                }
            }
            versions.push((shards, map));
            for (shards, map) in versions {
                prop_assert_eq!(all(&shards), map);
            }
        }
    }

    /// A change copies one shard, and removing what is not there copies none.
    #[test]
    fn versions_share_what_did_not_change() {
        let mut shards = Tested::default();
        for id in 0..20_000 {
            shards.insert(Numbered(id, 0));
        }
        let copied = |before: &Tested, after: &Tested| {
            let pairs = before.groups.iter().zip(after.groups.iter());
            let pairs = pairs.flat_map(|(before, after)| before.iter().zip(after.iter()));
            pairs
                .filter(|(one, other)| !Arc::ptr_eq(one, other))
                .count()
        };
        type Change = fn(&mut Tested);
        let changes: [(Change, usize); 4] = [
            (|shards| shards.insert(Numbered(7, 1)), 1),
            (|shards| shards.remove(&8), 1),
            (|shards| shards.remove(&50_000), 0),
            (
                |shards| (0..3).for_each(|value| shards.insert(Numbered(9, value))),
                1,
            ),
        ];
        for (change, expected) in changes {
            let before = shards.clone();
            change(&mut shards);
            assert_eq!(copied(&before, &shards), expected);
        }
        let largest = shards.groups.iter().flat_map(|group| group.iter());
        assert!(
            largest.map(|shard| shard.len()).max().unwrap() < 40,
            "values are spread"
        );
    }
}
