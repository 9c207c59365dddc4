//! Chains to send to a geth: those of files, and those with two branches.

use std::{
    collections::HashMap,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use alloy_primitives::{Address, B256};
use nearhead_chain::{
    block::{Block, RawBlock},
    chain_file::{ChainReader, read_genesis},
    dev::{DevConfig, Producer, Profile},
    encode::EncodeOptions,
    execute::execute,
    import::Importer,
};

use super::payload::Payload;
use crate::harness::scratch;

/// Two branches of a dev chain. The second is one block longer than the blocks that it replaces.
pub(crate) struct Branches {
    /// The genesis file of both.
    pub(crate) genesis: PathBuf,
    /// Blocks from 1 on.
    pub(crate) trunk: Vec<Payload>,
    /// Blocks that replace the end of the trunk.
    pub(crate) branch: Vec<Payload>,
}

impl Branches {
    /// Makes a trunk of this many blocks, and a branch that replaces the last `depth` of them, 127
    /// at most.
    pub(crate) fn make(name: &str, seed: u64, blocks: u64, depth: u64) -> Self {
        // A follower waits about one block time, so a short one keeps tests fast.
        Self::paced(name, seed, [blocks, depth], 1)
    }

    /// The same as [`Self::make`] with this block time: a long one leaves time for what a test does
    /// within it, on any machine.
    pub(crate) fn paced(name: &str, seed: u64, [blocks, depth]: [u64; 2], seconds: u64) -> Self {
        let config = DevConfig {
            seed,
            profile: Profile::Small,
            block_time_seconds: seconds,
            reorg_every: Some(blocks),
            reorg_depth: depth,
        };
        let mut chain = DevSteps::new(name, config);
        let mut step = |reverted: u64| {
            let (found, payloads) = chain.step();
            assert_eq!(found as u64, reverted);
            payloads
        };
        let trunk = (0..blocks).flat_map(|_| step(0)).collect();
        let branch = step(depth);
        Self {
            genesis: chain.genesis,
            trunk,
            branch,
        }
    }
}

/// The genesis and the steps of a dev chain: each makes a block; every `every`-th one replaces the
/// last `depth` blocks too.
pub(crate) fn steps(
    name: &str,
    seed: u64,
    count: u64,
    reorgs: (u64, u64),
) -> (PathBuf, Vec<Vec<Payload>>) {
    // A merge gets half of it, on any machine.
    paced_steps(name, seed, count, reorgs, 12)
}

/// The same as [`steps`] with this block time.
pub(crate) fn paced_steps(
    name: &str,
    seed: u64,
    count: u64,
    (every, depth): (u64, u64),
    seconds: u64,
) -> (PathBuf, Vec<Vec<Payload>>) {
    let config = DevConfig {
        seed,
        profile: Profile::Small,
        block_time_seconds: seconds,
        reorg_every: Some(every),
        reorg_depth: depth,
    };
    let mut chain = DevSteps::new(name, config);
    let steps = (0..count).map(|_| chain.step().1).collect();
    (chain.genesis, steps)
}

/// A dev chain that is made step by step, as payloads of the engine API.
struct DevSteps {
    genesis: PathBuf,
    producer: Producer,
    execution: Execution,
}

impl DevSteps {
    fn new(name: &str, config: DevConfig) -> Self {
        let producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| {}).unwrap();
        let genesis = scratch(name).join("genesis.json");
        let file = File::create(&genesis).unwrap();
        producer.genesis().write_json(file).unwrap();
        Self {
            execution: Execution::of(&genesis),
            genesis,
            producer,
        }
    }

    /// The number of reverted blocks, and the blocks that follow.
    fn step(&mut self) -> (usize, Vec<Payload>) {
        let step = self.producer.step().unwrap();
        let raw = step.applied.into_iter().map(|(raw, _)| raw);
        (
            step.reverted,
            raw.map(|raw| self.execution.payload(raw)).collect(),
        )
    }
}

/// The blocks of genesis.json and chain.rlp: those before the merge, which have to be imported
/// because the engine API takes none of them, and those after it.
pub(crate) fn of_files(genesis: &Path, chain: &Path) -> (Vec<RawBlock>, Vec<Payload>) {
    let mut execution = Execution::of(genesis);
    let (mut before, mut payloads) = (Vec::new(), Vec::new());
    for raw in ChainReader::new(File::open(chain).unwrap()).unwrap() {
        let raw = raw.unwrap();
        let is_merged = raw.header.difficulty.is_zero();
        let payload = execution.payload(raw);
        match is_merged {
            true => payloads.push(payload),
            false => before.push(payload.raw),
        }
    }
    (before, payloads)
}

/// Executes blocks to get their requests, which their RLP does not contain.
struct Execution {
    importer: Importer,
    blocks: HashMap<B256, Arc<Block>>,
}

impl Execution {
    fn of(genesis: &Path) -> Self {
        let genesis = read_genesis(&fs::read(genesis).unwrap()).unwrap();
        let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
        let first = importer.genesis(&genesis.alloc).unwrap();
        Self {
            importer,
            blocks: HashMap::from([(first.hash, first)]),
        }
    }

    fn payload(&mut self, raw: RawBlock) -> Payload {
        let parent = &self.blocks[&raw.header.parent_hash];
        let transactions = raw.body.transactions.iter();
        let senders: Vec<Address> = transactions
            .map(|transaction| transaction.sender_source().address().unwrap())
            .collect();
        let executed = execute(self.importer.spec(), parent, &raw, &senders).unwrap();
        let requests = executed.requests.clone();
        let block = self
            .importer
            .import_executed(&raw, &senders, executed, parent)
            .unwrap();
        self.blocks.insert(block.hash, block);
        Payload::of(raw, &requests)
    }
}
