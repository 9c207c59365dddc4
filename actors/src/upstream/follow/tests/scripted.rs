//! Upstreams whose behavior a test sets.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::{block::Block, remote::StatedHeader, test_block::TestBlock};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep_until},
};

use crate::upstream::{
    client::{CallError, HeadClaim, Tag},
    follow::{FetchError, Upstream, interface::HeadStream},
    plan::Ask,
};

/// Chains that share blocks, each from the genesis.
#[derive(Clone, Default)]
pub(super) struct Chains(Arc<Mutex<Vec<Vec<Arc<Block>>>>>);

impl Chains {
    /// Chain 0, with this number at its head.
    pub(super) fn new(head: u64) -> Self {
        let chains = Self::default();
        chains.0.lock().push(vec![TestBlock::default().genesis()]);
        chains.mine(0, head);
        chains
    }

    pub(super) fn mine(&self, chain: usize, blocks: u64) {
        let mut chains = self.0.lock();
        for _ in 0..blocks {
            let salt = chains.iter().map(Vec::len).sum::<usize>() as u64;
            let child = Self::child(chains[chain].last().unwrap(), salt << 8 | chain as u64);
            chains[chain].push(child);
        }
    }

    /// A child of `parent`, one second later.
    fn child(parent: &Arc<Block>, salt: u64) -> Arc<Block> {
        let block = TestBlock {
            salt,
            ..TestBlock::default()
        };
        let mut block = Arc::unwrap_or_clone(block.child_of(parent));
        block.header.timestamp = block.header.number;
        block.hash = block.header.hash_slow();
        Arc::new(block)
    }

    /// Replaces the blocks after this number by this many others.
    pub(super) fn fork(&self, chain: usize, after: u64, blocks: u64) {
        // The old length as salt makes blocks that differ from the replaced ones.
        let salt = self.0.lock()[chain].len() as u64;
        self.0.lock()[chain].truncate(after as usize + 1);
        let mut chains = self.0.lock();
        for at in 0..blocks {
            let child = Self::child(chains[chain].last().unwrap(), (salt + at) << 32);
            chains[chain].push(child);
        }
    }

    /// Adds a chain that leaves this one after block `after`.
    pub(super) fn add_fork(&self, chain: usize, after: u64, blocks: u64) {
        let mut chains = self.0.lock();
        let other = chains[chain][..=after as usize].to_vec();
        chains.push(other);
        let new = chains.len() - 1;
        drop(chains);
        self.mine(new, blocks);
    }

    /// Extends a chain by the next `blocks` blocks of another one.
    pub(super) fn follow(&self, chain: usize, other: usize, blocks: usize) {
        let mut chains = self.0.lock();
        let known = chains[chain].len();
        let next: Vec<_> = chains[other]
            .iter()
            .skip(known)
            .take(blocks)
            .cloned()
            .collect();
        chains[chain].extend(next);
    }

    pub(super) fn head(&self, chain: usize) -> u64 {
        self.0.lock()[chain].len() as u64 - 1
    }

    pub(super) fn block(&self, chain: usize, number: u64) -> Option<Arc<Block>> {
        self.0.lock()[chain].get(number as usize).cloned()
    }

    fn by_hash(&self, chain: usize, hash: B256) -> Option<Arc<Block>> {
        let chains = self.0.lock();
        chains[chain]
            .iter()
            .rev()
            .find(|block| block.hash == hash)
            .cloned()
    }
}

/// How an upstream behaves.
#[derive(Clone, Debug)]
pub(super) enum Behavior {
    Honest,
    /// It reports that it is syncing.
    Syncing,
    /// It keeps naming the head that it had when this began.
    FrozenHead,
    /// It does not answer, and the client times out.
    Silent,
    /// Every call fails.
    Error(CallError),
    /// Every call about heads fails.
    HeadErrors(CallError),
    /// Its blocks fail their checks.
    BadBlocks,
    /// This block fails its checks.
    BadBlock(u64),
    /// It names heads with a wrong number.
    WrongNumbers,
    /// It has no blocks.
    NoBlocks,
    /// It has another chain id.
    OtherChain,
    /// It has another genesis.
    OtherGenesis,
    /// It answers a question for the hash of a block with an error, except for block 0.
    HashErrors,
    /// It has pruned the blocks below this number.
    Pruned(u64),
    /// It does not have this block.
    NotFound(u64),
    /// It answers all calls but those for blocks.
    HeadsOnly,
    /// It finds blocks by hash only.
    HashesOnly,
    /// It has no block when it is asked for a hash.
    NoHashes,
    /// It does not answer calls for blocks below this number, and the client times out.
    StallsBelow(u64),
    /// It sends blocks no faster than one in this time.
    Slow(Duration),
    /// It sends each block this long after it was asked for it.
    Late(Duration),
    /// It does not answer the next call for a block.
    LosesOne,
    /// Every third answer is that of a backend three blocks behind.
    SometimesStale,
}

struct State {
    behavior: Behavior,
    frozen_head: u64,
    chain: usize,
    settled: Option<HeadClaim>,
    next_block: Option<Instant>,
    blocks: Vec<u64>,
    calls: usize,
    /// `None`: it announces no heads. Replacing the sender ends the subscriptions.
    announced: Option<watch::Sender<Option<HeadClaim>>>,
}

/// One upstream; clones share its state.
#[derive(Clone)]
pub(super) struct Scripted {
    chains: Chains,
    /// The time after which calls about heads are given up.
    timeout: Duration,
    state: Arc<Mutex<State>>,
}

/// The time that an answer takes.
pub(super) const LATENCY: Duration = Duration::from_micros(100);

/// The time after which a client gives up.
const TIMEOUT: Duration = Duration::from_secs(10);

fn claim(block: &Block) -> HeadClaim {
    HeadClaim {
        number: block.number(),
        hash: block.hash,
        parent_hash: block.header.parent_hash,
    }
}

impl Scripted {
    pub(super) fn new(chains: Chains) -> Self {
        Self {
            chains,
            timeout: TIMEOUT,
            state: Arc::new(Mutex::new(State {
                behavior: Behavior::Honest,
                frozen_head: 0,
                chain: 0,
                settled: None,
                next_block: None,
                blocks: Vec::new(),
                calls: 0,
                announced: None,
            })),
        }
    }

    pub(super) fn set_behavior(&self, behavior: Behavior) {
        let mut state = self.state.lock();
        state.frozen_head = self.chains.head(state.chain);
        state.behavior = behavior;
    }

    pub(super) fn set_chain(&self, chain: usize) {
        self.state.lock().chain = chain;
    }

    /// Takes the numbers of the blocks that were asked for since the last call.
    pub(super) fn take_blocks(&self) -> Vec<u64> {
        std::mem::take(&mut self.state.lock().blocks)
    }

    pub(super) fn calls(&self) -> usize {
        self.state.lock().calls
    }

    pub(super) fn announce_heads(&self) {
        self.state.lock().announced = Some(watch::Sender::new(None));
    }

    /// Ends the subscriptions to its heads.
    pub(super) fn end_subscriptions(&self) {
        self.announce_heads();
    }

    /// Announces the head of its chain.
    pub(super) fn announce(&self) {
        let state = self.state.lock();
        let head = self
            .chains
            .block(state.chain, self.chains.head(state.chain));
        state
            .announced
            .as_ref()
            .unwrap()
            .send_replace(head.as_deref().map(claim));
    }

    /// Names this block as safe and finalized from now on.
    pub(super) fn settle(&self, chain: usize, number: u64) {
        let block = self.chains.block(chain, number);
        self.state.lock().settled = block.as_deref().map(claim);
    }

    /// Counts a call, waits for the latency, and returns the behavior and the number of calls.
    async fn behave(&self) -> Result<(Behavior, usize), CallError> {
        match self.behave_within(self.timeout).await? {
            (Behavior::HeadErrors(error), _) => Err(error),
            behavior => Ok(behavior),
        }
    }

    async fn behave_within(&self, timeout: Duration) -> Result<(Behavior, usize), CallError> {
        let (behavior, calls) = {
            let mut state = self.state.lock();
            state.calls += 1;
            (state.behavior.clone(), state.calls)
        };
        sleep_until(Instant::now() + LATENCY).await;
        match behavior {
            Behavior::Silent => {
                sleep_until(Instant::now() + timeout).await;
                Err(CallError::Timeout(timeout))
            }
            Behavior::Error(error) => Err(error),
            behavior => Ok((behavior, calls)),
        }
    }
}

impl Upstream for Scripted {
    type Heads = ScriptedHeads;

    fn within(&self, longest: Duration) -> Self {
        Self {
            timeout: longest.min(TIMEOUT),
            ..self.clone()
        }
    }

    fn reconnect(&self) {}

    fn name(&self) -> String {
        "scripted".to_owned()
    }

    async fn chain_id(&self) -> Result<u64, CallError> {
        let (behavior, _) = self.behave().await?;
        Ok(if matches!(behavior, Behavior::OtherChain) {
            2
        } else {
            1
        })
    }

    async fn hash_at(&self, number: u64) -> Result<Option<B256>, CallError> {
        let (behavior, _) = self.behave().await?;
        let chain = self.state.lock().chain;
        if matches!(behavior, Behavior::HashErrors) && number > 0 {
            return Err(CallError::Rpc {
                code: 4444,
                message: "pruned history unavailable".into(),
            });
        }
        Ok(match (behavior, number) {
            (Behavior::NoHashes, 1..) => None,
            (Behavior::OtherGenesis, 0) => Some(B256::repeat_byte(7)),
            _ => self.chains.block(chain, number).map(|block| block.hash),
        })
    }

    async fn is_syncing(&self) -> Result<bool, CallError> {
        let (behavior, _) = self.behave().await?;
        Ok(matches!(behavior, Behavior::Syncing))
    }

    async fn head(&self, tag: Tag) -> Result<HeadClaim, CallError> {
        let (behavior, call) = self.behave().await?;
        let state = self.state.lock();
        if tag != Tag::Latest {
            return state.settled.ok_or(CallError::NotFound);
        }
        let latest = self.chains.head(state.chain);
        let number = match behavior {
            Behavior::FrozenHead => state.frozen_head,
            Behavior::SometimesStale if call % 3 == 0 => latest - 3,
            _ => latest,
        };
        let block = self.chains.block(state.chain, number);
        let mut head = block.as_deref().map(claim).ok_or(CallError::NotFound)?;
        if matches!(behavior, Behavior::WrongNumbers) {
            head.number += 1_000;
        }
        Ok(head)
    }

    async fn heads(&self) -> Result<ScriptedHeads, CallError> {
        self.behave().await?;
        let state = self.state.lock();
        let announced = state
            .announced
            .as_ref()
            .ok_or(CallError::UnsupportedMethod)?;
        Ok(ScriptedHeads(announced.subscribe()))
    }

    async fn block(&self, ask: Ask) -> Result<Arc<Block>, FetchError> {
        self.state.lock().blocks.push(ask.number());
        let (behavior, call) = self.behave_within(TIMEOUT).await?;
        let chain = self.state.lock().chain;
        let is_stale = matches!(behavior, Behavior::SometimesStale) && call % 3 == 0;
        if let Behavior::Slow(pause) = behavior {
            let next = {
                let mut state = self.state.lock();
                let next = state
                    .next_block
                    .unwrap_or_else(Instant::now)
                    .max(Instant::now());
                state.next_block = Some(next + pause);
                next + pause
            };
            sleep_until(next).await;
        }
        if let Behavior::Late(pause) = behavior {
            sleep_until(Instant::now() + pause).await;
        }
        let stalls = match behavior {
            Behavior::HeadsOnly => true,
            Behavior::LosesOne => {
                self.state.lock().behavior = Behavior::Honest;
                true
            }
            Behavior::StallsBelow(number) => ask.number() < number,
            _ => false,
        };
        if stalls {
            sleep_until(Instant::now() + TIMEOUT).await;
            return Err(CallError::Timeout(TIMEOUT).into());
        }
        let has_no_number =
            matches!(behavior, Behavior::HashesOnly) && matches!(ask, Ask::Number(_));
        let is_pruned = match behavior {
            Behavior::Pruned(oldest) => ask.number() < oldest,
            Behavior::NotFound(number) => ask.number() == number,
            _ => false,
        };
        if matches!(behavior, Behavior::NoBlocks)
            || is_pruned
            || has_no_number
            || is_stale && ask.number() + 3 > self.chains.head(chain)
        {
            return Err(CallError::NotFound.into());
        }
        let is_bad = match behavior {
            Behavior::BadBlocks => true,
            Behavior::BadBlock(number) => ask.number() == number,
            _ => false,
        };
        if is_bad {
            return Err(FetchError::BadBlock {
                reason: "gas_used",
                error: "wrong gas used".into(),
            });
        }
        let block = match ask {
            Ask::Hash { hash, .. } => self.chains.by_hash(chain, hash),
            Ask::Number(number) => self.chains.block(chain, number),
        };
        let block = block.ok_or(CallError::NotFound)?;
        if block.number() != ask.number() {
            return Err(FetchError::BadBlock {
                reason: "another_block",
                error: "wrong number".into(),
            });
        }
        Ok(block)
    }

    async fn header(&self, _: u64, hash: B256) -> Result<StatedHeader, FetchError> {
        self.behave_within(TIMEOUT).await?;
        let chain = self.state.lock().chain;
        let block = self.chains.by_hash(chain, hash);
        let block = block.ok_or(CallError::NotFound)?;
        Ok(StatedHeader::from(&*block))
    }
}

/// The heads that an upstream announces.
pub(super) struct ScriptedHeads(watch::Receiver<Option<HeadClaim>>);

impl HeadStream for ScriptedHeads {
    async fn next(&mut self) -> Result<HeadClaim, CallError> {
        loop {
            let changed = self.0.changed().await;
            changed.map_err(|_| CallError::Connection("the connection ended".into()))?;
            if let Some(head) = *self.0.borrow_and_update() {
                return Ok(head);
            }
        }
    }
}
