use alloy_primitives::{
    Address, B256, Bytes, U256, keccak256,
    map::{AddressMap, B256Map},
};
use serde::Deserialize;

use crate::trie::{AccountChange, StateChanges};

/// The tracer and its options, as the second parameter of debug_traceBlockByHash. Code is left out:
/// it is most of an answer, and is stored by its hash when somebody asks for it.
pub const TRACER_OPTIONS: &str =
    r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":true,"disableCode":true}}"#;

/// Most accounts and slots of a trace, each counted for each transaction: a write costs 5,000 gas
/// or more, so those of 300 million gas.
const KEYS_MAX: usize = 60_000;

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It is not what the tracer returns.
    #[error("the trace is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It has more accounts and slots than any block changes.
    #[error("the trace has more than {KEYS_MAX} keys")]
    TooManyKeys,
    /// There is not one result for each transaction.
    #[error("expected the traces of {expected} transactions, found {found}")]
    Count {
        /// Transactions of the block.
        expected: usize,
        /// Traces in the answer.
        found: usize,
    },
}

/// The trace of one transaction.
#[derive(Deserialize)]
struct Traced {
    result: Difference,
}

/// The accounts that a transaction changed, as they were before it and after.
#[derive(Deserialize)]
struct Difference {
    /// What changed, with its old values; zero is left out.
    pre: AddressMap<TracedAccount>,
    /// What changed, with its new values; zero is left out of the storage. An account that is only
    /// in `pre` was deleted.
    post: AddressMap<TracedAccount>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct TracedAccount {
    balance: Option<U256>,
    nonce: Option<Quantity>,
    code_hash: Option<B256>,
    code: Option<Bytes>,
    #[serde(default)]
    storage: B256Map<B256>,
}

/// A number: geth has numerals here, others hex.
#[derive(Deserialize, Clone, Copy)]
#[serde(untagged)]
enum Quantity {
    Numeral(u64),
    Hex(U256),
}

impl Quantity {
    fn value(self) -> Option<u64> {
        match self {
            Self::Numeral(value) => Some(value),
            Self::Hex(value) => value.try_into().ok(),
        }
    }
}

impl TracedAccount {
    /// The hash of the new code. Some nodes state zero for the code of an account without any.
    fn code_hash(&self) -> Option<B256> {
        let stated = self.code_hash.filter(|hash| !hash.is_zero());
        stated.or_else(|| self.code.as_ref().map(keccak256))
    }
}

/// Reads the answer of debug_traceBlockByHash with [`TRACER_OPTIONS`] for a block with this many
/// transactions.
///
/// # Errors
/// See [`TraceError`].
pub fn traced(json: &[u8], transactions: usize) -> Result<StateChanges, TraceError> {
    let traces: Vec<Traced> = serde_json::from_slice(json)?;
    if traces.len() != transactions {
        return Err(TraceError::Count {
            expected: transactions,
            found: traces.len(),
        });
    }
    let keys_of = |accounts: &AddressMap<TracedAccount>| {
        let slots = accounts.values().map(|account| account.storage.len());
        accounts.len() + slots.sum::<usize>()
    };
    let keys = traces
        .iter()
        .map(|traced| keys_of(&traced.result.post) + keys_of(&traced.result.pre));
    if keys.sum::<usize>() > 2 * KEYS_MAX {
        return Err(TraceError::TooManyKeys);
    }
    let mut changes = StateChanges::default();
    for Traced { result } in traces {
        for (address, before) in &result.pre {
            add_transaction(&mut changes, *address, before, result.post.get(address));
        }
        let created = result.post.iter();
        let created = created.filter(|(address, _)| !result.pre.contains_key(*address));
        for (address, after) in created {
            add_transaction(
                &mut changes,
                *address,
                &TracedAccount::default(),
                Some(after),
            );
        }
    }
    Ok(changes)
}

/// Adds what one transaction did to an account.
fn add_transaction(
    changes: &mut StateChanges,
    address: Address,
    before: &TracedAccount,
    after: Option<&TracedAccount>,
) {
    let change = changes.accounts.entry(address).or_default();
    let Some(after) = after else {
        *change = AccountChange {
            is_cleared: true,
            ..AccountChange::default()
        };
        return;
    };
    change.balance = after.balance.or(change.balance);
    change.nonce = after.nonce.and_then(Quantity::value).or(change.nonce);
    change.code_hash = after.code_hash().or(change.code_hash);
    for slot in before.storage.keys() {
        change.storage.insert((*slot).into(), U256::ZERO);
    }
    for (slot, value) in &after.storage {
        change.storage.insert((*slot).into(), (*value).into());
    }
}
