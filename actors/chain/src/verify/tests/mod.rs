#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod body;
mod difficulty;
mod header;
mod header_rules;
mod ommers;
mod senders;

use std::sync::Arc;

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, Header, Signed, TxLegacy, proofs};
use alloy_eips::eip4895::Withdrawals;
use alloy_genesis::Genesis;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B64, B256, Bytes, Signature, U256, uint};

use super::*;
use crate::{
    block::{OmmerAncestor, RawBlock, Transaction},
    fixture,
    network::{ChainSpec, Rules},
};

/// The blocks of execution-apis, and the rules to check them by.
struct RawChain {
    spec: ChainSpec,
    blocks: Vec<RawBlock>,
}

impl RawChain {
    fn new() -> Self {
        Self::with_rules(|_| ())
    }

    /// The same blocks, with changed rules.
    fn with_rules(change: impl FnOnce(&mut Genesis)) -> Self {
        let mut genesis = fixture::genesis();
        let header = fixture::genesis_header(&genesis);
        change(&mut genesis);
        let first = RawBlock {
            header,
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

    fn ommer_ancestors(&self, number: usize) -> Vec<Arc<OmmerAncestor>> {
        let ommer_ancestor = |block: &RawBlock| OmmerAncestor {
            hash: block.header.hash_slow(),
            header: block.header.clone(),
            ommers: block.body.ommers_hashes().collect(),
        };
        self.blocks[..number]
            .iter()
            .rev()
            .map(ommer_ancestor)
            .map(Arc::new)
            .collect()
    }

    /// Runs all checks before execution on a block in the place of block `number`.
    fn verify(&self, number: usize, block: &RawBlock) -> Result<(), VerifyError> {
        let rules = self.rules(number, block.header.timestamp);
        let parent = self.parent(number);
        check_header(&rules, parent, parent.hash_slow(), &block.header)?;
        check_body(&rules, block)?;
        check_ommers(&rules, &self.ommer_ancestors(number), &block.body.ommers)?;
        recover_senders(&rules, &block.body.transactions).map(drop)
    }

    /// Changes one thing in block `number`; `expected` makes the error from the good and the
    /// changed block.
    #[track_caller]
    fn check(
        &self,
        name: &str,
        number: usize,
        change: impl FnOnce(&mut RawBlock),
        expected: impl FnOnce(&RawBlock, &RawBlock) -> VerifyError,
    ) {
        let good = &self.blocks[number];
        let mut changed = good.clone();
        change(&mut changed);
        let result = self.verify(number, &changed);
        assert_eq!(result, Err(expected(good, &changed)), "{name}");
    }

    /// Like [`Self::check`], for the ommers of block `number`; the ommers hash is recomputed.
    #[track_caller]
    fn check_ommers(
        &self,
        name: &str,
        number: usize,
        change: impl FnOnce(&mut Vec<Header>),
        expected: impl FnOnce(&[Header]) -> VerifyError,
    ) {
        let change = |block: &mut RawBlock| {
            change(&mut block.body.ommers);
            block.header.ommers_hash = block.body.calculate_ommers_root();
        };
        self.check(name, number, change, |_, changed| {
            expected(&changed.body.ommers)
        });
    }

    /// Like [`Self::check`], for the first transaction of block `number`; the transactions root is
    /// recomputed.
    #[track_caller]
    fn check_transaction(
        &self,
        name: &str,
        number: usize,
        change: impl FnOnce(&TxLegacy, &Signature) -> (TxLegacy, Signature),
        expected: impl FnOnce(B256) -> VerifyError,
    ) {
        let change = |block: &mut RawBlock| {
            let first = &mut block.body.transactions[0];
            let Transaction::Legacy(signed) = first else {
                panic!("not a legacy transaction")
            };
            let (transaction, signature) = change(signed.tx(), signed.signature());
            *first = Transaction::Legacy(Signed::new_unhashed(transaction, signature));
            block.header.transactions_root =
                proofs::calculate_transaction_root(&block.body.transactions);
        };
        self.check(name, number, change, |_, changed| {
            expected(*changed.body.transactions[0].tx_hash())
        });
    }
}

#[test]
fn every_block_of_execution_apis_passes_all_checks() {
    let chain = RawChain::new();
    assert_eq!(chain.blocks.len(), 55);
    for number in 1..chain.blocks.len() {
        assert_eq!(
            chain.verify(number, &chain.blocks[number]),
            Ok(()),
            "block {number}"
        );
    }
}
