//! The header and the state of a genesis.

use std::{borrow::Borrow, sync::Arc};

use alloy_consensus::{EMPTY_ROOT_HASH, Header};
use alloy_eips::{
    eip1559::INITIAL_BASE_FEE, eip7685::EMPTY_REQUESTS_HASH,
    eip7928::constants::EMPTY_BLOCK_ACCESS_LIST_HASH,
};
use alloy_genesis::{Genesis, GenesisAccount};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B64, B256};
use revm::primitives::KECCAK_EMPTY;

use crate::{
    network::{ChainSpec, Rules},
    trie::{AccountInfo, AccountUpdate, NodeStore, State, StateUpdate, TrieError},
};

/// Accounts per update of the trie: bounds the memory for a large genesis.
const ACCOUNTS_AT_ONCE: usize = 1 << 14;
/// Gas limit of a genesis that names none, as in geth.
const GAS_LIMIT: u64 = 4_712_388;

/// The header of a genesis without accounts, field by field as geth makes it (core/genesis.go,
/// `toBlockWithRoot`), except that `gasUsed` is not read. `ChainSpec::from_genesis` has refused a
/// number above 0, as geth does, and a base fee that does not fit 64 bits.
pub(super) fn header(rules: &Rules<'_>, genesis: &Genesis) -> Header {
    let since = |fork| rules.has(fork).then_some(());
    let base_fee = genesis.base_fee_per_gas;
    let base_fee = base_fee.map_or(INITIAL_BASE_FEE, |fee| fee as u64);
    Header {
        parent_hash: genesis.parent_hash.unwrap_or_default(),
        beneficiary: genesis.coinbase,
        difficulty: genesis.difficulty,
        gas_limit: if genesis.gas_limit == 0 {
            GAS_LIMIT
        } else {
            genesis.gas_limit
        },
        timestamp: genesis.timestamp,
        extra_data: genesis.extra_data.clone(),
        mix_hash: genesis.mix_hash,
        nonce: B64::from(genesis.nonce),
        base_fee_per_gas: since(EthereumHardfork::London).map(|()| base_fee),
        withdrawals_root: since(EthereumHardfork::Shanghai).map(|()| EMPTY_ROOT_HASH),
        blob_gas_used: since(EthereumHardfork::Cancun)
            .map(|()| genesis.blob_gas_used.unwrap_or_default()),
        excess_blob_gas: since(EthereumHardfork::Cancun)
            .map(|()| genesis.excess_blob_gas.unwrap_or_default()),
        parent_beacon_block_root: since(EthereumHardfork::Cancun).map(|()| B256::ZERO),
        requests_hash: since(EthereumHardfork::Prague).map(|()| EMPTY_REQUESTS_HASH),
        block_access_list_hash: since(EthereumHardfork::Amsterdam)
            .map(|()| EMPTY_BLOCK_ACCESS_LIST_HASH),
        slot_number: since(EthereumHardfork::Amsterdam).map(|()| 0),
        ..Header::default()
    }
}

/// The hash of the genesis block with the accounts of `genesis` (`alloc` of genesis.json), whose
/// rules are `spec`. It builds the state, and keeps nothing.
///
/// # Errors
/// A [`TrieError`] if the state cannot be built.
pub fn genesis_hash(spec: &ChainSpec, genesis: &Genesis) -> Result<B256, TrieError> {
    let state = state(&NodeStore::new(), &genesis.alloc)?;
    let header = Header {
        state_root: state.root(),
        ..header(&spec.genesis_rules(genesis.timestamp), genesis)
    };
    Ok(header.hash_slow())
}

/// The state with these accounts.
pub(super) fn state<'a>(
    store: &Arc<NodeStore>,
    accounts: impl IntoIterator<Item = (&'a Address, &'a GenesisAccount)>,
) -> Result<Arc<State>, TrieError> {
    let mut state = State::empty(store);
    let mut accounts = accounts.into_iter().peekable();
    while accounts.peek().is_some() {
        let update = update(accounts.by_ref().take(ACCOUNTS_AT_ONCE));
        state = state.commit(state.update(&update)?);
    }
    Ok(state)
}

/// The update that adds these accounts. Empty ones are kept, as in geth: EIP-161 applies only to
/// accounts that a transaction touches.
pub(crate) fn update(
    accounts: impl Iterator<Item = (impl Borrow<Address>, impl Borrow<GenesisAccount>)>,
) -> StateUpdate {
    let mut update = StateUpdate::default();
    for (address, account) in accounts {
        let account = account.borrow();
        let code_hash = account.code_hash();
        if let (Some(hash), Some(code)) = (code_hash, &account.code) {
            update.code.insert(hash, code.clone());
        }
        let info = AccountInfo {
            nonce: account.nonce.unwrap_or_default(),
            balance: account.balance,
            code_hash: code_hash.unwrap_or(KECCAK_EMPTY),
        };
        update.accounts.insert(
            *address.borrow(),
            AccountUpdate {
                info: Some(info),
                storage_wiped: false,
                storage: account
                    .storage_slots()
                    .map(|(slot, value)| (slot.into(), value))
                    .collect(),
            },
        );
    }
    update
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use alloy_primitives::b256;

    use super::*;
    use crate::{chain_file::read_genesis, encode::EncodeOptions, import::Importer};

    /// A genesis with every field: `config` has the forks after Berlin, `fields` the fields that
    /// they add.
    fn json(config: &str, fields: &str) -> String {
        format!(
            r#"{{
            "config": {{
                "chainId": 77, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
                "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "berlinBlock": 0
                {config}
            }},
            "parentHash": "0x0101010101010101010101010101010101010101010101010101010101010101",
            "coinbase": "0x0202020202020202020202020202020202020202",
            "difficulty": "0x20000",
            "timestamp": "0x65000000",
            "extraData": "0x6e656172",
            "mixHash": "0x0303030303030303030303030303030303030303030303030303030303030303",
            "nonce": "0x0405060708090a0b",
            {fields}
            "alloc": {{
                "0x00000000000000000000000000000000000000aa": {{"balance": "0x0"}},
                "0x00000000000000000000000000000000000000bb": {{
                    "balance": "0xde0b6b3a7640000", "nonce": "0x7", "code": "0x600035",
                    "storage": {{
                        "0x0000000000000000000000000000000000000000000000000000000000000001":
                            "0x00000000000000000000000000000000000000000000000000000000000000ff",
                        "0x0000000000000000000000000000000000000000000000000000000000000002":
                            "0x0000000000000000000000000000000000000000000000000000000000000000"
                    }}
                }}
            }}
            }}"#
        )
    }

    /// The hashes come from `geth init` (1.17.4) with the same files.
    #[test]
    fn a_genesis_with_every_field_has_the_hash_that_geth_gives_it() {
        let forks = r#", "londonBlock": 0, "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0,
            "pragueTime": 0, "blobSchedule": {
                "cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3338477},
                "prague": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716}
            }"#;
        let since_london = r#""gasLimit": "0x1c9c380", "baseFeePerGas": "0x3b9aca01", "excessBlobGas": "0xc0000",
            "blobGasUsed": "0x20000","#;
        for (name, json, expected) in [
            (
                "Prague",
                json(forks, since_london),
                b256!("0x460b8ee5b2af6ba816b8c471179e33b73c032da0678b58bd64edf0794478bdc8"),
            ),
            (
                "Berlin, without a gas limit",
                json("", r#""gasLimit": "0x0","#),
                b256!("0x6f480bb5ee93eb187dae2e3155159d384dc1014b85e10eae496fa82c57114b03"),
            ),
        ] {
            let genesis = read_genesis(json.as_bytes()).unwrap();
            let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
            let block = importer.genesis(&genesis.alloc).unwrap();
            assert_eq!(block.hash, expected, "{name}");
            let spec = ChainSpec::to_follow(&genesis).unwrap();
            assert_eq!(genesis_hash(&spec, &genesis).unwrap(), expected, "{name}");
        }
    }
}
