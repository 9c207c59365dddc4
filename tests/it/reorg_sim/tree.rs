//! A tree of real blocks: a dev chain and the blocks that its reorgs replaced.

use std::collections::{BTreeSet, HashMap};

use alloy_consensus::{BlockBody, Receipt, ReceiptEnvelope, TxType};
use alloy_eips::Encodable2718;
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, Bytes, Log, U256};
use alloy_trie::root::ordered_trie_root_encoded;
use nearhead_chain::{
    block::{Block, RawBlock},
    chain_file,
    dev::{DevConfig, Producer, Profile},
    encode::EncodeOptions,
    trie::State,
};
use serde_json::{Value, json};

use super::{fees, quantity};

/// A block of the tree.
pub(super) struct TreeBlock {
    /// The block as it is imported.
    pub(super) raw: RawBlock,
    /// The answers about it, made when the tree was built.
    pub(super) facts: Facts,
    /// Its children.
    children: Vec<B256>,
    /// Number of blocks above it on the longest branch.
    height: u64,
}

/// Answers about a block that do not depend on which other blocks are held.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) parent: B256,
    pub(super) state_root: B256,
    /// The block with full transactions.
    pub(super) full: Value,
    /// The block with transaction hashes.
    pub(super) hashes: Value,
    pub(super) receipts: Vec<Value>,
    /// What consensus encodes.
    pub(super) raw: Raw,
    /// Price of a unit of blob gas in it, as a QUANTITY.
    pub(super) blob_gas_price: Value,
    /// The suggested priority fee where it is the head.
    pub(super) suggested_tip: u64,
    /// The receivers of its transactions, as they are after the block.
    pub(super) accounts: Vec<Account>,
}

/// A block as consensus encodes it.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) block: Bytes,
    pub(super) header: Bytes,
    pub(super) receipts: Vec<Bytes>,
    pub(super) transactions: Vec<Bytes>,
}

impl Raw {
    fn of(block: &RawBlock, receipts: &[Value]) -> Self {
        let transactions = block.body.transactions.iter();
        let receipts: Vec<Bytes> = receipts.iter().map(raw_receipt).collect();
        let root = ordered_trie_root_encoded(&receipts);
        assert_eq!(root, block.header.receipts_root);
        Self {
            block: alloy_rlp::encode(block).into(),
            header: alloy_rlp::encode(&block.header).into(),
            receipts,
            transactions: transactions.map(|one| one.encoded_2718().into()).collect(),
        }
    }
}

/// A receipt's JSON in the encoding of EIP-2718, by alloy.
fn raw_receipt(json: &Value) -> Bytes {
    let data = |value: &Value| value.as_str().unwrap().parse::<Bytes>().unwrap();
    let logs = json["logs"].as_array().unwrap().iter().map(|log| {
        let topics = log["topics"].as_array().unwrap().iter();
        Log::new_unchecked(
            Address::from_slice(&data(&log["address"])),
            topics.map(|topic| B256::from_slice(&data(topic))).collect(),
            data(&log["data"]),
        )
    });
    let receipt = Receipt {
        status: (quantity(&json["status"]) == 1).into(),
        cumulative_gas_used: quantity(&json["cumulativeGasUsed"]),
        logs: logs.collect(),
    };
    let tx_type = TxType::try_from(quantity(&json["type"])).unwrap();
    let envelope = ReceiptEnvelope::from_typed(tx_type, receipt);
    envelope.encoded_2718().into()
}

/// The block of a genesis, of which no RLP is at hand.
fn genesis_block(genesis: &Block) -> RawBlock {
    let withdrawals = genesis.header.withdrawals_root.map(|_| Default::default());
    RawBlock {
        header: genesis.header.clone(),
        body: BlockBody {
            withdrawals,
            ..BlockBody::default()
        },
    }
}

/// An account after a block.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) address: Address,
    pub(super) balance: U256,
    pub(super) nonce: u64,
    pub(super) code: Bytes,
    /// Some slots and their values.
    pub(super) slots: Vec<(U256, U256)>,
}

impl Account {
    /// An absent account.
    pub(super) fn absent(address: Address) -> Self {
        Self {
            address,
            balance: U256::ZERO,
            nonce: 0,
            code: Bytes::new(),
            slots: vec![(U256::ZERO, U256::ZERO)],
        }
    }

    fn of(state: &State, address: Address) -> Self {
        let slots = (0..3).map(U256::from);
        let slots = slots.map(|slot| (slot, state.storage(&address, slot).unwrap()));
        let slots = slots.collect();
        match state.account(&address).unwrap() {
            Some(account) => Self {
                address,
                balance: account.balance,
                nonce: account.nonce,
                code: state.code(&account.code_hash).unwrap(),
                slots,
            },
            None => Self {
                slots,
                ..Self::absent(address)
            },
        }
    }
}

impl Facts {
    /// The facts of a block, whose suggestion is still that of a genesis.
    fn of(block: &Block, raw: &RawBlock) -> Self {
        let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let full = parse(&block.json().block(true));
        let Value::Array(receipts) = parse(&block.json().receipts()) else {
            panic!("receipts are an array")
        };
        let state = block
            .state
            .as_ref()
            .expect("the dev chain holds every state");
        let targets: BTreeSet<Address> = full["transactions"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|transaction| transaction["to"].as_str().map(|to| to.parse().unwrap()))
            .collect();
        let accounts = targets.into_iter();
        let accounts = accounts
            .map(|address| Account::of(state, address))
            .collect();
        Self {
            number: block.number(),
            hash: block.hash,
            parent: block.header.parent_hash,
            state_root: block.header.state_root,
            hashes: parse(&block.json().block(false)),
            full,
            raw: Raw::of(raw, &receipts),
            receipts,
            blob_gas_price: json!(U256::from(block.fees.blob_gas_price().unwrap().unwrap())),
            suggested_tip: fees::suggested_tip(std::iter::empty(), None),
            accounts,
        }
    }

    /// All receipts.
    pub(super) fn all_receipts(&self) -> Value {
        self.receipts.clone().into()
    }

    /// The number of transactions, as a QUANTITY.
    pub(super) fn transaction_count(&self) -> Value {
        format!("{:#x}", self.transactions().len()).into()
    }

    /// The transaction at this index, or null.
    pub(super) fn transaction(&self, index: usize) -> Value {
        self.transactions().get(index).cloned().unwrap_or_default()
    }

    /// The transactions, in order.
    pub(super) fn transactions(&self) -> &[Value] {
        self.full["transactions"].as_array().unwrap()
    }

    /// The logs, in order.
    pub(super) fn logs(&self) -> impl Iterator<Item = &Value> {
        self.receipts
            .iter()
            .flat_map(|receipt| receipt["logs"].as_array().unwrap())
    }
}

/// All blocks by hash.
pub(super) struct Tree {
    pub(super) genesis: Genesis,
    pub(super) root: Facts,
    blocks: HashMap<B256, TreeBlock>,
    /// Children of the genesis.
    first: Vec<B256>,
    order: Vec<B256>,
}

impl Tree {
    /// Runs a dev chain with reorgs for `steps` steps and keeps all blocks that it made.
    pub(super) fn grow(seed: u64, steps: usize) -> Self {
        let config = DevConfig {
            seed,
            profile: Profile::Small,
            block_time_seconds: 1,
            reorg_every: Some(5),
            reorg_depth: 4,
        };
        let mut producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| {}).unwrap();
        let root = Facts::of(producer.head(), &genesis_block(producer.head()));
        let mut blocks: HashMap<B256, TreeBlock> = HashMap::new();
        let mut first = Vec::new();
        let mut order = Vec::new();
        for _ in 0..steps {
            for (raw, block) in producer.step().unwrap().applied {
                let mut facts = Facts::of(&block, &raw);
                let parents = std::iter::successors(Some(&facts), |block| {
                    blocks.get(&block.parent).map(|parent| &parent.facts)
                });
                let before = blocks.get(&facts.parent);
                let before = before.map(|parent| parent.facts.suggested_tip);
                facts.suggested_tip = fees::suggested_tip(parents, before);
                blocks
                    .get_mut(&facts.parent)
                    .map_or(&mut first, |parent| &mut parent.children)
                    .push(facts.hash);
                order.push(facts.hash);
                blocks.insert(
                    facts.hash,
                    TreeBlock {
                        raw,
                        facts,
                        children: Vec::new(),
                        height: 0,
                    },
                );
            }
        }
        // Children come after their parents, so in reverse order every child's height is known.
        for hash in order.iter().rev() {
            let block = &blocks[hash];
            let (parent, height) = (block.facts.parent, block.height + 1);
            if let Some(parent) = blocks.get_mut(&parent) {
                parent.height = parent.height.max(height);
            }
        }
        let mut genesis = Vec::new();
        producer.genesis().write_json(&mut genesis).unwrap();
        Self {
            genesis: chain_file::read_genesis(&genesis).unwrap(),
            root,
            blocks,
            first,
            order,
        }
    }

    pub(super) fn block(&self, hash: &B256) -> &TreeBlock {
        &self.blocks[hash]
    }

    /// Hashes of all blocks but the genesis, in the order in which they were made.
    pub(super) fn hashes(&self) -> &[B256] {
        &self.order
    }

    /// Children of a block.
    pub(super) fn children(&self, parent: &B256) -> &[B256] {
        self.blocks
            .get(parent)
            .map_or(&self.first, |block| &block.children)
    }

    /// The child of a block with the longest branch above it; `None` for a leaf.
    pub(super) fn highest_child(&self, parent: &B256) -> Option<B256> {
        self.children(parent)
            .iter()
            .max_by_key(|child| self.blocks[*child].height)
            .copied()
    }
}
