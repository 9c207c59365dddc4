//! Makes the dev chain, a step at a time.

use std::{collections::VecDeque, sync::Arc};

use super::{
    assembler::AssembleError,
    contracts::Codes,
    genesis::{CHAIN_ID, DevGenesis},
    population::Population,
    profile::{Profile, Sizes},
    signer::Signers,
    traffic::Traffic,
};
use crate::{
    block::{Block, RawBlock},
    encode::EncodeOptions,
    execute::{ExecuteError, SpecError, assemble},
    import::{ImportError, Importer},
    trie::{NodeStore, TrieError},
};

/// Blocks that a reorg may replace: the window without its oldest block.
pub const REORG_DEPTH_MAX: u64 = 127;

/// What the dev chain is made from; equal values give equal chains, byte for byte.
#[derive(Clone, Debug)]
pub struct DevConfig {
    /// Seed of everything random.
    pub seed: u64,
    /// Sizes.
    pub profile: Profile,
    /// Seconds between the timestamps of two blocks; at least 1.
    pub block_time_seconds: u64,
    /// A reorg after every so many blocks; `None` for none.
    pub reorg_every: Option<u64>,
    /// Blocks that a reorg replaces: 1 to [`REORG_DEPTH_MAX`].
    pub reorg_depth: u64,
}

/// One step of the chain: `reverted` blocks are taken off the head, then `applied` are put on.
#[derive(Debug)]
pub struct DevStep {
    /// Blocks to take off the head.
    pub reverted: usize,
    /// Blocks to apply, with their raw form for export.
    pub applied: Vec<(RawBlock, Arc<Block>)>,
}

/// Makes the chain.
pub struct Producer {
    importer: Importer,
    genesis: DevGenesis,
    traffic: Traffic,
    reorgs: Option<Reorgs>,
    /// The head and, below it, as many blocks as a reorg may need: oldest first, never empty.
    chain: VecDeque<Arc<Block>>,
}

/// When the next reorg comes.
#[derive(Clone, Copy, Debug)]
struct Reorgs {
    every: u64,
    depth: u64,
    /// Single blocks since the last one.
    since: u64,
    /// Reorgs so far; blocks of different branches differ.
    branch: u64,
}

/// Why a dev chain could not be made: a configuration out of its bounds, or a defect of this
/// program.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// A value of [`DevConfig`] is out of its bounds.
    #[error("{0}")]
    Config(&'static str),
    /// A sample contract cannot be assembled.
    #[error("sample contract: {0}")]
    Assemble(#[from] AssembleError),
    /// A derived key is not a key (one seed in 2^128).
    #[error("this seed gives no valid keys, choose another: {0}")]
    Key(#[from] secp256k1::Error),
    /// The genesis has rules that are not known.
    #[error("dev genesis: {0}")]
    Spec(#[from] SpecError),
    /// The state cannot be made or read.
    #[error("dev state: {0}")]
    State(#[from] TrieError),
    /// A block holds something that cannot be executed.
    #[error("dev block: {0}")]
    Execute(#[from] ExecuteError),
    /// A block does not hold what its header promises.
    #[error("dev block: {0}")]
    Import(#[from] ImportError),
    /// The parent's state is gone.
    #[error("the state of block {0} is not held")]
    NoState(u64),
    /// Whoever asked for a step changed their mind.
    #[error("stopped")]
    Stopped,
}

impl Producer {
    /// A producer that stands at genesis; `progress` is told (done, total) accounts while the state
    /// is made.
    ///
    /// # Errors
    /// [`DevError::Config`] where a value of `config` is out of its bounds; the others are defects.
    pub fn new(
        config: DevConfig,
        options: EncodeOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, DevError> {
        let sizes = config.profile.sizes();
        Self::of_sizes(config, sizes, options, progress)
    }

    /// [`Self::new`] with other sizes than the profile's.
    pub(super) fn of_sizes(
        config: DevConfig,
        sizes: Sizes,
        options: EncodeOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, DevError> {
        let reorgs = Reorgs::of(&config)?;
        if config.block_time_seconds == 0 {
            return Err(DevError::Config("the block time must be at least 1 second"));
        }
        let DevConfig {
            seed,
            profile,
            block_time_seconds,
            ..
        } = config;
        let codes = Codes::assemble()?;
        let signers = Signers::derive(seed, sizes.senders, CHAIN_ID)?;
        let code = codes.store.clone();
        let population = Population {
            seed,
            len: sizes.population,
            code,
        };
        let addresses: Vec<_> = signers.addresses().collect();
        let genesis = DevGenesis::new(&sizes, &codes, &addresses, population.clone());
        let importer = Importer::new(genesis.rules(), options)?;
        let state = genesis.state(importer.store(), progress)?;
        let first = importer.genesis_with_state(state)?;
        let traffic = Traffic {
            seed,
            block_time_seconds,
            profile,
            sizes,
            codes,
            signers,
            population,
        };
        Ok(Self {
            importer,
            genesis,
            traffic,
            reorgs,
            chain: VecDeque::from([first]),
        })
    }

    /// The genesis that the chain begins with.
    #[must_use]
    pub const fn genesis(&self) -> &DevGenesis {
        &self.genesis
    }

    /// Accounts whose keys derive from the seed, the ones that only authorize (EIP-7702) last.
    #[cfg(test)]
    pub(super) fn signers(&self) -> impl Iterator<Item = alloy_primitives::Address> {
        self.traffic.signers.addresses()
    }

    /// The node store that all blocks of the chain share.
    #[must_use]
    pub fn store(&self) -> &Arc<NodeStore> {
        self.importer.store()
    }

    /// The block that the producer stands at.
    #[must_use]
    pub fn head(&self) -> &Arc<Block> {
        &self.chain[self.chain.len() - 1]
    }

    /// The next step: one block, or a scripted reorg that replaces `reorg_depth` blocks by one
    /// more.
    ///
    /// A reorg that is due before the chain is long enough comes as soon as it is.
    ///
    /// # Errors
    /// A defect of this program; the producer then stands where it stood, less what was reverted.
    pub fn step(&mut self) -> Result<DevStep, DevError> {
        self.step_while(&mut || true)
    }

    /// As [`Self::step`] while `running` says so; it is asked before each block.
    ///
    /// # Errors
    /// As [`Self::step`], and [`DevError::Stopped`]: what a reorg had made until then is nobody's,
    /// so that the producer is of no use any more.
    pub fn step_while(&mut self, running: &mut dyn FnMut() -> bool) -> Result<DevStep, DevError> {
        let head = self.head().number();
        let reverted = self.reorgs.as_mut().map_or(0, |reorgs| reorgs.due(head)) as usize;
        self.chain.truncate(self.chain.len() - reverted);
        let applied = (0..=reverted)
            .map(|_| match running() {
                true => self.extend(),
                false => Err(DevError::Stopped),
            })
            .collect::<Result<_, _>>()?;
        Ok(DevStep { reverted, applied })
    }

    /// Puts one block on the head.
    fn extend(&mut self) -> Result<(RawBlock, Arc<Block>), DevError> {
        let parent = Arc::clone(self.head());
        let state = parent
            .state
            .as_ref()
            .ok_or(DevError::NoState(parent.number()))?;
        let branch = self.reorgs.map_or(0, |reorgs| reorgs.branch);
        let spec = self.importer.spec();
        let template = self.traffic.block(spec, &parent.header, state, branch)?;
        let senders: Vec<_> = template
            .transactions
            .iter()
            .map(|signed| signed.signer())
            .collect();
        let (raw, executed) = assemble(spec, &parent, template)?;
        let block = self.importer.seal(&raw, &senders, executed, &parent)?;
        self.chain.push_back(Arc::clone(&block));
        let held = self.reorgs.map_or(0, |reorgs| reorgs.depth) as usize + 1;
        if self.chain.len() > held {
            self.chain.pop_front();
        }
        Ok((raw, block))
    }
}

impl Reorgs {
    fn of(config: &DevConfig) -> Result<Option<Self>, DevError> {
        let Some(every) = config.reorg_every else {
            return Ok(None);
        };
        if every == 0 {
            return Err(DevError::Config(
                "a reorg can come after 1 block at the earliest",
            ));
        }
        if !(1..=REORG_DEPTH_MAX).contains(&config.reorg_depth) {
            return Err(DevError::Config("a reorg must replace 1 to 127 blocks"));
        }
        Ok(Some(Self {
            every,
            depth: config.reorg_depth,
            since: 0,
            branch: 0,
        }))
    }

    /// How many blocks the next step reverts if the head is block `head`.
    fn due(&mut self, head: u64) -> u64 {
        if self.since < self.every || head < self.depth {
            self.since += 1;
            return 0;
        }
        self.since = 0;
        self.branch += 1;
        self.depth
    }
}
