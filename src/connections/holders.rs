//! Connections on which a key was accepted, and which of them is evicted if no stranger can be.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use super::{
    clock::Tick,
    owners::{Owner, Owners},
};

/// Names one of these connections.
pub(super) type HolderId = u64;

/// Connections that one eviction examines at most, so that it takes microseconds. The next one goes
/// on with others.
const EXAMINED_MAX: usize = 64;

/// The connections of one worker on which a key was accepted.
///
/// A request costs nothing here: when a connection became idle is looked up when one is evicted.
#[derive(Debug)]
pub(super) struct Holders<T> {
    by_id: HashMap<HolderId, Entry<T>>,
    /// Those without a session. The tick is no later than when the connection became idle.
    by_idle: BTreeSet<(Owner, Tick, HolderId)>,
    /// How many each has, sessions included. A tenant with none is not here.
    counts: HashMap<Owner, usize>,
    by_count: BTreeSet<(usize, Owner)>,
    /// Those of all workers.
    everywhere: Arc<Owners>,
    next: HolderId,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Holder<T> {
    pub(super) connection: T,
    /// What it is counted by when it is a stranger's.
    pub(super) network: Option<IpAddr>,
    pub(super) owner: Owner,
}

#[derive(Debug)]
struct Entry<T> {
    holder: Holder<T>,
    /// Its tick in `by_idle`.
    tick: Tick,
}

impl<T> Holders<T> {
    /// No connections yet. Their owners are counted `everywhere` too.
    pub(super) fn new(everywhere: Arc<Owners>) -> Self {
        Self {
            by_id: HashMap::new(),
            by_idle: BTreeSet::new(),
            counts: HashMap::new(),
            by_count: BTreeSet::new(),
            everywhere,
            next: 0,
        }
    }

    /// Adds a connection whose key is being accepted.
    pub(super) fn add(&mut self, holder: Holder<T>, now: Tick) -> HolderId {
        let id = self.next;
        self.next += 1;
        self.by_idle.insert((holder.owner, now, id));
        self.recount(holder.owner, |count| count + 1);
        self.by_id.insert(id, Entry { holder, tick: now });
        id
    }

    /// Removes a connection; `None` if it is not here.
    pub(super) fn remove(&mut self, id: HolderId) -> Option<Holder<T>> {
        let Entry { holder, tick } = self.by_id.remove(&id)?;
        self.by_idle.remove(&(holder.owner, tick, id));
        self.recount(holder.owner, |count| count - 1);
        Some(holder)
    }

    /// A connection has a session now, and is not evicted any more.
    pub(super) fn keep(&mut self, id: HolderId) {
        if let Some(Entry { holder, tick }) = self.by_id.get(&id) {
            self.by_idle.remove(&(holder.owner, *tick, id));
        }
    }

    /// How many connections there are.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many have any.
    pub(super) fn owners(&self) -> usize {
        self.counts.len()
    }

    /// Removes the connection that has been idle for longest, for at least a second, of whoever has
    /// most connections: more than an equal share of `slots`, of which whoever connects next has
    /// one too. `idle_since` is `None` for a connection with a request in progress.
    pub(super) fn remove_idle(
        &mut self,
        now: Tick,
        slots: usize,
        idle_since: impl Fn(&T) -> Option<Tick>,
    ) -> Option<T> {
        let share = slots / (self.counts.len() + 1);
        let largest = self.by_count.iter().rev();
        let owners: Vec<Owner> = largest
            .take_while(|(count, _)| *count > share)
            .take(EXAMINED_MAX)
            .map(|(_, owner)| *owner)
            .collect();
        let mut examined = 0;
        for owner in owners {
            while let Some((tick, id)) = self.first_of(owner)
                // The second in which it became idle does not count.
                && now.wrapping_sub(tick) > 1
            {
                examined += 1;
                let since = idle_since(&self.by_id.get(&id)?.holder.connection);
                if since.is_some_and(|since| since <= tick) {
                    return Some(self.remove(id)?.connection);
                }
                if examined >= EXAMINED_MAX {
                    return None;
                }
                self.reorder(id, since.unwrap_or(now));
            }
        }
        None
    }

    /// The one of this owner that may have been idle for longest, and since when.
    fn first_of(&self, owner: Owner) -> Option<(Tick, HolderId)> {
        let all = (owner, Tick::MIN, HolderId::MIN)..=(owner, Tick::MAX, HolderId::MAX);
        let (_, tick, id) = self.by_idle.range(all).next()?;
        Some((*tick, *id))
    }

    fn reorder(&mut self, id: HolderId, tick: Tick) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            self.by_idle.remove(&(entry.holder.owner, entry.tick, id));
            entry.tick = tick;
            self.by_idle.insert((entry.holder.owner, tick, id));
        }
    }

    fn recount(&mut self, owner: Owner, change: impl FnOnce(usize) -> usize) {
        let before = self.counts.remove(&owner).unwrap_or(0);
        self.by_count.remove(&(before, owner));
        let after = change(before);
        if after > 0 {
            self.counts.insert(owner, after);
            self.by_count.insert((after, owner));
        }
        match (before, after) {
            (0, 1..) => self.everywhere.add(owner),
            (1.., 0) => self.everywhere.remove(owner),
            _ => {}
        }
    }
}
