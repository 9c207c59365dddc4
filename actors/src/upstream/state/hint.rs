//! What a node says that a call of a contract reads: what to have proven, and no more.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, U256};
use nearhead_chain::{
    call::{AccountOverride, BlockOverrides, Call, StorageOverride},
    trie::{State, WantedProof},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::{BlockRef, StateSource, merging::batches};
use crate::{admission::Callers, budget::CallBudget, trace, upstream::client::OptionalMethod};

/// Accounts and slots that are taken from a hint.
const HINT_ITEMS_MAX: usize = 512;
/// Longest wait for a hint.
const HINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes of a call, with its overrides, for which a node is asked for a hint.
const HINT_BYTES_MAX: usize = 64 << 10;

/// What a node says that a call reads, once it says so. Dropping it cancels the request.
#[derive(Debug)]
pub(crate) struct PendingHint(JoinSet<Option<Vec<WantedProof>>>);

impl PendingHint {
    /// Waits for it; nothing if the node does not say.
    pub(crate) async fn get(mut self) -> Vec<WantedProof> {
        let hint = self.0.join_next().await;
        hint.and_then(Result::ok).flatten().unwrap_or_default()
    }
}

/// The part of the answer of eth_createAccessList that is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hint {
    access_list: Vec<HintedAccount>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HintedAccount {
    address: Address,
    storage_keys: Vec<B256>,
}

impl StateSource {
    /// Asks a node what a call reads after this block, as far as it is not held; `None` if no node
    /// is asked. None of it is trusted: it is what to have proven.
    pub(crate) fn hint(
        &self,
        budget: &CallBudget,
        block: &BlockRef,
        call: &Call,
    ) -> Option<PendingHint> {
        let turn = self.shared.turns.hint()?;
        let id = self.shared.asked_first()?;
        let client = self
            .shared
            .having(id, OptionalMethod::CallAccessList)
            .ok()?;
        let callers = Callers::of(budget.share());
        let client = client.on_behalf_of(&callers).within(HINT_TIMEOUT);
        let (call, overrides) = as_json(call)?;
        budget.take_calls(1, Instant::now()).ok()?;
        let (shared, block) = (Arc::clone(&self.shared), block.clone());
        let ask = async move {
            let answer = client.read_by_call(&call, block.hash, &overrides).await;
            let answer = answer
                .inspect_err(|error| tracing::debug!(node = %client.endpoint(), %error, "no hint"))
                .ok()?;
            let read = move || {
                let hint: Option<Hint> = serde_json::from_str(answer.get()).ok();
                drop(turn);
                Some(unheld(hint?, &block.state))
            };
            shared.on_verifier_thread(read).await.ok()?
        };
        let mut pending = JoinSet::new();
        pending.spawn_on(ask.instrument(trace::current()), &self.shared.runtime);
        Some(PendingHint(pending))
    }
}

/// The part of a hint that is not held. Accounts without slots lack their code.
fn unheld(hint: Hint, state: &State) -> Vec<WantedProof> {
    let accounts = hint.access_list.into_iter();
    let unheld = accounts.filter_map(|account| account.unheld(state));
    // An account with its code, and its slots.
    let each = unheld.flat_map(|(address, slots, lacks_code)| {
        let code = lacks_code.then(|| (address, Vec::new()));
        let slots = (!slots.is_empty()).then_some((address, slots));
        [code, slots].into_iter().flatten()
    });
    let (batches, _) = batches(each.collect(), HINT_ITEMS_MAX, HINT_ITEMS_MAX);
    batches.into_iter().flatten().collect()
}

impl HintedAccount {
    /// The account, those of its slots that are not held, and whether its code is not; `None` if
    /// all of it is held.
    fn unheld(self, state: &State) -> Option<(Address, Vec<U256>, bool)> {
        let slots = self.storage_keys.into_iter();
        let slots = slots.map(|slot| U256::from_be_bytes(slot.0));
        let is_unheld = |slot: &U256| state.storage(&self.address, *slot).is_err();
        let slots: Vec<_> = slots.filter(is_unheld).collect();
        let lacks_code = match state.account(&self.address) {
            Ok(Some(account)) => state.code(&account.code_hash).is_err(),
            Ok(None) => false,
            Err(_) => true,
        };
        (lacks_code || !slots.is_empty()).then_some((self.address, slots, lacks_code))
    }
}

/// A call as the parameters of eth_createAccessList, and the overrides of accounts that go with it;
/// `None` if it has what these do not express.
fn as_json(call: &Call) -> Option<(Value, Value)> {
    let Call {
        request,
        accounts,
        block,
        gas_max,
    } = call;
    if *block != BlockOverrides::default() || hint_bytes(call) > HINT_BYTES_MAX {
        return None;
    }
    let gas = request.gas.unwrap_or(u64::MAX).min(*gas_max);
    let mut members = json!({
        "from": request.from,
        "gas": format!("{gas:#x}"),
        "value": request.value,
        "input": request.input,
    });
    if let Some(to) = request.to {
        members["to"] = json!(to);
    }
    if let Some(list) = &request.access_list {
        members["accessList"] = json!(list);
    }
    if let Some(authorizations) = &request.authorizations {
        members["authorizationList"] = json!(authorizations);
    }
    if let Some(hashes) = &request.blob_hashes {
        members["blobVersionedHashes"] = json!(hashes);
    }
    if let Some(fee) = request.max_fee_per_blob_gas {
        members["maxFeePerBlobGas"] = format!("{fee:#x}").into();
    }
    let overrides = accounts.iter();
    let overrides =
        overrides.map(|(address, account)| (address.to_string(), override_json(account)));
    let mut overrides = Value::Object(overrides.collect());
    // Nodes fill in a price, which the sender has to be able to pay.
    overrides[request.from.to_string()]["balance"] = json!(U256::MAX >> 64);
    Some((members, overrides))
}

/// Approximate size of what a call says, in bytes.
fn hint_bytes(call: &Call) -> usize {
    let Call {
        request, accounts, ..
    } = call;
    let slots = request.access_list.iter().flat_map(|list| &list.0);
    let listed: usize = slots.map(|item| 32 + 32 * item.storage_keys.len()).sum();
    let authorizations = request.authorizations.as_ref().map_or(0, Vec::len);
    let blobs = request.blob_hashes.as_ref().map_or(0, Vec::len);
    let overridden: usize = accounts.values().map(override_bytes).sum();
    request.input.len() + listed + 128 * authorizations + 32 * blobs + overridden
}

/// Approximate size of an account's overrides, in bytes.
fn override_bytes(account: &AccountOverride) -> usize {
    let slots = match &account.storage {
        StorageOverride::Nothing => 0,
        StorageOverride::Slots(slots) | StorageOverride::Whole(slots) => slots.len(),
    };
    64 + account.code.as_ref().map_or(0, |code| code.len()) + 64 * slots
}

/// Overrides of an account as parameters.
fn override_json(account: &AccountOverride) -> Value {
    let words = |slots: &BTreeMap<U256, U256>| -> Value {
        let word = |value: &U256| B256::from(*value).to_string();
        let slots = slots.iter();
        let slots = slots.map(|(slot, value)| (word(slot), word(value).into()));
        Value::Object(slots.collect())
    };
    let mut members = serde_json::Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        members.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("balance", account.balance.map(|balance| json!(balance)));
    add(
        "nonce",
        account.nonce.map(|nonce| format!("{nonce:#x}").into()),
    );
    add("code", account.code.as_ref().map(|code| json!(code)));
    let moved_to = account.precompile_moved_to;
    add(
        "movePrecompileToAddress",
        moved_to.map(|address| json!(address)),
    );
    match &account.storage {
        StorageOverride::Nothing => {}
        StorageOverride::Slots(slots) => add("stateDiff", Some(words(slots))),
        StorageOverride::Whole(slots) => add("state", Some(words(slots))),
    }
    Value::Object(members)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloy_primitives::Bytes;
    use nearhead_chain::call::CallRequest;

    use super::*;

    const OTHER: Address = Address::repeat_byte(0x0c);

    fn overriding(account: AccountOverride) -> Call {
        Call {
            accounts: [(OTHER, account)].into(),
            ..Call::default()
        }
    }

    /// What a node is asked besides the sender's balance.
    fn check(account: AccountOverride, expected: Value) {
        let (_, overrides) = as_json(&overriding(account)).unwrap();
        assert_eq!(overrides[OTHER.to_string()], expected);
        let sender = &overrides[Address::ZERO.to_string()];
        assert_eq!(*sender, json!({"balance": U256::MAX >> 64}));
    }

    #[test]
    fn overrides_of_accounts_are_those_of_the_call() {
        let word = |value: u64| B256::from(U256::from(value)).to_string();
        let slots = BTreeMap::from([(U256::from(1), U256::from(2))]);
        let empty = AccountOverride::default;
        check(empty(), json!({}));
        let account = AccountOverride {
            balance: Some(U256::from(16)),
            nonce: Some(7),
            code: Some(Bytes::from_static(&[0xfe])),
            precompile_moved_to: Some(Address::with_last_byte(9)),
            ..empty()
        };
        let expected = json!({
            "balance": "0x10",
            "nonce": "0x7",
            "code": "0xfe",
            "movePrecompileToAddress": Address::with_last_byte(9),
        });
        check(account, expected);
        let some = AccountOverride {
            storage: StorageOverride::Slots(slots.clone()),
            ..empty()
        };
        check(some, json!({"stateDiff": {word(1): word(2)}}));
        let whole = AccountOverride {
            storage: StorageOverride::Whole(slots),
            ..empty()
        };
        check(whole, json!({"state": {word(1): word(2)}}));
    }

    #[test]
    fn blobs_and_authorizations_are_those_of_the_call() {
        let signed = json!({
            "chainId": "0x1", "address": OTHER, "nonce": "0x7",
            "yParity": "0x1", "r": "0x2", "s": "0x3",
        });
        let authorization = serde_json::from_value(signed.clone()).unwrap();
        let request = CallRequest {
            blob_hashes: Some(vec![B256::ZERO]),
            max_fee_per_blob_gas: Some(16),
            authorizations: Some(vec![authorization]),
            ..CallRequest::default()
        };
        let call = Call {
            request,
            ..Call::default()
        };
        let (members, _) = as_json(&call).unwrap();
        assert_eq!(members["blobVersionedHashes"], json!([B256::ZERO]));
        assert_eq!(members["maxFeePerBlobGas"], "0x10");
        assert_eq!(members["authorizationList"], json!([signed]));
    }

    #[test]
    fn what_is_too_long_or_not_expressed_gets_no_hint() {
        let long = || Bytes::from(vec![0; HINT_BYTES_MAX + 1]);
        let code = AccountOverride {
            code: Some(long()),
            ..AccountOverride::default()
        };
        let of = |request| Call {
            request,
            ..Call::default()
        };
        let input = CallRequest {
            input: long(),
            ..CallRequest::default()
        };
        let block = Call {
            block: BlockOverrides {
                number: Some(1),
                ..BlockOverrides::default()
            },
            ..Call::default()
        };
        for call in [overriding(code), of(input), block] {
            assert_eq!(as_json(&call), None);
        }
        assert!(as_json(&Call::default()).is_some());
    }
}
