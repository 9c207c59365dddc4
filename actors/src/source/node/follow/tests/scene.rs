//! A follower with its nodes and a window, in time that the test makes pass.

use std::{pin::Pin, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{block::Block, window::WINDOW_BLOCKS};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::mpsc,
    sync::oneshot,
    time::{Duration, Instant, sleep_until},
};

use super::{Chains, scripted::Scripted};
use crate::{
    messages::AdvanceHead,
    source::node::{
        Chain,
        follow::{Event, FollowConfig, FollowError, Follower, HeadSink},
        health::{Switch, Why},
    },
};

/// What a follower is told to do, checked as the window checks it.
#[derive(Default)]
struct Held {
    blocks: Vec<Arc<Block>>,
    /// Numbers of all heads.
    heads: Vec<u64>,
    settled: (Option<B256>, Option<B256>),
    refuses: bool,
    events: Vec<Event>,
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
pub(super) struct Refused;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Held>>);

struct View(Vec<Arc<Block>>);

impl Chain for View {
    fn head(&self) -> (u64, B256) {
        let head = self.0.last().unwrap();
        (head.number(), head.hash)
    }

    fn oldest(&self) -> u64 {
        self.0[0].number()
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        let at = number.checked_sub(self.oldest())?;
        self.0.get(at as usize).map(|block| block.hash)
    }
}

impl Held {
    fn applied(&mut self) -> Result<(), Refused> {
        let surplus = self.blocks.len().saturating_sub(WINDOW_BLOCKS);
        self.blocks.drain(..surplus);
        self.heads.push(self.blocks.last().unwrap().number());
        if self.refuses { Err(Refused) } else { Ok(()) }
    }
}

impl HeadSink for Sink {
    type View = View;
    type Error = Refused;

    fn view(&self) -> Option<View> {
        let held = self.0.lock();
        (!held.blocks.is_empty()).then(|| View(held.blocks.clone()))
    }

    async fn begin(&mut self, head: Arc<Block>) -> Result<(), Refused> {
        let mut held = self.0.lock();
        held.blocks = vec![head];
        held.applied()
    }

    async fn advance(&mut self, change: AdvanceHead) -> Result<(), Refused> {
        let mut held = self.0.lock();
        let kept = held.blocks.len() - change.reverted;
        assert!(kept > 0, "the window would be empty");
        held.blocks.truncate(kept);
        for block in change.applied {
            let head = held.blocks.last().unwrap();
            assert_eq!(
                (block.header.parent_hash, block.number()),
                (head.hash, head.number() + 1)
            );
            held.blocks.push(block);
        }
        for hash in [change.safe, change.finalized].into_iter().flatten() {
            assert!(
                held.blocks.iter().any(|block| block.hash == hash),
                "not canonical"
            );
        }
        held.settled = (change.safe, change.finalized);
        held.applied()
    }

    async fn extend_below(&mut self, block: Arc<Block>) -> Result<(), Refused> {
        let mut held = self.0.lock();
        assert_eq!(held.blocks[0].header.parent_hash, block.hash);
        assert!(held.blocks.len() < WINDOW_BLOCKS, "the window is full");
        held.blocks.insert(0, block);
        Ok(())
    }
}

type Outcome = Result<(), FollowError<Refused>>;

pub(super) struct Scene {
    chains: Chains,
    pub(super) nodes: Vec<Scripted>,
    held: Sink,
    stop: Option<oneshot::Sender<()>>,
    follower: Pin<Box<dyn Future<Output = Outcome>>>,
}

/// The first of all events: this node is followed.
pub(super) const fn first(node: usize) -> Event {
    Event::Switched(Switch {
        from: None,
        to: Some(node),
        why: Why::First,
    })
}

impl Scene {
    /// So many nodes of one chain, a block of which is a second.
    pub(super) fn new(nodes: usize, head: u64) -> Self {
        let chains = Chains::new(head);
        let nodes: Vec<_> = (0..nodes).map(|_| Scripted::new(chains.clone())).collect();
        let held = Sink::default();
        let told = held.clone();
        let tell = Box::new(move |event| told.0.lock().events.push(event));
        let config = FollowConfig {
            chain_id: 1,
            concurrency: 16,
            seed: 1,
        };
        let follower = Follower::new(nodes.clone(), held.clone(), config, tell);
        let (stop, stopped) = oneshot::channel();
        Self {
            chains,
            nodes,
            held,
            stop: Some(stop),
            follower: Box::pin(follower.run(mpsc::channel(1).1, stopped)),
        }
    }

    pub(super) fn chains(&self) -> &Chains {
        &self.chains
    }

    /// Lets so many milliseconds pass.
    pub(super) async fn runs(&mut self, millis: u64) {
        let until = Instant::now() + Duration::from_millis(millis);
        tokio::select! {
            _ = &mut self.follower => panic!("the follower ended"),
            () = sleep_until(until) => {}
        }
    }

    /// What the follower ends with.
    pub(super) async fn ends(mut self) -> Outcome {
        self.follower.as_mut().await
    }

    pub(super) fn stop(&mut self) {
        self.stop = None;
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.0.lock()
    }

    pub(super) fn refuses(&self) {
        self.held().refuses = true;
    }

    /// More blocks on chain 0.
    pub(super) fn mine(&self, blocks: u64) {
        self.chains.mine(0, blocks);
    }

    pub(super) fn head(&self) -> u64 {
        self.held().blocks.last().unwrap().number()
    }

    pub(super) fn settled(&self) -> (Option<B256>, Option<B256>) {
        self.held().settled
    }

    /// Whether no head was lower than the one before.
    pub(super) fn went_up_only(&self) -> bool {
        self.held().heads.is_sorted()
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.held().events.clone()
    }

    pub(super) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.held().events)
    }

    /// Checks that the newest blocks of a chain are held, so many and no others.
    pub(super) fn check_holds(&self, chain: usize, blocks: usize) {
        let held = self.held();
        let head = self.chains.head(chain);
        let numbers: Vec<_> = held.blocks.iter().map(|block| block.number()).collect();
        assert_eq!(numbers.last(), Some(&head), "{numbers:?} {:?}", held.events);
        assert_eq!(numbers.len(), blocks, "{numbers:?}");
        for block in &held.blocks {
            let expected = self.chains.block(chain, block.number()).unwrap();
            assert_eq!(block.hash, expected.hash, "{}", block.number());
        }
    }
}
