#![expect(clippy::unwrap_used, reason = "tests")]

use actix::{Arbiter, Message};
use nearhead_chain::window::{BlockNumberOrTag, BlockTag, Snapshot};
use tokio::sync::broadcast::error::RecvError;

use super::*;
use crate::{test_chain::blocks, test_wait::wait_until};

/// A tracker on an arbiter of its own at the genesis, and the blocks of its chain.
struct Tracked {
    blocks: Vec<Arc<Block>>,
    head: Head,
    tracker: Addr<HeadTracker>,
    end: TrackerEnd,
}

impl Tracked {
    fn start(count: usize) -> Self {
        let blocks = blocks(count);
        let head = Head::default();
        let first = Arc::clone(&blocks[0]);
        let (tracker, end) =
            HeadTracker::start(&Arbiter::new().handle(), head.clone(), 1.into(), first);
        wait_until("the first snapshot", || head.load().is_some());
        Self {
            blocks,
            head,
            tracker,
            end,
        }
    }

    async fn advance(&self, reverted: usize, applied: &[Arc<Block>]) -> Result<(), WindowError> {
        let settled = applied.last().map(|block| block.hash);
        let applied = applied.to_vec();
        let change = AdvanceHead {
            reverted,
            applied,
            safe: settled,
            finalized: None,
        };
        self.tracker.send(change).await.unwrap()
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.head.load().unwrap()
    }
}

#[actix::test]
async fn an_answered_change_is_readable() {
    let tracked = Tracked::start(3);
    assert_eq!(tracked.snapshot().head().number(), 0);
    for number in 1..=3 {
        tracked
            .advance(0, &tracked.blocks[number..=number])
            .await
            .unwrap();
        assert_eq!(tracked.snapshot().head().hash, tracked.blocks[number].hash);
        let safe = BlockNumberOrTag::Tag(BlockTag::Safe);
        assert_eq!(
            tracked.snapshot().resolve(safe).unwrap().hash,
            tracked.blocks[number].hash
        );
    }
}

#[actix::test]
async fn a_refused_change_changes_nothing_and_is_not_announced() {
    let tracked = Tracked::start(3);
    let mut subscription = tracked.tracker.send(FollowHead).await.unwrap();
    tracked.advance(0, &tracked.blocks[1..2]).await.unwrap();
    let before = tracked.snapshot();
    let gap = [
        Arc::clone(&tracked.blocks[2]),
        Arc::clone(&tracked.blocks[1]),
    ];
    for (reverted, applied) in [(0, &gap[..]), (1, &tracked.blocks[3..]), (9, &[])] {
        tracked.advance(reverted, applied).await.unwrap_err();
        assert_eq!(before.version(), tracked.snapshot().version());
    }
    tracked.advance(1, &tracked.blocks[1..3]).await.unwrap();
    assert_eq!(subscription.changes.recv().await.unwrap().applied.len(), 1);
    let change = subscription.changes.recv().await.unwrap();
    assert_eq!(
        (change.reverted.len(), change.applied.len()),
        (1, 2),
        "nothing was announced in between"
    );
}

/// Blocks added below the head and settled blocks are readable. No change is announced, and the
/// head's age stays.
#[actix::test]
async fn a_change_below_the_head_is_readable_and_not_announced() {
    let blocks = blocks(50);
    let (head, newest) = (Head::default(), Arc::clone(&blocks[50]));
    let (tracker, _) = HeadTracker::start(&Arbiter::new().handle(), head.clone(), 1.into(), newest);
    wait_until("the first snapshot", || head.load().is_some());
    let mut subscription = tracker.send(FollowHead).await.unwrap();
    let age = head.age().unwrap();
    let block = Arc::clone(&blocks[49]);
    tracker.send(ExtendBelow { block }).await.unwrap().unwrap();
    let block = Arc::clone(&blocks[0]);
    tracker.send(KeepGenesis { block }).await.unwrap().unwrap();
    // The safe block is canonical, the finalized one is not.
    let settle = SettleHead(SettledBlocks {
        safe: Some((49, blocks[49].hash)),
        finalized: Some((50, blocks[49].hash)),
    });
    tracker.send(settle).await.unwrap();
    let snapshot = head.load().unwrap();
    assert_eq!(snapshot.oldest(), 49);
    assert_eq!(snapshot.genesis().unwrap().hash, blocks[0].hash);
    let named = [BlockTag::Safe, BlockTag::Finalized].map(|tag| {
        snapshot
            .resolve(BlockNumberOrTag::Tag(tag))
            .ok()
            .map(|block| block.number())
    });
    assert_eq!(named, [Some(49), None]);
    tracker.send(settle).await.unwrap();
    assert!(Arc::ptr_eq(&snapshot, &head.load().unwrap()));
    assert!(
        subscription.changes.try_recv().is_err(),
        "no change is announced"
    );
    assert!(head.age().unwrap() > age);
}

/// A subscriber on another thread reads the head as soon as it is announced. If it were announced
/// before it can be read, most runs would fail within a few changes.
#[actix::test]
async fn an_announced_snapshot_is_readable() {
    const CHANGES: usize = 2_000;
    let tracked = Tracked::start(2);
    let mut subscription = tracked.tracker.send(FollowHead).await.unwrap();
    assert!(
        Arc::ptr_eq(&subscription.snapshot, &tracked.snapshot()),
        "the subscription begins at the current snapshot"
    );
    let head = tracked.head.clone();
    let (seen, wait) = std::sync::mpsc::sync_channel(1);
    let subscriber = std::thread::spawn(move || {
        while let Ok(change) = subscription.changes.blocking_recv() {
            let read = head.load().unwrap();
            let is_current = read.version() == change.snapshot.version();
            seen.send(is_current).unwrap();
        }
    });
    for change in 0..CHANGES {
        let reverted = usize::from(change > 0);
        let applied = [Arc::clone(&tracked.blocks[1])];
        tracked.advance(reverted, &applied).await.unwrap();
        // The next change is made after this one was read.
        assert!(
            wait.recv().unwrap(),
            "change {change} was announced before it could be read"
        );
    }
    tracked.tracker.send(StopHead).await.unwrap();
    subscriber.join().unwrap();
}

/// The snapshot with all transactions indexed replaces the announced one. It is not announced, and
/// nothing else differs.
#[actix::test]
async fn transactions_are_indexed_after_an_advance() {
    let tracked = Tracked::start(1);
    let mut subscription = tracked.tracker.send(FollowHead).await.unwrap();
    tracked.advance(0, &tracked.blocks[1..]).await.unwrap();
    let change = subscription.changes.recv().await.unwrap();
    let is_replaced = || !Arc::ptr_eq(&change.snapshot, &tracked.snapshot());
    wait_until("a snapshot with all transactions indexed", is_replaced);
    assert_eq!(change.snapshot.version(), tracked.snapshot().version());
    assert!(
        subscription.changes.try_recv().is_err(),
        "no change is announced"
    );
}

#[actix::test]
async fn a_subscriber_that_is_too_far_behind_gets_an_error() {
    let tracked = Tracked::start(1);
    let mut subscription = tracked.tracker.send(FollowHead).await.unwrap();
    tracked.advance(0, &tracked.blocks[1..]).await.unwrap();
    for _ in 0..SUBSCRIBER_LAG_MAX + 2 {
        tracked.advance(1, &tracked.blocks[1..]).await.unwrap();
    }
    assert!(matches!(
        subscription.changes.recv().await,
        Err(RecvError::Lagged(3))
    ));
}

#[actix::test]
async fn an_empty_change_retires_no_snapshot() {
    let tracked = Tracked::start(0);
    let snapshot = Arc::downgrade(&tracked.snapshot());
    for _ in 0..3 {
        tracked.advance(0, &[]).await.unwrap();
    }
    let held = || snapshot.strong_count();
    wait_until("only the window and the pointer hold it", || held() == 2);
}

/// The tracker keeps a snapshot until its last reader drops it, and frees it soon after, without
/// another change.
#[actix::test]
async fn a_replaced_snapshot_is_freed_by_the_tracker() {
    let tracked = Tracked::start(1);
    let reader = tracked.snapshot();
    let freed = Arc::downgrade(&reader);
    tracked.advance(0, &tracked.blocks[1..]).await.unwrap();
    assert_eq!(
        Arc::strong_count(&reader),
        2,
        "the reader and the tracker hold it"
    );
    drop(reader);
    wait_until("the snapshot to be freed", || freed.strong_count() == 0);
}

/// Panics in the tracker, as a defect would.
#[derive(Message)]
#[rtype(result = "()")]
struct Break;

impl Handler<Break> for HeadTracker {
    type Result = ();

    fn handle(&mut self, _: Break, _: &mut Self::Context) {
        panic!("on purpose");
    }
}

#[actix::test]
async fn the_end_of_a_tracker_that_panicked_is_reported() {
    let tracked = Tracked::start(1);
    let snapshot = tracked.snapshot();
    tracked.tracker.send(Break).await.unwrap_err();
    tracked.end.clone().wait().await;
    assert!(
        Arc::ptr_eq(&snapshot, &tracked.head.load().unwrap()),
        "what was readable stays readable"
    );
}
