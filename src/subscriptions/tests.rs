//! Seeded sequences of blocks, reorgs, stalls, disconnects and resumes: a client that only applies what it is told must
//! hold, whenever it has read everything, exactly what the view holds.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::HashMap,
    rc::Rc,
    sync::{Arc, LazyLock, atomic::AtomicBool},
};

use alloy_primitives::B256;
use nearhead_actors::messages::HeadChanged;
use nearhead_chain::{
    block::Block,
    dev::{DevConfig, Producer, Profile},
    encode::EncodeOptions,
    log_search::LogFilter,
    window::{Snapshot, Window},
};
use serde_json::Value;

use super::{Follower, Hub};
use crate::{
    access::{Keys, SessionCaps},
    metrics::Metrics,
    rpc::{RpcError, Subscriber, Topic},
    sessions::{Session, Sessions},
};

/// What happened on one chain, change after change; each with the view after it.
struct History {
    first: Arc<Snapshot>,
    changes: Vec<HeadChanged>,
    /// Every block there ever was.
    blocks: HashMap<B256, Arc<Block>>,
    /// Their logs.
    logs: HashMap<B256, Vec<Value>>,
    filters: Vec<LogFilter>,
}

impl History {
    fn make(seed: u64, reorg_every: u64, reorg_depth: u64, steps: usize) -> Self {
        let config = DevConfig {
            seed,
            profile: Profile::Small,
            block_time_seconds: 1,
            reorg_every: Some(reorg_every),
            reorg_depth,
        };
        let mut producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| {}).unwrap();
        let first = Arc::clone(producer.head());
        let mut window = Window::new(1, Arc::clone(&first));
        let mut history = Self {
            first: window.snapshot(),
            changes: Vec::new(),
            blocks: HashMap::from([(first.hash, first)]),
            logs: HashMap::new(),
            filters: vec![LogFilter::default()],
        };
        for _ in 0..steps {
            let step = producer.step().unwrap();
            let applied: Vec<Arc<Block>> =
                step.applied.into_iter().map(|(_, block)| block).collect();
            for block in &applied {
                history.blocks.insert(block.hash, Arc::clone(block));
            }
            let delta = window.advance(step.reverted, applied, None, None).unwrap();
            history.changes.push(HeadChanged {
                reverted: delta.reverted,
                applied: delta.applied,
                snapshot: window.snapshot(),
            });
        }
        let logs = history
            .blocks
            .values()
            .map(|block| (block.hash, logs_of(block)));
        history.logs = logs.collect();
        let logs: Vec<Value> = history.logs.values().flatten().cloned().collect();
        for log in logs.iter().step_by(logs.len() / 6 + 1) {
            let address = log["address"].as_str().unwrap().parse().unwrap();
            let topics: Vec<B256> = log["topics"]
                .as_array()
                .unwrap()
                .iter()
                .map(|topic| topic.as_str().unwrap().parse().unwrap())
                .collect();
            history.filters.push(LogFilter {
                addresses: vec![address],
                topics: topics.iter().take(1).map(|topic| vec![*topic]).collect(),
            });
            history.filters.push(LogFilter {
                addresses: Vec::new(),
                topics: topics.iter().map(|topic| vec![*topic]).collect(),
            });
        }
        history
    }

    /// The view before change `at`.
    fn view_before(&self, at: usize) -> &Arc<Snapshot> {
        match at.checked_sub(1) {
            Some(before) => &self.changes[before].snapshot,
            None => &self.first,
        }
    }
}

static HISTORIES: LazyLock<Vec<History>> = LazyLock::new(|| {
    vec![
        History::make(1, 1, 1, 200),
        History::make(2, 3, 5, 200),
        History::make(3, 20, 60, 260),
        History::make(4, 130, 127, 300),
    ]
});

fn logs_of(block: &Block) -> Vec<Value> {
    let receipts = block.json.receipts();
    let log = |at| serde_json::from_slice(&receipts[block.json.log_range(at).unwrap()]).unwrap();
    (0..block.json.log_count()).map(log).collect()
}

fn matches(filter: &LogFilter, log: &Value) -> bool {
    let is = |value: &Value, wanted: String| value.as_str() == Some(&wanted);
    let addresses = &filter.addresses;
    let topics = log["topics"].as_array().unwrap();
    (addresses.is_empty()
        || addresses
            .iter()
            .any(|address| is(&log["address"], format!("{address:#x}"))))
        && topics.len() >= filter.topics.len()
        && filter.topics.iter().zip(topics).all(|(values, topic)| {
            values.is_empty() || values.iter().any(|value| is(topic, value.to_string()))
        })
}

/// What a client holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// Numbers and hashes of the chain.
    Heads(Vec<(u64, B256)>),
    /// Matching logs of the chain: number and hash of the block, and position in it.
    Logs(LogFilter, Vec<(u64, B256, usize)>),
}

impl Held {
    /// What a client asks for before it subscribes.
    fn read(topic: &Topic, view: &Snapshot, history: &History) -> Self {
        match topic {
            Topic::Logs(filter) => {
                let logs = view.canonical().iter().flat_map(|block| {
                    let all = history.logs[&block.hash].iter().enumerate();
                    all.filter(|(_, log)| matches(filter, log))
                        .map(|(position, _)| (block.number(), block.hash, position))
                });
                Self::Logs(filter.clone(), logs.collect())
            }
            Topic::NewHeads | Topic::Reorgs => {
                let id = |block: &Arc<Block>| (block.number(), block.hash);
                Self::Heads(view.canonical().iter().map(id).collect())
            }
        }
    }

    /// Applies what it is told, and refuses what does not follow.
    fn apply(&mut self, result: &Value, history: &History) -> Result<(), String> {
        let number = |value: &Value| {
            let text = value.as_str().unwrap().trim_start_matches("0x");
            u64::from_str_radix(text, 16).unwrap()
        };
        match self {
            Self::Heads(chain) => {
                let number = number(&result["number"]);
                let hash: B256 = result["hash"].as_str().unwrap().parse().unwrap();
                if chain.last() == Some(&(number, hash)) {
                    return Err(format!("head {number} twice"));
                }
                chain.retain(|(other, _)| *other < number);
                let parent: B256 = result["parentHash"].as_str().unwrap().parse().unwrap();
                if chain.last().is_some_and(|(_, hash)| *hash != parent) {
                    return Err(format!("head {number} does not follow the one before"));
                }
                chain.push((number, hash));
            }
            Self::Logs(filter, logs) => {
                let mut log = result.clone();
                let is_removed = log["removed"] == true;
                log["removed"] = false.into();
                let hash: B256 = log["blockHash"].as_str().unwrap().parse().unwrap();
                let position = history.logs[&hash].iter().position(|known| *known == log);
                let position = position.ok_or_else(|| format!("there is no such log: {log}"))?;
                if !matches(filter, &log) {
                    return Err(format!("it does not match: {log}"));
                }
                let entry = (number(&log["blockNumber"]), hash, position);
                if is_removed {
                    match logs.pop() {
                        Some(last) if last == entry => {}
                        Some(last) => return Err(format!("removed {entry:?} before {last:?}")),
                        None => return Err("removed what it does not hold".to_owned()),
                    }
                } else if logs.last().is_some_and(|(last, ..)| *last > entry.0) {
                    return Err(format!("{entry:?} after a later one"));
                } else {
                    logs.push(entry);
                }
            }
        }
        Ok(())
    }

    /// What is still in the window.
    fn since(&self, oldest: u64) -> Self {
        match self {
            Self::Heads(chain) => Self::Heads(
                chain
                    .iter()
                    .copied()
                    .filter(|(number, _)| *number >= oldest)
                    .collect(),
            ),
            Self::Logs(filter, logs) => {
                let logs = logs.iter().filter(|(number, ..)| *number >= oldest);
                Self::Logs(filter.clone(), logs.copied().collect())
            }
        }
    }

    fn summary(&self) -> String {
        match self {
            Self::Heads(chain) => format!("{} heads up to {:?}", chain.len(), chain.last()),
            Self::Logs(_, logs) => {
                format!("{} logs up to {:?}", logs.len(), logs.last())
            }
        }
    }

    /// Forgets what came after this block.
    fn truncate(&mut self, number: u64) {
        match self {
            Self::Heads(chain) => chain.retain(|(other, _)| *other <= number),
            Self::Logs(_, logs) => logs.retain(|(other, ..)| *other <= number),
        }
    }
}

/// One client and its session, if it is connected.
struct Client {
    topic: Topic,
    held: Held,
    session: Option<Rc<Session>>,
    /// Bytes of frames that came in part.
    bytes: Vec<u8>,
    /// The last block that it knows completely.
    knows: (u64, B256),
    is_closed: bool,
    told: Vec<Value>,
}

struct World {
    hub: Rc<Hub>,
    sessions: Rc<Sessions>,
    caps: SessionCaps,
    keys: Keys,
}

impl World {
    fn new(view: &Arc<Snapshot>, budget: usize) -> Self {
        let metrics = Metrics::new().unwrap();
        let hub = Hub::new(metrics.clone());
        hub.begin(Arc::clone(view));
        Self {
            hub,
            sessions: Rc::new(Sessions::new(
                budget,
                Arc::new(AtomicBool::new(false)),
                metrics,
            )),
            caps: SessionCaps::new(100, 100, 1),
            keys: Keys::new([("test", "test")]),
        }
    }

    fn session(&self) -> Rc<Session> {
        let slot = self.caps.take(self.keys.check("test").unwrap()).unwrap();
        let follower = Follower::new(Rc::clone(&self.hub));
        self.sessions
            .open(slot, follower, crate::connection::Line::default())
    }

    /// Subscribes, and has the answer sent.
    fn subscribe(&self, topic: &Topic, since: Option<B256>) -> Result<Rc<Session>, RpcError> {
        let session = self.session();
        session.follower.subscribe(topic.clone(), since)?;
        session.follower.answered();
        Ok(session)
    }
}

impl Client {
    fn new(world: &World, topic: Topic, history: &History) -> Self {
        let view = world.hub.view().unwrap();
        Self {
            held: Held::read(&topic, &view, history),
            session: Some(world.subscribe(&topic, None).unwrap()),
            topic,
            bytes: Vec::new(),
            knows: (view.head().number(), view.head().hash),
            is_closed: false,
            told: Vec::new(),
        }
    }

    /// Reads up to so many bytes; whether there was nothing left to read.
    fn read(&mut self, most: usize, history: &History) -> Result<bool, String> {
        let session = match &self.session {
            Some(session) if !self.is_closed => Rc::clone(session),
            _ => return Ok(false),
        };
        let mut left = most;
        while left > 0 {
            session.follower.catch_up(&session);
            let Some(slice) = session.take(left) else {
                break;
            };
            left -= slice.len();
            self.bytes.extend_from_slice(&slice);
        }
        while let Some((opcode, payload)) = take_frame(&mut self.bytes) {
            if opcode == 8 {
                self.is_closed = true;
                return Ok(false);
            }
            let message: Value =
                serde_json::from_slice(&payload).map_err(|error| error.to_string())?;
            let result = &message["params"]["result"];
            self.held.apply(result, history)?;
            self.told.push(result.clone());
            let hash = if result["blockHash"].is_null() {
                "hash"
            } else {
                "blockHash"
            };
            let block = &history.blocks[&result[hash].as_str().unwrap().parse::<B256>().unwrap()];
            // Of the block that a log is of there may be more to come; a head is known when it is told.
            self.knows = match self.topic {
                Topic::NewHeads => (block.number(), block.hash),
                _ => (block.number().saturating_sub(1), block.header.parent_hash),
            };
        }
        Ok(left > 0)
    }

    /// Leaves, and comes back with the last block that it knows; `false` where that is held no more.
    fn resume(&mut self, world: &World) -> Result<bool, String> {
        self.session = None;
        self.bytes.clear();
        self.is_closed = false;
        self.told.clear();
        let (number, hash) = self.knows;
        self.held.truncate(number);
        match world.subscribe(&self.topic, Some(hash)) {
            Ok(session) => {
                self.session = Some(session);
                Ok(true)
            }
            Err(RpcError::ResumeLost { number, hash }) => {
                let view = world.hub.view().unwrap();
                let oldest = &view.canonical()[0];
                if (number, hash) != (oldest.number(), oldest.hash) {
                    return Err("the oldest block is another".to_owned());
                }
                Ok(false)
            }
            Err(error) => Err(format!("{error:?}")),
        }
    }

    fn check(&self, view: &Snapshot, history: &History) -> Result<(), String> {
        let expected = Held::read(&self.topic, view, history);
        let oldest = view.oldest();
        if self.held.since(oldest) == expected.since(oldest) {
            Ok(())
        } else {
            let (held, expected) = (self.held.since(oldest), expected.since(oldest));
            Err(format!(
                "holds {}, expected {}",
                held.summary(),
                expected.summary()
            ))
        }
    }
}

/// The first whole frame.
fn take_frame(bytes: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (len, start) = match *bytes.get(1)? {
        126 => (
            usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])),
            4,
        ),
        127 => (
            usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?,
            10,
        ),
        len => (usize::from(len), 2),
    };
    let payload = bytes.get(start..start + len)?.to_vec();
    let opcode = bytes[0] & 0x0f;
    bytes.drain(..start + len);
    Some((opcode, payload))
}

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

fn topic(dice: &mut Dice, history: &History) -> Topic {
    match dice.roll(3) {
        0 => Topic::NewHeads,
        _ => Topic::Logs(history.filters[dice.roll(history.filters.len())].clone()),
    }
}

/// One sequence; how many notifications were told.
fn run(seed: u64) -> Result<usize, String> {
    let mut dice = Dice(seed);
    let history = &HISTORIES[dice.roll(HISTORIES.len())];
    let length = 2 + dice.roll(10);
    let start = dice.roll(history.changes.len() - length);
    // A notification has up to 1.8 KB: budgets of a few, so that catching up pauses and sessions are evicted.
    let budget = [8_000, 40_000, 1 << 20][dice.roll(3)];
    let world = World::new(history.view_before(start), budget);
    let mut clients: Vec<Client> = (0..1 + dice.roll(3))
        .map(|_| Client::new(&world, topic(&mut dice, history), history))
        .collect();
    let mut told = 0;
    for change in &history.changes[start..start + length] {
        world.hub.announce(change);
        for client in &mut clients {
            match dice.roll(6) {
                0 => {}
                1 => {
                    client.read(dice.roll(3_000), history)?;
                }
                2 => {
                    client.session = None;
                }
                _ => {
                    let drained = client.read(usize::MAX, history)?;
                    if client.session.is_some() && drained {
                        client.check(&change.snapshot, history)?;
                    }
                }
            }
            told += client.told.len();
            let is_away = client.is_closed || client.session.is_none();
            if is_away && dice.roll(2) == 0 && !client.resume(&world)? {
                let topic = client.topic.clone();
                *client = Client::new(&world, topic, history);
            }
        }
        if dice.roll(4) == 0 {
            clients.push(Client::new(&world, topic(&mut dice, history), history));
        }
    }
    let view = world.hub.view().unwrap();
    for client in &mut clients {
        if (client.session.is_none() || client.is_closed) && !client.resume(&world)? {
            continue;
        }
        // Where a budget was used up, what is left comes after a resume.
        let mut is_lost = false;
        while !is_lost && !client.read(usize::MAX, history)? {
            is_lost = !client.resume(&world)?;
        }
        if !is_lost {
            client.check(&view, history)?;
        }
    }
    Ok(told)
}

#[test]
fn a_client_that_applies_what_it_is_told_holds_what_the_view_holds() {
    let mut told = 0;
    for seed in 0..10_000 {
        told += run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(told > 10_000, "{told} notifications");
}

/// What the model would let through is not proven by it: one notification dropped, doubled, or swapped with the next.
#[test]
fn a_broken_feed_is_caught() {
    let mut dice = Dice(7);
    let (mut broken, mut caught) = (0, 0);
    while broken < 1_000 {
        let history = &HISTORIES[dice.roll(HISTORIES.len())];
        let start = dice.roll(history.changes.len() - 12);
        let changes = &history.changes[start..start + 2 + dice.roll(10)];
        let world = World::new(history.view_before(start), 1 << 24);
        let mut client = Client::new(&world, topic(&mut dice, history), history);
        client.read(usize::MAX, history).unwrap();
        let before = client.held.clone();
        // What is told, each with the change that it is told at.
        let mut told: Vec<(usize, Value)> = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            world.hub.announce(change);
            client.read(usize::MAX, history).unwrap();
            client.check(&change.snapshot, history).unwrap();
            told.extend(client.told.drain(..).map(|result| (at, result)));
        }
        if told.len() < 2 {
            continue;
        }
        let at = dice.roll(told.len() - 1);
        for variant in 0..3 {
            let mut told = told.clone();
            match variant {
                0 => drop(told.remove(at)),
                1 => told.insert(at, told[at].clone()),
                _ => {
                    let (first, second) = (told[at].0, told[at + 1].0);
                    told.swap(at, at + 1);
                    (told[at].0, told[at + 1].0) = (first, second);
                }
            }
            client.held = before.clone();
            let is_whole = changes.iter().enumerate().all(|(at, change)| {
                let mut now = told.iter().filter(|(told_at, _)| *told_at == at);
                now.all(|(_, result)| client.held.apply(result, history).is_ok())
                    && client.check(&change.snapshot, history).is_ok()
            });
            broken += 1;
            caught += usize::from(!is_whole);
        }
    }
    assert_eq!(caught, broken, "every broken feed is caught");
}

#[test]
fn reorgs_are_told_with_their_common_ancestor() {
    let history = &HISTORIES[1];
    let world = World::new(&history.first, 1 << 24);
    let session = world.subscribe(&Topic::Reorgs, None).unwrap();
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    session.follower.catch_up(&session);
    for change in &history.changes {
        world.hub.announce(change);
        let ids = |blocks: &[Arc<Block>]| -> Vec<(u64, B256)> {
            blocks
                .iter()
                .map(|block| (block.number(), block.hash))
                .collect()
        };
        if let Some(oldest) = change.reverted.last() {
            let ancestor = (oldest.number() - 1, oldest.header.parent_hash);
            expected.push((ancestor, ids(&change.reverted), ids(&change.applied)));
        }
    }
    while let Some(slice) = session.take(usize::MAX) {
        bytes.extend_from_slice(&slice);
    }
    let id = |value: &Value| {
        let number = value["number"].as_str().unwrap().trim_start_matches("0x");
        let hash = value["hash"].as_str().unwrap().parse().unwrap();
        (u64::from_str_radix(number, 16).unwrap(), hash)
    };
    let mut told: Vec<((u64, B256), Vec<_>, Vec<_>)> = Vec::new();
    while let Some((_, payload)) = take_frame(&mut bytes) {
        let message: Value = serde_json::from_slice(&payload).unwrap();
        let result = &message["params"]["result"];
        let ids = |name: &str| result[name].as_array().unwrap().iter().map(id).collect();
        told.push((
            id(&result["commonAncestor"]),
            ids("reverted"),
            ids("applied"),
        ));
    }
    assert!(expected.len() > 10);
    assert_eq!(told, expected);
    let fanout = &world.hub.metrics.fanout;
    assert_eq!(
        fanout.get_sample_count(),
        history.changes.len() as u64,
        "what each change took is measured"
    );
}

#[test]
fn what_was_missed_closes_whoever_listens() {
    let history = &HISTORIES[0];
    let world = World::new(&history.first, 1 << 20);
    let listening = world.subscribe(&Topic::NewHeads, None).unwrap();
    listening.follower.catch_up(&listening);
    let other = world.session();
    world.hub.give_up();
    assert!(!listening.takes_messages());
    assert!(other.takes_messages(), "it listens to nothing");
    assert_eq!(
        other.follower.subscribe(Topic::NewHeads, None),
        Err(RpcError::Unavailable),
        "until there is a view again"
    );
}
