//! A follower with its upstreams and a window, in simulated time.

use std::{collections::HashSet, pin::Pin, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    verify::HeaderRefusal,
    window::{
        BlockNumberOrTag, BlockTag, ResolveError, SettledBlocks, Snapshot, Window, WindowError,
        WindowLimits,
    },
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
        agree::{Choice, Policy, Quorum},
        follow::{ChangeError, Event, FirstBlock, FollowConfig, FollowError, Follower, HeldWindow},
        health::UpstreamState,
        plan::BlockBelow,
    },
};

/// The window that the follower fills; its invariants are checked after each change.
#[derive(Default)]
struct WindowState {
    window: Option<Window>,
    limits: WindowLimits,
    /// The numbers of all heads so far.
    heads: Vec<u64>,
    /// The hashes of all heads so far.
    served: HashSet<B256>,
    /// The hashes of all finalized blocks.
    finalized: HashSet<B256>,
    is_gone: bool,
    /// The changes that it refuses, and why.
    refused: Option<(Change, Refused)>,
    events: Vec<Event>,
    states: Vec<(usize, UpstreamState)>,
}

/// Why it refuses a change.
#[derive(Clone, Copy, Debug)]
enum Refused {
    Unfit,
    UnknownFork,
}

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Reset,
    Advance,
    ExtendBelow,
    KeepGenesis,
}

#[derive(Debug, thiserror::Error)]
#[error("the window is gone")]
pub(super) struct Gone;

#[derive(Clone, Default)]
struct CheckedWindow(Arc<Mutex<WindowState>>);

impl WindowState {
    fn window(&mut self) -> &mut Window {
        self.window.as_mut().unwrap()
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.window.as_ref().unwrap().snapshot()
    }

    /// Fails if it refuses such changes.
    fn accept(&self, change: Change) -> Result<(), ChangeError<Gone>> {
        match self.refused {
            Some((refused, why)) if refused == change => Err(match why {
                Refused::Unfit => ChangeError::Refused(WindowError::Full),
                Refused::UnknownFork => ChangeError::Header {
                    number: 7,
                    refusal: HeaderRefusal::UnknownFork { number: 7 },
                },
            }),
            _ => Ok(()),
        }
    }

    fn changed(&mut self) -> Result<(), Gone> {
        self.window().check_invariants().unwrap();
        let head = Arc::clone(self.snapshot().head());
        self.heads.push(head.number());
        self.served.insert(head.hash);
        if self.is_gone { Err(Gone) } else { Ok(()) }
    }
}

impl HeldWindow for CheckedWindow {
    type Held = Arc<Snapshot>;
    type Error = Gone;

    fn held(&self) -> Option<Arc<Snapshot>> {
        self.0.lock().window.as_ref().map(Window::snapshot)
    }

    fn needs_parent(&self) -> bool {
        true
    }

    async fn reset(&mut self, first: FirstBlock) -> Result<(), ChangeError<Gone>> {
        let mut held = self.0.lock();
        let FirstBlock {
            block: head,
            parent,
        } = first;
        let parent = parent.map(|parent| (parent.header().number, parent.hash()));
        let below = head.number().checked_sub(1);
        assert_eq!(parent, below.map(|below| (below, head.header.parent_hash)));
        held.accept(Change::Reset)?;
        match &mut held.window {
            Some(window) => _ = window.reset(head).unwrap(),
            None => held.window = Some(Window::with_limits(1, head, held.limits)),
        }
        held.changed().map_err(ChangeError::Gone)
    }

    async fn advance(&mut self, change: AdvanceHead) -> Result<(), ChangeError<Gone>> {
        let mut held = self.0.lock();
        held.accept(Change::Advance)?;
        let AdvanceHead {
            reverted,
            applied,
            safe,
            finalized,
        } = change;
        let window = held.window();
        window.advance(reverted, applied, safe, finalized).unwrap();
        held.changed().map_err(ChangeError::Gone)
    }

    async fn extend_below(
        &mut self,
        below: BlockBelow<Arc<Block>>,
    ) -> Result<(), ChangeError<Gone>> {
        let mut held = self.0.lock();
        let BlockBelow { block, parent } = below;
        let parent = parent.map(|parent| (parent.number(), parent.hash));
        let number = block.number().checked_sub(1);
        let expected = number.map(|number| (number, block.header.parent_hash));
        assert_eq!(parent, expected);
        held.accept(Change::ExtendBelow)?;
        let extended = held.window().extend_below(block);
        assert!(matches!(extended, Ok(()) | Err(WindowError::Full)));
        held.changed().map_err(ChangeError::Gone)
    }

    async fn keep_genesis(&mut self, block: Arc<Block>) -> Result<(), ChangeError<Gone>> {
        let mut held = self.0.lock();
        held.accept(Change::KeepGenesis)?;
        held.window().keep_genesis(&block).unwrap();
        held.changed().map_err(ChangeError::Gone)
    }

    async fn settle(&mut self, SettleHead(settled): SettleHead) -> Result<(), Gone> {
        let SettledBlocks { safe, finalized } = settled;
        let mut held = self.0.lock();
        // The window ignores blocks that are not canonical.
        if let Some((number, hash)) = safe {
            let _ = held.window().set_safe_at(number, hash);
        }
        if let Some((number, hash)) = finalized {
            held.window().set_finalized_at(number, hash).unwrap();
            held.finalized.insert(hash);
        }
        held.changed()
    }
}

type FollowOutcome = Result<(), FollowError<Gone>>;

pub(super) struct Scene {
    chains: Chains,
    pub(super) upstreams: Vec<Scripted>,
    window: CheckedWindow,
    stop: Option<oneshot::Sender<()>>,
    follower: Pin<Box<dyn Future<Output = FollowOutcome>>>,
}

impl Scene {
    /// This many upstreams on one chain with one block a second, each of which suffices.
    pub(super) fn new(upstreams: usize, head: u64) -> Self {
        Self::with_quorum(upstreams, 1, head)
    }

    /// This many upstreams on one chain with one block a second, of which `quorum` have to agree.
    pub(super) fn with_quorum(upstreams: usize, quorum: usize, head: u64) -> Self {
        let chains = Chains::new(head);
        let genesis = chains.block(0, 0).map(|block| block.hash);
        Self::of(chains, upstreams, quorum, genesis)
    }

    /// The same on these chains, of whose genesis this is known.
    pub(super) fn of(
        chains: Chains,
        upstreams: usize,
        quorum: usize,
        genesis: Option<B256>,
    ) -> Self {
        let upstreams: Vec<_> = (0..upstreams)
            .map(|_| Scripted::new(chains.clone()))
            .collect();
        let window = CheckedWindow::default();
        let shared = window.clone();
        let on_event = Box::new(move |event| {
            let mut state = shared.0.lock();
            match event {
                Event::State {
                    upstream,
                    state: new,
                } => state.states.push((upstream, new)),
                event => state.events.push(event),
            }
        });
        let config = FollowConfig {
            chain_id: 1,
            genesis,
            concurrency: 16,
            seed: 1,
        };
        let policy = Policy::new(quorum, upstreams.len());
        let authority = Quorum::new(policy, upstreams.len(), None, Vec::new());
        let clients = upstreams.clone();
        let follower = Follower::new(clients, window.clone(), authority, config, on_event);
        let (stop, stopped) = oneshot::channel();
        Self {
            chains,
            upstreams,
            window,
            stop: Some(stop),
            follower: Box::pin(async move {
                let mut fault_reports = mpsc::channel(1).1;
                follower.run(&mut fault_reports, stopped).await
            }),
        }
    }

    pub(super) fn chains(&self) -> &Chains {
        &self.chains
    }

    /// Runs the follower for this many milliseconds.
    pub(super) async fn run_for(&mut self, millis: u64) {
        let until = Instant::now() + Duration::from_millis(millis);
        tokio::select! {
            _ = &mut self.follower => panic!("the follower ended"),
            () = sleep_until(until) => {}
        }
    }

    /// Runs the follower for this many seconds, with a block of chain 0 at the beginning of each.
    pub(super) async fn mine_for(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.mine(1);
            self.run_for(1_000).await;
        }
    }

    /// Runs the follower to its end.
    pub(super) async fn finish(mut self) -> FollowOutcome {
        self.follower.as_mut().await
    }

    pub(super) fn stop(&mut self) {
        self.stop = None;
    }

    fn window(&self) -> MutexGuard<'_, WindowState> {
        self.window.0.lock()
    }

    /// Sets the limits of the window, which has no block yet.
    pub(super) fn limit(&self, limits: WindowLimits) {
        self.window().limits = limits;
    }

    /// The window has this block of chain 0 before upstreams are followed.
    pub(super) fn hold(&self, number: u64) {
        let block = self.chains.block(0, number).unwrap();
        let mut held = self.window();
        held.served.insert(block.hash);
        held.window = Some(Window::with_limits(1, block, held.limits));
    }

    /// The window fails with the next change.
    pub(super) fn lose_window(&self) {
        self.window().is_gone = true;
    }

    /// The window refuses such changes, or none.
    pub(super) fn refuse(&self, change: Option<Change>) {
        self.window().refused = change.map(|change| (change, Refused::Unfit));
    }

    /// The window refuses such changes, because their blocks are of a fork that is not known.
    pub(super) fn refuse_fork(&self, change: Change) {
        self.window().refused = Some((change, Refused::UnknownFork));
    }

    /// Adds blocks to chain 0.
    pub(super) fn mine(&self, blocks: u64) {
        self.chains.mine(0, blocks);
    }

    pub(super) fn head(&self) -> u64 {
        self.window().snapshot().head().number()
    }

    pub(super) fn oldest(&self) -> u64 {
        self.window().snapshot().oldest()
    }

    /// The hash of the block that a tag resolves to.
    pub(super) fn resolve(&self, tag: BlockTag) -> Result<B256, ResolveError> {
        let held = self.window().snapshot();
        let block = held.resolve(BlockNumberOrTag::Tag(tag))?;
        Ok(block.hash)
    }

    /// The hashes of all finalized blocks.
    pub(super) fn finalized(&self) -> HashSet<B256> {
        self.window().finalized.clone()
    }

    pub(super) fn genesis(&self) -> Option<B256> {
        Some(self.window().snapshot().genesis()?.hash)
    }

    /// What becomes of the head, as it was last reported, and how many upstreams agree.
    pub(super) fn decided(&self) -> Option<(Choice, usize)> {
        let window = self.window();
        let events = window.events.iter().rev();
        let mut decided = events.filter_map(|event| match *event {
            Event::Decided { choice, agreeing } => Some((choice, agreeing)),
            _ => None,
        });
        decided.next()
    }

    /// Whether no head was lower than its predecessor.
    pub(super) fn never_went_back(&self) -> bool {
        self.window().heads.is_sorted()
    }

    /// Whether a block of a chain from this number on was ever the head.
    pub(super) fn has_served(&self, chain: usize, since: u64) -> bool {
        let window = self.window();
        let mut blocks = (since..).map_while(|number| self.chains.block(chain, number));
        blocks.any(|block| window.served.contains(&block.hash))
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.window().events.clone()
    }

    /// Takes the changes of upstreams' states since the last call.
    pub(super) fn take_states(&self) -> Vec<(usize, UpstreamState)> {
        std::mem::take(&mut self.window().states)
    }

    pub(super) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.window().events)
    }

    /// Checks that exactly this many of the newest blocks of a chain are held.
    pub(super) fn check_holds(&self, chain: usize, blocks: usize) {
        let held = self.window().snapshot();
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
