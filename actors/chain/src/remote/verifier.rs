//! From an upstream's answers about one block to a verified block.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, U256};

use super::{
    StatedBlock, StatedReceipts,
    compare::{Ignored, compare, is_verbatim},
    fault::{AnswerKind, MemberError, UpstreamFault},
    header,
    json::parse,
    object_kind::ObjectKind,
    reader::Reader,
    restored_block::RestoredBlock,
};
use crate::{
    block::{Block, BlockParts, LazyJson, RawBlock, Receipt},
    encode::{BlockJson, EncodeOptions},
    import::block_from_parts,
    network::FeeRules,
    trie::{NodeStore, State},
    verify::{self, ReceiptsCommitment, VerifyError},
};

/// Verifies an upstream's answers about the blocks of one chain. The states of all verified blocks
/// share one store.
#[derive(Clone, Debug)]
pub struct Verifier {
    chain_id: u64,
    fee_rules: FeeRules,
    options: EncodeOptions,
    store: Arc<NodeStore>,
}

/// The answers of one upstream about one block, each the `result` of a reply.
#[derive(Clone, Copy, Debug)]
pub struct BlockAnswers<'a> {
    /// eth_getBlockByHash or eth_getBlockByNumber, with transactions in full.
    pub block: &'a [u8],
    /// eth_getBlockReceipts, or an array of the eth_getTransactionReceipt of each transaction.
    pub receipts: &'a [u8],
    /// eth_getUncleByBlockHashAndIndex of each ommer.
    pub ommers: &'a [&'a [u8]],
}

/// The block that an upstream was asked for.
#[derive(Clone, Copy, Debug)]
pub enum RequestedBlock {
    /// The one with this hash.
    Hash(B256),
    /// The one with this number.
    Number(u64),
}

/// A block that was verified.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The block; nothing of its state is known yet.
    pub block: Arc<Block>,
    /// Members that the upstream states and that are not served, as `kind.member`. They are not
    /// checked; at most 32 are kept.
    pub ignored: Vec<String>,
}

/// A block whose receipts are not verified yet; all else is.
#[derive(Debug)]
pub struct VerifiedBody {
    raw: RawBlock,
    hash: B256,
    senders: Vec<Address>,
    total_difficulty: Option<U256>,
}

impl VerifiedBody {
    /// The block's hash.
    #[must_use]
    pub const fn hash(&self) -> B256 {
        self.hash
    }

    /// Hashes of its transactions.
    #[must_use]
    pub fn transaction_hashes(&self) -> Vec<B256> {
        let transactions = self.raw.body.transactions.iter();
        transactions.map(|one| *one.tx_hash()).collect()
    }
}

impl Verifier {
    /// A verifier of the chain with this id.
    #[must_use]
    pub const fn new(
        chain_id: u64,
        fee_rules: FeeRules,
        options: EncodeOptions,
        store: Arc<NodeStore>,
    ) -> Self {
        Self {
            chain_id,
            fee_rules,
            options,
            store,
        }
    }

    /// Verifies everything about a block that needs no receipts. That is most of the work, and it
    /// can be done while the receipts are still being fetched. [`Self::verify_receipts`] does the
    /// rest.
    ///
    /// The caller checks that the block belongs to the chain, by parent hashes.
    ///
    /// # Errors
    /// An [`UpstreamFault`] for the first check that fails.
    pub fn verify_body(
        &self,
        requested: RequestedBlock,
        stated: StatedBlock,
        ommers: &[&[u8]],
    ) -> Result<VerifiedBody, UpstreamFault> {
        let StatedBlock {
            mut raw,
            hash,
            ommer_count,
            total_difficulty,
        } = stated;
        check_requested(requested, &raw.header, hash)?;
        raw.body.ommers = read_ommers(ommer_count, ommers)?;
        check_body(&raw)?;
        let senders = verify::recover_senders_of(self.chain_id, &raw.body.transactions)?;
        Ok(VerifiedBody {
            raw,
            hash,
            senders,
            total_difficulty,
        })
    }

    /// Verifies a block's receipts and makes the block; `answers` are those that `body` and
    /// `stated` were read from.
    ///
    /// Every value that will be served is covered by the block's hash, or derived from what that
    /// hash covers. The members that the upstream states are compared with these values. The one
    /// exception is the total difficulty: no hash covers it, so the upstream's value is served.
    ///
    /// # Errors
    /// An [`UpstreamFault`] for the first check that fails; nothing is held then.
    pub fn verify_receipts(
        &self,
        body: VerifiedBody,
        stated: StatedReceipts,
        answers: &BlockAnswers<'_>,
    ) -> Result<Verified, UpstreamFault> {
        let VerifiedBody {
            raw,
            hash,
            senders,
            total_difficulty,
        } = body;
        check_outcome(&raw, &stated.receipts, &stated.commitment)?;
        let parts = BlockParts {
            raw: &raw,
            hash,
            rlp_length: alloy_rlp::Encodable::length(&raw),
            senders: &senders,
            receipts: &stated.receipts,
            fees: self.fee_rules.fees(&raw.header),
            total_difficulty,
        };
        let json = BlockJson::encode(&parts, self.options)?;
        let ignored = self.compare_all(&json, answers)?;
        Ok(Verified {
            block: self.block(&parts, json.into()),
            ignored: ignored.into_names(),
        })
    }

    /// Verifies a saved block, except that its senders are recovered at the first use of
    /// [`Block::json`].
    ///
    /// # Errors
    /// An [`UpstreamFault`] for the first check that fails; nothing is held then.
    pub(super) fn verify_saved(
        &self,
        hash: B256,
        raw: RawBlock,
        receipts: Vec<Receipt>,
        total_difficulty: Option<U256>,
    ) -> Result<Arc<Block>, UpstreamFault> {
        check_requested(
            RequestedBlock::Hash(hash),
            &raw.header,
            raw.header.hash_slow(),
        )?;
        check_body(&raw)?;
        verify::check_chain_ids(self.chain_id, &raw.body.transactions)?;
        let commitment = ReceiptsCommitment::of(&receipts);
        check_outcome(&raw, &receipts, &commitment)?;
        let block = Arc::new(RestoredBlock {
            chain_id: self.chain_id,
            options: self.options,
            hash,
            fees: self.fee_rules.fees(&raw.header),
            raw,
            receipts,
            total_difficulty,
        });
        Ok(self.block(&block.parts(&[]), Arc::clone(&block).json_at_first_use()))
    }

    /// The block, with a state of which nothing is known yet.
    fn block(&self, parts: &BlockParts<'_>, json: LazyJson) -> Arc<Block> {
        let header = &parts.raw.header;
        // Genesis has no parent.
        let parent = (header.number > 0).then_some(header.parent_hash);
        let ancestors = parent.into_iter().collect();
        Arc::new(Block {
            state: Some(State::hold(&self.store, header.state_root)),
            ..block_from_parts(parts, json, ancestors, Vec::new())
        })
    }

    /// Compares the upstream's JSON with the derived JSON; returns what is not served.
    fn compare_all(
        &self,
        json: &BlockJson,
        answers: &BlockAnswers<'_>,
    ) -> Result<Ignored, UpstreamFault> {
        let mut ignored = Ignored::default();
        let mut check = |answer, kind, stated: &[u8], derived: &[u8]| {
            if is_verbatim(kind, stated, derived) {
                return Ok(());
            }
            let [stated, derived] = [parse(answer, stated)?, parse(answer, derived)?];
            compare(kind, &stated, &derived, &mut ignored)
                .map_err(|error| self.fault(answer, error))
        };
        check(
            AnswerKind::Block,
            ObjectKind::Block,
            answers.block,
            &json.block(true),
        )?;
        check(
            AnswerKind::Receipts,
            ObjectKind::Receipt,
            answers.receipts,
            &json.receipts(),
        )?;
        for (index, stated) in answers.ommers.iter().enumerate() {
            let derived = json.uncle(index).unwrap_or_default();
            check(
                AnswerKind::Ommer(index),
                ObjectKind::Ommer,
                stated,
                &derived,
            )?;
        }
        Ok(ignored)
    }

    /// A wrong blob gas price is a fault of its own, because wrong blob parameters here may cause
    /// it.
    fn fault(&self, answer: AnswerKind, error: MemberError) -> UpstreamFault {
        match error.difference_in("blobGasPrice") {
            Some((stated, derived)) => UpstreamFault::BlobGasPrice {
                stated: stated.to_owned(),
                derived: derived.to_owned(),
                advice: self.fee_rules.advice(),
            },
            None => error.of(answer),
        }
    }
}

fn check_requested(
    requested: RequestedBlock,
    header: &Header,
    hash: B256,
) -> Result<(), UpstreamFault> {
    let (is_requested, requested) = match requested {
        RequestedBlock::Hash(requested) => (hash == requested, requested.to_string()),
        RequestedBlock::Number(requested) => (header.number == requested, requested.to_string()),
    };
    if is_requested {
        return Ok(());
    }
    Err(UpstreamFault::AnotherBlock {
        asked: format!("block {requested}"),
        number: header.number,
        hash,
    })
}

/// Checks the body against the header, but for what its receipts and senders are needed for.
fn check_body(raw: &RawBlock) -> Result<(), VerifyError> {
    verify::check_roots(raw)?;
    verify::check_distinct(&raw.body.transactions)
}

/// Reads the headers of the block's ommers.
fn read_ommers(count: usize, ommers: &[&[u8]]) -> Result<Vec<Header>, UpstreamFault> {
    if count != ommers.len() {
        return Err(UpstreamFault::Count {
            items: "ommers",
            expected: count,
            found: ommers.len(),
        });
    }
    let ommers = ommers.iter().enumerate().map(|(index, json)| {
        let answer = AnswerKind::Ommer(index);
        let value = parse(answer, json)?;
        let ommer = Reader::new(&value).map_err(|error| error.of(answer))?;
        Ok(header::read(answer, ommer)?.0)
    });
    ommers.collect()
}

/// Checks the receipts against the header: count, root, bloom, gas.
fn check_outcome(
    raw: &RawBlock,
    receipts: &[Receipt],
    commitment: &ReceiptsCommitment,
) -> Result<(), UpstreamFault> {
    let (expected, found) = (raw.body.transactions.len(), receipts.len());
    if expected != found {
        return Err(UpstreamFault::Count {
            items: "receipts",
            expected,
            found,
        });
    }
    let header = &raw.header;
    commitment.check(header)?;
    check_gas(header, receipts).map_err(UpstreamFault::from)
}

/// Checks the header's gas against the receipts'.
///
/// Before Amsterdam, both count what the senders paid for, and receipts always do. From Amsterdam
/// on, the header counts gas before refunds (EIP-7778), and only the larger of the sums of
/// execution gas and state gas (EIP-8037): without execution, the limit is all that it can be
/// compared with.
fn check_gas(header: &Header, receipts: &[Receipt]) -> Result<(), VerifyError> {
    if header.block_access_list_hash.is_some() {
        return verify::check_gas_used(header);
    }
    let (expected, found) = (
        receipts.last().map_or(0, Receipt::cumulative_gas_used),
        header.gas_used,
    );
    if expected == found {
        Ok(())
    } else {
        Err(VerifyError::GasUsed { expected, found })
    }
}
