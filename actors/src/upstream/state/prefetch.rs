//! What a call of a contract lacks, in few round trips: many accounts in one batch, and what a node
//! says that the call reads.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, U256};
use futures_util::future::try_join_all;
use nearhead_chain::{
    call::{BlockOverrides, Call},
    remote::{UpstreamFault, verify_code, verify_proof},
    trie::{State, WantedProof},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    BlockRef, Shared, StateSource,
    counts::CallEnd,
    fetch::StateFetchError,
    merging::batches,
    single_flight::{Wanted, WantedBatches},
};
use crate::{
    admission::FairPermits,
    budget::CallBudget,
    messages::Reply,
    upstream::{client::OptionalMethod, health::UpstreamId},
};

/// Accounts and slots of one prefetch. What a call reads beyond them is fetched when it is met.
const ITEMS_MAX: usize = 1_024;
/// Accounts of a prefetch that one permit is for: as many as are fetched at once without one.
const ACCOUNTS_A_PERMIT: usize = 16;
/// Longest wait for what a node says that a call reads: it is a hint, and the call goes on.
const HINT_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// Fetches accounts with these slots, and the code of those that are new, from one node in
    /// batches that are asked for at once: some of them, if they are many.
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub(crate) async fn prefetch(
        &self,
        permits: &FairPermits,
        budget: &CallBudget,
        block: &BlockRef,
        wanted: Vec<WantedProof>,
    ) -> Reply<()> {
        let (batches, _) = batches(wanted, ITEMS_MAX);
        let accounts: usize = batches.iter().map(Vec::len).sum();
        // One call proves an account with its slots; another one gets its code.
        budget.take_calls(2 * accounts, Instant::now())?;
        let permits =
            (0..accounts.div_ceil(ACCOUNTS_A_PERMIT)).map(|_| permits.take(budget.share()));
        let _permits: Vec<_> = permits.collect::<Reply<_>>()?;
        for (address, slots) in batches.iter().flatten() {
            self.shared.recent.add(*address, slots);
        }
        let wanted = WantedBatches {
            state_root: block.state.root(),
            batches,
        };
        let waiter = self.join(block, Wanted::Batches(Arc::new(wanted)));
        waiter.end().await
    }

    /// What a node says that a call reads after this block, as far as it is not held; nothing if it
    /// does not say. None of it is trusted: it is what to have proven.
    pub(crate) async fn hint(
        &self,
        budget: &CallBudget,
        block: &BlockRef,
        call: &Call,
    ) -> Vec<WantedProof> {
        let Some((call, overrides)) = as_json(call) else {
            return Vec::new();
        };
        let Some(id) = self.shared.asked_first() else {
            return Vec::new();
        };
        if budget.take_calls(1, Instant::now()).is_err() {
            return Vec::new();
        }
        let (shared, block) = (Arc::clone(&self.shared), block.clone());
        let hint = self.run(async move {
            let client = shared.having(id, OptionalMethod::CallAccessList).ok()?;
            let client = client.within(HINT_TIMEOUT);
            let answer = client.read_by_call(&call, block.hash, &overrides).await;
            let answer = answer
                .inspect_err(|error| tracing::debug!(node = %client.endpoint(), %error, "no hint"))
                .ok()?;
            let read = move || -> Option<Vec<WantedProof>> {
                let hint: Hint = serde_json::from_str(answer.get()).ok()?;
                let accounts = hint.access_list.into_iter();
                Some(
                    accounts
                        .filter_map(|account| account.unheld(&block.state))
                        .collect(),
                )
            };
            shared.on_verifier_thread(read).await.ok()?
        });
        hint.await.flatten().unwrap_or_default()
    }

    /// Runs work on the thread of the upstreams; dropping the future aborts it.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let panics = self.shared.panics.clone();
        let mut running = JoinSet::new();
        let work = async move { panics.catch_async(work).await };
        running.spawn_on(work, &self.shared.runtime);
        running.join_next().await?.ok()?.ok()
    }
}

impl HintedAccount {
    /// The account, with those of its slots that are not held; `None` if all of it is held.
    fn unheld(self, state: &State) -> Option<WantedProof> {
        let Self {
            address,
            storage_keys,
        } = self;
        let slots = storage_keys
            .into_iter()
            .map(|slot| U256::from_be_bytes(slot.0));
        let slots: Vec<_> = slots
            .filter(|slot| state.storage(&address, *slot).is_err())
            .collect();
        (!slots.is_empty() || lacks_code(state, &address)).then_some((address, slots))
    }
}

/// Whether an account or its code is not held.
fn lacks_code(state: &State, address: &Address) -> bool {
    match state.account(address) {
        Ok(Some(account)) => state.code(&account.code_hash).is_err(),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// A call as the parameters of eth_createAccessList, and the overrides of accounts that go with it;
/// `None` if it has what these do not express.
fn as_json(call: &Call) -> Option<(Value, Value)> {
    let Call {
        request,
        accounts,
        block,
        ..
    } = call;
    let is_plain = accounts.is_empty()
        && *block == BlockOverrides::default()
        && request.blob_hashes.is_none()
        && request.authorizations.is_none();
    let mut members = json!({
        "from": request.from,
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

    pub(super) async fn fetch_batches(
        &self,
        id: UpstreamId,
        block: &BlockRef,
        wanted: &WantedBatches,
    ) -> Result<(), StateFetchError> {
        let batches = wanted.batches.iter().cloned();
        let fetches = batches.map(|batch| self.fetch_batch(id, block, batch));
        try_join_all(fetches).await.map(|_| ())
    }

    /// Fetches accounts, and the code of those that are not held, in two requests at once.
    async fn fetch_batch(
        &self,
        id: UpstreamId,
        block: &BlockRef,
        batch: Vec<WantedProof>,
    ) -> Result<(), StateFetchError> {
        let client = self.having(id, OptionalMethod::Proof)?;
        let coded = batch.iter().map(|(address, _)| *address);
        let coded: Vec<Address> = coded.filter(|of| lacks_code(&block.state, of)).collect();
        let asked: Vec<_> = batch
            .iter()
            // All 32 bytes: some upstreams refuse shorter keys.
            .map(|(address, slots)| (*address, slots.iter().copied().map(B256::from).collect()))
            .collect();
        let answers = tokio::try_join!(
            client.proofs(&asked, block.hash),
            client.codes(&coded, block.hash)
        );
        let (proofs, codes) = answers.inspect_err(|_| self.counts.count_call(CallEnd::Failed))?;
        let state = Arc::clone(&block.state);
        self.check(move || {
            let store = state.store();
            for (json, (address, slots)) in proofs.iter().zip(&batch) {
                let json = json.get().as_bytes();
                let proof = verify_proof(json, state.root(), address, slots)?;
                store.insert_proof(&proof);
            }
            for (json, address) in codes.iter().zip(&coded) {
                // Held from now on, if it was not evicted already.
                let Ok(Some(account)) = state.account(address) else {
                    continue;
                };
                if state.code(&account.code_hash).is_err() {
                    store.insert_code(verify_code(json.get().as_bytes(), account.code_hash)?);
                }
            }
            Ok::<_, UpstreamFault>(())
        })
        .await
    }
}
