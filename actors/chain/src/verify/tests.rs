#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::U256;

use super::*;
use crate::{
    block::{Kin, RawBlock},
    execute::{ChainSpec, Rules},
    fixture,
};

/// The chain of execution-apis up to some block, as much of it as the checks look at.
struct Chain {
    spec: ChainSpec,
    blocks: Vec<RawBlock>,
}

impl Chain {
    fn new() -> Self {
        let genesis = fixture::genesis();
        let first = RawBlock {
            header: fixture::genesis_header(&genesis),
            body: Default::default(),
        };
        let blocks = std::iter::once(first).chain(fixture::blocks()).collect();
        Self {
            spec: ChainSpec::from_genesis(&genesis).unwrap(),
            blocks,
        }
    }

    fn parent(&self, number: usize) -> &Header {
        &self.blocks[number - 1].header
    }

    fn rules(&self, number: usize, timestamp: u64) -> Rules<'_> {
        let total: U256 = self.blocks[..number]
            .iter()
            .map(|block| block.header.difficulty)
            .sum();
        let merged = self
            .spec
            .merged_after(self.parent(number).difficulty, Some(total));
        self.spec.rules(number as u64, timestamp, merged)
    }

    fn kin(&self, number: usize) -> Vec<Arc<Kin>> {
        let kin = |block: &RawBlock| Kin {
            hash: block.header.hash_slow(),
            header: block.header.clone(),
            ommers: block.body.ommers_hashes().collect(),
        };
        self.blocks[..number]
            .iter()
            .rev()
            .map(kin)
            .map(Arc::new)
            .collect()
    }

    /// Everything that is checked before execution, for a block in the place of block `number`.
    fn judge(&self, number: usize, block: &RawBlock) -> Result<(), VerifyError> {
        let rules = self.rules(number, block.header.timestamp);
        let parent = self.parent(number);
        check_header(&rules, parent, parent.hash_slow(), &block.header)?;
        check_body(&rules, block)?;
        check_ommers(&rules, &self.kin(number), &block.body.ommers)?;
        recover_senders(&rules, &block.body.transactions).map(drop)
    }
}

#[test]
fn every_block_of_execution_apis_keeps_its_promises() {
    let chain = Chain::new();
    assert_eq!(chain.blocks.len(), 55);
    for number in 1..chain.blocks.len() {
        assert_eq!(
            chain.judge(number, &chain.blocks[number]),
            Ok(()),
            "block {number}"
        );
    }
}
