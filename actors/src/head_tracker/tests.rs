#![expect(clippy::unwrap_used, reason = "tests")]

use actix::{Arbiter, Message};
use nearhead_chain::window::{BlockNumberOrTag, BlockTag, Snapshot};
use tokio::sync::broadcast::error::RecvError;

use super::*;
use crate::{test_chain::blocks, test_wait::wait_until};

/// A tracker on an arbiter of its own, at the genesis of a chain of so many blocks.
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
        let (tracker, end) = HeadTracker::start(&Arbiter::new().handle(), head.clone(), 1, first);
        wait_until("the first view", || head.load().is_some());
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

    fn view(&self) -> Arc<Snapshot> {
        self.head.load().unwrap()
    }
}

#[actix::test]
async fn an_answered_change_is_readable() {
    let tracked = Tracked::start(3);
    assert_eq!(tracked.view().head().number(), 0);
    for number in 1..=3 {
        tracked
            .advance(0, &tracked.blocks[number..=number])
            .await
            .unwrap();
        assert_eq!(tracked.view().head().hash, tracked.blocks[number].hash);
        let safe = BlockNumberOrTag::Tag(BlockTag::Safe);
        assert_eq!(
            tracked.view().resolve(safe).unwrap().hash,
            tracked.blocks[number].hash
        );
    }
}

#[actix::test]
async fn a_refused_change_changes_nothing_and_is_not_told() {
    let tracked = Tracked::start(3);
    let mut feed = tracked.tracker.send(FollowHead).await.unwrap();
    tracked.advance(0, &tracked.blocks[1..2]).await.unwrap();
    let before = tracked.view();
    let gap = [
        Arc::clone(&tracked.blocks[2]),
        Arc::clone(&tracked.blocks[1]),
    ];
    for (reverted, applied) in [(0, &gap[..]), (1, &tracked.blocks[3..]), (9, &[])] {
        tracked.advance(reverted, applied).await.unwrap_err();
        assert_eq!(before.version(), tracked.view().version());
    }
    tracked.advance(1, &tracked.blocks[1..3]).await.unwrap();
    assert_eq!(feed.changes.recv().await.unwrap().applied.len(), 1);
    let told = feed.changes.recv().await.unwrap();
    assert_eq!(
        (told.reverted.len(), told.applied.len()),
        (1, 2),
        "nothing was told in between"
    );
}

/// What is put below the head is readable, and so is what is settled; nobody is told, and the head
/// is no fresher for it.
#[actix::test]
async fn what_leaves_the_head_is_readable_and_not_told() {
    let blocks = blocks(50);
    let (head, newest) = (Head::default(), Arc::clone(&blocks[50]));
    let (tracker, _) = HeadTracker::start(&Arbiter::new().handle(), head.clone(), 1, newest);
    wait_until("the first view", || head.load().is_some());
    let mut feed = tracker.send(FollowHead).await.unwrap();
    let age = head.age().unwrap();
    let block = Arc::clone(&blocks[49]);
    tracker.send(ExtendBelow { block }).await.unwrap().unwrap();
    let block = Arc::clone(&blocks[0]);
    tracker.send(KeepGenesis { block }).await.unwrap().unwrap();
    // The safe block is canonical, the finalized one is not.
    let settle = SettleHead {
        safe: Some((49, blocks[49].hash)),
        finalized: Some((50, blocks[49].hash)),
    };
    tracker.send(settle).await.unwrap();
    let view = head.load().unwrap();
    assert_eq!(view.oldest(), 49);
    assert_eq!(view.genesis().unwrap().hash, blocks[0].hash);
    let named = [BlockTag::Safe, BlockTag::Finalized].map(|tag| {
        view.resolve(BlockNumberOrTag::Tag(tag))
            .ok()
            .map(|block| block.number())
    });
    assert_eq!(named, [Some(49), None]);
    tracker.send(settle).await.unwrap();
    assert!(Arc::ptr_eq(&view, &head.load().unwrap()));
    assert!(feed.changes.try_recv().is_err(), "nobody is told");
    assert!(head.age().unwrap() > age);
}

/// A follower on another thread reads, at once, the very view that it is told of. Told too early,
/// it would read the one before: in most runs within a few changes.
#[actix::test]
async fn whoever_is_told_can_read() {
    const CHANGES: usize = 2_000;
    let tracked = Tracked::start(2);
    let mut feed = tracked.tracker.send(FollowHead).await.unwrap();
    assert!(
        Arc::ptr_eq(&feed.snapshot, &tracked.view()),
        "the feed begins at the present view"
    );
    let head = tracked.head.clone();
    let (seen, wait) = std::sync::mpsc::sync_channel(1);
    let follower = std::thread::spawn(move || {
        while let Ok(told) = feed.changes.blocking_recv() {
            let read = head.load().unwrap();
            let is_told = read.version() == told.snapshot.version();
            seen.send(is_told).unwrap();
        }
    });
    for change in 0..CHANGES {
        let reverted = usize::from(change > 0);
        let applied = [Arc::clone(&tracked.blocks[1])];
        tracked.advance(reverted, &applied).await.unwrap();
        // The next change is made when this one was read.
        assert!(
            wait.recv().unwrap(),
            "change {change} was told before it could be read"
        );
    }
    tracked.tracker.send(StopHead).await.unwrap();
    follower.join().unwrap();
}

/// The view that is told of is replaced by one that has caught up: nobody is told, and nothing else
/// is different.
#[actix::test]
async fn what_an_advance_leaves_for_later_is_done() {
    let tracked = Tracked::start(1);
    let mut feed = tracked.tracker.send(FollowHead).await.unwrap();
    tracked.advance(0, &tracked.blocks[1..]).await.unwrap();
    let told = feed.changes.recv().await.unwrap();
    let is_replaced = || !Arc::ptr_eq(&told.snapshot, &tracked.view());
    wait_until("a view that has caught up", is_replaced);
    assert_eq!(told.snapshot.version(), tracked.view().version());
    assert!(feed.changes.try_recv().is_err(), "nobody is told");
}

#[actix::test]
async fn a_follower_that_is_too_far_behind_is_told_so() {
    let tracked = Tracked::start(1);
    let mut feed = tracked.tracker.send(FollowHead).await.unwrap();
    tracked.advance(0, &tracked.blocks[1..]).await.unwrap();
    for _ in 0..FOLLOWER_LAG_MAX + 2 {
        tracked.advance(1, &tracked.blocks[1..]).await.unwrap();
    }
    assert!(matches!(
        feed.changes.recv().await,
        Err(RecvError::Lagged(3))
    ));
}

/// The tracker keeps a view until the last reader is gone, and frees it soon after without another
/// change.
#[actix::test]
async fn a_change_of_nothing_keeps_nothing() {
    let tracked = Tracked::start(0);
    let view = Arc::downgrade(&tracked.view());
    for _ in 0..3 {
        tracked.advance(0, &[]).await.unwrap();
    }
    let held = || view.strong_count();
    wait_until("nobody but the window and the pointer holds it", || {
        held() == 2
    });
}

#[actix::test]
async fn a_replaced_view_is_freed_by_the_tracker() {
    let tracked = Tracked::start(1);
    let reader = tracked.view();
    let freed = Arc::downgrade(&reader);
    tracked.advance(0, &tracked.blocks[1..]).await.unwrap();
    assert_eq!(
        Arc::strong_count(&reader),
        2,
        "the reader and the tracker hold it"
    );
    drop(reader);
    wait_until("the view to be freed", || freed.strong_count() == 0);
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
async fn its_death_is_told() {
    let tracked = Tracked::start(1);
    let view = tracked.view();
    tracked.tracker.send(Break).await.unwrap_err();
    tracked.end.clone().wait().await;
    assert!(
        Arc::ptr_eq(&view, &tracked.head.load().unwrap()),
        "what was readable stays readable"
    );
}
