//! Verifies the answers of honest upstreams and of lying ones.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[cfg(feature = "all-tests")]
mod arbitrary;
mod blocks;
#[cfg(feature = "all-tests")]
mod header;
mod liar;
mod proofs;
mod random;
mod saved;

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::{
    BlockAnswers, RequestedBlock, StatedBlock, StatedReceipts, UpstreamFault, Verified, Verifier,
};
use crate::{
    block::Block,
    dev::{CHAIN_ID, DevConfig, Producer, Profile},
    encode::EncodeOptions,
    network::FeeRules,
    trie::NodeStore,
};

/// An executed chain, and a verifier for answers about it.
pub(super) struct ExecutedChain {
    pub(super) blocks: Vec<Arc<Block>>,
    pub(super) verifier: Verifier,
}

/// The 55 blocks of execution-apis, from Frontier to BPO2: ommers, receipts with state roots,
/// withdrawals, every type of transaction.
#[cfg(feature = "all-tests")]
pub(super) static EXECUTION_APIS: LazyLock<ExecutedChain> = LazyLock::new(|| {
    use crate::{fixture, import::Importer, network::ChainSpec};
    let genesis = fixture::genesis();
    let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
    let mut blocks = vec![importer.genesis(&genesis.alloc).unwrap()];
    for raw in fixture::blocks() {
        let block = importer.import(raw, blocks.last().unwrap()).unwrap();
        blocks.push(block);
    }
    let rules = FeeRules::of_genesis(ChainSpec::from_genesis(&genesis).unwrap());
    ExecutedChain {
        blocks,
        verifier: verifier(genesis.config.chain_id, rules),
    }
});

/// The genesis and ten blocks of the dev chain: all forks active, all kinds of transactions,
/// creations, logs.
pub(super) static DEV: LazyLock<ExecutedChain> = LazyLock::new(|| {
    let config = DevConfig {
        seed: 7,
        profile: Profile::Small,
        block_time_seconds: 1,
        reorg_every: None,
        reorg_depth: 1,
    };
    let mut producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| ()).unwrap();
    let mut blocks = vec![Arc::clone(producer.head())];
    for _ in 0..10 {
        let step = producer.step().unwrap();
        blocks.extend(step.applied.into_iter().map(|(_, block)| block));
    }
    ExecutedChain {
        blocks,
        verifier: verifier(CHAIN_ID, FeeRules::of_chain(CHAIN_ID)),
    }
});

fn verifier(chain_id: u64, rules: FeeRules) -> Verifier {
    Verifier::new(chain_id, rules, EncodeOptions::default(), NodeStore::new())
}

/// All answers of one upstream about one block.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) block: Vec<u8>,
    pub(super) receipts: Vec<u8>,
    pub(super) ommers: Vec<Vec<u8>>,
}

impl Statement {
    /// The answers of an honest upstream.
    pub(super) fn of(block: &Block) -> Self {
        let ommers =
            (0..block.json().uncle_count()).map(|index| block.json().uncle(index).unwrap());
        Self {
            block: block.json().block(true).to_vec(),
            receipts: block.json().receipts().to_vec(),
            ommers: ommers.map(|ommer| ommer.to_vec()).collect(),
        }
    }

    pub(super) fn verify(
        &self,
        verifier: &Verifier,
        requested: RequestedBlock,
    ) -> Result<Verified, UpstreamFault> {
        let ommers: Vec<_> = self.ommers.iter().map(Vec::as_slice).collect();
        let answers = BlockAnswers {
            block: &self.block,
            receipts: &self.receipts,
            ommers: &ommers,
        };
        let body = verifier.verify_body(requested, StatedBlock::read(&self.block)?, &ommers)?;
        verifier.verify_receipts(body, StatedReceipts::read(&self.receipts)?, &answers)
    }
}

/// The JSON that is served of a block: full, with hashes only, receipts, ommers.
pub(super) fn served(block: &Block) -> [Vec<u8>; 4] {
    let Statement {
        block: full,
        receipts,
        ommers,
    } = Statement::of(block);
    [
        full,
        block.json().block(false).to_vec(),
        receipts,
        ommers.concat(),
    ]
}

/// What is served of a block and covered by its hash: all but the total difficulty.
pub(super) fn covered(block: &Block) -> ([Value; 2], [Vec<u8>; 2]) {
    let [full, short, receipts, ommers] = served(block);
    let without_total = |json: Vec<u8>| {
        let mut value = parsed(&json);
        value["totalDifficulty"] = Value::Null;
        value
    };
    ([full, short].map(without_total), [receipts, ommers])
}

pub(super) fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap()
}
