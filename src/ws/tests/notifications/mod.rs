//! Seeded sequences of blocks, reorgs of any depth, stalls, disconnects and resumes: a client that
//! only applies what it is told must hold, whenever it has read everything, exactly what the view
//! holds.
//!
//! | file | what it is |
//! |---|---|
//! | `tree` | the blocks that sequences move among |
//! | `held` | what a client holds, and how it applies what it is told |
//! | `model` | clients and their sessions on one worker |

#![expect(clippy::unwrap_used, reason = "tests")]

mod held;
mod model;
mod tree;

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use nearhead_actors::messages::HeadChanged;
use nearhead_chain::{block::Block, log_search::LogFilter, window::Window};
use serde_json::Value;

use self::{
    held::{Id, id, id_of},
    model::{Client, World, take_frame},
    tree::TREE,
};
use crate::{
    limits::SESSION_FILTER_VALUES_MAX,
    rpc::{RpcError, Subscriber as _, SubscriptionKind},
    ws::{request_subscriber::RequestSubscriber, session::Session},
};

/// splitmix64: a seed names a sequence.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }
}

fn kind(dice: &mut Dice) -> SubscriptionKind {
    match dice.roll(6) {
        0 | 1 => SubscriptionKind::NewHeads,
        2 => SubscriptionKind::Reorgs,
        _ => SubscriptionKind::Logs(Rc::new(TREE.filters[dice.roll(TREE.filters.len())].clone())),
    }
}

/// What the sequences saw, so that none of it is missing unnoticed.
#[derive(Debug, Default)]
struct Seen {
    told: usize,
    resumed: usize,
    /// By their depth: up to 1, 10, 100, 127.
    reorgs: [usize; 4],
}

/// One sequence.
fn run(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut dice = Dice(seed);
    // A notification has up to 1.2 KB: budgets that are smaller than one, and of a few.
    let budget = [500, 4_000, 1 << 20][dice.roll(3)];
    let world = World::new(&TREE.windows[dice.roll(TREE.windows.len())], budget);
    let mut clients = vec![Client::new(&world)];
    for _ in 0..2 + dice.roll(10) {
        let before = world.view();
        let Some(way) = world.way(&mut dice) else {
            break;
        };
        if way.reverted > 0 {
            let depths = [1, 10, 100, 127];
            let class = depths.iter().position(|most| way.reverted <= *most);
            seen.reorgs[class.ok_or("a reorg is too deep")?] += 1;
        }
        let change = world.advance(way);
        // The view is swapped first; the worker may be told later, and not of every change.
        world.served.replace(Arc::clone(&change.snapshot));
        let is_late = dice.roll(4) == 0;
        if is_late {
            act(&world, &mut clients, &mut dice, seen)?;
        }
        if dice.roll(12) == 0 {
            world.hub.reset(Arc::clone(&change.snapshot));
        } else {
            world.hub.fan_out(&change);
        }
        act(&world, &mut clients, &mut dice, seen)?;
        if let Some(client) = clients.last_mut()
            && dice.roll(3) == 0
        {
            // A request that began before the change.
            client.subscribe(kind(&mut dice), &before)?;
        }
        if dice.roll(3) == 0 {
            clients.push(Client::new(&world));
        }
    }
    let view = world.view();
    for client in &mut clients {
        client.answer();
        while !client.read(usize::MAX, None)? {
            client.come_back(&world, &view)?;
            client.answer();
        }
        client.check(&view)?;
        if seed.is_multiple_of(8) {
            client.check_answers(&view)?;
        }
        seen.told += client.told;
    }
    drop(clients);
    match world.hub.is_unused() {
        true => Ok(()),
        false => Err("something is left of clients that are gone".to_owned()),
    }
}

/// Everybody does something.
fn act(
    world: &World,
    clients: &mut [Client],
    dice: &mut Dice,
    seen: &mut Seen,
) -> Result<(), String> {
    let view = world.view();
    for client in clients {
        match dice.roll(12) {
            0 => {}
            1 => drop(client.read(dice.roll(3_000), None)?),
            2 => client.leave(),
            3 => client.unsubscribe(dice)?,
            4 => client.lose_answer(),
            5 | 6 => client.subscribe(kind(dice), &view)?,
            7 => client.answer(),
            _ => {
                if client.read(usize::MAX, None)? {
                    // It knows what the worker was told.
                    client.check(&world.hub.snapshot().unwrap())?;
                }
            }
        }
        if client.is_away() && dice.roll(2) == 0 {
            client.come_back(world, &view)?;
            seen.resumed += 1;
        }
    }
    Ok(())
}

#[test]
fn a_client_that_applies_what_it_is_told_holds_what_the_view_holds() {
    let mut seen = Seen::default();
    for seed in 0..10_000 {
        if seed % 500 == 0 {
            eprintln!("{seed} {:?}", std::time::SystemTime::now());
        }
        run(seed, &mut seen).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(seen.told > 100_000 && seen.resumed > 1_000, "{seen:?}");
    assert!(seen.reorgs.iter().all(|count| *count > 300), "{seen:?}");
}

/// What is wrong with a feed.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A change is left out.
    Dropped,
    /// A change is told twice.
    Doubled,
    /// A change is told before its view can be read.
    ToldFirst,
}

const FAULTS: [Fault; 3] = [Fault::Dropped, Fault::Doubled, Fault::ToldFirst];

/// Runs the same few changes with a fault at one of them, or with none; whether a live client is
/// told anything but what it is told of each of them without.
fn notices(
    seed: u64,
    kind: &SubscriptionKind,
    fault: Option<(usize, Fault)>,
    told: &mut Vec<usize>,
) -> bool {
    let mut dice = Dice(seed);
    let world = World::new(&TREE.windows[dice.roll(TREE.windows.len())], 1 << 24);
    let mut client = Client::new(&world);
    client.subscribe(kind.clone(), &world.view()).unwrap();
    client.answer();
    client.read(usize::MAX, None).unwrap();
    for at in 0..6 {
        let change = world.advance(world.way(&mut dice).unwrap());
        let fault = fault
            .filter(|(place, _)| *place == at)
            .map(|(_, fault)| fault);
        if !matches!(fault, Some(Fault::ToldFirst)) {
            world.served.replace(Arc::clone(&change.snapshot));
        }
        if !matches!(fault, Some(Fault::Dropped)) {
            world.hub.fan_out(&change);
        }
        if matches!(fault, Some(Fault::Doubled)) {
            world.hub.fan_out(&change);
        }
        let before = client.told;
        let is_whole = client.read(usize::MAX, Some(&world.view()));
        world.served.replace(Arc::clone(&change.snapshot));
        if !matches!(is_whole, Ok(true)) || client.check(&world.view()).is_err() {
            return true;
        }
        let count = client.told - before;
        match told.get(at) {
            None => told.push(count),
            Some(expected) if *expected != count => return true,
            Some(_) => {}
        }
    }
    false
}

/// What the model would let through is not proven by it.
#[test]
fn a_broken_feed_is_caught() {
    let mut dice = Dice(7);
    let mut broken = [0; 3];
    for seed in 0..400 {
        let kind = match seed % 2 {
            0 => SubscriptionKind::NewHeads,
            _ => SubscriptionKind::Logs(Rc::default()),
        };
        let mut told = Vec::new();
        assert!(
            !notices(seed, &kind, None, &mut told),
            "seed {seed} is whole"
        );
        // Where nothing is told of a change, nothing can be wrong with it.
        let places: Vec<usize> = (0..told.len()).filter(|at| told[*at] > 0).collect();
        let at = places[dice.roll(places.len())];
        for (count, fault) in broken.iter_mut().zip(FAULTS) {
            // Logs that are removed can be read before and after.
            if matches!(
                (&kind, fault),
                (SubscriptionKind::Logs(_), Fault::ToldFirst)
            ) {
                continue;
            }
            let is_caught = notices(seed, &kind, Some((at, fault)), &mut told);
            assert!(is_caught, "seed {seed}, {fault:?} at change {at}");
            *count += 1;
        }
    }
    assert_eq!(broken, [400, 400, 200]);
}

/// Every single notification counts: one left out, told twice, or told before the one ahead of it.
#[test]
fn a_broken_notification_is_caught() {
    let mut dice = Dice(9);
    let mut broken = 0;
    for seed in 0..200 {
        let kind = match seed % 2 {
            0 => SubscriptionKind::NewHeads,
            _ => SubscriptionKind::Logs(Rc::default()),
        };
        let world = World::new(&TREE.windows[dice.roll(TREE.windows.len())], 1 << 24);
        let view = world.view();
        let session = subscribe(&world, kind.clone());
        let change = world.advance(world.way(&mut dice).unwrap());
        world.hub.fan_out(&change);
        let told: Vec<Value> = told(&session)
            .into_iter()
            .map(|(_, result)| result)
            .collect();
        let is_caught = |told: &[Value]| {
            let mut held = held::Held::read(&kind, &view);
            !told.iter().all(|result| held.apply(result).is_ok())
                || held.check(&kind, &change.snapshot).is_err()
        };
        assert!(!is_caught(&told), "seed {seed} is whole");
        // Anywhere among the first few, where one of many is as good as another.
        for at in 0..told.len().min(8) {
            let (mut dropped, mut doubled, mut swapped) =
                (told.clone(), told.clone(), told.clone());
            dropped.remove(at);
            doubled.insert(at, told[at].clone());
            assert!(
                is_caught(&dropped) && is_caught(&doubled),
                "seed {seed} at {at}"
            );
            broken += 2;
            if at > 0 {
                swapped.swap(at - 1, at);
                assert!(is_caught(&swapped), "seed {seed} swapped at {at}");
                broken += 1;
            }
        }
    }
    assert!(broken > 1_000, "{broken}");
}

/// A session with one subscription that is told from now on.
fn subscribe(world: &World, kind: SubscriptionKind) -> Rc<Session> {
    let session = world.session();
    let asking = RequestSubscriber::new(Rc::clone(&session));
    asking.subscribe(kind, None, &world.view()).unwrap();
    asking.answered();
    session.subscriptions.catch_up(&session);
    session
}

/// What a session was told, each with the bytes of its value.
fn told(session: &Rc<Session>) -> Vec<(Bytes, Value)> {
    let (mut bytes, mut slices) = (Vec::new(), Vec::new());
    session.subscriptions.catch_up(session);
    loop {
        let waiting = session.waiting();
        if waiting.is_empty() {
            break;
        }
        slices.extend(waiting);
        while let Some(taken) = session.take(usize::MAX) {
            bytes.extend_from_slice(&taken);
        }
        session.subscriptions.catch_up(session);
    }
    // Header, start, rest.
    let mut values = slices.into_iter().skip(2).step_by(3);
    let mut told = Vec::new();
    while let Some((_, payload)) = take_frame(&mut bytes) {
        let message: Value = serde_json::from_slice(&payload).unwrap();
        told.push((values.next().unwrap(), message["params"]["result"].clone()));
    }
    told
}

#[test]
fn reorgs_are_told_with_their_common_ancestor() {
    let mut dice = Dice(3);
    let world = World::new(&TREE.windows[1], 1 << 24);
    let session = subscribe(&world, SubscriptionKind::Reorgs);
    let mut expected: Vec<(Id, Vec<Id>, Vec<Id>)> = Vec::new();
    let mut changes = 0;
    while expected.len() < 20 {
        changes += 1;
        let change = world.advance(world.way(&mut dice).unwrap());
        world.hub.fan_out(&change);
        let ids = |blocks: &[Arc<Block>]| blocks.iter().map(|block| id(block)).collect();
        if let Some(oldest) = change.reverted.last() {
            let ancestor = (oldest.number() - 1, oldest.header.parent_hash);
            expected.push((ancestor, ids(&change.reverted), ids(&change.applied)));
        }
    }
    let ids = |value: &Value| value.as_array().unwrap().iter().map(id_of).collect();
    let told: Vec<_> = told(&session)
        .iter()
        .map(|(_, reorg)| {
            (
                id_of(&reorg["commonAncestor"]),
                ids(&reorg["reverted"]),
                ids(&reorg["applied"]),
            )
        })
        .collect();
    assert_eq!(told, expected);
    let measured = world.metrics.fanout.get_sample_count();
    assert_eq!(measured, changes, "what each change took");
}

#[test]
fn a_notification_is_made_once_for_all_who_get_it() {
    let mut dice = Dice(5);
    let world = World::new(&TREE.windows[1], 1 << 24);
    for kind in [
        SubscriptionKind::NewHeads,
        SubscriptionKind::Logs(Rc::default()),
    ] {
        let sessions: Vec<_> = (0..10).map(|_| subscribe(&world, kind.clone())).collect();
        // Who subscribes at a view that the hub does not know yet goes there at its own pace.
        world
            .hub
            .fan_out(&world.advance(world.way(&mut dice).unwrap()));
        for session in &sessions {
            told(session);
        }
        let mut count = 0;
        while count == 0 {
            world
                .hub
                .fan_out(&world.advance(world.way(&mut dice).unwrap()));
            let places: Vec<Vec<*const u8>> = sessions
                .iter()
                .map(|session| {
                    told(session)
                        .iter()
                        .map(|(value, _)| value.as_ptr())
                        .collect()
                })
                .collect();
            count = places[0].len();
            assert!(places.iter().all(|other| *other == places[0]), "{kind:?}");
        }
    }
}

/// A window that began with its head was filled since the worker was told of it: who asks goes on
/// from anywhere in it, and the head need not change first.
#[test]
fn a_subscription_goes_on_from_a_block_that_was_put_below() {
    let blocks = TREE.windows[2].snapshot().canonical().to_vec();
    let (head, below) = blocks.split_last().unwrap();
    let window = Window::new(1, Arc::clone(head));
    let mut dice = Dice(7);
    for kind in [
        SubscriptionKind::NewHeads,
        SubscriptionKind::Logs(Rc::default()),
        SubscriptionKind::Reorgs,
    ] {
        let world = World::new(&window, 1 << 24);
        let first = subscribe(&world, kind.clone());
        for block in below.iter().rev().take(100) {
            world.extend_below(block);
        }
        let since = &below[below.len() - 100];
        let session = world.session();
        let asking = RequestSubscriber::new(Rc::clone(&session));
        let view = world.view();
        asking
            .subscribe(kind.clone(), Some(since.hash), &view)
            .unwrap();
        asking.answered();
        let logs = |block: &Arc<Block>| block.json.log_count();
        let since_then = view.range(since.number() + 1, u64::MAX);
        let expected = match kind {
            SubscriptionKind::NewHeads => 100,
            SubscriptionKind::Logs(_) => since_then.iter().map(logs).sum(),
            SubscriptionKind::Reorgs => 0,
        };
        assert_eq!(told(&session).len(), expected, "{kind:?}");
        assert!(!session.subscriptions.is_behind(), "{kind:?}");
        // From now on both are told the same.
        let change = world.advance(world.way(&mut dice).unwrap());
        world.hub.fan_out(&change);
        let [first, second] = [told(&first), told(&session)];
        assert_eq!(first, second, "{kind:?}");
    }
}

/// A change is larger than what may wait, and the client reads: it is told of all of it.
#[test]
fn who_reads_is_told_of_whatever_happened_at_once() {
    let (mut dice, mut told_most) = (Dice(1), 0);
    for _ in 0..50 {
        let world = World::new(&TREE.windows[dice.roll(TREE.windows.len())], 2_000);
        let mut client = Client::new(&world);
        client
            .subscribe(SubscriptionKind::Logs(Rc::default()), &world.view())
            .unwrap();
        client
            .subscribe(SubscriptionKind::NewHeads, &world.view())
            .unwrap();
        client.answer();
        client.read(usize::MAX, None).unwrap();
        let session = client.session.clone().unwrap();
        let change: HeadChanged = world.advance(world.way(&mut dice).unwrap());
        world.served.replace(Arc::clone(&change.snapshot));
        world.hub.fan_out(&change);
        while !client.read(100, Some(&change.snapshot)).unwrap() {
            assert!(session.takes_messages());
        }
        client.check(&change.snapshot).unwrap();
        told_most = told_most.max(client.told);
    }
    assert!(told_most > 100, "{told_most} at once");
}

#[test]
fn filters_of_a_session_have_so_many_values_in_all() {
    let world = World::new(&TREE.windows[0], 1 << 20);
    let asking = RequestSubscriber::new(world.session());
    let filter = |values: usize| {
        let topics = vec![vec![alloy_primitives::B256::ZERO; values]];
        let addresses = Vec::new();
        SubscriptionKind::Logs(Rc::new(LogFilter { addresses, topics }))
    };
    let view = world.view();
    let half = SESSION_FILTER_VALUES_MAX / 2;
    let first = asking.subscribe(filter(half), None, &view).unwrap();
    assert!(asking.subscribe(filter(half), None, &view).is_ok());
    let most = SESSION_FILTER_VALUES_MAX;
    let one_more = asking.subscribe(filter(1), None, &view);
    assert_eq!(one_more, Err(RpcError::TooManyFilterValues { most }));
    assert!(asking.unsubscribe(&first));
    assert!(asking.subscribe(filter(half), None, &view).is_ok());
    assert!(!world.hub.is_unused());
    drop(asking);
    assert!(world.hub.is_unused(), "what was not answered is forgotten");
}
