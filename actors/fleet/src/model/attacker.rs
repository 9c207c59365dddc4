//! Somebody who can read and write everything in the store, and does not have the fleet's key.

use std::time::Duration;

use alloy_primitives::Bytes;

use super::{
    kinds::{Kind, Kinds},
    rng::Rng,
    world,
};
use crate::{
    block_id::BlockId,
    entry::{Content, Entry, HeadChange, Settled},
    fleet_key::FleetKey,
    policy::{Policy, Rule},
    position::Position,
    store_model::Store,
};

/// Entries that the attacker remembers.
const ARCHIVE: usize = 400;

pub(super) struct Attacker {
    /// A key of the attacker's own.
    key: FleetKey,
    /// The fleet's key, if it has leaked.
    leaked: Option<FleetKey>,
    /// What was ever in the stream.
    archive: Vec<(Position, Bytes)>,
}

impl Attacker {
    pub(super) fn new(leaked: Option<FleetKey>) -> Self {
        Self {
            key: FleetKey::new(&[0x66; 32], b"attacker").unwrap(),
            leaked,
            archive: Vec::new(),
        }
    }

    /// Remembers an entry.
    pub(super) fn observe(&mut self, position: Position, bytes: &Bytes) {
        if self.archive.len() < ARCHIVE {
            self.archive.push((position, bytes.clone()));
        }
    }

    /// Does one thing.
    pub(super) fn act(&self, store: &mut Store, kinds: &mut Kinds, rng: &mut Rng, now: Duration) {
        match rng.below(9) {
            0 | 1 => self.invent(store, kinds, rng),
            2 => self.rewrite(store, kinds, rng),
            3 => self.replay(store, kinds, rng),
            4 => self.replay_snapshot(store, kinds, rng),
            5 => reorder(store, kinds, rng),
            6 => remove(store, kinds, rng),
            7 => {
                kinds.note(Kind::KeysDamaged);
                store.damage(rng.below(6), now);
            }
            _ => self.leak(store, kinds, rng),
        }
    }

    /// Invents a block on top of the newest entry. Nothing but the MAC is wrong with it.
    fn invent(&self, store: &mut Store, kinds: &mut Kinds, rng: &mut Rng) {
        let Some((entry, digest)) = newest(store) else {
            return;
        };
        kinds.note(Kind::Invented);
        let head = head(&entry.content);
        let block = world::block(head.number + 1, head.hash, rng.next());
        let position = entry.position.next();
        let invented = Entry {
            position,
            previous: digest,
            content: change(head, block),
        };
        let bytes = invented.seal(&self.key).unwrap().bytes;
        let id = match rng.below(6) {
            0 => Position::new(u64::MAX, u64::MAX),
            1 => Position::new(position.epoch + 2, 0),
            2 => Position::new(position.epoch, position.sequence + 3),
            _ => position,
        };
        store.insert(id, bytes);
    }

    /// Changes an entry that is there.
    fn rewrite(&self, store: &mut Store, kinds: &mut Kinds, rng: &mut Rng) {
        let count = store.entries.len();
        if count == 0 {
            return;
        }
        kinds.note(Kind::Rewritten);
        // The newest ones are those that replicas have not read.
        let (_, bytes) = &mut store.entries[count - 1 - rng.below(count.min(3))];
        let mut changed = bytes.to_vec();
        if let Some((mut entry, _)) = open(bytes)
            && rng.one_in(2)
        {
            if let Content::Change(change) = &mut entry.content {
                change.settled = Settled::default();
            }
            entry.previous.0[0] ^= 1;
            changed = entry.seal(&self.key).unwrap().bytes.to_vec();
        } else {
            let at = rng.below(changed.len());
            changed[at] ^= 1 << rng.below(8);
        }
        *bytes = changed.into();
    }

    /// Puts an entry that was there before after the newest one.
    fn replay(&self, store: &mut Store, kinds: &mut Kinds, rng: &mut Rng) {
        let Some((newest, _)) = newest(store) else {
            return;
        };
        kinds.note(Kind::Replayed);
        let (_, bytes) = &self.archive[rng.below(self.archive.len())];
        store.insert(newest.position.next(), bytes.clone());
    }

    /// Puts a whole snapshot of an earlier epoch after the newest entry.
    fn replay_snapshot(&self, store: &mut Store, kinds: &mut Kinds, rng: &mut Rng) {
        let Some((newest, _)) = newest(store) else {
            return;
        };
        let is_first = |(position, _): &&(Position, Bytes)| {
            position.sequence == 0 && position.epoch < newest.position.epoch
        };
        let firsts: Vec<_> = self.archive.iter().filter(is_first).collect();
        if firsts.is_empty() {
            return;
        }
        kinds.note(Kind::ReplayedSnapshot);
        let (first, _) = firsts[rng.below(firsts.len())];
        let mut id = newest.position.next();
        let entries = self.archive.iter();
        let entries = entries.filter(|(position, _)| position.epoch == first.epoch);
        for (_, bytes) in entries.take(5) {
            store.insert(id, bytes.clone());
            id = id.next();
        }
    }

    /// With the fleet's key: an entry with a block that is not what it says.
    fn leak(&self, store: &mut Store, kinds: &mut Kinds, rng: &mut Rng) {
        let (Some(key), Some((entry, digest))) = (&self.leaked, newest(store)) else {
            return;
        };
        kinds.note(Kind::KeyLeaked);
        let head = head(&entry.content);
        let mut block = world::block(head.number + 1, head.hash, rng.next());
        block.id.hash.0[0] ^= 1;
        let position = entry.position.next();
        let invented = Entry {
            position,
            previous: digest,
            content: change(head, block),
        };
        store.insert(position, invented.seal(key).unwrap().bytes);
    }
}

fn change(head: BlockId, block: crate::block_id::EntryBlock) -> Content {
    Content::Change(HeadChange {
        ancestor: head,
        reverted: Vec::new(),
        blocks: vec![block],
        settled: Settled::default(),
        records: 0,
    })
}

/// What an entry says: it is no secret.
fn open(bytes: &Bytes) -> Option<(Entry, alloy_primitives::B256)> {
    let anyone = FleetKey::new(&[0x66; 32], b"attacker").unwrap();
    Entry::open_by(bytes, &anyone, Policy::without(Some(Rule::Mac))).ok()
}

/// The newest entry that can be read.
fn newest(store: &Store) -> Option<(Entry, alloy_primitives::B256)> {
    let (id, bytes) = store.entries.back()?;
    open(bytes).filter(|(entry, _)| entry.position == *id)
}

fn head(content: &Content) -> BlockId {
    match content {
        Content::Snapshot(part) => part.head,
        Content::Change(change) => change
            .blocks
            .last()
            .map_or(change.ancestor, |block| block.id),
    }
}

fn reorder(store: &mut Store, kinds: &mut Kinds, rng: &mut Rng) {
    let count = store.entries.len();
    if count < 2 {
        return;
    }
    kinds.note(Kind::Reordered);
    let at = count - 2 - rng.below((count - 1).min(3));
    let bytes = store.entries[at].1.clone();
    store.entries[at].1 = store.entries[at + 1].1.clone();
    store.entries[at + 1].1 = bytes;
}

fn remove(store: &mut Store, kinds: &mut Kinds, rng: &mut Rng) {
    let count = store.entries.len();
    if count == 0 {
        return;
    }
    kinds.note(Kind::Removed);
    match rng.below(3) {
        0 => store.remove_entries(),
        1 => store.entries.clear(),
        _ => drop(store.entries.remove(count - 1 - rng.below(count.min(3)))),
    }
}
