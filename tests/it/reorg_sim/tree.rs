//! A tree of real blocks: a dev chain and the branches that its reorgs replaced.

use std::collections::{BTreeSet, HashMap};

use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, U256};
use nearhead_chain::{
    block::{Block, RawBlock},
    chain_file,
    dev::{DevConfig, Producer, Profile},
    encode::EncodeOptions,
};
use serde_json::Value;

/// A block as the tree knows it.
pub(super) struct Node {
    /// What is imported.
    pub(super) raw: RawBlock,
    /// What it was found to be when the tree was built.
    pub(super) facts: Facts,
    /// Blocks that continue it.
    children: Vec<B256>,
    /// Blocks on the longest way up from here.
    height: u64,
}

/// Answers about a block that do not depend on what else is held.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) parent: B256,
    pub(super) state_root: B256,
    /// The block with full transactions.
    pub(super) full: Value,
    /// The block with hashes.
    pub(super) hashes: Value,
    pub(super) receipts: Vec<Value>,
    /// (address, slot, value after the block).
    pub(super) slots: Vec<(Address, U256, U256)>,
}

impl Facts {
    fn of(block: &Block) -> Self {
        let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let full = parse(&block.json.block(true));
        let Value::Array(receipts) = parse(&block.json.receipts()) else {
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
        let slots = targets
            .iter()
            .flat_map(|address| (0..3).map(move |slot| (*address, U256::from(slot))));
        let slots = slots
            .map(|(address, slot)| (address, slot, state.storage(&address, slot).unwrap()))
            .collect();
        Self {
            number: block.number(),
            hash: block.hash,
            parent: block.header.parent_hash,
            state_root: block.header.state_root,
            hashes: parse(&block.json.block(false)),
            full,
            receipts,
            slots,
        }
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
    nodes: HashMap<B256, Node>,
    /// Children of the genesis.
    first: Vec<B256>,
    order: Vec<B256>,
}

impl Tree {
    /// Runs a dev chain with reorgs for `steps` steps and keeps all that it made.
    pub(super) fn grow(seed: u64, steps: usize) -> Self {
        let config = DevConfig {
            seed,
            profile: Profile::Small,
            block_time_seconds: 1,
            reorg_every: Some(5),
            reorg_depth: 4,
        };
        let mut producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| {}).unwrap();
        let root = Facts::of(producer.head());
        let mut nodes: HashMap<B256, Node> = HashMap::new();
        let mut first = Vec::new();
        let mut order = Vec::new();
        for _ in 0..steps {
            for (raw, block) in producer.step().unwrap().applied {
                let facts = Facts::of(&block);
                nodes
                    .get_mut(&facts.parent)
                    .map_or(&mut first, |parent| &mut parent.children)
                    .push(facts.hash);
                order.push(facts.hash);
                nodes.insert(
                    facts.hash,
                    Node {
                        raw,
                        facts,
                        children: Vec::new(),
                        height: 0,
                    },
                );
            }
        }
        // Children come after their parents, so backwards every child's height is known.
        for hash in order.iter().rev() {
            let node = &nodes[hash];
            let (parent, height) = (node.facts.parent, node.height + 1);
            if let Some(parent) = nodes.get_mut(&parent) {
                parent.height = parent.height.max(height);
            }
        }
        let mut genesis = Vec::new();
        producer.genesis().write_json(&mut genesis).unwrap();
        Self {
            genesis: chain_file::read_genesis(&genesis).unwrap(),
            root,
            nodes,
            first,
            order,
        }
    }

    pub(super) fn node(&self, hash: &B256) -> &Node {
        &self.nodes[hash]
    }

    /// Hashes of all blocks but the genesis, in an order that depends on nothing.
    /// Hashes of all blocks but the genesis, in the order in which they were made.
    pub(super) fn hashes(&self) -> &[B256] {
        &self.order
    }

    /// Children of a block.
    pub(super) fn children(&self, parent: &B256) -> &[B256] {
        self.nodes
            .get(parent)
            .map_or(&self.first, |node| &node.children)
    }

    /// The child of a block with the longest way up; `None` at a leaf.
    pub(super) fn highest_child(&self, parent: &B256) -> Option<B256> {
        self.children(parent)
            .iter()
            .max_by_key(|child| self.nodes[*child].height)
            .copied()
    }
}
