//! Merges while one head follows another.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, Ordering},
};

use actix::Arbiter;
use crossbeam::channel::{self, Receiver, Sender};
use tokio::sync::watch;

use super::{
    merges::{AFTER, blocks, check_state, honest},
    *,
};
use crate::{
    head::Head,
    source::{SourceEvent, SourceLink},
    upstream::state::{following::StateFollower, merge_counts::MergeEnd},
};

/// A follower of state, and the heads that it sees.
struct Chain {
    scene: Scene,
    head: Head,
    readable: watch::Sender<Instant>,
    window: Window,
    /// A block, its child, and a child of that with the same state.
    blocks: [Arc<Block>; 3],
    events: Receiver<SourceEvent>,
    _stop: Sender<Infallible>,
}

impl Chain {
    /// The first block is the head, and somebody has read state.
    async fn of(respond: fn(&RecordedCall, B256) -> UpstreamReply) -> Self {
        let store = NodeStore::bounded(1 << 30);
        let [parent, block] = blocks(&store, None);
        let recipe = TestBlock {
            transactions: vec![(2, Vec::new())],
            ..TestBlock::default()
        };
        let next = Block {
            state: Some(State::hold(&store, AFTER.root())),
            ..(*recipe.child_of(&block)).clone()
        };
        let stalled = block.hash;
        let script = Script::answering(move |call| respond(call, stalled));
        let scene = Scene::with(&store, vec![script.serve().await], 64 << 20);
        scene.source.shared.recent.add(address(3), &[]);
        let (event_sender, events) = channel::bounded(8);
        let (stop, stopped) = channel::bounded(0);
        let head = Head::default();
        let link = SourceLink {
            arbiter: Arbiter::new().handle(),
            head: head.clone(),
            events: event_sender,
            stop: stopped,
        };
        let follower = StateFollower::of(&scene.source, StateFollow::Auto, link).unwrap();
        let (readable, receiver) = watch::channel(Instant::now());
        tokio::spawn(follower.run(receiver));
        let window = Window::new(1, Arc::clone(&parent));
        let chain = Self {
            scene,
            head,
            readable,
            window,
            blocks: [parent, block, Arc::new(next)],
            events,
            _stop: stop,
        };
        chain.show();
        let first = chain.blocks[0].hash;
        let merged = &chain.scene.source.shared.merged;
        until("the first block is known", || merged.contains(&first)).await;
        chain
    }

    /// Makes the newest block of the window readable.
    fn show(&self) {
        self.head.store(self.window.snapshot());
        self.readable.send(Instant::now()).unwrap();
    }

    /// Merges by outcome.
    fn merges(&self, end: MergeEnd) -> u64 {
        let label = format!("{end:?}").to_lowercase();
        let merges = self.scene.source.merges().merges();
        let merges = merges.filter(|([_, outcome], _)| *outcome == label);
        merges.map(|(_, count)| count).sum()
    }
}

/// How a merge that needs proofs ends while the head moves on, and what the node is then.
async fn check(respond: fn(&RecordedCall, B256) -> UpstreamReply, end: MergeEnd) -> Chain {
    let mut chain = Chain::of(respond).await;
    let [_, block, next] = chain.blocks.clone();
    chain.window.apply(block).unwrap();
    chain.show();
    let merges = chain.scene.source.merges();
    until("the merge has begun", || merges.requests() > 0).await;
    chain.window.apply(Arc::clone(&next)).unwrap();
    chain.show();
    assert_eq!(chain.merges(MergeEnd::Whole), 0);
    assert_eq!(chain.head.load().unwrap().head().hash, next.hash);
    until("the merge ends", || chain.merges(end) == 1).await;
    until("the next merge ends", || chain.merges(MergeEnd::Whole) == 1).await;
    let events: Vec<_> = chain.events.try_iter().collect();
    assert!(
        matches!(events[..], [SourceEvent::StateMerged(_)]),
        "only the head's"
    );
    let state = next.state.as_ref().unwrap();
    check_state(state, "the next block");
    state.account(&address(3)).unwrap();
    chain
}

/// A merge is not given up when a newer head is readable, and leaves it alone when it is late.
#[actix::test]
async fn the_next_merge_is_whole_after_one_that_is_late() {
    let stalled = |call: &RecordedCall, block: B256| {
        let is_of_it = call.params.get(2) == Some(&serde_json::json!(block));
        match call.method == "eth_getProof" && is_of_it {
            true => UpstreamReply::Silence,
            false => honest(call),
        }
    };
    check(stalled, MergeEnd::Late).await;
}

/// Whether a node of the test below has the next block.
static MOVED_ON: AtomicBool = AtomicBool::new(false);

/// A node that proves its latest block alone has the next one before a merge asks for proofs.
#[actix::test]
async fn a_node_without_a_proof_window_is_not_at_fault() {
    let latest_alone = |call: &RecordedCall, block: B256| {
        let of = |at: usize| call.params.get(at) == Some(&serde_json::json!(block));
        match call.method.as_str() {
            "debug_traceBlockByHash" if !of(0) => {
                MOVED_ON.store(true, Ordering::Relaxed);
                honest(call)
            }
            "eth_getProof" if of(2) => {
                UpstreamReply::Error(-32_000, "distance to target block exceeds proof window")
            }
            _ => honest(call),
        }
    };
    let mut chain = check(latest_alone, MergeEnd::Failed).await;
    assert!(MOVED_ON.load(Ordering::Relaxed));
    assert!(chain.scene.fault_reports.try_recv().is_err());
}
