//! A queue that tenants share by weight. It knows neither actors nor clocks: the time is passed in.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use super::standing::{Patience, Standing};
use crate::share::Share;

/// Items that wait, each with its cost in nanoseconds of work.
///
/// Among tenants it is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): each tenant
/// has a *tag*, the work that it was given, divided by its weight, and the tenant with the lowest
/// tag is next. A tenant that comes back after a while starts at the tag of who is served now, so
/// it gets nothing for the time when it wanted nothing. While two tenants both wait, what they are
/// given differs by at most one item of each, relative to their weights. Deficit round robin has
/// the same bound, and needs a quantum; tags also follow what an item has really cost.
///
/// Inside one tenant, cheap items go before dear ones, and equally dear ones in the order of
/// arrival.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    lanes: HashMap<u64, Lane<T>>,
    /// Tenants of which items wait, by tag: the first one is next.
    waiting: BTreeSet<(u64, u64)>,
    /// Tenants of which none waits, and whose tag is above [`Self::served`], by tag.
    ahead: BTreeSet<(u64, u64)>,
    /// The tag of the tenant whose item was taken last.
    served: u64,
    /// The sum of the weights of the tenants of which items wait.
    weights: u64,
    next_number: u64,
    len: usize,
    /// Items of one tenant at most.
    lane_max: usize,
    patience: Patience,
}

/// The items of one tenant.
#[derive(Debug)]
struct Lane<T> {
    share: Share,
    tag: u64,
    items: BTreeMap<Place, Item<T>>,
    /// The sum of its items' costs.
    cost: u64,
    standing: Standing,
}

/// A place in a tenant's order: first by magnitude of the cost, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    magnitude: u32,
    number: u64,
}

#[derive(Debug)]
struct Item<T> {
    content: T,
    cost: u64,
    pushed: Instant,
}

/// Identifies an item that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    lane: u64,
    place: Place,
}

/// An item that was taken from the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken<T> {
    /// The item.
    pub(crate) content: T,
    /// Whose it is.
    pub(crate) share: Share,
    /// What it was estimated to cost.
    pub(crate) cost: u64,
    /// How long it waited.
    pub(crate) waited: Duration,
    /// Whether it waited longer than it may: then it is to be refused, and was not charged.
    pub(crate) is_late: bool,
}

/// What waits before an item that a tenant would push.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Backlog {
    /// The cost of the tenant's items that would go first.
    pub(crate) cost: u64,
    /// The part of all work that the tenant is given while it waits, from 0 to 1.
    pub(crate) part: f64,
    /// The longest that its items may wait.
    pub(crate) wait_max: Duration,
    /// Whether no more of its items fit.
    pub(crate) is_full: bool,
}

impl<T> FairQueue<T> {
    /// An empty queue, of at most `lane_max` items of each tenant.
    pub(crate) fn new(lane_max: usize, patience: Patience) -> Self {
        Self {
            lanes: HashMap::new(),
            waiting: BTreeSet::new(),
            ahead: BTreeSet::new(),
            served: 0,
            weights: 0,
            next_number: 0,
            len: 0,
            lane_max,
            patience,
        }
    }

    /// The number of items.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// What waits before an item of this cost.
    pub(crate) fn backlog(&self, share: Share, cost: u64) -> Backlog {
        let weight = weight(share);
        let alone = |weights: u64| weight as f64 / weights.max(1) as f64;
        match self.lanes.get(&share.id()) {
            Some(lane) if !lane.items.is_empty() => Backlog {
                cost: lane.cost_before(cost),
                part: alone(self.weights),
                wait_max: lane.standing.wait_max(&self.patience),
                is_full: lane.items.len() >= self.lane_max,
            },
            _ => Backlog {
                cost: 0,
                part: alone(self.weights + weight),
                wait_max: self.patience.longest,
                is_full: self.lane_max == 0,
            },
        }
    }

    /// Adds an item; `None` if the tenant has as many as it may.
    pub(crate) fn push(
        &mut self,
        share: Share,
        cost: u64,
        content: T,
        now: Instant,
    ) -> Option<Ticket> {
        let (id, served) = (share.id(), self.served);
        let lane = self
            .lanes
            .entry(id)
            .or_insert_with(|| Lane::new(share, served));
        lane.standing.offer(cost);
        if lane.items.len() >= self.lane_max {
            return None;
        }
        if lane.items.is_empty() {
            self.ahead.remove(&(lane.tag, id));
            lane.share = share;
            lane.tag = lane.tag.max(served);
            self.waiting.insert((lane.tag, id));
            self.weights += weight(share);
        }
        let place = Place {
            magnitude: magnitude(cost),
            number: self.next_number,
        };
        let item = Item {
            content,
            cost,
            pushed: now,
        };
        lane.items.insert(place, item);
        lane.cost = lane.cost.saturating_add(cost);
        self.next_number += 1;
        self.len += 1;
        Some(Ticket { lane: id, place })
    }

    /// Takes note of an item that is refused instead of pushed.
    pub(crate) fn refuse(&mut self, share: Share, cost: u64) {
        if let Some(lane) = self.lanes.get_mut(&share.id()) {
            lane.standing.offer(cost);
        }
    }

    /// Takes the next item of the tenant whose turn it is, and charges the tenant for it. If the
    /// item has waited for too long, it is late, and costs nothing.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Taken<T>> {
        let (tag, id) = *self.waiting.first()?;
        let lane = self.lanes.get_mut(&id)?;
        let (_, item) = lane.items.pop_first()?;
        let waited = now.saturating_duration_since(item.pushed);
        let is_late = waited > lane.standing.wait_max(&self.patience);
        let served = if is_late { 0 } else { item.cost };
        lane.standing.observe(&self.patience, waited, served, now);
        lane.cost = lane.cost.saturating_sub(item.cost);
        self.len -= 1;
        let share = lane.share;
        if !is_late {
            self.served = tag;
            self.charge(share, 0, item.cost);
        }
        self.rest_if_empty(id);
        Some(Taken {
            content: item.content,
            share,
            cost: item.cost,
            waited,
            is_late,
        })
    }

    /// Takes an item back; `None` if it is not in the queue any more.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let lane = self.lanes.get_mut(&ticket.lane)?;
        let item = lane.items.remove(&ticket.place)?;
        lane.cost = lane.cost.saturating_sub(item.cost);
        self.len -= 1;
        self.rest_if_empty(ticket.lane);
        Some(item.content)
    }

    /// Charges a tenant for what an item has cost, of which it has `paid` a part. What was paid in
    /// excess is given back.
    pub(crate) fn charge(&mut self, share: Share, paid: u64, cost: u64) {
        let (id, served, weight) = (share.id(), self.served, weight(share));
        let lane = self
            .lanes
            .entry(id)
            .or_insert_with(|| Lane::new(share, served));
        let order = match self.waiting.remove(&(lane.tag, id)) {
            true => &mut self.waiting,
            false => {
                self.ahead.remove(&(lane.tag, id));
                &mut self.ahead
            }
        };
        let tag = lane.tag.saturating_add(cost / weight);
        lane.tag = tag.saturating_sub(paid / weight).max(served);
        order.insert((lane.tag, id));
    }

    /// Settles a tenant of which no item waits, and forgets those who are not ahead any more.
    fn rest_if_empty(&mut self, id: u64) {
        if let Some(lane) = self.lanes.get_mut(&id)
            && lane.items.is_empty()
            && self.waiting.remove(&(lane.tag, id))
        {
            lane.standing = Standing::No;
            self.weights = self.weights.saturating_sub(weight(lane.share));
            self.ahead.insert((lane.tag, id));
        }
        // Where nobody waits, nobody is ahead.
        let is_empty = self.waiting.is_empty();
        while let Some((tag, id)) = self.ahead.first().copied()
            && (is_empty || tag <= self.served)
        {
            self.ahead.remove(&(tag, id));
            self.lanes.remove(&id);
        }
    }
}

impl<T> Lane<T> {
    fn new(share: Share, tag: u64) -> Self {
        Self {
            share,
            tag,
            items: BTreeMap::new(),
            cost: 0,
            standing: Standing::No,
        }
    }

    /// The cost of the items that go before another one of this cost. Of equal magnitude, all do.
    fn cost_before(&self, cost: u64) -> u64 {
        let last = self.items.last_key_value();
        if last.is_none_or(|(place, _)| place.magnitude <= magnitude(cost)) {
            return self.cost;
        }
        let after = Place {
            magnitude: magnitude(cost) + 1,
            number: 0,
        };
        self.items.range(..after).map(|(_, item)| item.cost).sum()
    }
}

/// Items of the same magnitude go in the order of their arrival.
fn magnitude(cost: u64) -> u32 {
    cost.checked_ilog2().unwrap_or(0)
}

fn weight(share: Share) -> u64 {
    share.weight().get().into()
}

#[cfg(test)]
mod tests;
