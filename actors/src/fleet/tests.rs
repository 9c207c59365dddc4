#![expect(clippy::unwrap_used, reason = "tests")]

mod below;
mod leads_back;

use std::{convert::Infallible, sync::Arc, time::Duration};

use actix::Arbiter;
use alloy_primitives::{B256, Bytes};
use crossbeam::channel::{self, Receiver, Sender};
use nearhead_chain::{
    block::Block,
    dev::{DevConfig, Producer, Profile},
    encode::EncodeOptions,
    network::{ChainSpec, FeeRules},
    remote::{StatedHeader, Verifier},
    trie::NodeStore,
    verify::{HeaderRules, HeaderRulesMode},
    window::{SettledBlocks, WINDOW_BLOCKS},
};
use nearhead_fleet::{
    block_id::EntryBlock,
    entry::{Content, Entry},
    fleet_key::FleetKey,
    leader::Append,
    replica::{RefillReason, RefusalReason, Replica, ReplicaEvent},
};

use super::{
    entry_bytes::EntryBytes,
    entry_verifier::EntryVerifier,
    publisher::Publisher,
    status::FleetStatus,
    window_update::{WindowUpdate, chain_of, id_of},
};
use crate::{
    follow_threads::FollowThreads,
    head::Head,
    messages::{AdvanceHead, SettleHead},
    source::{SourceEvent, SourceLink},
    upstream::{ChangeError, FirstBlock, HeldWindow, TrackerWindow},
};

const NOW: Duration = Duration::ZERO;

fn key() -> FleetKey {
    FleetKey::new(&[7; 32], b"test").unwrap()
}

/// The rules of a chain, its genesis, and its steps: how many blocks are reverted, and which are
/// applied.
struct Chain {
    spec: ChainSpec,
    genesis: Arc<Block>,
    steps: Vec<(usize, Vec<Arc<Block>>)>,
}

impl Chain {
    /// Every seventh step is a reorg of three blocks.
    fn of(steps: usize) -> Self {
        let config = DevConfig {
            seed: 1,
            profile: Profile::Small,
            block_time_seconds: 1,
            reorg_every: Some(7),
            reorg_depth: 3,
        };
        let mut producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| {}).unwrap();
        let (spec, genesis) = (producer.spec().clone(), Arc::clone(producer.head()));
        let steps = (0..steps).map(|_| {
            let step = producer.step().unwrap();
            let applied = step.applied.into_iter().map(|(_, block)| block);
            (step.reverted, applied.collect())
        });
        Self {
            steps: steps.collect(),
            spec,
            genesis,
        }
    }

    /// Verifies blocks as a process does that holds none of the state.
    fn verifier(&self) -> Verifier {
        Verifier::new(
            self.spec.chain_id(),
            FeeRules::of_genesis(self.spec.clone()),
            EncodeOptions::default(),
            NodeStore::bounded(1 << 20),
        )
    }

    /// The canonical blocks after all steps.
    fn canonical(&self) -> Vec<Arc<Block>> {
        let mut chain = vec![Arc::clone(&self.genesis)];
        for (reverted, applied) in &self.steps {
            chain.truncate(chain.len() - reverted);
            chain.extend(applied.iter().cloned());
        }
        chain
    }

    /// A window at the genesis.
    async fn start(&self) -> Held {
        Held::of(self, &[Arc::clone(&self.genesis)], None).await
    }
}

/// A window with the ends that a test has to hold.
struct Held {
    head: Head,
    window: TrackerWindow,
    _events: Receiver<SourceEvent>,
    _stop: Sender<Infallible>,
}

impl Held {
    fn new(chain: &Chain) -> Self {
        let head = Head::default();
        let (events, received) = channel::bounded(1_024);
        let (stop, stopped) = channel::bounded(0);
        let link = SourceLink {
            arbiter: Arbiter::new().handle(),
            head: head.clone(),
            events,
            stop: stopped,
        };
        let spec = chain.spec.clone();
        let rules = HeaderRules::new(HeaderRulesMode::On, Some(spec.clone())).unwrap();
        Self {
            head,
            window: TrackerWindow::new(link, spec.into(), rules, FollowThreads::new()),
            _events: received,
            _stop: stop,
        }
    }

    /// A window that begins at this block and has those that follow it.
    async fn of(chain: &Chain, blocks: &[Arc<Block>], parent: Option<&Block>) -> Self {
        let mut this = Self::new(chain);
        let first = FirstBlock {
            block: Arc::clone(&blocks[0]),
            parent: parent.map(|parent| Box::new(StatedHeader::from(parent))),
        };
        this.window.reset(first).await.unwrap();
        this.advance(0, &blocks[1..]).await;
        this
    }

    async fn advance(&mut self, reverted: usize, applied: &[Arc<Block>]) {
        let change = AdvanceHead {
            reverted,
            applied: applied.to_vec(),
            safe: None,
            finalized: None,
        };
        self.window.advance(change).await.unwrap();
    }

    fn hashes(&self) -> Vec<B256> {
        let held = self.head.load();
        let blocks = held.iter().flat_map(|held| held.canonical());
        blocks.map(|block| block.hash).collect()
    }
}

/// A leader with this window.
fn leader(held: &Held, epoch: u64) -> Publisher {
    Publisher::new(
        key(),
        epoch,
        held.head.clone(),
        EntryBytes::default(),
        FleetStatus::default(),
        NOW,
    )
}

/// All that it appends now.
async fn append_all(leader: &mut Publisher) -> Vec<Append> {
    let mut appended = Vec::new();
    while let Some(append) = leader.next(NOW).await.unwrap() {
        leader.appended(append.entry.position, false);
        appended.push(append);
    }
    appended
}

/// A process that follows.
struct Follows {
    held: Held,
    replica: Replica<Vec<Arc<Block>>>,
    verifier: EntryVerifier,
    bytes: EntryBytes,
}

impl Follows {
    fn new(chain: &Chain) -> Self {
        let held = Held::new(chain);
        let verifier = chain.verifier();
        let bytes = EntryBytes::default();
        let head = held.head.clone();
        Self {
            held,
            replica: Replica::new(key(), WINDOW_BLOCKS),
            verifier: EntryVerifier::new(Arc::new(verifier), head, bytes.clone()),
            bytes,
        }
    }

    /// Reads entries; returns what it noticed, and why the window refused one.
    async fn read(&mut self, entries: &[Append]) -> (Vec<ReplicaEvent>, Vec<String>) {
        let (mut events, mut refusals) = (Vec::new(), Vec::new());
        for Append { entry, .. } in entries {
            let reading = self
                .replica
                .read(entry.position, &entry.bytes, &mut self.verifier);
            events.extend(reading.events);
            if let Some(update) = reading.update {
                let target = self.replica.chain().clone();
                let update = WindowUpdate::new(target, update);
                match update.apply(&mut self.held.window).await {
                    Ok(_) => {}
                    Err(ChangeError::Gone(error)) => panic!("{error}"),
                    Err(refusal) => refusals.push(refusal.to_string()),
                }
            }
        }
        (events, refusals)
    }
}

#[track_caller]
fn check_same(leader: &Held, replica: &Held) {
    let [leads, follows] = [leader, replica].map(|held| held.head.load().unwrap());
    assert_eq!(leads.canonical().len(), follows.canonical().len());
    for (ours, theirs) in leads.canonical().iter().zip(follows.canonical()) {
        let number = ours.number();
        assert_eq!(ours.hash, theirs.hash, "block {number}");
        let [ours, theirs] = [ours, theirs].map(|block| block.json());
        assert_eq!(ours.block(true), theirs.block(true), "block {number}");
        assert_eq!(ours.receipts(), theirs.receipts(), "block {number}");
    }
    assert_eq!(leads.safe(), follows.safe());
    assert_eq!(leads.finalized(), follows.finalized());
}

/// The window of a leader is readable at a replica: begun by a snapshot, and after each change.
#[actix::test]
async fn a_replica_has_what_its_leader_has() {
    let chain = Chain::of(40);
    let mut leads = chain.start().await;
    let mut leader = leader(&leads, 1);
    let mut follows = Follows::new(&chain);
    let first = append_all(&mut leader).await;
    assert!(first[0].begins_snapshot);
    follows.read(&first).await;
    check_same(&leads, &follows.held);
    let mut reorgs = 0;
    for (reverted, applied) in &chain.steps {
        leads.advance(*reverted, applied).await;
        let change = append_all(&mut leader).await;
        assert_eq!(follows.read(&change).await.1, [""; 0]);
        check_same(&leads, &follows.held);
        reorgs += usize::from(*reverted > 0);
    }
    assert_eq!(reorgs, 5);
    // Blocks that are settled later, with no other change.
    let blocks = chain.canonical();
    let named = |at: usize| Some((at as u64, blocks[at].hash));
    let settled = SettledBlocks {
        safe: named(25),
        finalized: named(20),
    };
    leads.window.settle(SettleHead(settled)).await.unwrap();
    let change = append_all(&mut leader).await;
    assert_eq!(change.len(), 1);
    follows.read(&change).await;
    check_same(&leads, &follows.held);
    assert_eq!(follows.held.head.load().unwrap().safe(), named(25));
    assert_eq!(append_all(&mut leader).await, []);
}

/// Replicas get what is above a block that does not fit an entry, also if it is the head when an
/// epoch begins.
#[actix::test]
async fn an_epoch_begins_above_a_block_that_does_not_fit() {
    let chain = Chain::of(6);
    let blocks = chain.canonical();
    let length = |at: usize| blocks[at].save().unwrap().len();
    let largest = (1..=6).max_by_key(|at| length(*at)).unwrap();
    let bytes = EntryBytes::bounded(length(largest) - 1);
    let mut leads = chain.start().await;
    let begin = |epoch: u64, held: &Held| {
        Publisher::new(
            key(),
            epoch,
            held.head.clone(),
            bytes.clone(),
            FleetStatus::default(),
            NOW,
        )
    };
    let mut leader = begin(1, &leads);
    let mut follows = Follows::new(&chain);
    leads.advance(0, &blocks[1..largest]).await;
    follows.read(&append_all(&mut leader).await).await;
    check_same(&leads, &follows.held);
    leads.advance(0, &blocks[largest..=largest]).await;
    let unfit = leader.next(NOW).await.unwrap_err().unfit();
    assert_eq!(unfit, Some(id_of(&blocks[largest])));
    // Nothing can be appended before there is another block.
    let mut leader = begin(2, &leads).above(unfit);
    assert_eq!(append_all(&mut leader).await, []);
    leads.advance(0, &blocks[largest + 1..]).await;
    follows.read(&append_all(&mut leader).await).await;
    let above: Vec<B256> = blocks[largest + 1..].iter().map(|one| one.hash).collect();
    assert_eq!(follows.held.hashes(), above);
    // It was replaced: then nothing is left out.
    let mut replaced = id_of(&blocks[largest]);
    replaced.hash = B256::repeat_byte(1);
    let mut leader = Publisher::new(
        key(),
        3,
        leads.head.clone(),
        EntryBytes::default(),
        FleetStatus::default(),
        NOW,
    );
    leader = leader.above(Some(replaced));
    let mut other = Follows::new(&chain);
    other.read(&append_all(&mut leader).await).await;
    check_same(&leads, &other.held);
}

/// The leader's nodes go back to an ancestor, and make no block for some time.
#[actix::test]
async fn a_rollback_is_followed_before_there_is_another_block() {
    let chain = Chain::of(5);
    let blocks = chain.canonical();
    let mut leads = chain.start().await;
    let mut leader = leader(&leads, 1);
    let mut follows = Follows::new(&chain);
    leads.advance(0, &blocks[1..=5]).await;
    follows.read(&append_all(&mut leader).await).await;
    check_same(&leads, &follows.held);
    for (reverted, applied) in [(2, 4..4), (1, 3..3), (0, 3..6)] {
        leads.advance(reverted, &blocks[applied]).await;
        follows.read(&append_all(&mut leader).await).await;
        check_same(&leads, &follows.held);
    }
    // Another leader that is merely behind reverts nothing.
    let behind = Held::of(&chain, &blocks[..4], None).await;
    let mut next = Publisher::new(
        key(),
        2,
        behind.head.clone(),
        EntryBytes::default(),
        FleetStatus::default(),
        NOW,
    );
    let before = follows.held.hashes();
    follows.read(&append_all(&mut next).await).await;
    assert_eq!(follows.held.hashes(), before);
}

/// The window is not filled and does not begin at block 0: the oldest block of a snapshot comes
/// without its parent.
#[actix::test]
async fn a_snapshot_replaces_a_window_that_shares_no_block() {
    let chain = Chain::of(25);
    let blocks = chain.canonical();
    let mut follows = Follows::new(&chain);
    let old = Held::of(&chain, &blocks[..=5], None).await;
    let entries = append_all(&mut leader(&old, 1)).await;
    follows.read(&entries).await;
    assert_eq!(follows.held.hashes(), old.hashes());
    let new = Held::of(&chain, &blocks[15..], Some(&blocks[14])).await;
    let mut leader = leader(&new, 2);
    // It waits for blocks below, but not for ever: the nodes may not have them.
    assert_eq!(append_all(&mut leader).await, []);
    assert_eq!(leader.next(Duration::from_secs(4)).await.unwrap(), None);
    let patient = leader.next(Duration::from_secs(5)).await;
    let (_, refusals) = follows.read(&[patient.unwrap().unwrap()]).await;
    assert_eq!(refusals, [""; 0]);
    assert_eq!(follows.held.hashes(), new.hashes());
}

/// What a replica has verified need not be made again when it leads.
#[actix::test]
async fn a_replica_leads_with_the_bytes_that_it_has_read() {
    let chain = Chain::of(10);
    let leads = Held::of(&chain, &chain.canonical(), None).await;
    let entries = append_all(&mut leader(&leads, 1)).await;
    let mut follows = Follows::new(&chain);
    follows.read(&entries).await;
    let held = follows.held.head.load().unwrap();
    let count = || held.canonical().iter().filter(|block| block.has_json());
    assert_eq!(
        count().count(),
        0,
        "senders are recovered when they are read"
    );
    let head = follows.held.head.clone();
    let mut next = Publisher::new(
        key(),
        2,
        head,
        follows.bytes.clone(),
        FleetStatus::default(),
        NOW,
    );
    let again = append_all(&mut next).await;
    let blocks = |appended: &[Append]| -> Vec<EntryBlock> {
        let contents = appended.iter().map(|append| {
            let (entry, _) = Entry::open(&append.entry.bytes, &key()).unwrap();
            entry.content.blocks().to_vec()
        });
        contents.flatten().collect()
    };
    assert_eq!(blocks(&again), blocks(&entries));
    assert_eq!(count().count(), 0);
}

/// Who has the key can seal anything: what is no block, or another one, is refused all the same.
#[actix::test]
async fn false_blocks_are_refused_whoever_sealed_them() {
    let chain = Chain::of(5);
    let blocks = chain.canonical();
    let mut leads = Held::of(&chain, &blocks[..4], None).await;
    let mut leader = leader(&leads, 1);
    let mut follows = Follows::new(&chain);
    follows.read(&append_all(&mut leader).await).await;
    leads.advance(0, &blocks[4..=4]).await;
    let change = append_all(&mut leader).await.remove(0);
    let (entry, _) = Entry::open(&change.entry.bytes, &key()).unwrap();
    let before = follows.held.hashes();
    let other = Bytes::from(blocks[5].save().unwrap());
    let lies: [fn(&mut EntryBlock, &Bytes); 3] = [
        |block, other| block.bytes = other.clone(),
        |block, _| block.bytes = Bytes::from_static(b"no block"),
        |block, _| block.id.hash = B256::repeat_byte(1),
    ];
    for lie in lies {
        let mut entry = entry.clone();
        let Content::Change(content) = &mut entry.content else {
            panic!("a snapshot");
        };
        lie(&mut content.blocks[0], &other);
        let mut false_one = change.clone();
        false_one.entry = entry.seal(&key()).unwrap();
        let refused = follows.replica.counters().refused(RefusalReason::False);
        follows.read(&[false_one]).await;
        let now = follows.replica.counters().refused(RefusalReason::False);
        assert_eq!(now, refused + 1);
        assert_eq!(follows.held.hashes(), before);
    }
    // The true one is still accepted.
    follows.read(&[change]).await;
    check_same(&leads, &follows.held);
}

/// No entry reverts what is final at a replica, which then keeps what it has.
#[actix::test]
async fn a_finalized_block_is_not_reverted() {
    let chain = Chain::of(8);
    let reorg = chain.steps.iter().position(|(reverted, _)| *reverted > 0);
    let mut leads = chain.start().await;
    let mut leader = leader(&leads, 1);
    let mut follows = Follows::new(&chain);
    for (reverted, applied) in &chain.steps[..reorg.unwrap()] {
        leads.advance(*reverted, applied).await;
    }
    follows.read(&append_all(&mut leader).await).await;
    let head = follows.held.head.load().unwrap();
    let finalized = Some((head.head().number(), head.head().hash));
    let settled = SettledBlocks {
        safe: None,
        finalized,
    };
    follows
        .held
        .window
        .settle(SettleHead(settled))
        .await
        .unwrap();
    let before = follows.held.hashes();
    let (reverted, applied) = &chain.steps[reorg.unwrap()];
    leads.advance(*reverted, applied).await;
    let (_, refusals) = follows.read(&append_all(&mut leader).await).await;
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals[0].contains("is finalized"), "{refusals:?}");
    assert_eq!(follows.held.hashes(), before);
    let own = chain_of(follows.held.head.load().as_deref());
    let event = follows.replica.not_applied(own.clone());
    assert_eq!(event, ReplicaEvent::Refill(RefillReason::NotApplied));
    assert_eq!(follows.replica.chain(), &own);
}

/// docs/fleet.md calculates with 170 KB.
#[test]
fn a_block_of_mainnet_has_the_bytes_that_the_documentation_calculates_with() {
    let config = DevConfig {
        seed: 1,
        profile: Profile::Mainnet,
        block_time_seconds: 12,
        reorg_every: None,
        reorg_depth: 0,
    };
    let mut producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| {}).unwrap();
    let mut bytes = 0;
    for _ in 0..4 {
        let step = producer.step().unwrap();
        let (_, block) = &step.applied[0];
        bytes += Block::save(block).unwrap().len();
    }
    assert!(
        (500_000..900_000).contains(&bytes),
        "{bytes} bytes of four blocks"
    );
}
