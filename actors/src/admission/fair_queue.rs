//! A queue that tenants share by weight. It knows neither actors nor clocks: the time is passed in.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use super::{
    drain_rate::DrainRate,
    standing_queue::{StandingQueue, WaitLimits},
};
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
/// Inside one tenant, items go [by cost](Order::ByCost): cheap ones before expensive ones, and
/// equally expensive ones in the order of arrival. Where a tenant has as many items as it may, a
/// cheaper one displaces the costliest. Or they go in the order of arrival alone.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    lanes: HashMap<u64, Lane<T>>,
    /// Tenants of which items wait, by tag: the first one is next.
    waiting: BTreeSet<(Tag, u64)>,
    /// Tenants of which none waits, and whose tag is above [`Self::served`], by tag.
    ahead: BTreeSet<(Tag, u64)>,
    /// The tag of the tenant whose item was taken last.
    served: Tag,
    /// The sum of the weights of the tenants of which items wait.
    weights: u64,
    /// Items that were taken and are not finished.
    running: usize,
    next_number: u64,
    len: usize,
    /// Items of one tenant at most.
    lane_max: usize,
    order: Order,
    limits: WaitLimits,
}

/// The order of a tenant's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By magnitude of their cost, then by arrival.
    ByCost,
    ByArrival,
}

/// Nanoseconds of work divided by a weight, in units of 2^-32, so that no division by a weight
/// makes nothing of a cost.
type Tag = u128;

/// The items of one tenant.
#[derive(Debug)]
struct Lane<T> {
    share: Share,
    tag: Tag,
    items: BTreeMap<Place, Item<T>>,
    /// The sum of its items' costs, by magnitude.
    costs: [u64; MAGNITUDES],
    /// Items taken from it.
    taken: u32,
    standing: StandingQueue,
}

/// A place in a tenant's order: first by magnitude of the cost, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    magnitude: usize,
    number: u64,
}

#[derive(Debug)]
struct Item<T> {
    content: T,
    cost: u64,
    pushed: Instant,
    entry: Entry,
}

/// How an item comes into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It is refused if it would wait for too long, or has.
    New,
    /// It waits as long as it has to: it has been in the queue before, and what it needs was paid
    /// for since; or whoever waits for it gives it up.
    Again,
}

/// An item that was pushed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pushed<T> {
    pub(super) ticket: Ticket,
    /// The tenant's costliest item, for which there is no room any more.
    pub(super) displaced: Option<T>,
}

/// Identifies an item that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    lane: u64,
    place: Place,
}

/// An item that was taken from the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TakenItem<T> {
    /// The item.
    pub(super) content: T,
    /// Whose it is.
    pub(super) share: Share,
    /// What it was estimated to cost.
    pub(super) cost: u64,
    /// How long it waited.
    pub(super) waited: Duration,
    /// Whether it waited longer than it may: then it is to be refused, and was not charged. Any
    /// other one is to be [finished](FairQueue::finish).
    pub(super) is_late: bool,
}

/// What waits before an item that a tenant would push.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Backlog {
    /// The cost of the tenant's items that would go first.
    pub(super) cost: u64,
    /// The part of all work that the tenant is given while it waits, from 0 to 1.
    pub(super) part: f64,
    /// The longest that its items may wait.
    pub(super) wait_max: Duration,
    /// Whether there is no room for it.
    pub(super) is_full: bool,
}

impl<T> FairQueue<T> {
    /// An empty queue, of at most `lane_max` items of each tenant, which go by cost.
    pub(super) fn new(lane_max: usize, limits: WaitLimits) -> Self {
        Self::ordered(Order::ByCost, lane_max, limits)
    }

    /// The same with another order.
    pub(super) fn ordered(order: Order, lane_max: usize, limits: WaitLimits) -> Self {
        Self {
            lanes: HashMap::new(),
            waiting: BTreeSet::new(),
            ahead: BTreeSet::new(),
            served: 0,
            weights: 0,
            running: 0,
            next_number: 0,
            len: 0,
            lane_max,
            order,
            limits,
        }
    }

    /// The number of items that wait.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// How long the two tenants have waited that have waited longest, each by its first item.
    pub(super) fn longest_waits(&self, now: Instant) -> [Duration; 2] {
        let mut longest = [Duration::ZERO; 2];
        for (_, id) in &self.waiting {
            let lane = self.lanes.get(id);
            if let Some((_, item)) = lane.and_then(|lane| lane.items.first_key_value()) {
                let waited = now.saturating_duration_since(item.pushed);
                longest[1] = longest[1].max(waited.min(longest[0]));
                longest[0] = longest[0].max(waited);
            }
        }
        longest
    }

    /// The cost of all items that wait.
    pub(super) fn cost(&self) -> u64 {
        let lanes = self.waiting.iter().filter_map(|(_, id)| self.lanes.get(id));
        lanes.fold(0, |sum, lane| sum.saturating_add(lane.cost()))
    }

    /// What waits before an item of this cost.
    pub(super) fn backlog(&self, share: Share, cost: u64) -> Backlog {
        let weight = weight(share);
        let part_of = |weights: u64| weight as f64 / weights.max(1) as f64;
        match self.lanes.get(&share.id()) {
            Some(lane) if !lane.items.is_empty() => Backlog {
                cost: lane.cost_before(cost),
                part: part_of((self.weights + weight).saturating_sub(lane.weight())),
                wait_max: lane.standing.wait_max(&self.limits),
                is_full: self.is_full(lane, cost),
            },
            _ => Backlog {
                cost: 0,
                part: part_of(self.weights + weight),
                wait_max: self.limits.longest,
                is_full: self.lane_max == 0,
            },
        }
    }

    /// Adds an item; `None` if the tenant has as many as it may, and none that is more expensive.
    pub(super) fn push(
        &mut self,
        share: Share,
        cost: u64,
        content: T,
        now: Instant,
        entry: Entry,
    ) -> Option<Pushed<T>> {
        let (id, served) = (share.id(), self.served);
        let lane = self
            .lanes
            .entry(id)
            .or_insert_with(|| Lane::new(share, served));
        lane.standing.offer(cost);
        let mut displaced = None;
        if lane.items.len() >= self.lane_max {
            displaced = Some(lane.displace(cost)?);
            self.len -= 1;
        }
        if self.waiting.contains(&(lane.tag, id)) {
            self.weights = self.weights.saturating_sub(lane.weight());
        } else {
            self.ahead.remove(&(lane.tag, id));
            lane.tag = lane.tag.max(served);
            self.waiting.insert((lane.tag, id));
        }
        // A tenant's weight may have changed since its last item.
        lane.share = share;
        self.weights += weight(share);
        let place = Place {
            magnitude: match self.order {
                Order::ByCost => magnitude(cost),
                Order::ByArrival => 0,
            },
            number: self.next_number,
        };
        let item = Item {
            content,
            cost,
            pushed: now,
            entry,
        };
        lane.insert(place, item);
        self.next_number += 1;
        self.len += 1;
        let ticket = Ticket { lane: id, place };
        Some(Pushed { ticket, displaced })
    }

    /// Records an item that is refused instead of pushed.
    pub(super) fn refuse(&mut self, share: Share, cost: u64) {
        if let Some(lane) = self.lanes.get_mut(&share.id()) {
            lane.standing.offer(cost);
        }
    }

    /// Takes the next item of the tenant whose turn it is, and charges the tenant for it. If the
    /// item is late, it costs nothing.
    pub(super) fn pop(&mut self, now: Instant, drain: &DrainRate) -> Option<TakenItem<T>> {
        let (tag, id) = *self.waiting.first()?;
        let lane = self.lanes.get(&id)?;
        let place = lane.next_place()?;
        let is_late = self.is_late(id, lane.items.get(&place)?, now, drain);
        let lane = self.lanes.get_mut(&id)?;
        lane.taken = lane.taken.wrapping_add(1);
        let item = lane.remove(place)?;
        let waited = now.saturating_duration_since(item.pushed);
        let served = if is_late { 0 } else { item.cost };
        lane.standing.observe(&self.limits, waited, served, now);
        self.len -= 1;
        let share = lane.share;
        if !is_late {
            self.served = tag;
            self.running += 1;
            self.charge(share, 0, item.cost);
        }
        self.retire_if_empty(id);
        Some(TakenItem {
            content: item.content,
            share,
            cost: item.cost,
            waited,
            is_late,
        })
    }

    /// Takes an item back; `None` if it is not in the queue any more.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let lane = self.lanes.get_mut(&ticket.lane)?;
        let item = lane.remove(ticket.place)?;
        self.len -= 1;
        self.retire_if_empty(ticket.lane);
        Some(item.content)
    }

    /// Whether this item has waited longer than it may; `None` if it is not in the queue any more.
    pub(super) fn is_late_now(
        &self,
        ticket: Ticket,
        now: Instant,
        drain: &DrainRate,
    ) -> Option<bool> {
        let item = self.lanes.get(&ticket.lane)?.items.get(&ticket.place)?;
        Some(self.is_late(ticket.lane, item, now, drain))
    }

    /// Charges a tenant for what an item that was taken has cost, of which it has `paid` a part.
    /// What was paid in excess is given back.
    pub(super) fn finish(&mut self, share: Share, paid: u64, cost: u64) {
        self.running = self.running.saturating_sub(1);
        self.charge(share, paid, cost);
        self.forget_who_is_not_ahead();
    }

    /// Whether an item is late: it has waited for too long, and its tenant has more other work
    /// waiting than may wait. Who waits because of what others have asked for is not late.
    fn is_late(&self, lane: u64, item: &Item<T>, now: Instant, drain: &DrainRate) -> bool {
        let Some(lane) = self.lanes.get(&lane) else {
            return false;
        };
        let wait_max = lane.standing.wait_max(&self.limits);
        if item.entry == Entry::Again || now.saturating_duration_since(item.pushed) <= wait_max {
            return false;
        }
        let others = lane.cost().saturating_sub(item.cost);
        let part = lane.weight() as f64 / self.weights.max(1) as f64;
        drain.time_for(others, part) > wait_max
    }

    fn charge(&mut self, share: Share, paid: u64, cost: u64) {
        let (id, served) = (share.id(), self.served);
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
        let tag = lane.tag.saturating_add(tag_of(cost, share));
        lane.tag = tag.saturating_sub(tag_of(paid, share)).max(served);
        order.insert((lane.tag, id));
    }

    /// Whether there is no room in this lane for an item of this cost.
    fn is_full(&self, lane: &Lane<T>, cost: u64) -> bool {
        lane.items.len() >= self.lane_max && !lane.has_costlier(cost)
    }

    /// Settles a tenant of which no item waits.
    fn retire_if_empty(&mut self, id: u64) {
        if let Some(lane) = self.lanes.get_mut(&id)
            && lane.items.is_empty()
            && self.waiting.remove(&(lane.tag, id))
        {
            lane.standing = StandingQueue::No;
            self.weights = self.weights.saturating_sub(lane.weight());
            self.ahead.insert((lane.tag, id));
        }
        self.forget_who_is_not_ahead();
    }

    /// Removes the lanes of tenants that are not ahead any more. Where nothing waits or runs,
    /// nobody is ahead.
    fn forget_who_is_not_ahead(&mut self) {
        let is_idle = self.waiting.is_empty() && self.running == 0;
        while let Some((tag, id)) = self.ahead.first().copied()
            && (is_idle || tag <= self.served)
        {
            self.ahead.remove(&(tag, id));
            self.lanes.remove(&id);
        }
    }
}

impl<T> Lane<T> {
    fn new(share: Share, tag: Tag) -> Self {
        Self {
            share,
            tag,
            items: BTreeMap::new(),
            costs: [0; MAGNITUDES],
            taken: 0,
            standing: StandingQueue::No,
        }
    }

    fn weight(&self) -> u64 {
        weight(self.share)
    }

    /// The place of the item that is next: the oldest of the cheapest ones. Every eighth time it is
    /// the oldest of the most expensive ones, so that cheaper ones do not keep it waiting for as
    /// long as they come.
    fn next_place(&self) -> Option<Place> {
        let (first, _) = self.items.first_key_value()?;
        if self.taken % 8 < 7 {
            return Some(*first);
        }
        let (last, _) = self.items.last_key_value()?;
        let oldest = Place {
            magnitude: last.magnitude,
            number: 0,
        };
        self.items.range(oldest..).next().map(|(place, _)| *place)
    }

    fn insert(&mut self, place: Place, item: Item<T>) {
        let sum = &mut self.costs[place.magnitude];
        *sum = sum.saturating_add(item.cost);
        self.items.insert(place, item);
    }

    fn remove(&mut self, place: Place) -> Option<Item<T>> {
        let item = self.items.remove(&place)?;
        let sum = &mut self.costs[place.magnitude];
        *sum = sum.saturating_sub(item.cost);
        Some(item)
    }

    /// The cost of all its items.
    fn cost(&self) -> u64 {
        sum(&self.costs)
    }

    /// The cost of the items that go before another one of this cost. Of equal magnitude, all do.
    fn cost_before(&self, cost: u64) -> u64 {
        sum(&self.costs[..=magnitude(cost)])
    }

    /// Whether an item is of a higher magnitude than this cost.
    fn has_costlier(&self, cost: u64) -> bool {
        let last = self.items.last_key_value();
        last.is_some_and(|(place, _)| place.magnitude > magnitude(cost))
    }

    /// Takes the item that would be the last, if it is more expensive than this cost.
    fn displace(&mut self, cost: u64) -> Option<T> {
        if !self.has_costlier(cost) {
            return None;
        }
        let place = *self.items.last_key_value()?.0;
        self.remove(place).map(|item| item.content)
    }
}

fn sum(costs: &[u64]) -> u64 {
    costs
        .iter()
        .fold(0, |sum, cost| u64::saturating_add(sum, *cost))
}

/// One for each bit of a cost.
const MAGNITUDES: usize = u64::BITS as usize;

/// Items of the same magnitude go in the order of their arrival.
fn magnitude(cost: u64) -> usize {
    cost.checked_ilog2().unwrap_or(0) as usize
}

fn weight(share: Share) -> u64 {
    share.weight().get().into()
}

/// By how much this cost raises the tenant's tag.
fn tag_of(cost: u64, share: Share) -> Tag {
    (Tag::from(cost) << 32) / Tag::from(share.weight().get())
}

#[cfg(test)]
mod tests;
