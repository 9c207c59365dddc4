//! Blocks below the window: written by a leader, and read by the others.

use nearhead_fleet::{
    below::BelowRecord,
    block_id::BlockId,
    bounds::{BELOW_EVERY, BELOW_PAUSE_MAX},
    entry::Settled,
};
use parking_lot::Mutex;

use super::*;
use crate::fleet::{
    below_window::{BelowOutcome, BelowSchedule, FoundBelow, ReadBelowError},
    store::fake_server::{FakeServer, Words, string},
};

/// Two processes over one store, which keeps what is written. Both windows begin at block 15, and
/// that of the leader has the genesis and settled blocks below.
struct Scene {
    chain: Chain,
    blocks: Vec<Arc<Block>>,
    leads: Held,
    follows: Held,
    kept: Arc<Mutex<Bytes>>,
    server: FakeServer,
}

impl Scene {
    async fn new() -> Self {
        let chain = Chain::of(25);
        let blocks = chain.canonical();
        let [mut leads, follows] = [
            Held::of(&chain, &blocks[15..], Some(&blocks[14])).await,
            Held::of(&chain, &blocks[15..], Some(&blocks[14])).await,
        ];
        let genesis = Arc::clone(&chain.genesis);
        leads.window.keep_genesis(genesis).await.unwrap();
        let kept = Arc::<Mutex<Bytes>>::default();
        let store = Arc::clone(&kept);
        let server = FakeServer::start(move |words: Words| {
            let reply = match &*words[0] {
                b"SET" => {
                    *store.lock() = words[2].clone().into();
                    b"+OK\r\n".to_vec()
                }
                b"GETRANGE" => string(&store.lock()),
                other => panic!("{}", String::from_utf8_lossy(other)),
            };
            async move { reply }
        });
        Self {
            server: server.await,
            kept,
            leads,
            follows,
            blocks,
            chain,
        }
    }

    fn below(&self) -> BelowSchedule {
        let genesis = Some(self.chain.genesis.hash);
        let verifier = Arc::new(self.chain.verifier());
        BelowSchedule::new(self.server.store(), key(), verifier, genesis)
    }

    fn id(&self, number: usize) -> BlockId {
        id_of(&self.blocks[number])
    }

    async fn settle(&mut self, safe: usize, finalized: usize) {
        let [safe, finalized] = [safe, finalized].map(|number| {
            let BlockId { number, hash } = self.id(number);
            Some((number, hash))
        });
        let settled = SettledBlocks { safe, finalized };
        self.leads.window.settle(SettleHead(settled)).await.unwrap();
    }

    /// Writes what the leader has to write at this time. Returns whether there was anything.
    async fn write(&self, below: &mut BelowSchedule, now: Duration) -> bool {
        let held = self.leads.head.load().unwrap();
        let Some(call) = below.write(&held, now) else {
            return false;
        };
        assert!(matches!(call.await, BelowOutcome::Written(Ok(()))));
        below.ended(false);
        true
    }

    /// Reads what the other process lacks at this time.
    async fn read(
        &self,
        below: &mut BelowSchedule,
        settled: Settled,
        now: Duration,
    ) -> Option<Result<FoundBelow, ReadBelowError>> {
        let held = self.follows.head.load().unwrap();
        let call = below.read(&held, settled, now)?;
        let BelowOutcome::Read(read) = call.await else {
            panic!("written");
        };
        below.ended(false);
        Some(read)
    }
}

fn settled(safe: u64, finalized: u64) -> Settled {
    Settled {
        safe: Some(safe),
        finalized: Some(finalized),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[actix::test]
async fn what_is_below_the_window_of_a_leader_is_read_by_others() {
    let mut scene = Scene::new().await;
    scene.settle(9, 7).await;
    let (mut writes, mut reads) = (scene.below(), scene.below());
    assert!(scene.write(&mut writes, NOW).await);
    let read = scene.read(&mut reads, settled(9, 7), NOW).await;
    let read = read.unwrap().unwrap();
    let ids = [scene.id(9), scene.id(7)].map(Some);
    assert_eq!([read.safe, read.finalized], ids);
    let genesis = read.genesis.unwrap();
    assert_eq!(genesis.hash, scene.chain.genesis.hash);
    let expected = scene.chain.genesis.json().block(true);
    assert_eq!(genesis.json().block(true), expected);

    // What the window has by now is not read again.
    scene.follows.window.keep_genesis(genesis).await.unwrap();
    let settle = |block: Option<BlockId>| block.map(|block| (block.number, block.hash));
    let now = SettledBlocks {
        safe: settle(read.safe),
        finalized: settle(read.finalized),
    };
    scene.follows.window.settle(SettleHead(now)).await.unwrap();
    check_same(&scene.leads, &scene.follows);
    for stated in [settled(9, 7), settled(20, 16), settled(9, 6)] {
        let read = scene.read(&mut reads, stated, 2 * BELOW_PAUSE_MAX).await;
        assert!(read.is_none(), "{read:?}");
    }
    // An entry names blocks that the record does not have yet, and then has.
    let (stated, at) = (settled(11, 8), 3 * BELOW_PAUSE_MAX);
    let read = scene.read(&mut reads, stated, at).await.unwrap().unwrap();
    assert!(read.safe.is_none() && read.finalized.is_none() && read.genesis.is_none());
    scene.settle(11, 8).await;
    assert!(scene.write(&mut writes, SECOND).await);
    let read = scene.read(&mut reads, stated, at + SECOND).await;
    let read = read.unwrap().unwrap();
    let ids = [scene.id(11), scene.id(8)].map(Some);
    assert_eq!([read.safe, read.finalized], ids);
}

#[actix::test]
async fn a_leader_writes_what_has_changed_and_now_and_then_all() {
    let mut scene = Scene::new().await;
    let mut below = scene.below();
    // It has the genesis.
    assert!(scene.write(&mut below, NOW).await);
    assert!(!scene.write(&mut below, BELOW_EVERY - SECOND).await);
    assert!(scene.write(&mut below, BELOW_EVERY).await);
    // What the window has is in entries.
    scene.settle(20, 16).await;
    assert!(!scene.write(&mut below, BELOW_EVERY + SECOND).await);
    let record = BelowRecord::open(&scene.kept.lock(), &key()).unwrap();
    assert_eq!((record.safe, record.finalized), (None, None));
    // A window without anything below it.
    let held = scene.follows.head.load().unwrap();
    assert!(scene.below().write(&held, NOW).is_none());
    // A write that failed is repeated, and one at a time.
    let held = scene.leads.head.load().unwrap();
    let mut below = scene.below();
    let call = below.write(&held, NOW);
    assert!(call.is_some() && below.write(&held, 2 * BELOW_EVERY).is_none());
    below.ended(true);
    assert!(scene.write(&mut below, SECOND).await);
}

/// Nothing is taken from a record that is not the fleet's, or has another block as the genesis.
#[actix::test]
async fn a_false_record_is_refused() {
    let scene = Scene::new().await;
    let record = |genesis: Vec<u8>| BelowRecord {
        genesis: genesis.into(),
        safe: Some(scene.id(9)),
        finalized: None,
    };
    let honest = record(scene.chain.genesis.save().unwrap());
    let other_fleet = FleetKey::new(&[7; 32], b"other").unwrap();
    for (what, bytes, is_sealed) in [
        ("another fleet", honest.seal(&other_fleet), false),
        ("no record", Bytes::from_static(b"nothing"), false),
        ("a cut one", honest.seal(&key()).slice(..60), false),
        (
            "another block",
            record(scene.blocks[1].save().unwrap()).seal(&key()),
            true,
        ),
        ("no block", record(vec![7; 100]).seal(&key()), true),
    ] {
        *scene.kept.lock() = bytes;
        let mut below = scene.below();
        let read = scene.read(&mut below, settled(9, 7), NOW).await.unwrap();
        match read {
            Err(ReadBelowError::Genesis(_)) => assert!(is_sealed, "{what}"),
            Err(ReadBelowError::Refused(_)) => assert!(!is_sealed, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
        // It is looked for again, and the true one is taken.
        *scene.kept.lock() = honest.seal(&key());
        let read = scene.read(&mut below, settled(9, 7), SECOND).await;
        assert!(read.unwrap().unwrap().genesis.is_some(), "{what}");
    }
}

/// A leader of an older version writes nothing: the store is asked more and more rarely.
#[actix::test]
async fn what_is_not_there_is_looked_for_more_and_more_rarely() {
    let scene = Scene::new().await;
    let mut below = scene.below();
    let mut reads = Vec::new();
    for second in 0..200 {
        let now = Duration::from_secs(second);
        if let Some(read) = scene.read(&mut below, Settled::default(), now).await {
            assert!(read.unwrap().genesis.is_none());
            reads.push(second);
        }
    }
    assert_eq!(reads, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    // Unless something else is lacked.
    let read = scene.read(&mut below, settled(3, 2), Duration::from_secs(201));
    assert!(read.await.is_none());
    let read = scene.read(&mut below, settled(3, 2), Duration::from_secs(202));
    assert!(read.await.is_some());
}
