//! What a call of a contract lacks, in few round trips: many accounts in one batch.

use std::{sync::Arc, time::Instant};

use alloy_primitives::Address;
use futures_util::future::join_all;
use nearhead_chain::{
    remote::{UpstreamFault, verify_code, verify_proof},
    trie::WantedProof,
};

use super::{
    BlockRef, Shared, StateSource,
    counts::CallEnd,
    fetch::StateFetchError,
    merging::batches,
    single_flight::{Wanted, WantedAccounts},
};
use crate::{
    admission::{Callers, FairPermits},
    budget::CallBudget,
    messages::{QueryError, Reply},
    upstream::{
        client::{CallError, OptionalMethod},
        health::UpstreamId,
    },
};

/// Accounts and slots of one prefetch. What a call reads beyond them is fetched when it is met.
const ITEMS_MAX: usize = 1_024;
/// Accounts and slots of one batch: nodes prove them one after another.
const BATCH_ITEMS: usize = 64;
/// Fewer accounts than this are fetched one by one, because other reads may share these fetches.
const ACCOUNTS_MIN: usize = 5;

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
        let wanted = Wanted::Accounts(Arc::new(wanted));
        let waiter = self.join(budget, block, wanted);
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
}

impl Shared {
    /// The node that is asked first.
    pub(super) fn asked_first(&self) -> Option<UpstreamId> {
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
        callers: &Callers,
        block: &BlockRef,
        wanted: &WantedAccounts,
    ) -> Result<(), StateFetchError> {
        let batches = wanted.batches.iter().cloned();
        let fetches = batches.map(|batch| self.fetch_batch(id, callers, block, batch));
        join_all(fetches).await.into_iter().collect()
    }

    /// Fetches accounts, and the code of those without slots, in two requests at once.
    async fn fetch_batch(
        &self,
        id: UpstreamId,
        callers: &Callers,
        block: &BlockRef,
        batch: Vec<WantedProof>,
    ) -> Result<(), StateFetchError> {
        let turn = self.turns.batch(callers).await.ok_or(CallError::Busy)?;
        let client = self.having(id, OptionalMethod::Proof)?;
        let client = client.on_behalf_of(callers);
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
