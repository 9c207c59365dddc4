//! The slots against what has to hold for whoever connects, whoever is evicted and whoever stays.

use proptest::{prelude::*, test_runner::TestCaseError};

use super::*;

/// What happens to the slots. A connection is chosen by its position among the open ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    Connect(Option<u8>),
    Accept(usize),
    End(usize),
    /// All those that were evicted are closed.
    Close,
    Second,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let network = prop_oneof![1 => Just(None), 6 => (0..4_u8).prop_map(Some)];
    let step = prop_oneof![
        8 => network.prop_map(Step::Connect),
        2 => any::<usize>().prop_map(Step::Accept),
        2 => any::<usize>().prop_map(Step::End),
        2 => Just(Step::Close),
        1 => Just(Step::Second),
    ];
    prop::collection::vec(step, 0..200)
}

fn address(network: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, network])
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
    /// Its position in the slots under test, while it is a stranger.
    position: Option<Position>,
    since: Tick,
}

impl Client {
    /// Some are busy with a request all the time.
    const fn is_idle(id: u32) -> bool {
        !id.is_multiple_of(3)
    }
}

/// The connections that are open, in the order in which they connected.
#[derive(Debug)]
struct World {
    limits: SlotLimits,
    open: Vec<Client>,
    /// How many that were evicted are not closed so far.
    closing: usize,
    now: Tick,
}

impl World {
    fn strangers(&self) -> impl Iterator<Item = &Client> {
        self.open.iter().filter(|client| client.position.is_some())
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

    /// Checks who was evicted for a stranger from this network.
    fn connects(
        &mut self,
        network: Option<u8>,
        evicted: &[(u32, EvictionReason)],
    ) -> Result<(), TestCaseError> {
        for (id, reason) in evicted {
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
        Ok(())
    }

    /// The stranger that a second has to evict, if any: the first one that is idle, if there are too
    /// many and it has had its time.
    fn overdue(&self) -> Option<u32> {
        let shared = self.shared();
        let is_crowded = self.strangers().count() >= shared - shared / 4;
        let first = self.strangers().find(|client| Client::is_idle(client.id))?;
        // The second in which it connected does not count.
        let is_due = match self.now - first.since {
            0 | 1 => false,
            2 => !self.has_room(),
            _ => is_crowded || !self.has_room(),
        };
        is_due.then_some(first.id)
    }

    /// Checks who was evicted in a second that passed.
    fn passes(&mut self, evicted: &[u32]) -> Result<(), TestCaseError> {
        for id in evicted {
            prop_assert_eq!(
                self.overdue(),
                Some(*id),
                "too early, too many or out of turn"
            );
            self.evict(*id);
        }
        prop_assert_eq!(self.overdue(), None, "too few were evicted");
        Ok(())
    }
}

proptest! {
    #[test]
    fn whoever_is_evicted_has_to_be(
        slots in 1..80_usize,
        strangers_per_network in 1..20_usize,
        steps in steps(),
    ) {
        let limits = SlotLimits { slots, strangers_per_network };
        let mut tested: Slots<u32> = Slots::new(limits);
        let mut world = World { limits, open: Vec::new(), closing: 0, now: 0 };
        for (id, step) in (0..).zip(steps) {
            let chosen = |position: usize| position % world.open.len().max(1);
            match step {
                // As with the listener, which accepts no more than these.
                Step::Connect(_) if world.open.len() + world.closing >= slots => {}
                Step::Connect(network) => {
                    let evicted = tested.make_room(network.map(address));
                    world.connects(network, &evicted)?;
                    let since = world.now;
                    let position = Some(tested.give(stranger(id, network, since)));
                    world.open.push(Client { id, network, position, since });
                }
                Step::Accept(position) => {
                    let chosen = chosen(position);
                    let client = world.open.get_mut(chosen);
                    if let Some(position) = client.and_then(|client| client.position.take()) {
                        tested.accepted(position);
                    }
                }
                Step::End(position) if !world.open.is_empty() => {
                    let chosen = chosen(position);
                    tested.free(world.open.remove(chosen).position);
                }
                Step::End(_) => {}
                Step::Close => world.closing = 0,
                Step::Second => {
                    world.now += 1;
                    let evicted = tested.evict_overdue(world.now, |id| Client::is_idle(*id));
                    world.passes(&evicted)?;
                }
            }
            let strangers = world.strangers().count();
            prop_assert_eq!(tested.strangers.len(), strangers);
            prop_assert_eq!(tested.accepted + strangers, world.open.len());
            for network in 0..4 {
                let count = tested.strangers.count_of(address(network));
                prop_assert_eq!(count, world.strangers_of(network).len());
            }
        }
    }
}

/// Slots of which the first ones are held by keys.
fn held(slots: usize, accepted: u32) -> Slots<u32> {
    let mut slots: Slots<u32> = Slots::new(SlotLimits {
        slots,
        strangers_per_network: usize::MAX,
    });
    for id in 0..accepted {
        let position = slots.give(stranger(id, None, 0));
        slots.accepted(position);
    }
    slots
}

/// Strangers that connect one after the other, and those evicted for them.
fn connect(slots: &mut Slots<u32>, ids: std::ops::Range<u32>) -> Vec<(u32, EvictionReason)> {
    let mut evicted = Vec::new();
    for id in ids {
        evicted.extend(slots.make_room(None));
        slots.give(stranger(id, None, 0));
    }
    evicted
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
            assert!(slots.evict_overdue(now, |_| true).is_empty(), "{accepted}");
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
        assert_eq!(slots.evict_overdue(now, |_| true), expected, "{now}");
    }
}

#[test]
fn an_application_without_a_listener_has_no_bounds() {
    let mut slots: Slots<u32> = Slots::new(SlotLimits::NONE);
    assert_eq!(connect(&mut slots, 0..10_000), []);
    assert!(slots.evict_overdue(1_000_000, |_| true).is_empty());
}
