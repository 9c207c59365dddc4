//! A block and its receipts as an upstream states them, decoded once.
//!
//! Only what hashes cover is decoded, and only the header's own hash is checked here.

use alloy_consensus::{BlockBody, Header};
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_primitives::{B256, U256};

use super::{
    fault::{AnswerKind, MemberError, UpstreamFault},
    header,
    json::{Value, parse},
    reader::{Reader, array, fixed, u64, u256},
    receipt,
};
use crate::{
    block::{Block, RawBlock, Receipt},
    chain_file::BLOCK_TRANSACTIONS_MAX,
    network::transaction::{self, ReadError},
    verify::{self, ReceiptsCommitment},
};

/// A header with its hash, which has been checked.
#[derive(Clone, Debug)]
pub struct StatedHeader {
    header: Header,
    hash: B256,
}

impl StatedHeader {
    /// Reads the `result` of eth_getBlockByHash or eth_getBlockByNumber, whatever that has of the
    /// transactions.
    ///
    /// # Errors
    /// An [`UpstreamFault`] with the first thing that is wrong.
    pub fn read(json: &[u8]) -> Result<Self, UpstreamFault> {
        let value = parse(AnswerKind::Block, json)?;
        let block = Reader::new(&value).map_err(|error| error.of(AnswerKind::Block))?;
        let (header, hash) = header::read(AnswerKind::Block, block)?;
        Ok(Self { header, hash })
    }

    /// The header, whose hash is [`Self::hash`].
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// keccak256 of the header's RLP.
    #[must_use]
    pub const fn hash(&self) -> B256 {
        self.hash
    }
}

impl From<&Block> for StatedHeader {
    fn from(block: &Block) -> Self {
        Self {
            header: block.header.clone(),
            hash: block.hash,
        }
    }
}

/// A block as an upstream states it, with full transactions.
///
/// Only the header's hash has been checked.
#[derive(Clone, Debug)]
pub struct StatedBlock {
    /// Without its ommers, which are fetched one by one.
    pub(super) raw: RawBlock,
    pub(super) hash: B256,
    /// Number of ommer hashes.
    pub(super) ommer_count: usize,
    /// The one member that no hash covers and that is taken from the upstream.
    pub(super) total_difficulty: Option<U256>,
}

impl StatedBlock {
    /// Reads the `result` of eth_getBlockByHash or eth_getBlockByNumber.
    ///
    /// # Errors
    /// An [`UpstreamFault`] with the first thing that is wrong.
    pub fn read(json: &[u8]) -> Result<Self, UpstreamFault> {
        let wrong = |error: MemberError| error.of(AnswerKind::Block);
        let value = parse(AnswerKind::Block, json)?;
        let block = Reader::new(&value).map_err(wrong)?;
        let (header, hash) = header::read(AnswerKind::Block, block)?;
        let transactions = block
            .get("transactions", list)
            .map_err(wrong)?
            .iter()
            .enumerate()
            .map(|(index, value)| transaction::read(value).map_err(|error| error.in_block(index)))
            .collect::<Result<_, _>>()
            .map_err(|error| match error {
                ReadError::Member(error) => wrong(error),
                ReadError::Type(found) => UpstreamFault::TransactionType {
                    number: header.number,
                    found,
                },
            })?;
        let body = BlockBody {
            transactions,
            ommers: Vec::new(),
            withdrawals: read_withdrawals(block).map_err(wrong)?,
        };
        Ok(Self {
            raw: RawBlock { header, body },
            hash,
            ommer_count: block.get("uncles", ommer_count).map_err(wrong)?,
            total_difficulty: block.find("totalDifficulty", u256).map_err(wrong)?,
        })
    }

    /// The header, whose hash is [`Self::hash`].
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.raw.header
    }

    /// keccak256 of the header's RLP.
    #[must_use]
    pub const fn hash(&self) -> B256 {
        self.hash
    }

    /// Number of its ommers, two at most.
    #[must_use]
    pub const fn ommer_count(&self) -> usize {
        self.ommer_count
    }
}

/// A block's receipts as an upstream states them, and the commitment to them.
#[derive(Clone, Debug)]
pub struct StatedReceipts {
    pub(super) receipts: Vec<Receipt>,
    pub(super) commitment: ReceiptsCommitment,
}

impl StatedReceipts {
    /// Reads the `result` of eth_getBlockReceipts, or an array of the eth_getTransactionReceipt
    /// results of all transactions. The block need not be known.
    ///
    /// # Errors
    /// An [`UpstreamFault`] with the first thing that is wrong.
    pub fn read(json: &[u8]) -> Result<Self, UpstreamFault> {
        let answer = AnswerKind::Receipts;
        let value = parse(answer, json)?;
        let receipts = list(&value).map_err(|error| error.of(answer))?;
        let receipts = receipts.iter().enumerate();
        let receipts = receipts
            .map(|(index, value)| match value {
                // An upstream that does not have the receipt yet.
                Value::Null => Err(UpstreamFault::Absent { answer }),
                value => receipt::read(value).map_err(|error| error.in_item(index).of(answer)),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let commitment = ReceiptsCommitment::of(&receipts);
        Ok(Self {
            receipts,
            commitment,
        })
    }
}

/// The items of an array that has one for each transaction.
fn list<'v, 'a>(value: &'v Value<'a>) -> Result<&'v [Value<'a>], MemberError> {
    match value {
        Value::Array(items) if items.len() <= BLOCK_TRANSACTIONS_MAX => Ok(items),
        Value::Array(_) => Err(MemberError::shape(
            "an array with at most one item for each transaction that fits in a block",
        )),
        _ => Err(MemberError::shape("an array")),
    }
}

/// Number of ommers; bounded, because each is one more call.
fn ommer_count(value: &Value<'_>) -> Result<usize, MemberError> {
    let hashes: Vec<B256> = array(value, fixed)?;
    if hashes.len() > verify::OMMERS_MAX {
        return Err(MemberError::shape("an array of at most 2 hashes"));
    }
    Ok(hashes.len())
}

/// Reads the withdrawals of a block, which has none before Shanghai.
pub(crate) fn read_withdrawals(block: Reader<'_, '_>) -> Result<Option<Withdrawals>, MemberError> {
    let list = block.find("withdrawals", |list| array(list, withdrawal))?;
    Ok(list.map(Withdrawals::new))
}

fn withdrawal(value: &Value<'_>) -> Result<Withdrawal, MemberError> {
    let withdrawal = Reader::new(value)?;
    Ok(Withdrawal {
        index: withdrawal.get("index", u64)?,
        validator_index: withdrawal.get("validatorIndex", u64)?,
        address: withdrawal.get("address", fixed)?,
        amount: withdrawal.get("amount", u64)?,
    })
}
