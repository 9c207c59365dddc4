//! The slots against a plain model: a list of connections that is searched from end to end.

use proptest::prelude::*;

use super::*;

/// What happens to the slots. A connection is chosen by its position among the open ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    Connect(Option<u8>),
    Request(usize),
    Accept(usize),
    End(usize),
    Second,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let network = prop_oneof![1 => Just(None), 6 => (0..4_u8).prop_map(Some)];
    let step = prop_oneof![
        6 => network.prop_map(Step::Connect),
        2 => any::<usize>().prop_map(Step::Request),
        2 => any::<usize>().prop_map(Step::Accept),
        2 => any::<usize>().prop_map(Step::End),
        1 => Just(Step::Second),
    ];
    prop::collection::vec(step, 0..200)
}

fn address(network: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, network])
}

/// A connection as the model knows it.
#[derive(Clone, Debug)]
struct Client {
    id: u32,
    network: Option<u8>,
    /// Its turn in the slots under test, while it is a stranger.
    turn: Option<Turn>,
    /// Steps and seconds until its last request, or until it connected.
    used: (usize, Tick),
}

impl Client {
    /// Some are busy with a request all the time.
    fn is_idle(id: u32) -> bool {
        !id.is_multiple_of(3)
    }
}

#[derive(Debug, Default)]
struct Model {
    open: Vec<Client>,
    now: Tick,
}

impl Model {
    /// Removes the stranger that was used first, of this network or of all.
    fn evict(&mut self, network: Option<u8>) -> Option<u32> {
        let strangers = self.open.iter().filter(|client| client.turn.is_some());
        let of_network = strangers.filter(|client| network.is_none() || client.network == network);
        let id = of_network.min_by_key(|client| client.used)?.id;
        self.open.retain(|client| client.id != id);
        Some(id)
    }

    fn strangers_of(&self, network: u8) -> usize {
        let is_counted =
            |client: &&Client| client.turn.is_some() && client.network == Some(network);
        self.open.iter().filter(is_counted).count()
    }

    /// Who has to go for a connection from this network.
    fn make_room(&mut self, limits: SlotLimits, network: Option<u8>) -> Vec<(u32, EvictionReason)> {
        let mut evicted = Vec::new();
        if let Some(network) =
            network.filter(|network| self.strangers_of(*network) >= limits.strangers_per_network)
        {
            let id = self.evict(Some(network));
            evicted.extend(id.map(|id| (id, EvictionReason::Address)));
        }
        let reserved = (limits.slots / 16).clamp(1, 64);
        while self.open.len() + reserved >= limits.slots
            && let Some(id) = self.evict(None)
        {
            evicted.push((id, EvictionReason::Slots));
        }
        evicted
    }

    /// Removes strangers that are idle for too long.
    fn free_overdue(&mut self, limits: SlotLimits) -> Vec<u32> {
        let (open, reserved) = (self.open.len(), (limits.slots / 16).clamp(1, 64));
        let most = match open {
            _ if open + reserved >= limits.slots => 1,
            _ if 4 * open >= 3 * limits.slots => 2,
            _ => return Vec::new(),
        };
        let now = self.now;
        let is_overdue = |client: &Client| {
            client.turn.is_some() && Client::is_idle(client.id) && now - client.used.1 > most
        };
        let mut overdue: Vec<_> = self
            .open
            .iter()
            .filter(|client| is_overdue(client))
            .collect();
        overdue.sort_by_key(|client| client.used);
        let overdue: Vec<u32> = overdue.into_iter().map(|client| client.id).collect();
        self.open.retain(|client| !is_overdue(client));
        overdue
    }
}

proptest! {
    #[test]
    fn the_slots_agree_with_the_model(
        slots in 1..40_usize,
        strangers_per_network in 1..6_usize,
        steps in steps(),
    ) {
        let limits = SlotLimits { slots, strangers_per_network };
        let mut tested: Slots<u32> = Slots::new(limits);
        let mut model = Model::default();
        for (at, step) in steps.into_iter().enumerate() {
            let used = (at, model.now);
            let open = model.open.len().max(1);
            let chosen = |position: usize| position % open;
            match step {
                // As with the listener, which accepts no more than these.
                Step::Connect(_) if model.open.len() >= slots => {}
                Step::Connect(network) => {
                    let evicted = tested.make_room(network.map(address));
                    prop_assert_eq!(evicted, model.make_room(limits, network));
                    let id = u32::try_from(at).unwrap_or_default();
                    let turn = Some(tested.give(id, network.map(address), model.now));
                    model.open.push(Client { id, network, turn, used });
                }
                Step::Request(position) => {
                    let client = model.open.get_mut(chosen(position));
                    if let Some(client) = client && let Some(turn) = client.turn {
                        client.turn = tested.requested(turn, model.now);
                        client.used = used;
                        prop_assert!(client.turn.is_some());
                    }
                }
                Step::Accept(position) => {
                    let client = model.open.get_mut(chosen(position));
                    if let Some(turn) = client.and_then(|client| client.turn.take()) {
                        tested.accepted(turn);
                    }
                }
                Step::End(position) if !model.open.is_empty() => {
                    tested.free(model.open.remove(chosen(position)).turn);
                }
                Step::End(_) => {}
                Step::Second => {
                    model.now += 1;
                    let overdue = tested.free_overdue(model.now, |id| Client::is_idle(*id));
                    prop_assert_eq!(overdue, model.free_overdue(limits));
                }
            }
            prop_assert_eq!(tested.open, model.open.len());
            for network in 0..4 {
                let (count, most) = (model.strangers_of(network), strangers_per_network);
                prop_assert!(count <= most);
                prop_assert_eq!(tested.strangers.count_of(address(network)), count);
            }
        }
    }
}

#[test]
fn strangers_have_less_time_the_fewer_slots_are_left() {
    let limits = SlotLimits {
        slots: 200,
        strangers_per_network: 50,
    };
    for (open, expected) in [
        (0, None),
        (149, None),
        (150, Some(CROWDED_HEADER_TIMEOUT)),
        (187, Some(CROWDED_HEADER_TIMEOUT)),
        (188, Some(FULL_HEADER_TIMEOUT)),
        (200, Some(FULL_HEADER_TIMEOUT)),
    ] {
        assert_eq!(limits.header_timeout(open), expected, "{open}");
    }
    assert_eq!(SlotLimits::NONE.header_timeout(1_000_000), None);
}

/// A burst of strangers takes the slots of other strangers, and those who have a key keep theirs.
#[test]
fn an_accepted_key_keeps_its_slot() {
    let mut slots: Slots<u32> = Slots::new(SlotLimits {
        slots: 4,
        strangers_per_network: usize::MAX,
    });
    for id in 1..3 {
        assert_eq!(slots.make_room(None), []);
        let turn = slots.give(id, None, 0);
        slots.accepted(turn);
    }
    let mut evicted = Vec::new();
    for id in 3..100 {
        evicted.extend(slots.make_room(None));
        slots.give(id, None, 0);
    }
    let expected: Vec<_> = (3..99).map(|id| (id, EvictionReason::Slots)).collect();
    assert_eq!(evicted, expected);
}
