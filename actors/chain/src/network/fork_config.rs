//! The configurations of a chain's forks (EIP-7910).

use std::collections::{BTreeMap, BTreeSet};

use alloy_eips::{
    eip2124::ForkHash, eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, eip7840::BlobParams,
};
use alloy_evm::spec_by_timestamp_and_block_number;
use alloy_hardforks::{EthereumHardfork, ForkCondition};
use alloy_primitives::{Address, B256};
use revm::precompile::{PrecompileSpecId, Precompiles};

use super::{ChainSpec, Rules};
use crate::{encode::writer::JsonWriter, json::Json};

/// The forks that have a configuration, in their order. Amsterdam is followed and not executed, so
/// what it configures is not known here.
const FORKS: [EthereumHardfork; 9] = [
    EthereumHardfork::Shanghai,
    EthereumHardfork::Cancun,
    EthereumHardfork::Prague,
    EthereumHardfork::Osaka,
    EthereumHardfork::Bpo1,
    EthereumHardfork::Bpo2,
    EthereumHardfork::Bpo3,
    EthereumHardfork::Bpo4,
    EthereumHardfork::Bpo5,
];

/// Enough bytes for three configurations.
const SIZE_HINT: usize = 6 << 10;

/// What is known of the genesis block.
#[derive(Clone, Copy, Debug)]
pub struct GenesisFacts {
    /// Its hash, with which fork ids begin.
    pub hash: B256,
    /// Its timestamp. What is active by then is no fork of the chain.
    pub timestamp: u64,
}

impl ChainSpec {
    /// The answer of eth_config: the configurations of the current fork, of the next one and of the
    /// last one, where the head has this timestamp. `None` from Amsterdam on.
    ///
    /// As in geth, there is none before Shanghai, and none has blobs before Cancun. Without a next
    /// one there is no last one.
    #[must_use]
    pub fn fork_configs(&self, genesis: GenesisFacts, timestamp: u64) -> Option<Json> {
        if self.rules_since(timestamp).has(EthereumHardfork::Amsterdam) {
            return None;
        }
        let times = FORKS.iter().filter_map(|fork| match self.fork(*fork) {
            ForkCondition::Timestamp(at) => Some(at),
            _ => None,
        });
        let times: BTreeSet<u64> = times.collect();
        let current = times.range(..=timestamp).next_back();
        let next = times.range(timestamp..).find(|at| **at > timestamp);
        let last = next.and(times.last());
        let mut w = JsonWriter::with_capacity(SIZE_HINT);
        w.raw("{");
        for (name, at) in [("current", current), ("next", next), ("last", last)] {
            w.member(name);
            match at {
                Some(at) => self.write_config(&mut w, genesis, *at),
                None => {
                    w.raw("null");
                }
            }
        }
        w.raw("}");
        Some(Json::own(w.finish()))
    }

    /// The rules of a block after the merge.
    const fn rules_since(&self, timestamp: u64) -> Rules<'_> {
        self.rules(u64::MAX, timestamp, true)
    }

    /// Writes the configuration of the fork that begins at this time.
    fn write_config(&self, w: &mut JsonWriter, genesis: GenesisFacts, at: u64) {
        let rules = self.rules_since(at);
        let since = if at > genesis.timestamp { at } else { 0 };
        w.raw("{").member("activationTime").raw(since.to_string());
        w.member("blobSchedule")
            .or_null(rules.blob_params(), write_blobs);
        w.member("chainId").number(self.chain_id);
        w.member("forkId").data(self.fork_id(genesis, at).0);
        write_addresses(w.member("precompiles"), &precompiles(&rules, at));
        write_addresses(w.member("systemContracts"), &self.system_contracts(&rules));
        w.raw("}");
    }

    /// The hash of the forks up to this time (EIP-2124, EIP-6122).
    fn fork_id(&self, genesis: GenesisFacts, at: u64) -> ForkHash {
        let mut blocks: BTreeSet<u64> = self.merge_netsplit.into_iter().collect();
        let mut times = BTreeSet::new();
        for (_, condition) in &self.forks {
            match condition {
                ForkCondition::Block(number) => blocks.insert(*number),
                ForkCondition::Timestamp(time) => times.insert(*time),
                _ => false,
            };
        }
        let blocks = blocks.into_iter().filter(|number| *number > 0);
        let times = times.into_iter();
        let times = times.filter(|time| *time > genesis.timestamp && *time <= at);
        blocks
            .chain(times)
            .fold(ForkHash::from(genesis.hash), |hash, fork| hash + fork)
    }

    /// The contracts that the rules of a block call.
    fn system_contracts(&self, rules: &Rules<'_>) -> BTreeMap<&'static str, Address> {
        use EthereumHardfork::{Cancun, Prague};
        let contracts = [
            (Cancun, "BEACON_ROOTS_ADDRESS", BEACON_ROOTS_ADDRESS),
            (
                Prague,
                "CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS",
                CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            ),
            (Prague, "DEPOSIT_CONTRACT_ADDRESS", self.deposit_contract),
            (Prague, "HISTORY_STORAGE_ADDRESS", HISTORY_STORAGE_ADDRESS),
            (
                Prague,
                "WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS",
                WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            ),
        ];
        let active = contracts.into_iter().filter(|(fork, ..)| rules.has(*fork));
        active.map(|(_, name, address)| (name, address)).collect()
    }
}

/// The precompiles of the EVM that executes blocks with these rules.
fn precompiles(rules: &Rules<'_>, timestamp: u64) -> BTreeMap<&'static str, Address> {
    let spec = spec_by_timestamp_and_block_number(rules, timestamp, u64::MAX);
    let all = Precompiles::new(PrecompileSpecId::from_spec_id(spec));
    let all = all.inner().iter();
    all.map(|(address, one)| (one.id().name(), *address))
        .collect()
}

fn write_addresses(w: &mut JsonWriter, addresses: &BTreeMap<&'static str, Address>) {
    w.raw("{");
    for (name, address) in addresses {
        w.member(name).data(address);
    }
    w.raw("}");
}

fn write_blobs(w: &mut JsonWriter, params: BlobParams) -> &mut JsonWriter {
    w.raw("{");
    for (name, value) in [
        ("target", params.target_blob_count.into()),
        ("max", params.max_blob_count.into()),
        ("baseFeeUpdateFraction", params.update_fraction),
    ] {
        w.member(name).raw(value.to_string());
    }
    w.raw("}")
}

#[cfg(test)]
mod tests;
