//! Makes the dev chain step by step.

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
    execute::{ExecuteError, build_block},
    import::{ImportError, Importer},
    network::{ChainSpec, SpecError},
    trie::TrieError,
};

/// Maximum number of blocks that a reorg replaces: the window without its oldest block.
pub(crate) const REORG_DEPTH_MAX: u64 = 127;

/// The configuration of a dev chain. Equal configurations give equal chains, byte for byte.
#[derive(Clone, Debug)]
pub struct DevConfig {
    /// Seed of everything random.
    pub seed: u64,
    /// Size of blocks and state.
    pub profile: Profile,
    /// Seconds between the timestamps of consecutive blocks; at least 1.
    pub block_time_seconds: u64,
    /// Number of blocks after which a reorg comes; `None` for no reorgs.
    pub reorg_every: Option<u64>,
    /// Number of blocks that a reorg replaces: 1 to `REORG_DEPTH_MAX`.
    pub reorg_depth: u64,
}

/// One step of the chain: `reverted` blocks are reverted, then `applied` are applied.
#[derive(Debug)]
pub struct DevStep {
    /// Number of blocks to revert.
    pub reverted: usize,
    /// Blocks to apply, each with its raw form for export.
    pub applied: Vec<(RawBlock, Arc<Block>)>,
}

/// Makes the blocks of a dev chain.
pub struct Producer {
    importer: Importer,
    genesis: DevGenesis,
    traffic: Traffic,
    reorgs: Option<Reorgs>,
    /// The head and the blocks below it that a reorg may need: oldest first, never empty.
    chain: VecDeque<Arc<Block>>,
}

/// Schedule of the reorgs.
#[derive(Clone, Copy, Debug)]
struct Reorgs {
    every: u64,
    depth: u64,
    /// Blocks since the last reorg.
    since: u64,
    /// Number of reorgs so far. It is part of every block's content, so a reorg's blocks differ
    /// from those that they replace.
    branch: u64,
}

/// Why a dev chain cannot be made: a value out of bounds, or a bug.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// A value of [`DevConfig`] is out of bounds.
    #[error("{0}")]
    Config(&'static str),
    /// A sample contract cannot be assembled.
    #[error("sample contract: {0}")]
    Assemble(#[from] AssembleError),
    /// A derived key is not valid (one seed in 2^128).
    #[error("this seed gives no valid keys, choose another: {0}")]
    Key(#[from] secp256k1::Error),
    /// The rules of the genesis are not supported.
    #[error("dev genesis: {0}")]
    Spec(#[from] SpecError),
    /// The state cannot be written or read.
    #[error("dev state: {0}")]
    State(#[from] TrieError),
    /// A block cannot be executed.
    #[error("dev block: {0}")]
    Execute(#[from] ExecuteError),
    /// A block does not match its header.
    #[error("dev block: {0}")]
    Import(#[from] ImportError),
    /// The parent's state is not held.
    #[error("the state of block {0} is not held")]
    NoState(u64),
    /// The caller of [`Producer::step_while`] stopped it.
    #[error("stopped")]
    Stopped,
}

impl Producer {
    /// A producer at genesis. While the state is made, `progress` is called with the numbers of
    /// accounts done and in total.
    ///
    /// # Errors
    /// [`DevError::Config`] if a value of `config` is out of bounds; any other error is a bug.
    pub fn new(
        config: DevConfig,
        options: EncodeOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, DevError> {
        let sizes = config.profile.sizes();
        Self::with_sizes(config, sizes, options, progress)
    }

    /// [`Self::new`] with sizes other than the profile's.
    pub(super) fn with_sizes(
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
        let importer = Importer::new(genesis.without_accounts(), options)?;
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

    /// Accounts whose keys derive from the seed; those that only authorize (EIP-7702) come last.
    #[cfg(test)]
    pub(super) fn signers(&self) -> impl Iterator<Item = alloy_primitives::Address> {
        self.traffic.signers.addresses()
    }

    /// The chain's rules.
    #[must_use]
    pub const fn spec(&self) -> &ChainSpec {
        self.importer.spec()
    }

    /// The newest block.
    #[must_use]
    pub fn head(&self) -> &Arc<Block> {
        &self.chain[self.chain.len() - 1]
    }

    /// Makes the next step: one block, or a scheduled reorg, which reverts `reorg_depth` blocks and
    /// applies one more than that.
    ///
    /// A reorg that is due before the chain is long enough is delayed until it is.
    ///
    /// # Errors
    /// Any error is a bug. Blocks reverted by the failed step stay reverted.
    pub fn step(&mut self) -> Result<DevStep, DevError> {
        self.step_while(&mut || true)
    }

    /// Like [`Self::step`], while `running` returns true; it is called before each block.
    ///
    /// # Errors
    /// As [`Self::step`], and [`DevError::Stopped`]. The blocks of an unfinished reorg are lost, so
    /// the producer must not be used again.
    pub fn step_while(&mut self, running: &mut dyn FnMut() -> bool) -> Result<DevStep, DevError> {
        let head = self.head().number();
        let reverted = self
            .reorgs
            .as_mut()
            .map_or(0, |reorgs| reorgs.count_step(head)) as usize;
        self.chain.truncate(self.chain.len() - reverted);
        let applied = (0..=reverted)
            .map(|_| match running() {
                true => self.extend(),
                false => Err(DevError::Stopped),
            })
            .collect::<Result<_, _>>()?;
        Ok(DevStep { reverted, applied })
    }

    /// Adds one block on top of the head.
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
        let (raw, executed) = build_block(spec, &parent, template)?;
        let block = self
            .importer
            .import_executed(&raw, &senders, executed, &parent)?;
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

    /// Counts one step at the head `head`; returns the number of blocks that the step reverts.
    fn count_step(&mut self, head: u64) -> u64 {
        if self.since < self.every || head < self.depth {
            self.since += 1;
            return 0;
        }
        self.since = 0;
        self.branch += 1;
        self.depth
    }
}
