//! A node's answers about one block, made into a block that may be trusted.

use std::sync::Arc;

use alloy_consensus::{BlockBody, Header};
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_primitives::{Address, B256, U256};

use super::{
    blob_rules::BlobRules,
    compare::{Ignored, Kind, compare},
    fault::{Answer, NodeFault, Wrong},
    header,
    json::{Value, parse},
    reader::{Reader, array, fixed, u64, u256},
    receipt,
    transaction::{self, Unread},
};
use crate::{
    block::{Block, BlockParts, RawBlock, Receipt, Transaction},
    chain_file::BLOCK_TRANSACTIONS_MAX,
    encode::{BlockJson, EncodeOptions},
    import::{Lineage, hold_block},
    trie::{NodeStore, State},
    verify::{self, VerifyError},
};

/// Verifies a node's answers about the blocks of one chain; the states of what it makes are held over one store.
#[derive(Clone, Debug)]
pub struct Verifier {
    chain_id: u64,
    blob_rules: BlobRules,
    options: EncodeOptions,
    store: Arc<NodeStore>,
}

/// Answers of one node about one block, each the `result` of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// eth_getBlockByHash or eth_getBlockByNumber, with transactions in full.
    pub block: &'a [u8],
    /// eth_getBlockReceipts, or an array of what eth_getTransactionReceipt says of each transaction.
    pub receipts: &'a [u8],
    /// eth_getUncleByBlockHashAndIndex of each ommer.
    pub ommers: &'a [&'a [u8]],
}

/// Which block a node was asked for.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// The one with this hash.
    Hash(B256),
    /// The one with this number.
    Number(u64),
    /// A child of this one.
    ChildOf(&'a Block),
    /// The parent of this one.
    ParentOf(&'a Block),
}

/// A block that was verified.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The block; of its state nothing is known yet.
    pub block: Arc<Block>,
    /// Members that the node states and that are not served, as `kind.member`: not checked, some of them at most.
    pub ignored: Vec<String>,
}

/// A block without its receipts, verified as far as that goes.
#[derive(Debug)]
pub struct VerifiedBody {
    raw: RawBlock,
    hash: B256,
    senders: Vec<Address>,
    lineage: Lineage,
}

/// What a node says of a block before anything beyond its header is checked: enough to ask for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedBlock {
    /// The header, whose hash is the next member.
    pub header: Header,
    /// keccak256 of the header's RLP.
    pub hash: B256,
    /// Hashes of its transactions, as stated, [`BLOCK_TRANSACTIONS_MAX`] at most; none in an announcement of a header.
    pub transactions: Vec<B256>,
    /// Number of its ommers, as stated, two at most; none in an announcement of a header.
    pub ommers: usize,
}

impl StatedBlock {
    /// Reads a block with its transactions in full or by hash, or a header as newHeads has it.
    ///
    /// # Errors
    /// A [`NodeFault`] with the first thing that is wrong.
    pub fn read(json: &[u8]) -> Result<Self, NodeFault> {
        let answer = Answer::Block;
        let value = parse(answer, json)?;
        let block = Reader::new(&value).map_err(|why| why.of(answer))?;
        let (header, hash) = header::read(answer, block)?;
        let transaction = |value| match value {
            &Value::Text(_) => fixed(value),
            _ => Reader::new(value)?.get("hash", fixed),
        };
        let lists = || {
            let transactions = block.find("transactions", |list| {
                read_list(list)?;
                array(list, transaction)
            })?;
            let ommers = block.find("uncles", ommer_hashes)?;
            Ok((
                transactions.unwrap_or_default(),
                ommers.map_or(0, |list| list.len()),
            ))
        };
        let (transactions, ommers) = lists().map_err(|why: Wrong| why.of(answer))?;
        Ok(Self {
            header,
            hash,
            transactions,
            ommers,
        })
    }
}

impl Verifier {
    /// A verifier of the chain with this id.
    #[must_use]
    pub const fn new(
        chain_id: u64,
        blob_rules: BlobRules,
        options: EncodeOptions,
        store: Arc<NodeStore>,
    ) -> Self {
        Self {
            chain_id,
            blob_rules,
            options,
            store,
        }
    }

    /// The store that the states of all verified blocks share.
    #[must_use]
    pub const fn store(&self) -> &Arc<NodeStore> {
        &self.store
    }

    /// Verifies a block: everything that it will serve is covered by its hash, or follows from what is, and whatever else
    /// the node said of it was compared with that.
    ///
    /// The one exception is the total difficulty, which nothing covers: it is the node's where no neighbour has one.
    /// Whether the chain itself is the right one is not asked here: that is what hashes of parents are for.
    ///
    /// # Errors
    /// A [`NodeFault`] with the first promise that the node broke; nothing is held then.
    pub fn verify(&self, asked: Asked<'_>, answers: &Answers<'_>) -> Result<Verified, NodeFault> {
        let body = self.verify_body(asked, answers.block, answers.ommers)?;
        self.verify_rest(body, answers)
    }

    /// The first half of [`Self::verify`], which needs no receipts: two thirds of the work can be done while they are under
    /// way.
    ///
    /// # Errors
    /// A [`NodeFault`] with the first promise that the node broke.
    pub fn verify_body(
        &self,
        asked: Asked<'_>,
        block: &[u8],
        ommers: &[&[u8]],
    ) -> Result<VerifiedBody, NodeFault> {
        let stated = parse(Answer::Block, block)?;
        let block = Reader::new(&stated).map_err(|why| why.of(Answer::Block))?;
        let (header, hash) = header::read(Answer::Block, block)?;
        check_asked(asked, &header, hash)?;
        let raw = read_block(block, header, &parse_all(ommers)?)?;
        verify::check_roots(&raw)?;
        let senders = verify::recover_senders_of(self.chain_id, &raw.body.transactions)?;
        let lineage = lineage(asked, &raw.header, block)?;
        Ok(VerifiedBody {
            raw,
            hash,
            senders,
            lineage,
        })
    }

    /// The second half of [`Self::verify`], of a body that was made of the same answers.
    ///
    /// # Errors
    /// A [`NodeFault`] with the first promise that the node broke; nothing is held then.
    pub fn verify_rest(
        &self,
        body: VerifiedBody,
        answers: &Answers<'_>,
    ) -> Result<Verified, NodeFault> {
        let VerifiedBody {
            raw,
            hash,
            senders,
            lineage,
        } = body;
        let stated_receipts = parse(Answer::Receipts, answers.receipts)?;
        let receipts = read_receipts(&stated_receipts, &raw.body.transactions)?;
        check_outcome(&raw, &receipts)?;
        let parts = BlockParts {
            raw: &raw,
            hash,
            rlp_length: alloy_rlp::Encodable::length(&raw),
            senders: &senders,
            receipts: &receipts,
            blob_gas_price: self.blob_rules.price(&raw.header),
            total_difficulty: lineage.total_difficulty,
        };
        let json = BlockJson::encode(&parts, self.options)?;
        let ignored = self.compare_all(&json, answers, &stated_receipts)?;
        let block = Block {
            state: Some(State::hold(&self.store, raw.header.state_root)),
            ..hold_block(&parts, json, lineage.ancestors, Vec::new())
        };
        Ok(Verified {
            block: Arc::new(block),
            ignored: ignored.into_names(),
        })
    }

    /// What the node stated against what will be served; what it stated beyond that.
    fn compare_all(
        &self,
        json: &BlockJson,
        answers: &Answers<'_>,
        receipts: &Value<'_>,
    ) -> Result<Ignored, NodeFault> {
        let mut ignored = Ignored::default();
        let mut check = |answer, kind, stated: &Value<'_>, derived: &[u8]| {
            let derived = parse(answer, derived)?;
            compare(kind, stated, &derived, &mut ignored).map_err(|why| self.fault(answer, why))
        };
        // Most nodes write as geth does, and so do we: then nothing is taken apart.
        let derived = json.block(true);
        if *answers.block != *derived {
            let stated = parse(Answer::Block, answers.block)?;
            check(Answer::Block, Kind::Block, &stated, &derived)?;
        }
        let derived = json.receipts();
        if *answers.receipts != *derived {
            check(Answer::Receipts, Kind::Receipt, receipts, &derived)?;
        }
        for (index, stated) in answers.ommers.iter().copied().enumerate() {
            let answer = Answer::Ommer(index);
            let derived = json.uncle(index).unwrap_or_default();
            if *stated != *derived {
                check(answer, Kind::Ommer, &parse(answer, stated)?, &derived)?;
            }
        }
        Ok(ignored)
    }

    /// A difference that these rules may be to blame for is another fault than one that only the node can be.
    fn fault(&self, answer: Answer, why: Wrong) -> NodeFault {
        match why.difference_in("blobGasPrice") {
            Some((stated, derived)) => NodeFault::BlobGasPrice {
                stated: stated.to_owned(),
                derived: derived.to_owned(),
                advice: self.blob_rules.advice(),
            },
            None => why.of(answer),
        }
    }
}

fn check_asked(asked: Asked<'_>, header: &Header, hash: B256) -> Result<(), NodeFault> {
    let (is_asked, asked) = match asked {
        Asked::Hash(asked) => (hash == asked, format!("block {asked}")),
        Asked::Number(asked) => (header.number == asked, format!("block {asked}")),
        Asked::ChildOf(parent) => (
            header.parent_hash == parent.hash
                && Some(header.number) == parent.number().checked_add(1),
            format!("a child of block {} {}", parent.number(), parent.hash),
        ),
        Asked::ParentOf(child) => (
            hash == child.header.parent_hash
                && header.number.checked_add(1) == Some(child.number()),
            format!("the parent of block {} {}", child.number(), child.hash),
        ),
    };
    if is_asked {
        return Ok(());
    }
    let number = header.number;
    Err(NodeFault::AnotherBlock {
        asked,
        number,
        hash,
    })
}

fn parse_all<'a>(ommers: &[&'a [u8]]) -> Result<Vec<Value<'a>>, NodeFault> {
    let ommers = ommers.iter().enumerate();
    ommers
        .map(|(index, json)| parse(Answer::Ommer(index), json))
        .collect()
}

/// The block as its RLP would say it; nothing of its body is checked yet.
fn read_block(
    block: Reader<'_, '_>,
    header: Header,
    ommers: &[Value<'_>],
) -> Result<RawBlock, NodeFault> {
    let wrong = |why: Wrong| why.of(Answer::Block);
    let transactions = block
        .get("transactions", read_list)
        .map_err(wrong)?
        .iter()
        .enumerate()
        .map(|(index, value)| transaction::read(value).map_err(|why| why.in_block(index)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|why| match why {
            Unread::Wrong(why) => wrong(why),
            Unread::Type(found) => NodeFault::TransactionType {
                number: header.number,
                found,
            },
        })?;
    let hashes = block.get("uncles", ommer_hashes).map_err(wrong)?;
    if hashes.len() != ommers.len() {
        return Err(NodeFault::Count {
            answer: Answer::Ommer(0),
            expected: hashes.len(),
            found: ommers.len(),
        });
    }
    let ommers = ommers.iter().enumerate().map(|(index, value)| {
        let answer = Answer::Ommer(index);
        let ommer = Reader::new(value).map_err(|why| why.of(answer))?;
        Ok(header::read(answer, ommer)?.0)
    });
    let ommers = ommers.collect::<Result<_, NodeFault>>()?;
    let withdrawals = block
        .find("withdrawals", |list| array(list, withdrawal))
        .map_err(wrong)?;
    let body = BlockBody {
        transactions,
        ommers,
        withdrawals: withdrawals.map(Withdrawals::new),
    };
    Ok(RawBlock { header, body })
}

/// Transactions, or what there is one of for each of them.
fn read_list<'v, 'a>(value: &'v Value<'a>) -> Result<&'v [Value<'a>], Wrong> {
    match value {
        Value::Array(items) if items.len() <= BLOCK_TRANSACTIONS_MAX => Ok(items),
        Value::Array(_) => Err(Wrong::shape("an array of as many items as any block has")),
        _ => Err(Wrong::shape("an array")),
    }
}

/// Bounded: each is a header to be asked for.
fn ommer_hashes(value: &Value<'_>) -> Result<Vec<B256>, Wrong> {
    let hashes = array(value, fixed)?;
    if hashes.len() > verify::OMMERS_MAX {
        return Err(Wrong::shape("an array of at most 2 hashes"));
    }
    Ok(hashes)
}

fn withdrawal(value: &Value<'_>) -> Result<Withdrawal, Wrong> {
    let withdrawal = Reader::new(value)?;
    Ok(Withdrawal {
        index: withdrawal.get("index", u64)?,
        validator_index: withdrawal.get("validatorIndex", u64)?,
        address: withdrawal.get("address", fixed)?,
        amount: withdrawal.get("amount", u64)?,
    })
}

/// One receipt for each transaction.
fn read_receipts(
    value: &Value<'_>,
    transactions: &[Transaction],
) -> Result<Vec<Receipt>, NodeFault> {
    let answer = Answer::Receipts;
    let list = read_list(value).map_err(|why| why.of(answer))?;
    let (expected, found) = (transactions.len(), list.len());
    if expected != found {
        return Err(NodeFault::Count {
            answer,
            expected,
            found,
        });
    }
    let receipts = list.iter().zip(transactions).enumerate();
    receipts
        .map(|(index, (value, transaction))| match value {
            // What a node says of a transaction whose receipt it does not have yet.
            Value::Null => Err(NodeFault::Absent { answer }),
            value => receipt::read(value, transaction).map_err(|why| why.in_item(index).of(answer)),
        })
        .collect()
}

/// What the header says of receipts and gas.
fn check_outcome(raw: &RawBlock, receipts: &[Receipt]) -> Result<(), VerifyError> {
    let header = &raw.header;
    verify::check_receipts(header, receipts)?;
    let used = receipts.last().map_or(0, Receipt::cumulative_gas_used);
    if used != header.gas_used {
        let (expected, found) = (used, header.gas_used);
        return Err(VerifyError::GasUsed { expected, found });
    }
    Ok(())
}

/// What a block takes over from its neighbours: a total difficulty that agrees with theirs, if one has it.
fn lineage(asked: Asked<'_>, header: &Header, block: Reader<'_, '_>) -> Result<Lineage, NodeFault> {
    // Not covered by any hash: the one member that is taken as the node states it.
    let stated: Option<U256> = block
        .find("totalDifficulty", u256)
        .map_err(|why| why.of(Answer::Block))?;
    let alone = |total_difficulty| Lineage {
        total_difficulty,
        ancestors: (header.number > 0)
            .then_some(header.parent_hash)
            .into_iter()
            .collect(),
        kin: Vec::new(),
    };
    Ok(match asked {
        Asked::ChildOf(parent) => {
            let lineage = Lineage::below(parent);
            let sum = lineage.total_difficulty;
            let sum = sum.map(|sum| sum.saturating_add(header.difficulty));
            Lineage {
                total_difficulty: sum.or(stated),
                ..lineage
            }
        }
        Asked::ParentOf(child) => {
            let sum = child.total_difficulty;
            let sum = sum.and_then(|sum| sum.checked_sub(child.header.difficulty));
            alone(sum.or(stated))
        }
        Asked::Hash(_) | Asked::Number(_) => alone(stated),
    })
}
