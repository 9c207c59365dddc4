//! The slots against what has to hold for whoever connects, whoever is evicted and whoever stays.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;

use nearhead_tenants::id::TenantId;
use proptest::{prelude::*, test_runner::TestCaseError};

use super::*;

/// What happens to the slots. A connection is chosen by its position among the open ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    Connect(Option<u8>),
    /// A key of this owner is accepted.
    Accept(usize, u8),
    Refuse(usize),
    /// A request begins or ends.
    Use(usize),
    BecomeSession(usize),
    End(usize),
    /// All those that were evicted are closed.
    Close,
    Second,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let network = prop_oneof![1 => Just(None), 6 => (0..4_u8).prop_map(Some)];
    let step = prop_oneof![
        8 => network.prop_map(Step::Connect),
        6 => (any::<usize>(), 0..4_u8).prop_map(|(at, owner)| Step::Accept(at, owner)),
        1 => any::<usize>().prop_map(Step::Refuse),
        3 => any::<usize>().prop_map(Step::Use),
        1 => any::<usize>().prop_map(Step::BecomeSession),
        2 => any::<usize>().prop_map(Step::End),
        2 => Just(Step::Close),
        2 => Just(Step::Second),
    ];
    prop::collection::vec(step, 0..200)
}

fn address(network: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, network])
}

/// One of them is that of operators.
fn owner(number: u8) -> Owner {
    (number > 0).then(|| TenantId::of_configured(&number.to_string()))
}

fn stranger(id: u32, network: Option<u8>, since: Tick) -> Stranger<u32> {
    Stranger {
        connection: id,
        network: network.map(address),
        since,
    }
}

/// A connection as the test knows it.
#[derive(Clone, Debug)]
struct Client {
    id: u32,
    network: Option<u8>,
    place: Place,
    /// When it connected, or when its key was refused.
    since: Tick,
    /// `None` while a request is in progress.
    idle_since: Option<Tick>,
}

/// What a connection is in the slots under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Stranger(Position),
    Holder {
        id: HolderId,
        owner: Owner,
        has_session: bool,
    },
}

/// The connections that are open: strangers are in the order in which they became that.
#[derive(Debug)]
struct World {
    limits: SlotLimits,
    open: Vec<Client>,
    /// How many that were evicted are not closed so far.
    closing: usize,
    now: Tick,
}

/// How many connections the owner has, since when this one is idle, the owner, and which it is.
type Evictable = (usize, Tick, Owner, u32);

impl World {
    fn client(&mut self, position: usize) -> Option<&mut Client> {
        let count = self.open.len().max(1);
        self.open.get_mut(position % count)
    }

    fn idle_since(&self, id: u32) -> Option<Tick> {
        let client = self.open.iter().find(|client| client.id == id)?;
        client.idle_since
    }

    fn strangers(&self) -> impl Iterator<Item = &Client> {
        let is_stranger = |client: &&Client| matches!(client.place, Place::Stranger(_));
        self.open.iter().filter(is_stranger)
    }

    /// Each owner, and how many connections it has.
    fn owners(&self) -> HashMap<Owner, usize> {
        let mut owners = HashMap::new();
        for client in &self.open {
            if let Place::Holder { owner, .. } = client.place {
                *owners.entry(owner).or_default() += 1;
            }
        }
        owners
    }

    /// The holders' connections that may be evicted.
    fn evictable(&self) -> Vec<Evictable> {
        let owners = self.owners();
        let evictable = |client: &Client| {
            let Place::Holder {
                owner,
                has_session: false,
                ..
            } = client.place
            else {
                return None;
            };
            let count = owners[&owner];
            let has_more_than_its_share = count * (owners.len() + 1) > self.limits.slots;
            let since = client.idle_since.filter(|since| since + 2 <= self.now)?;
            has_more_than_its_share.then_some((count, since, owner, client.id))
        };
        self.open.iter().filter_map(evictable).collect()
    }

    fn strangers_of(&self, network: u8) -> Vec<u32> {
        let of_network = self
            .strangers()
            .filter(|client| client.network == Some(network));
        of_network.map(|client| client.id).collect()
    }

    /// Slots that no key holds.
    fn shared(&self) -> usize {
        self.limits.slots - (self.open.len() - self.strangers().count())
    }

    /// Whether another stranger would leave enough slots for those who come next: one in 16 of
    /// those that no key holds, and at least one.
    fn has_room(&self) -> bool {
        let free_then = self.limits.slots.saturating_sub(self.open.len() + 1);
        free_then >= 1 && free_then >= (self.shared() / 16).min(RESERVED_SLOTS_MAX)
    }

    fn evict(&mut self, id: u32) {
        self.open.retain(|client| client.id != id);
        self.closing += 1;
    }

    /// Checks which holder's connection was evicted, if any, when these were needed besides.
    fn evicts_holder(&mut self, needed: usize, evicted: Option<u32>) -> Result<(), TestCaseError> {
        let evictable = self.evictable();
        if self.open.len() + needed < self.limits.slots {
            prop_assert_eq!(evicted, None, "evicted although a slot is left");
        } else if let Some(id) = evicted {
            let found = evictable.iter().find(|(.., other)| *other == id);
            let (count, since, owner, _) =
                found.ok_or_else(|| TestCaseError::fail("it may not be evicted"))?;
            let is_before = |(other_count, other_since, other, _): &Evictable| {
                other_count > count || other == owner && other_since < since
            };
            prop_assert!(!evictable.iter().any(is_before), "out of turn");
            self.evict(id);
        } else {
            prop_assert_eq!(evictable, [], "none was evicted");
        }
        Ok(())
    }

    /// Checks who was evicted for a stranger from this network.
    fn connects(
        &mut self,
        network: Option<u8>,
        evicted: &Evicted<u32>,
    ) -> Result<(), TestCaseError> {
        for (id, reason) in &evicted.strangers {
            match (reason, network) {
                (EvictionReason::Address, Some(network)) => {
                    let strangers = self.strangers_of(network);
                    prop_assert!(strangers.len() >= self.limits.strangers_per_network);
                    prop_assert_eq!(strangers.first(), Some(id));
                }
                (EvictionReason::Slots, _) => {
                    prop_assert!(!self.has_room(), "evicted although there is room");
                    let first = self.strangers().next().map(|client| client.id);
                    prop_assert_eq!(first, Some(*id));
                }
                _ => prop_assert!(false, "evicted for {:?}", reason),
            }
            self.evict(*id);
        }
        let is_alone = self.strangers().next().is_none();
        prop_assert!(self.has_room() || is_alone, "too few were evicted");
        let of_network = network.map_or(0, |network| self.strangers_of(network).len());
        prop_assert!(of_network < self.limits.strangers_per_network);
        if is_alone {
            self.evicts_holder(1, evicted.holder)?;
        } else {
            prop_assert_eq!(evicted.holder, None, "a stranger is left");
        }
        Ok(())
    }

    /// The stranger that a second has to evict, if any: the first one that is idle, if there are
    /// too many and it has had its time.
    fn overdue(&self) -> Option<u32> {
        let shared = self.shared();
        let is_crowded = self.strangers().count() >= shared - shared / 4;
        let first = self
            .strangers()
            .find(|client| client.idle_since.is_some())?;
        // The second in which it connected does not count.
        let is_due = match self.now - first.since {
            0 | 1 => false,
            2 => !self.has_room(),
            _ => is_crowded || !self.has_room(),
        };
        is_due.then_some(first.id)
    }

    /// Checks who was evicted in a second that passed.
    fn passes(&mut self, evicted: &Evicted<u32>) -> Result<(), TestCaseError> {
        for (id, reason) in &evicted.strangers {
            prop_assert_eq!(*reason, EvictionReason::Idle);
            prop_assert_eq!(self.overdue(), Some(*id), "too early or out of turn");
            self.evict(*id);
        }
        prop_assert_eq!(self.overdue(), None, "too few were evicted");
        self.evicts_holder(0, evicted.holder)
    }
}

proptest! {
    #[test]
    fn whoever_is_evicted_has_to_be(
        slots in prop_oneof![1..12_usize, 1..80_usize],
        strangers_per_network in 1..20_usize,
        steps in steps(),
    ) {
        let limits = SlotLimits { slots, strangers_per_network };
        let mut tested: Slots<u32> = Slots::new(limits, Arc::default());
        let mut world = World { limits, open: Vec::new(), closing: 0, now: 0 };
        for (id, step) in (0..).zip(steps) {
            let now = world.now;
            match step {
                // As with the listener, which accepts no more than these.
                Step::Connect(_) if world.open.len() + world.closing >= slots => {}
                Step::Connect(network) => {
                    let idle_since = |id: &u32| world.idle_since(*id);
                    let evicted = tested.make_room(network.map(address), now, idle_since);
                    world.connects(network, &evicted)?;
                    let place = Place::Stranger(tested.give(stranger(id, network, now)));
                    let idle_since = Some(now);
                    world.open.push(Client { id, network, place, since: now, idle_since });
                }
                Step::Accept(at, number) => {
                    if let Some(client) = world.client(at)
                        && let Place::Stranger(at) = client.place
                    {
                        let owner = owner(number);
                        let id = tested.accepted(at, owner, now);
                        let id = id.ok_or_else(|| TestCaseError::fail("not a stranger"))?;
                        client.place = Place::Holder { id, owner, has_session: false };
                        client.idle_since = Some(now);
                    }
                }
                Step::Refuse(at) => {
                    if let Some(client) = world.client(at)
                        && let Place::Holder { id, has_session: false, .. } = client.place
                    {
                        let position = tested.refused(id, now);
                        let position = position.ok_or_else(|| TestCaseError::fail("no holder"))?;
                        let (place, since) = (Place::Stranger(position), now);
                        let last = Client { place, since, ..client.clone() };
                        world.open.retain(|client| client.id != last.id);
                        world.open.push(last);
                    }
                }
                Step::Use(at) => {
                    if let Some(client) = world.client(at) {
                        let ends = client.idle_since.is_none();
                        client.idle_since = ends.then_some(now);
                    }
                }
                Step::BecomeSession(at) => {
                    if let Some(client) = world.client(at)
                        && let Place::Holder { id, has_session, .. } = &mut client.place
                    {
                        *has_session = true;
                        tested.keep(*id);
                    }
                }
                Step::End(at) => {
                    if let Some(client) = world.client(at).cloned() {
                        match client.place {
                            Place::Stranger(position) => tested.free_stranger(position),
                            Place::Holder { id, .. } => tested.free_holder(id),
                        }
                        world.open.retain(|other| other.id != client.id);
                    }
                }
                Step::Close => world.closing = 0,
                Step::Second => {
                    world.now += 1;
                    let idle_since = |id: &u32| world.idle_since(*id);
                    let evicted = tested.evict_overdue(world.now, idle_since);
                    world.passes(&evicted)?;
                }
            }
            let strangers = world.strangers().count();
            prop_assert_eq!(tested.strangers.len(), strangers);
            prop_assert_eq!(tested.holders.len() + strangers, world.open.len());
            for network in 0..4 {
                let count = tested.strangers.count_of(address(network));
                prop_assert_eq!(count, world.strangers_of(network).len());
            }
        }
    }
}

/// Slots of which the first ones are held by the keys of one tenant.
fn held(slots: usize, accepted: u32) -> Slots<u32> {
    let mut slots: Slots<u32> = Slots::new(
        SlotLimits {
            slots,
            strangers_per_network: usize::MAX,
        },
        Arc::default(),
    );
    for id in 0..accepted {
        accept(&mut slots, id, 1, 0);
    }
    slots
}

/// Gives a slot to a connection on which a key of this owner is accepted.
fn accept(slots: &mut Slots<u32>, id: u32, number: u8, now: Tick) -> HolderId {
    let position = slots.give(stranger(id, None, now));
    slots.accepted(position, owner(number), now).unwrap()
}

const fn never_idle(_: &u32) -> Option<Tick> {
    None
}

/// Strangers that connect one after the other, and those evicted for them.
fn connect(slots: &mut Slots<u32>, ids: std::ops::Range<u32>) -> Vec<(u32, EvictionReason)> {
    let mut evicted = Vec::new();
    for id in ids {
        evicted.extend(slots.make_room(None, 0, never_idle).strangers);
        slots.give(stranger(id, None, 0));
    }
    evicted
}

/// Those evicted when a second has passed. All strangers are idle, and holders are not.
fn pass(slots: &mut Slots<u32>, now: Tick, holders: u32) -> Vec<u32> {
    let evicted = slots.evict_overdue(now, |id| (*id >= holders).then_some(0));
    assert_eq!(evicted.holder, None);
    let strangers = evicted.strangers.into_iter();
    strangers.map(|(id, _)| id).collect()
}

/// A burst of strangers takes the slots of other strangers, and those who have a key keep theirs.
#[test]
fn an_accepted_key_keeps_its_slot() {
    let mut slots = held(4, 2);
    let evicted = connect(&mut slots, 3..100);
    let expected: Vec<_> = (3..99).map(|id| (id, EvictionReason::Slots)).collect();
    assert_eq!(evicted, expected);
}

/// However few slots keys leave, a burst of connections takes them, and not each other's.
#[test]
fn connections_do_not_evict_each_other_while_slots_are_free() {
    let mut slots = held(200, 190);
    assert_eq!(connect(&mut slots, 190..199), []);
    let expected = [(190, EvictionReason::Slots)];
    assert_eq!(connect(&mut slots, 199..200), expected);
}

/// A health checker's connection stays although keys hold nearly all slots.
#[test]
fn few_strangers_have_time() {
    for accepted in [0, 150, 190, 196] {
        let mut slots = held(200, accepted);
        assert_eq!(connect(&mut slots, 196..198), []);
        for now in 0..100 {
            assert!(pass(&mut slots, now, accepted).is_empty(), "{accepted}");
        }
    }
}

#[test]
fn no_more_strangers_are_evicted_than_have_to_be() {
    // 100 slots are no key's: 94 strangers may be there, and 75 are many.
    let mut slots = held(200, 100);
    assert_eq!(connect(&mut slots, 100..194), []);
    for (now, evicted) in [(1, 0..0), (2, 0..1), (3, 1..20), (4, 20..20), (99, 20..20)] {
        let expected: Vec<u32> = evicted.map(|id| 100 + id).collect();
        assert_eq!(pass(&mut slots, now, 100), expected, "{now}");
    }
}

#[test]
fn an_application_without_a_listener_has_no_bounds() {
    let mut slots: Slots<u32> = Slots::new(SlotLimits::NONE, Arc::default());
    assert_eq!(connect(&mut slots, 0..10_000), []);
    assert!(pass(&mut slots, 1_000_000, 0).is_empty());
}

/// One eviction examines few connections, and the next ones examine the others.
#[test]
fn an_idle_connection_is_found_among_many_that_are_busy() {
    let mut slots = held(1_000, 1_000);
    let idle_since = |id: &u32| (*id == 700).then_some(5);
    let evicted = (9..).map(|now| slots.evict_overdue(now, idle_since).holder);
    let seconds = evicted.take_while(Option::is_none).count();
    // All are examined, 64 at a time.
    assert_eq!(seconds, 1_000 / 64);
}
