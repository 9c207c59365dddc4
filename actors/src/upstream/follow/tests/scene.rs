//! A follower with its upstreams and a window, in time that the test makes pass.

use std::{collections::HashSet, pin::Pin, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    window::{BlockNumberOrTag, BlockTag, ResolveError, Snapshot, Window},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::mpsc,
    sync::oneshot,
    time::{Duration, Instant, sleep_until},
};

use super::{Chains, scripted::Scripted};
use crate::{
    messages::{AdvanceHead, SettleHead},
    upstream::{
        follow::{Event, FollowConfig, FollowError, Follower, HeadSink},
        health::{Switch, SwitchReason, UpstreamState},
    },
};

/// The sink of the follower: a window, checked after each change.
#[derive(Default)]
struct Held {
    window: Option<Window>,
    /// Numbers of all heads.
    heads: Vec<u64>,
    /// Their hashes.
    shown: HashSet<B256>,
    /// Hashes of all finalized blocks.
    finals: HashSet<B256>,
    refuses: bool,
    events: Vec<Event>,
    states: Vec<(usize, UpstreamState)>,
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
pub(super) struct Refused;

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Held>>);

impl Held {
    fn window(&mut self) -> &mut Window {
        self.window.as_mut().unwrap()
    }

    fn held(&self) -> Arc<Snapshot> {
        self.window.as_ref().unwrap().snapshot()
    }

    fn changed(&mut self) -> Result<(), Refused> {
        self.window().check_invariants().unwrap();
        let head = Arc::clone(self.held().head());
        self.heads.push(head.number());
        self.shown.insert(head.hash);
        if self.refuses { Err(Refused) } else { Ok(()) }
    }
}

impl HeadSink for Sink {
    type Held = Arc<Snapshot>;
    type Error = Refused;

    fn held(&self) -> Option<Arc<Snapshot>> {
        self.0.lock().window.as_ref().map(Window::snapshot)
    }

    async fn reset(&mut self, head: Arc<Block>) -> Result<(), Refused> {
        let mut held = self.0.lock();
        match &mut held.window {
            Some(window) => _ = window.reset(head),
            window => *window = Some(Window::new(1, head)),
        }
        held.changed()
    }

    async fn advance(&mut self, change: AdvanceHead) -> Result<(), Refused> {
        let mut held = self.0.lock();
        let AdvanceHead {
            reverted,
            applied,
            safe,
            finalized,
        } = change;
        let window = held.window();
        window.advance(reverted, applied, safe, finalized).unwrap();
        held.changed()
    }

    async fn extend_below(&mut self, block: Arc<Block>) -> Result<(), Refused> {
        let mut held = self.0.lock();
        held.window().extend_below(block).unwrap();
        held.changed()
    }

    async fn keep_genesis(&mut self, block: Arc<Block>) -> Result<(), Refused> {
        let mut held = self.0.lock();
        held.window().keep_genesis(&block).unwrap();
        held.changed()
    }

    async fn settle(&mut self, SettleHead { safe, finalized }: SettleHead) -> Result<(), Refused> {
        let mut held = self.0.lock();
        // What is not canonical changes nothing.
        if let Some((number, hash)) = safe {
            let _ = held.window().set_safe_at(number, hash);
        }
        if let Some((number, hash)) = finalized {
            let _ = held.window().set_finalized_at(number, hash);
            held.finals.insert(hash);
        }
        held.changed()
    }
}

type FollowOutcome = Result<(), FollowError<Refused>>;

pub(super) struct Scene {
    chains: Chains,
    pub(super) upstreams: Vec<Scripted>,
    held: Sink,
    stop: Option<oneshot::Sender<()>>,
    follower: Pin<Box<dyn Future<Output = FollowOutcome>>>,
}

/// The first of all events: this upstream is followed.
pub(super) const fn first(upstream: usize) -> Event {
    Event::Switched(Switch {
        from: None,
        to: Some(upstream),
        reason: SwitchReason::First,
    })
}

impl Scene {
    /// So many upstreams of one chain, a block of which is a second.
    pub(super) fn new(upstreams: usize, head: u64) -> Self {
        let chains = Chains::new(head);
        let upstreams: Vec<_> = (0..upstreams)
            .map(|_| Scripted::new(chains.clone()))
            .collect();
        let held = Sink::default();
        let told = held.clone();
        let tell = Box::new(move |event| {
            let mut held = told.0.lock();
            match event {
                Event::State { upstream, state } => held.states.push((upstream, state)),
                event => held.events.push(event),
            }
        });
        let config = FollowConfig {
            chain_id: 1,
            concurrency: 16,
            seed: 1,
        };
        let follower = Follower::new(upstreams.clone(), held.clone(), config, tell);
        let (stop, stopped) = oneshot::channel();
        Self {
            chains,
            upstreams,
            held,
            stop: Some(stop),
            follower: Box::pin(follower.run(mpsc::channel(1).1, stopped)),
        }
    }

    pub(super) fn chains(&self) -> &Chains {
        &self.chains
    }

    /// Lets this many milliseconds pass.
    pub(super) async fn runs(&mut self, millis: u64) {
        let until = Instant::now() + Duration::from_millis(millis);
        tokio::select! {
            _ = &mut self.follower => panic!("the follower ended"),
            () = sleep_until(until) => {}
        }
    }

    /// What the follower ends with.
    pub(super) async fn ends(mut self) -> FollowOutcome {
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
        self.held().held().head().number()
    }

    pub(super) fn oldest(&self) -> u64 {
        self.held().held().oldest()
    }

    /// What a tag leads to.
    pub(super) fn named(&self, tag: BlockTag) -> Result<B256, ResolveError> {
        let held = self.held().held();
        let block = held.resolve(BlockNumberOrTag::Tag(tag))?;
        Ok(block.hash)
    }

    /// All blocks that were finalized.
    pub(super) fn finals(&self) -> HashSet<B256> {
        self.held().finals.clone()
    }

    pub(super) fn genesis(&self) -> Option<B256> {
        Some(self.held().held().genesis()?.hash)
    }

    /// Whether no head was lower than the one before.
    pub(super) fn went_up_only(&self) -> bool {
        self.held().heads.is_sorted()
    }

    /// Whether a block of a chain, from this number on, has ever been the head.
    pub(super) fn has_shown(&self, chain: usize, since: u64) -> bool {
        let held = self.held();
        let mut blocks = (since..).map_while(|number| self.chains.block(chain, number));
        blocks.any(|block| held.shown.contains(&block.hash))
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.held().events.clone()
    }

    /// What the upstreams have become since that was last asked.
    pub(super) fn take_states(&self) -> Vec<(usize, UpstreamState)> {
        std::mem::take(&mut self.held().states)
    }

    pub(super) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.held().events)
    }

    /// Checks that exactly this many of the newest blocks of a chain are held.
    pub(super) fn check_holds(&self, chain: usize, blocks: usize) {
        let held = self.held().held();
        let events = self.events();
        let head = self.chains.head(chain);
        let canonical = held.canonical().iter();
        let numbers: Vec<_> = canonical.map(|block| block.number()).collect();
        assert_eq!(numbers.last(), Some(&head), "{numbers:?} {events:?}");
        assert_eq!(numbers.len(), blocks, "{numbers:?}");
        for block in held.canonical() {
            let expected = self.chains.block(chain, block.number()).unwrap();
            assert_eq!(block.hash, expected.hash, "{}", block.number());
        }
    }
}
