//! Seeded sequences of blocks, reorgs of any depth, stalls, disconnects and resumes.
//!
//! A client that only applies its notifications must hold exactly what the snapshot holds, whenever
//! it has read everything.
//!
//! | file | content |
//! |---|---|
//! | `tree` | the blocks of all sequences |
//! | `held` | the data that a client keeps for one subscription |
//! | `turns` | when sessions are woken |
//! | `model` | the clients of one worker, and the chain that it serves |

#![expect(clippy::unwrap_used, reason = "tests")]

mod held;
mod model;
mod tree;
mod turns;

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use nearhead_actors::messages::HeadChanged;
use nearhead_chain::{block::Block, campaign, log_search::LogFilter, window::Window};
use serde_json::Value;

use self::{
    held::{BlockId, id, id_of},
    model::{Client, World, take_frame},
    tree::TREE,
};
use crate::{
    limits::SESSION_FILTER_VALUES_MAX,
    rpc::{RequestSession as _, RpcError, SubscriptionKind},
    test_rng::Rng,
    ws::{request_subscriptions::RequestSubscriptions, session::Session},
};

fn kind(rng: &mut Rng) -> SubscriptionKind {
    match rng.below(6) {
        0 | 1 => SubscriptionKind::NewHeads,
        2 => SubscriptionKind::Reorgs,
        _ => SubscriptionKind::Logs(Rc::new(TREE.filters[rng.below(TREE.filters.len())].clone())),
    }
}

/// Counts of what the sequences covered.
#[derive(Debug, Default)]
struct Seen {
    notified: usize,
    resumed: usize,
    /// By their depth: up to 1, 10, 100, 127.
    reorgs: [usize; 4],
}

/// One sequence.
fn run(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut rng = Rng(seed);
    // A notification has up to 1.2 KB: the budgets hold less than one, a few, and many.
    let budget = [500, 4_000, 1 << 20][rng.below(3)];
    let world = World::new(&TREE.windows[rng.below(TREE.windows.len())], budget);
    let mut clients = vec![Client::new(&world)];
    for _ in 0..2 + rng.below(10) {
        let before = world.snapshot();
        let Some(head_move) = world.head_move(&mut rng) else {
            break;
        };
        if head_move.reverted > 0 {
            let depths = [1, 10, 100, 127];
            let class = depths.iter().position(|most| head_move.reverted <= *most);
            seen.reorgs[class.ok_or("a reorg is too deep")?] += 1;
        }
        let change = world.advance(head_move);
        // The snapshot is swapped first. The hub may be notified later, and not of every change.
        world.served.replace(Arc::clone(&change.snapshot));
        let is_late = rng.below(4) == 0;
        if is_late {
            act(&world, &mut clients, &mut rng, seen)?;
        }
        if rng.below(12) == 0 {
            world.hub.adopt(Arc::clone(&change.snapshot));
        } else {
            world.hub.fan_out(&change);
        }
        act(&world, &mut clients, &mut rng, seen)?;
        if let Some(client) = clients.last_mut()
            && rng.below(3) == 0
        {
            // A request that began before the change.
            client.subscribe(kind(&mut rng), &before)?;
        }
        if rng.below(3) == 0 {
            clients.push(Client::new(&world));
        }
    }
    let snapshot = world.snapshot();
    for client in &mut clients {
        client.answer();
        while !client.read(usize::MAX, None)? {
            client.come_back(&world, &snapshot)?;
            client.answer();
        }
        client.check(&snapshot)?;
        if seed.is_multiple_of(8) {
            client.check_answers(&snapshot)?;
        }
        seen.notified += client.notified;
    }
    drop(clients);
    match world.hub.is_unused() {
        true => Ok(()),
        false => Err("the hub still holds something of clients that are gone".to_owned()),
    }
}

/// Each client does something.
fn act(
    world: &World,
    clients: &mut [Client],
    rng: &mut Rng,
    seen: &mut Seen,
) -> Result<(), String> {
    let snapshot = world.snapshot();
    for client in clients {
        match rng.below(12) {
            0 => {}
            1 => drop(client.read(rng.below(3_000), None)?),
            2 => client.leave(),
            3 => client.unsubscribe(rng)?,
            4 => client.lose_answer(),
            5 | 6 => client.subscribe(kind(rng), &snapshot)?,
            7 => client.answer(),
            _ => {
                if client.read(usize::MAX, None)? {
                    // It knows everything up to the hub's snapshot.
                    client.check(&world.hub.snapshot().unwrap())?;
                }
            }
        }
        if client.is_away() && rng.below(2) == 0 {
            client.come_back(world, &snapshot)?;
            seen.resumed += 1;
        }
    }
    Ok(())
}

#[test]
fn a_client_that_applies_its_notifications_holds_what_the_snapshot_holds() {
    let mut seen = Seen::default();
    let seeds = campaign::rounds(300, 10_000);
    for seed in 0..seeds {
        run(seed, &mut seen).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let seeds = usize::try_from(seeds).unwrap();
    assert!(
        seen.notified > 10 * seeds && seen.resumed > seeds / 10,
        "{seen:?}"
    );
    assert!(
        seen.reorgs.iter().all(|count| *count > seeds * 3 / 100),
        "{seen:?}"
    );
}

/// A fault in the feed of changes.
#[derive(Clone, Copy, Debug)]
enum FeedFault {
    /// A change is left out.
    Dropped,
    /// A change is sent twice.
    Doubled,
    /// A change is sent before its snapshot can be read.
    SentFirst,
}

const FAULTS: [FeedFault; 3] = [FeedFault::Dropped, FeedFault::Doubled, FeedFault::SentFirst];

/// Runs the same few changes with a fault at one of them, or with none. Returns whether the client
/// notices: a check fails, or the number of notifications of a change differs from `counts`.
fn is_noticed(
    seed: u64,
    kind: &SubscriptionKind,
    fault: Option<(usize, FeedFault)>,
    counts: &mut Vec<usize>,
) -> bool {
    let mut rng = Rng(seed);
    let world = World::new(&TREE.windows[rng.below(TREE.windows.len())], 1 << 24);
    let mut client = Client::new(&world);
    client.subscribe(kind.clone(), &world.snapshot()).unwrap();
    client.answer();
    client.read(usize::MAX, None).unwrap();
    for at in 0..6 {
        let change = world.advance(world.head_move(&mut rng).unwrap());
        let fault = fault
            .filter(|(place, _)| *place == at)
            .map(|(_, fault)| fault);
        if !matches!(fault, Some(FeedFault::SentFirst)) {
            world.served.replace(Arc::clone(&change.snapshot));
        }
        if !matches!(fault, Some(FeedFault::Dropped)) {
            world.hub.fan_out(&change);
        }
        if matches!(fault, Some(FeedFault::Doubled)) {
            world.hub.fan_out(&change);
        }
        let before = client.notified;
        let is_whole = client.read(usize::MAX, Some(&world.snapshot()));
        world.served.replace(Arc::clone(&change.snapshot));
        if !matches!(is_whole, Ok(true)) || client.check(&world.snapshot()).is_err() {
            return true;
        }
        let count = client.notified - before;
        match counts.get(at) {
            None => counts.push(count),
            Some(expected) if *expected != count => return true,
            Some(_) => {}
        }
    }
    false
}

/// Proves that the model finds faults.
#[test]
fn a_broken_feed_is_caught() {
    let mut rng = Rng(7);
    let mut broken = [0; 3];
    for seed in 0..400 {
        let kind = match seed % 2 {
            0 => SubscriptionKind::NewHeads,
            _ => SubscriptionKind::Logs(Rc::default()),
        };
        let mut counts = Vec::new();
        assert!(
            !is_noticed(seed, &kind, None, &mut counts),
            "seed {seed} is whole"
        );
        // A fault needs a change with notifications.
        let places: Vec<usize> = (0..counts.len()).filter(|at| counts[*at] > 0).collect();
        let at = places[rng.below(places.len())];
        for (count, fault) in broken.iter_mut().zip(FAULTS) {
            // Removed logs can be read before and after the change.
            if matches!(
                (&kind, fault),
                (SubscriptionKind::Logs(_), FeedFault::SentFirst)
            ) {
                continue;
            }
            let is_caught = is_noticed(seed, &kind, Some((at, fault)), &mut counts);
            assert!(is_caught, "seed {seed}, {fault:?} at change {at}");
            *count += 1;
        }
    }
    assert_eq!(broken, [400, 400, 200]);
}

/// One notification is left out, sent twice, or swapped with the one before it.
#[test]
fn a_broken_notification_is_caught() {
    let mut rng = Rng(9);
    let mut broken = 0;
    for seed in 0..200 {
        let kind = match seed % 2 {
            0 => SubscriptionKind::NewHeads,
            _ => SubscriptionKind::Logs(Rc::default()),
        };
        let world = World::new(&TREE.windows[rng.below(TREE.windows.len())], 1 << 24);
        let snapshot = world.snapshot();
        let session = subscribe(&world, kind.clone());
        let change = world.advance(world.head_move(&mut rng).unwrap());
        world.hub.fan_out(&change);
        let sent: Vec<Value> = notifications(&session)
            .into_iter()
            .map(|(_, result)| result)
            .collect();
        let is_caught = |sent: &[Value]| {
            let mut held = held::Held::read(&kind, &snapshot);
            !sent.iter().all(|result| held.apply(result).is_ok())
                || held.check(&kind, &change.snapshot).is_err()
        };
        assert!(!is_caught(&sent), "seed {seed} is whole");
        // The first few stand for all.
        for at in 0..sent.len().min(8) {
            let (mut dropped, mut doubled, mut swapped) =
                (sent.clone(), sent.clone(), sent.clone());
            dropped.remove(at);
            doubled.insert(at, sent[at].clone());
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

/// A session with one started subscription.
fn subscribe(world: &World, kind: SubscriptionKind) -> Rc<Session> {
    let session = world.session();
    let request = RequestSubscriptions::new(Rc::clone(&session));
    request.subscribe(kind, None, &world.snapshot()).unwrap();
    request.answered();
    session.subscriptions.catch_up(&session);
    session
}

/// The notifications of a session: the bytes and the value of each `result`.
fn notifications(session: &Rc<Session>) -> Vec<(Bytes, Value)> {
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
    // Header, prefix, rest.
    let mut values = slices.into_iter().skip(2).step_by(3);
    let mut notifications = Vec::new();
    while let Some((_, payload)) = take_frame(&mut bytes) {
        let message: Value = serde_json::from_slice(&payload).unwrap();
        notifications.push((values.next().unwrap(), message["params"]["result"].clone()));
    }
    notifications
}

#[test]
fn reorgs_are_sent_with_their_common_ancestor() {
    let mut rng = Rng(3);
    let world = World::new(&TREE.windows[1], 1 << 24);
    let session = subscribe(&world, SubscriptionKind::Reorgs);
    let mut expected: Vec<(BlockId, Vec<BlockId>, Vec<BlockId>)> = Vec::new();
    let mut changes = 0;
    while expected.len() < 20 {
        changes += 1;
        let change = world.advance(world.head_move(&mut rng).unwrap());
        world.hub.fan_out(&change);
        let ids = |blocks: &[Arc<Block>]| blocks.iter().map(|block| id(block)).collect();
        if let Some(oldest) = change.reverted.last() {
            let ancestor = (oldest.number() - 1, oldest.header.parent_hash);
            expected.push((ancestor, ids(&change.reverted), ids(&change.applied)));
        }
    }
    let ids = |value: &Value| value.as_array().unwrap().iter().map(id_of).collect();
    let sent: Vec<_> = notifications(&session)
        .iter()
        .map(|(_, reorg)| {
            (
                id_of(&reorg["commonAncestor"]),
                ids(&reorg["reverted"]),
                ids(&reorg["applied"]),
            )
        })
        .collect();
    assert_eq!(sent, expected);
    let measured = world.metrics.fanout.get_sample_count();
    assert_eq!(measured, changes, "one sample per change");
}

#[test]
fn all_subscribers_share_the_bytes_of_a_notification() {
    let mut rng = Rng(5);
    let world = World::new(&TREE.windows[1], 1 << 24);
    for kind in [
        SubscriptionKind::NewHeads,
        SubscriptionKind::Logs(Rc::default()),
    ] {
        let sessions: Vec<_> = (0..10).map(|_| subscribe(&world, kind.clone())).collect();
        // A subscription at a snapshot that is newer than the hub's first catches up.
        world
            .hub
            .fan_out(&world.advance(world.head_move(&mut rng).unwrap()));
        for session in &sessions {
            notifications(session);
        }
        let mut count = 0;
        while count == 0 {
            world
                .hub
                .fan_out(&world.advance(world.head_move(&mut rng).unwrap()));
            let places: Vec<Vec<*const u8>> = sessions
                .iter()
                .map(|session| {
                    notifications(session)
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

/// A window that began with its head was filled since then: a client can resume from any block in
/// it, before the head changes.
#[test]
fn a_subscription_resumes_from_a_block_that_was_added_below() {
    let blocks = TREE.windows[2].snapshot().canonical().to_vec();
    let (head, below) = blocks.split_last().unwrap();
    let window = Window::new(1, Arc::clone(head));
    let mut rng = Rng(7);
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
        let request = RequestSubscriptions::new(Rc::clone(&session));
        let snapshot = world.snapshot();
        request
            .subscribe(kind.clone(), Some(since.hash), &snapshot)
            .unwrap();
        request.answered();
        let logs = |block: &Arc<Block>| block.json().log_count();
        let since_then = snapshot.range(since.number() + 1, u64::MAX);
        let expected = match kind {
            SubscriptionKind::NewHeads => 100,
            SubscriptionKind::Logs(_) => since_then.iter().map(logs).sum(),
            SubscriptionKind::Reorgs => 0,
        };
        assert_eq!(notifications(&session).len(), expected, "{kind:?}");
        assert!(!session.subscriptions.is_behind(), "{kind:?}");
        // From now on both receive the same.
        let change = world.advance(world.head_move(&mut rng).unwrap());
        world.hub.fan_out(&change);
        let [first, second] = [notifications(&first), notifications(&session)];
        assert_eq!(first, second, "{kind:?}");
    }
}

/// A change is larger than the budget.
#[test]
fn a_client_that_reads_receives_all_of_a_large_change() {
    let (mut rng, mut notified_most) = (Rng(1), 0);
    for _ in 0..50 {
        let world = World::new(&TREE.windows[rng.below(TREE.windows.len())], 2_000);
        let mut client = Client::new(&world);
        client
            .subscribe(SubscriptionKind::Logs(Rc::default()), &world.snapshot())
            .unwrap();
        client
            .subscribe(SubscriptionKind::NewHeads, &world.snapshot())
            .unwrap();
        client.answer();
        client.read(usize::MAX, None).unwrap();
        let session = client.session.clone().unwrap();
        let change: HeadChanged = world.advance(world.head_move(&mut rng).unwrap());
        world.served.replace(Arc::clone(&change.snapshot));
        world.hub.fan_out(&change);
        while !client.read(100, Some(&change.snapshot)).unwrap() {
            assert!(session.takes_messages());
        }
        client.check(&change.snapshot).unwrap();
        notified_most = notified_most.max(client.notified);
    }
    assert!(notified_most > 100, "{notified_most} at once");
}

#[test]
fn filter_values_of_a_session_are_bounded() {
    let world = World::new(&TREE.windows[0], 1 << 20);
    let request = RequestSubscriptions::new(world.session());
    let filter = |values: usize| {
        let topics = vec![vec![alloy_primitives::B256::ZERO; values]];
        let addresses = Vec::new();
        SubscriptionKind::Logs(Rc::new(LogFilter { addresses, topics }))
    };
    let snapshot = world.snapshot();
    let half = SESSION_FILTER_VALUES_MAX / 2;
    let first = request.subscribe(filter(half), None, &snapshot).unwrap();
    assert!(request.subscribe(filter(half), None, &snapshot).is_ok());
    let most = SESSION_FILTER_VALUES_MAX;
    let one_more = request.subscribe(filter(1), None, &snapshot);
    assert_eq!(one_more, Err(RpcError::TooManyFilterValues { most }));
    assert!(request.unsubscribe(&first));
    assert!(request.subscribe(filter(half), None, &snapshot).is_ok());
    assert!(!world.hub.is_unused());
    drop(request);
    assert!(
        world.hub.is_unused(),
        "subscriptions without an answer are dropped"
    );
}
