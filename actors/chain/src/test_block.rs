//! Synthetic blocks for tests: real headers and real JSON, without execution.

use std::sync::Arc;

use alloy_consensus::{BlockBody, Eip658Value, Header, Receipt as PlainReceipt, Signed, TxLegacy};
use alloy_primitives::{Address, B256, Log, Signature, U256};

use crate::{
    block::{ANCESTORS_MAX, Block, BlockParts, RawBlock, Receipt, Transaction, TxType},
    encode::{BlockJson, EncodeOptions},
    fees::BlockFees,
    log_search::LogPostings,
    network::HeaderFees,
};

/// A recipe for a block.
#[derive(Clone, Debug, Default)]
pub struct TestBlock {
    /// Makes siblings differ.
    pub salt: u64,
    /// The transactions: each a number, which determines its hash, and its logs.
    pub transactions: Vec<(u64, Vec<Log>)>,
}

/// The hash of the transaction with this number.
#[must_use]
pub(crate) fn transaction_hash(number: u64) -> B256 {
    alloy_primitives::keccak256(number.to_be_bytes())
}

impl TestBlock {
    /// The block as block 0.
    #[must_use]
    pub fn genesis(&self) -> Arc<Block> {
        self.at(0, B256::ZERO, Arc::from([]), U256::ZERO)
    }

    /// The block on ancestors that are known by their hashes alone.
    #[must_use]
    pub fn orphan(&self, number: u64, ancestors: Arc<[B256]>) -> Arc<Block> {
        let parent = ancestors.first().copied().unwrap_or_default();
        self.at(number, parent, ancestors, U256::from(number))
    }

    /// The block as a child of `parent`.
    #[must_use]
    pub fn child_of(&self, parent: &Block) -> Arc<Block> {
        let older = parent.ancestors.iter().copied();
        let ancestors = std::iter::once(parent.hash).chain(older);
        let before = parent.total_difficulty.unwrap_or_default();
        let total_difficulty = before + U256::from(1);
        let ancestors = ancestors.take(ANCESTORS_MAX).collect();
        self.at(
            parent.number() + 1,
            parent.hash,
            ancestors,
            total_difficulty,
        )
    }

    fn at(
        &self,
        number: u64,
        parent_hash: B256,
        ancestors: Arc<[B256]>,
        total_difficulty: U256,
    ) -> Arc<Block> {
        let header = Header {
            parent_hash,
            number,
            difficulty: U256::from(1),
            extra_data: self.salt.to_be_bytes().into(),
            ..Header::default()
        };
        let hash = header.hash_slow();
        let receipts: Vec<_> = self
            .transactions
            .iter()
            .map(|(_, logs)| receipt(logs))
            .collect();
        let transactions = self
            .transactions
            .iter()
            .map(|(number, _)| transaction(*number));
        let body = BlockBody {
            transactions: transactions.collect(),
            ..BlockBody::default()
        };
        let raw = RawBlock { header, body };
        let parts = BlockParts {
            raw: &raw,
            hash,
            rlp_length: 1_000,
            senders: &vec![Address::ZERO; receipts.len()],
            receipts: &receipts,
            fees: HeaderFees::default(),
            total_difficulty: Some(total_difficulty),
        };
        let json = BlockJson::encode(&parts, EncodeOptions::default());
        let logs = receipts.iter().flat_map(Receipt::logs);
        let numbers = self.transactions.iter().map(|(number, _)| *number);
        Arc::new(Block {
            hash,
            transaction_hashes: numbers.map(transaction_hash).collect(),
            total_difficulty: parts.total_difficulty,
            ancestors,
            ommer_ancestors: Vec::new(),
            lazy_json: json.expect("the block is small").into(),
            postings: LogPostings::new(logs),
            fees: BlockFees::new(&parts),
            state: None,
            header: raw.header,
        })
    }
}

fn transaction(number: u64) -> Transaction {
    let signature = Signature::test_signature();
    let transaction = TxLegacy {
        nonce: number,
        ..TxLegacy::default()
    };
    Signed::new_unchecked(transaction, signature, transaction_hash(number)).into()
}

fn receipt(logs: &[Log]) -> Receipt {
    let receipt = PlainReceipt {
        status: Eip658Value::Eip658(true),
        cumulative_gas_used: 21_000,
        logs: logs.to_vec(),
    };
    Receipt::from_typed(TxType::Legacy, receipt)
}
