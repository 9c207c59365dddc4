//! The naive model: a list of canonical blocks and a map of replaced ones; every answer comes from
//! a scan of all of them.

use std::collections::BTreeMap;

use alloy_eips::eip2124::ForkHash;
use alloy_primitives::{B256, Bytes};
use serde_json::{Value, json};

use super::{
    hex,
    tree::{Facts, Raw, Tree},
};

/// Blocks in the window.
const WINDOW: usize = 128;

/// What is served, in the simplest form.
pub(super) struct Model<'a> {
    tree: &'a Tree,
    /// Canonical blocks, oldest first.
    canonical: Vec<&'a Facts>,
    /// Blocks that a reorg replaced and whose number is in the window.
    replaced: BTreeMap<B256, &'a Facts>,
}

/// An answer: a result, or an error's code and message.
pub(super) type Answer = Result<Value, (i64, String)>;

impl<'a> Model<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            canonical: vec![&tree.root],
            replaced: BTreeMap::new(),
        }
    }

    pub(super) fn head(&self) -> &'a Facts {
        self.canonical[self.canonical.len() - 1]
    }

    pub(super) fn canonical(&self) -> &[&'a Facts] {
        &self.canonical
    }

    pub(super) fn replaced(&self) -> Vec<&'a Facts> {
        self.replaced.values().copied().collect()
    }

    fn oldest(&self) -> u64 {
        self.canonical[0].number
    }

    /// Removes the head.
    pub(super) fn revert(&mut self) {
        let block = self.canonical.pop().unwrap();
        self.replaced.insert(block.hash, block);
    }

    /// Makes a block the head.
    pub(super) fn apply(&mut self, block: &'a Facts) {
        assert_eq!(block.parent, self.head().hash);
        self.replaced.remove(&block.hash);
        self.canonical.push(block);
    }

    /// Drops the blocks that left the window; called at the end of a change.
    pub(super) fn trim(&mut self) {
        let surplus = self.canonical.len().saturating_sub(WINDOW);
        self.canonical.drain(..surplus);
        let oldest = self.oldest();
        self.replaced.retain(|_, block| block.number >= oldest);
    }

    /// eth_capabilities.
    pub(super) fn capabilities(&self) -> Value {
        let delete = json!({"type": "window", "retentionBlocks": hex(WINDOW as u64)});
        let oldest = hex(self.oldest());
        let part = json!({"disabled": false, "oldestBlock": oldest, "deleteStrategy": delete});
        let head = self.head();
        json!({
            "head": {"number": hex(head.number), "hash": head.hash},
            "state": part,
            "tx": part,
            "logs": part,
            "receipts": part,
            "blocks": part,
            "stateproofs": part,
        })
    }

    fn by_number(&self, number: u64) -> Option<&'a Facts> {
        self.canonical
            .iter()
            .find(|block| block.number == number)
            .copied()
    }

    fn by_hash(&self, hash: &B256) -> Option<&'a Facts> {
        let held = self
            .canonical
            .iter()
            .find(|block| block.hash == *hash)
            .copied();
        let genesis = (self.tree.root.hash == *hash).then_some(&self.tree.root);
        held.or_else(|| self.replaced.get(hash).copied())
            .or(genesis)
    }

    fn is_canonical(&self, hash: &B256) -> bool {
        self.canonical.iter().any(|block| block.hash == *hash)
    }

    /// eth_config: all forks of the dev chain are active since its genesis.
    pub(super) fn config(&self) -> Value {
        const PRECOMPILES: [(&str, u16); 18] = [
            ("ECREC", 0x1),
            ("SHA256", 0x2),
            ("RIPEMD160", 0x3),
            ("ID", 0x4),
            ("MODEXP", 0x5),
            ("BN254_ADD", 0x6),
            ("BN254_MUL", 0x7),
            ("BN254_PAIRING", 0x8),
            ("BLAKE2F", 0x9),
            ("KZG_POINT_EVALUATION", 0xa),
            ("BLS12_G1ADD", 0xb),
            ("BLS12_G1MSM", 0xc),
            ("BLS12_G2ADD", 0xd),
            ("BLS12_G2MSM", 0xe),
            ("BLS12_PAIRING_CHECK", 0xf),
            ("BLS12_MAP_FP_TO_G1", 0x10),
            ("BLS12_MAP_FP2_TO_G2", 0x11),
            ("P256VERIFY", 0x100),
        ];
        let precompiles = PRECOMPILES.map(|(name, at)| (name, format!("{at:#042x}")));
        let config = &self.tree.genesis.config;
        let current = json!({
            "activationTime": 0,
            "blobSchedule": {"target": 14, "max": 21, "baseFeeUpdateFraction": 11_684_671},
            "chainId": hex(config.chain_id),
            "forkId": Bytes::from(ForkHash::from(self.tree.root.hash).0),
            "precompiles": BTreeMap::from(precompiles),
            "systemContracts": {
                "BEACON_ROOTS_ADDRESS": "0x000f3df6d732807ef1319fb7b8bb8522d0beac02",
                "CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS":
                    "0x0000bbddc7ce488642fb579f8b00f3a590007251",
                "DEPOSIT_CONTRACT_ADDRESS": config.deposit_contract_address,
                "HISTORY_STORAGE_ADDRESS": "0x0000f90827f1c53a10cb7a02335b175320002935",
                "WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS":
                    "0x00000961ef480eb55e80d19ad83579a64c007002",
            },
        });
        json!({"current": current, "next": null, "last": null})
    }

    /// A part of the block with this hash.
    pub(super) fn of_hash(&self, hash: &B256, part: impl FnOnce(&Facts) -> Value) -> Answer {
        self.by_hash(hash)
            .map_or_else(|| self.unknown(), |block| Ok(part(block)))
    }

    /// The answer for an unknown hash: it may be that of a missing block, if a reorg has left less
    /// than a window.
    fn unknown(&self) -> Answer {
        match self.canonical.len() < WINDOW && self.oldest() > 0 {
            true => Err(pruned()),
            false => Ok(Value::Null),
        }
    }

    /// A part of the block with this number.
    pub(super) fn of_number(&self, number: u64, part: impl FnOnce(&Facts) -> Value) -> Answer {
        match self.by_number(number) {
            Some(block) => Ok(part(block)),
            None if number < self.oldest() => Err(pruned()),
            None => Ok(Value::Null),
        }
    }

    /// The access list of a block of this answer: no block of the dev chain has one.
    pub(super) fn access_list(found: Answer) -> Answer {
        match found? {
            Value::Null => Ok(Value::Null),
            _ => {
                let message =
                    "resource not found: the block is older than access lists (Amsterdam)";
                Err((-32001, message.to_owned()))
            }
        }
    }

    /// A block of which a part is wanted in RLP: one that is not there yet is an error.
    pub(super) fn raw(&self, number: u64, part: impl FnOnce(&Raw) -> Value) -> Answer {
        match self.block_by_number(number, |block| part(&block.raw))? {
            Value::Null => Err((-32000, "header not found".to_owned())),
            part => Ok(part),
        }
    }

    /// eth_getBlockByNumber: the genesis is readable even below the window.
    pub(super) fn block_by_number(
        &self,
        number: u64,
        form: impl FnOnce(&Facts) -> Value,
    ) -> Answer {
        match number {
            0 => Ok(form(&self.tree.root)),
            _ => self.of_number(number, form),
        }
    }

    /// eth_getTransactionByHash: canonical blocks only.
    pub(super) fn transaction(&self, hash: &Value) -> Answer {
        let all = self.canonical.iter().flat_map(|block| block.transactions());
        let found = all
            .into_iter()
            .find(|transaction| transaction["hash"] == *hash);
        found.map_or_else(|| self.unknown(), |found| Ok(found.clone()))
    }

    /// eth_getTransactionReceipt: canonical blocks only.
    pub(super) fn receipt(&self, transaction: &Value) -> Answer {
        let all = self.canonical.iter().flat_map(|block| &block.receipts);
        let found = all
            .into_iter()
            .find(|receipt| receipt["transactionHash"] == *transaction);
        found.map_or_else(|| self.unknown(), |found| Ok(found.clone()))
    }

    /// eth_getLogs: the logs of canonical blocks that are `wanted`.
    pub(super) fn logs(&self, from: u64, to: u64, wanted: impl Fn(&Value) -> bool) -> Answer {
        if from < self.oldest() {
            return Err(pruned());
        }
        let blocks = self
            .canonical
            .iter()
            .filter(|block| (from..=to).contains(&block.number));
        Ok(blocks
            .flat_map(|block| block.logs())
            .filter(|log| wanted(log))
            .cloned()
            .collect())
    }

    /// eth_getLogs of one block, canonical or replaced.
    pub(super) fn logs_by_hash(&self, hash: &B256) -> Answer {
        let block = self
            .by_hash(hash)
            .ok_or_else(|| (-32000, "unknown block".to_owned()))?;
        Ok(block.logs().cloned().collect())
    }

    /// The block whose state a method reads, by number.
    pub(super) fn state_by_number(&self, number: u64) -> Result<&'a Facts, (i64, String)> {
        let (oldest, head) = (self.oldest(), self.head().number);
        self.by_number(number).ok_or_else(|| match number > head {
            true => (-32000, "header not found".to_owned()),
            false => (
                -32000,
                format!("historical state not available: block {number}, oldest {oldest}"),
            ),
        })
    }

    /// The block whose state a method reads, by hash.
    pub(super) fn state_by_hash(
        &self,
        hash: &B256,
        canonical: bool,
    ) -> Result<&'a Facts, (i64, String)> {
        match self.by_hash(hash) {
            Some(block) if self.tree.root.hash == *hash && self.oldest() > 0 => Err((
                -32000,
                format!(
                    "historical state not available: block {}, oldest {}",
                    block.number,
                    self.oldest()
                ),
            )),
            Some(_) if canonical && !self.is_canonical(hash) => {
                Err((-32000, "hash is not currently canonical".to_owned()))
            }
            Some(block) => Ok(block),
            None => Err((-32000, "header for hash not found".to_owned())),
        }
    }
}

fn pruned() -> (i64, String) {
    (4444, "pruned history unavailable".to_owned())
}

/// The JSON-RPC response with this answer.
pub(super) fn on_the_wire(answer: Answer) -> Value {
    match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": 1, "result": result}),
        Err((code, message)) => {
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}})
        }
    }
}
