//! Upstreams that say what the test wants them to.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::{block::Block, test_block::TestBlock};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep_until},
};

use crate::upstream::{
    client::{CallError, HeadClaim, Tag},
    follow::{FetchError, Upstream, contract::HeadStream},
    plan::Ask,
};

/// Chains that share blocks, each from the genesis.
#[derive(Clone, Default)]
pub(super) struct Chains(Arc<Mutex<Vec<Vec<Arc<Block>>>>>);

impl Chains {
    /// Chain 0, up to this number.
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

    /// A block a second after its parent.
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

    /// The chain leaves itself after this number, and goes on for this many blocks.
    pub(super) fn fork(&self, chain: usize, after: u64, blocks: u64) {
        // Otherwise it might make the blocks that it had.
        let salt = self.0.lock()[chain].len() as u64;
        self.0.lock()[chain].truncate(after as usize + 1);
        let mut chains = self.0.lock();
        for at in 0..blocks {
            let child = Self::child(chains[chain].last().unwrap(), (salt + at) << 32);
            chains[chain].push(child);
        }
    }

    /// Another chain, which leaves this one after this number.
    pub(super) fn add_fork(&self, chain: usize, after: u64, blocks: u64) {
        let mut chains = self.0.lock();
        let other = chains[chain][..=after as usize].to_vec();
        chains.push(other);
        let new = chains.len() - 1;
        drop(chains);
        self.mine(new, blocks);
    }

    /// A chain that is behind another takes over this many of its blocks.
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

#[derive(Clone, Debug)]
pub(super) enum Says {
    Truth,
    /// That it is syncing.
    Syncing,
    /// The head that it has when it begins to.
    SameHead,
    /// No answer; a client gives up in the end.
    Nothing,
    Error(CallError),
    /// Its blocks fail their checks.
    BadBlocks,
    /// This one does.
    BadBlock(u64),
    /// It announces heads with a wrong number.
    WrongNumbers,
    /// It does not have any block.
    NoBlocks,
    OtherChain,
    /// Its genesis is another.
    OtherGenesis,
    /// It has forgotten the blocks before this one.
    Pruned(u64),
    /// It has forgotten this one.
    NotFound(u64),
    /// It gives no block, and does not say so.
    HeadsAlone,
    /// It has no block by number.
    NoNumbers,
    /// Each of its blocks takes so long after the one before.
    Slowly(Duration),
    /// Every third answer is that of an upstream three blocks behind.
    StaleNowAndThen,
}

struct State {
    says: Says,
    same_head: u64,
    chain: usize,
    settled: Option<HeadClaim>,
    next_block: Option<Instant>,
    blocks: Vec<u64>,
    calls: usize,
    /// `None`: it announces no heads. Replaced to end the subscriptions.
    told: Option<watch::Sender<Option<HeadClaim>>>,
}

/// One upstream; cloning shares it.
#[derive(Clone)]
pub(super) struct Scripted {
    chains: Chains,
    state: Arc<Mutex<State>>,
}

/// How long any answer takes.
pub(super) const LATENCY: Duration = Duration::from_micros(100);

/// How long a client waits for one that does not come.
const TIMEOUT: Duration = Duration::from_secs(10);

fn claim(block: &Block) -> HeadClaim {
    HeadClaim {
        number: block.number(),
        hash: block.hash,
        parent_hash: block.header.parent_hash,
        timestamp: block.header.timestamp,
    }
}

impl Scripted {
    pub(super) fn new(chains: Chains) -> Self {
        Self {
            chains,
            state: Arc::new(Mutex::new(State {
                says: Says::Truth,
                same_head: 0,
                chain: 0,
                settled: None,
                next_block: None,
                blocks: Vec::new(),
                calls: 0,
                told: None,
            })),
        }
    }

    pub(super) fn says(&self, says: Says) {
        let mut state = self.state.lock();
        state.same_head = self.chains.head(state.chain);
        state.says = says;
    }

    pub(super) fn is_on(&self, chain: usize) {
        self.state.lock().chain = chain;
    }

    /// Numbers of the blocks that were asked for since the last time.
    pub(super) fn take_blocks(&self) -> Vec<u64> {
        std::mem::take(&mut self.state.lock().blocks)
    }

    pub(super) fn calls(&self) -> usize {
        self.state.lock().calls
    }

    pub(super) fn announces_heads(&self) {
        self.state.lock().told = Some(watch::Sender::new(None));
    }

    /// Ends what listens to its heads.
    pub(super) fn hangs_up(&self) {
        self.announces_heads();
    }

    pub(super) fn tell(&self) {
        let state = self.state.lock();
        let head = self
            .chains
            .block(state.chain, self.chains.head(state.chain));
        state
            .told
            .as_ref()
            .unwrap()
            .send_replace(head.as_deref().map(claim));
    }

    /// From now on this block is safe and final to it.
    pub(super) fn settles(&self, chain: usize, number: u64) {
        let block = self.chains.block(chain, number);
        self.state.lock().settled = block.as_deref().map(claim);
    }

    /// What it says now, once it says anything; and how many calls it got.
    async fn answers(&self) -> Result<(Says, usize), CallError> {
        let (says, calls) = {
            let mut state = self.state.lock();
            state.calls += 1;
            (state.says.clone(), state.calls)
        };
        sleep_until(Instant::now() + LATENCY).await;
        match says {
            Says::Nothing => {
                sleep_until(Instant::now() + TIMEOUT).await;
                Err(CallError::Timeout(TIMEOUT))
            }
            Says::Error(error) => Err(error),
            says => Ok((says, calls)),
        }
    }
}

impl Upstream for Scripted {
    type Heads = ScriptedHeads;

    fn name(&self) -> String {
        "scripted".to_owned()
    }

    async fn chain_id(&self) -> Result<u64, CallError> {
        let (says, _) = self.answers().await?;
        Ok(if matches!(says, Says::OtherChain) {
            2
        } else {
            1
        })
    }

    async fn genesis(&self) -> Result<B256, CallError> {
        let (says, _) = self.answers().await?;
        let chain = self.state.lock().chain;
        Ok(match says {
            Says::OtherGenesis => B256::repeat_byte(7),
            _ => self.chains.block(chain, 0).ok_or(CallError::NotFound)?.hash,
        })
    }

    async fn is_syncing(&self) -> Result<bool, CallError> {
        let (says, _) = self.answers().await?;
        Ok(matches!(says, Says::Syncing))
    }

    async fn head(&self, tag: Tag) -> Result<HeadClaim, CallError> {
        let (says, question) = self.answers().await?;
        let state = self.state.lock();
        if tag != Tag::Latest {
            return state.settled.ok_or(CallError::NotFound);
        }
        let head = self.chains.head(state.chain);
        let number = match says {
            Says::SameHead => state.same_head,
            Says::StaleNowAndThen if question % 3 == 0 => head - 3,
            _ => head,
        };
        let block = self.chains.block(state.chain, number);
        let mut named = block.as_deref().map(claim).ok_or(CallError::NotFound)?;
        if matches!(says, Says::WrongNumbers) {
            named.number += 1_000;
        }
        Ok(named)
    }

    async fn heads(&self) -> Result<ScriptedHeads, CallError> {
        self.answers().await?;
        let state = self.state.lock();
        let told = state.told.as_ref().ok_or(CallError::MethodMissing)?;
        Ok(ScriptedHeads(told.subscribe()))
    }

    async fn block(&self, ask: Ask) -> Result<Arc<Block>, FetchError> {
        self.state.lock().blocks.push(ask.number());
        let (says, question) = self.answers().await?;
        let chain = self.state.lock().chain;
        let is_stale = matches!(says, Says::StaleNowAndThen) && question % 3 == 0;
        if let Says::Slowly(pause) = says {
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
        if matches!(says, Says::HeadsAlone) {
            sleep_until(Instant::now() + TIMEOUT).await;
            return Err(CallError::Timeout(TIMEOUT).into());
        }
        let has_no_number = matches!(says, Says::NoNumbers) && matches!(ask, Ask::Number(_));
        let is_pruned = match says {
            Says::Pruned(oldest) => ask.number() < oldest,
            Says::NotFound(number) => ask.number() == number,
            _ => false,
        };
        if matches!(says, Says::NoBlocks)
            || is_pruned
            || has_no_number
            || is_stale && ask.number() + 3 > self.chains.head(chain)
        {
            return Err(CallError::NotFound.into());
        }
        let is_bad = match says {
            Says::BadBlocks => true,
            Says::BadBlock(number) => ask.number() == number,
            _ => false,
        };
        if is_bad {
            return Err(FetchError::BadBlock {
                reason: "gas_used",
                error: "its gas is wrong".into(),
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
                error: "it has another number".into(),
            });
        }
        Ok(block)
    }
}

/// Heads that an upstream announces.
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
