//! The genesis of a dev chain.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::Arc,
};

use alloy_eips::{eip2935, eip4788, eip7002, eip7251, eip7840::BlobParams};
use alloy_genesis::{ChainConfig, Genesis, GenesisAccount};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use serde::{
    Serialize, Serializer,
    ser::{Error, SerializeMap},
};

use super::{
    contracts::{self, Codes},
    population::Population,
    profile::Sizes,
};
use crate::{
    import::genesis,
    trie::{NodeStore, State, TrieError},
};

/// Chain id of every dev chain.
pub const CHAIN_ID: u64 = 1337;

/// 2026-01-01 00:00:00 UTC. It does not depend on the clock, so that equal seeds give equal chains.
const GENESIS_TIMESTAMP: u64 = 1_767_225_600;

/// Balance of every sender in wei: 2^120, more than it can ever spend.
const SENDER_BALANCE: U256 = U256::from_limbs([0, 1 << 56, 0, 0]);

/// Every sender's balance of every token.
const SENDER_TOKENS: u128 = 1 << 100;

/// Balance of the first token of a holder in the population.
const HOLDER_TOKENS: u64 = 1 << 40;

/// Number of parts in which a large state is made, by the first nibble of an account's path. Each
/// part is a subtree of its own, so only the root is made more than once.
const PARTS: usize = 16;

/// The genesis of a dev chain. Its accounts are made on demand, so that a million of them are never
/// held at once.
#[derive(Clone, Debug)]
pub struct DevGenesis {
    /// The header's fields and the chain's configuration, without accounts.
    without_accounts: Genesis,
    /// Contracts and senders.
    named: BTreeMap<Address, GenesisAccount>,
    population: Population,
}

impl DevGenesis {
    /// The genesis of a chain of these sizes, with `senders` as the senders of its transactions.
    pub(super) fn new(
        sizes: &Sizes,
        codes: &Codes,
        senders: &[Address],
        population: Population,
    ) -> Self {
        let mut named = system_contracts();
        named.extend(sample_contracts(codes));
        let holders = (0..sizes.holders).map(|index| population.address(index));
        for index in 0..sizes.tokens {
            let mut storage: BTreeMap<B256, B256> = senders
                .iter()
                .map(|sender| {
                    (
                        contracts::balance_slot(sender),
                        U256::from(SENDER_TOKENS).into(),
                    )
                })
                .collect();
            if index == 0 {
                let balance = U256::from(HOLDER_TOKENS).into();
                storage.extend(
                    holders
                        .clone()
                        .map(|holder| (contracts::balance_slot(&holder), balance)),
                );
            }
            let account = contract(&codes.token).with_storage(Some(storage));
            named.insert(contracts::token(index), account);
        }
        for index in 0..sizes.pools {
            named.insert(contracts::pool(index), contract(&codes.pool));
        }
        for sender in senders {
            named.insert(
                *sender,
                GenesisAccount::default().with_balance(SENDER_BALANCE),
            );
        }
        let without_accounts = Genesis {
            config: config(),
            timestamp: GENESIS_TIMESTAMP,
            extra_data: Bytes::from_static(b"nearhead dev"),
            gas_limit: sizes.gas_limit,
            ..Genesis::default()
        };
        Self {
            without_accounts,
            named,
            population,
        }
    }

    /// The header's fields and the chain's configuration, without accounts.
    #[must_use]
    pub const fn without_accounts(&self) -> &Genesis {
        &self.without_accounts
    }

    /// All accounts: contracts and senders first, then the population.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = (Address, GenesisAccount)> {
        let named = self
            .named
            .iter()
            .map(|(address, account)| (*address, account.clone()));
        named.chain(self.population.accounts())
    }

    /// Number of accounts.
    #[must_use]
    pub fn account_count(&self) -> u64 {
        self.named.len() as u64 + self.population.len
    }

    /// Writes genesis.json account by account.
    ///
    /// # Errors
    /// The error of `output`.
    pub fn write_json(&self, mut output: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut output, self)?;
        output.flush()
    }

    /// Makes the state in `store`; `progress` is called with the numbers of accounts done and in
    /// total.
    pub(super) fn state(
        &self,
        store: &Arc<NodeStore>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Arc<State>, TrieError> {
        let total = self.account_count();
        let mut parts: Vec<Vec<u32>> = vec![Vec::new(); PARTS];
        for index in 0..self.population.len {
            parts[part(&self.population.address(index))].push(index as u32);
        }
        let mut state = State::empty(store);
        let mut done = 0;
        for (number, indices) in parts.iter().enumerate() {
            let named = self
                .named
                .iter()
                .filter(|(address, _)| part(address) == number);
            let accounts = named
                .map(|(address, account)| (*address, account.clone()))
                .chain(
                    indices
                        .iter()
                        .map(|&index| self.population.account(u64::from(index))),
                );
            let update = genesis::update(accounts);
            done += update.accounts.len() as u64;
            let changes = state.update(&update)?;
            state = state.commit(changes);
            progress(done, total);
        }
        Ok(state)
    }
}

impl Serialize for DevGenesis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = serde_json::to_value(&self.without_accounts).map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in members.as_object().into_iter().flatten() {
            if name != "alloc" {
                map.serialize_entry(name, value)?;
            }
        }
        map.serialize_entry("alloc", &Alloc(self))?;
        map.end()
    }
}

/// The accounts as the `alloc` member of genesis.json.
struct Alloc<'a>(&'a DevGenesis);

impl Serialize for Alloc<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.accounts())
    }
}

/// The part to which an account belongs.
fn part(address: &Address) -> usize {
    usize::from(keccak256(address)[0] >> 4)
}

/// The configuration: every fork is active from the genesis on, with Ethereum mainnet's blob
/// schedules.
fn config() -> ChainConfig {
    let zero = Some(0);
    let schedules = [
        ("cancun", BlobParams::cancun()),
        ("prague", BlobParams::prague()),
        ("osaka", BlobParams::osaka()),
        ("bpo1", BlobParams::bpo1()),
        ("bpo2", BlobParams::bpo2()),
    ];
    ChainConfig {
        chain_id: CHAIN_ID,
        homestead_block: zero,
        eip150_block: zero,
        eip155_block: zero,
        eip158_block: zero,
        byzantium_block: zero,
        constantinople_block: zero,
        petersburg_block: zero,
        istanbul_block: zero,
        muir_glacier_block: zero,
        berlin_block: zero,
        london_block: zero,
        arrow_glacier_block: zero,
        gray_glacier_block: zero,
        merge_netsplit_block: zero,
        shanghai_time: zero,
        cancun_time: zero,
        prague_time: zero,
        osaka_time: zero,
        bpo1_time: zero,
        bpo2_time: zero,
        terminal_total_difficulty: Some(U256::ZERO),
        terminal_total_difficulty_passed: true,
        deposit_contract_address: Some(contracts::DEPOSIT),
        blob_schedule: schedules
            .into_iter()
            .map(|(name, blobs)| (name.to_owned(), blobs))
            .collect(),
        ..ChainConfig::default()
    }
}

/// The system contracts of Cancun and Prague, which every block calls at its beginning or end.
fn system_contracts() -> BTreeMap<Address, GenesisAccount> {
    [
        (eip4788::BEACON_ROOTS_ADDRESS, &eip4788::BEACON_ROOTS_CODE),
        (
            eip2935::HISTORY_STORAGE_ADDRESS,
            &eip2935::HISTORY_STORAGE_CODE,
        ),
        (
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            &eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE,
        ),
        (
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            &eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE,
        ),
    ]
    .map(|(address, code)| (address, contract(code)))
    .into()
}

fn sample_contracts(codes: &Codes) -> impl Iterator<Item = (Address, GenesisAccount)> {
    [
        (contracts::STORE, &codes.store),
        (contracts::BURST, &codes.burst),
        (contracts::REVERTER, &codes.reverter),
        (contracts::FACTORY, &codes.factory),
        (contracts::RECORDER, &codes.recorder),
        (contracts::DEPOSIT, &codes.deposit),
    ]
    .map(|(address, code)| (address, contract(code)))
    .into_iter()
}

fn contract(code: &Bytes) -> GenesisAccount {
    GenesisAccount::default()
        .with_nonce(Some(1))
        .with_code(Some(code.clone()))
}
