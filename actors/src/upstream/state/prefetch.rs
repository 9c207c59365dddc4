//! What a call of a contract lacks, in few round trips: many accounts in one batch, and what a node
//! says that the call reads.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, U256};
use futures_util::future::join_all;
use nearhead_chain::{
    call::{BlockOverrides, Call},
    remote::{UpstreamFault, verify_code, verify_proof},
    trie::{State, WantedProof},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::{
    BlockRef, Shared, StateSource,
    counts::CallEnd,
    fetch::StateFetchError,
    merging::batches,
    single_flight::{Wanted, WantedAccounts},
};
use crate::{
    admission::FairPermits,
    budget::CallBudget,
    messages::{QueryError, Reply},
    trace,
    upstream::{client::OptionalMethod, health::UpstreamId},
};

/// Accounts and slots of one prefetch. What a call reads beyond them is fetched when it is met.
const ITEMS_MAX: usize = 1_024;
/// Accounts and slots of one batch: nodes prove them one after another.
const BATCH_ITEMS: usize = 64;
/// Fewer accounts than this are fetched one by one, because other reads may share these fetches.
const ACCOUNTS_MIN: usize = 5;
/// Accounts and slots that are taken from a hint.
const HINT_ITEMS_MAX: usize = 512;
/// Longest wait for a hint.
const HINT_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest input, in bytes, of a call for which a node is asked for a hint.
const HINT_INPUT_BYTES_MAX: usize = 64 << 10;

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
    /// Fetches accounts with these slots, or with their code where no slots are named, in few
    /// requests: some of them, if they are many.
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub(crate) async fn prefetch(
        &self,
        permits: &FairPermits,
        budget: &CallBudget,
        block: &BlockRef,
        wanted: &[WantedProof],
    ) -> Reply<()> {
        let has_batches = |id: UpstreamId| self.shared.upstreams[id].client.takes_batches();
        let is_batched = wanted.len() >= ACCOUNTS_MIN;
        if !is_batched || !self.shared.asked_first().is_some_and(has_batches) {
            return self.complete_all(permits, budget, block, wanted).await;
        }
        for (address, slots) in wanted {
            self.shared.recent.add(*address, slots);
        }
        match self
            .fetch_some(permits, budget, block, wanted.to_vec())
            .await
        {
            // No node gives all of it at once.
            Err(QueryError::StateUnavailable) => {
                self.complete_all(permits, budget, block, wanted).await
            }
            fetched => fetched,
        }
    }

    /// Fetches what a hint names as far as a node gives it, the budget allows it, and permits are
    /// free.
    pub(crate) async fn prefetch_hinted(
        &self,
        permits: &FairPermits,
        budget: &CallBudget,
        block: &BlockRef,
        hinted: Vec<WantedProof>,
    ) {
        if !hinted.is_empty() {
            let _ = self.fetch_some(permits, budget, block, hinted).await;
        }
    }

    async fn fetch_some(
        &self,
        permits: &FairPermits,
        budget: &CallBudget,
        block: &BlockRef,
        wanted: Vec<WantedProof>,
    ) -> Reply<()> {
        let (batches, _) = batches(wanted, ITEMS_MAX, BATCH_ITEMS);
        // One call proves an account with its slots; another one gets its code.
        let calls_of = |(_, slots): &WantedProof| 1 + usize::from(slots.is_empty());
        let calls = batches.iter().flatten().map(calls_of).sum();
        budget.take_calls(calls, Instant::now())?;
        let permits = batches.iter().map(|_| permits.take(budget.share()));
        let _permits: Vec<_> = permits.collect::<Reply<_>>()?;
        let wanted = WantedAccounts {
            state_root: block.state.root(),
            batches,
        };
        let waiter = self.join(block, Wanted::Accounts(Arc::new(wanted)));
        waiter.end().await
    }

    /// Fetches each account by itself. An account that is read without slots is called next, most
    /// likely.
    async fn complete_all(
        &self,
        permits: &FairPermits,
        budget: &CallBudget,
        block: &BlockRef,
        wanted: &[WantedProof],
    ) -> Reply<()> {
        let wanted = wanted.iter().cloned();
        let (accounts, slots): (Vec<_>, Vec<_>) = wanted.partition(|(_, slots)| slots.is_empty());
        let fetches = tokio::try_join!(
            self.complete(permits, budget, block, &accounts, true),
            self.complete(permits, budget, block, &slots, false),
        );
        fetches.map(|_| ())
    }

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
        let client = client.within(HINT_TIMEOUT);
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
    let is_plain = accounts.is_empty()
        && request.input.len() <= HINT_INPUT_BYTES_MAX
        && *block == BlockOverrides::default()
        && request.blob_hashes.is_none()
        && request.authorizations.is_none();
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
    // Nodes fill in a price, which the sender has to be able to pay.
    let rich = json!({"balance": U256::MAX >> 64});
    let overrides = json!({request.from.to_string(): rich});
    is_plain.then_some((members, overrides))
}

impl Shared {
    /// The node that is asked first.
    fn asked_first(&self) -> Option<UpstreamId> {
        self.standing
            .order(Instant::now())
            .upstreams
            .first()
            .copied()
    }

    /// Fetches accounts in batches that are asked for at once. What an answer has is kept, also if
    /// another one fails.
    pub(super) async fn fetch_accounts(
        &self,
        id: UpstreamId,
        block: &BlockRef,
        wanted: &WantedAccounts,
    ) -> Result<(), StateFetchError> {
        let batches = wanted.batches.iter().cloned();
        let fetches = batches.map(|batch| self.fetch_batch(id, block, batch));
        join_all(fetches).await.into_iter().collect()
    }

    /// Fetches accounts, and the code of those without slots, in two requests at once.
    async fn fetch_batch(
        &self,
        id: UpstreamId,
        block: &BlockRef,
        batch: Vec<WantedProof>,
    ) -> Result<(), StateFetchError> {
        let turn = self.turns.batch().await;
        let client = self.having(id, OptionalMethod::Proof)?;
        let without_slots = batch.iter().filter(|(_, slots)| slots.is_empty());
        let with_code: Vec<Address> = without_slots.map(|(address, _)| *address).collect();
        if !with_code.is_empty() {
            self.having(id, OptionalMethod::Code)?;
        }
        let (proofs, codes) = tokio::join!(
            client.proofs(&batch, block.hash, usize::MAX),
            client.codes(&with_code, block.hash)
        );
        let proofs = proofs.inspect_err(|_| self.counts.count_call(CallEnd::Failed))?;
        let state = Arc::clone(&block.state);
        let kept = self.check(move || {
            let store = state.store();
            let mut failed = None;
            for (answer, (address, slots)) in proofs.into_iter().zip(&batch) {
                match answer {
                    Ok(json) => {
                        let json = json.get().as_bytes();
                        let proof = verify_proof(json, &state, address, slots)?;
                        store.insert_verified(&proof);
                    }
                    Err(error) => failed = Some(error),
                }
            }
            let codes = codes.unwrap_or_else(|error| {
                failed = Some(error);
                Vec::new()
            });
            for (answer, address) in codes.into_iter().zip(&with_code) {
                // Held from now on, if it was not evicted already.
                let account = state.account(address).ok().flatten();
                let hash = account.map(|account| account.code_hash);
                match (answer, hash) {
                    (Ok(json), Some(hash)) if state.code(&hash).is_err() => {
                        store.insert_code(verify_code(json.get().as_bytes(), hash)?);
                    }
                    (Ok(_), _) => {}
                    (Err(error), _) => failed = Some(error),
                }
            }
            drop(turn);
            Ok::<_, UpstreamFault>(failed)
        });
        match kept.await? {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
