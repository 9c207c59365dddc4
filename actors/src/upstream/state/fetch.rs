//! The fetch of one account's state, or of an access list, from one upstream after another.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use alloy_trie::TrieAccount;
use nearhead_chain::{
    changes::AccessList,
    remote::{UpstreamFault, verify_code, verify_proof},
};
use tokio::task::JoinError;

use super::{
    BlockRef, Shared,
    counts::CallEnd,
    shared_state::SharedState,
    single_flight::{Asks, ListRef, Subject, Wanted, WantedAccount},
};
use crate::{
    admission::Callers,
    messages::{QueryError, Reply},
    upstream::{
        client::{CallError, OptionalMethod, UpstreamClient, answer_bytes},
        health::{Fault, FaultReport, UpstreamId, Verdict},
    },
};

/// Why an upstream did not give the state.
#[derive(Debug, thiserror::Error)]
pub(super) enum StateFetchError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer failed a check.
    #[error(transparent)]
    Refuted(#[from] UpstreamFault),
    /// A check panicked, or the runtime is shut down.
    #[error("a check did not end: {0}")]
    Unchecked(#[from] JoinError),
}

/// Whether another attempt may succeed soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// Nobody knows when.
    Soon,
    /// After this time.
    After(Duration),
    /// It will not.
    Futile,
}

impl Retry {
    /// The sooner of two.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Soon, _) | (_, Self::Soon) => Self::Soon,
            (Self::After(wait), Self::After(other)) => Self::After(wait.min(other)),
            (after, Self::Futile) | (Self::Futile, after) => after,
        }
    }
}

impl Shared {
    /// Gets what is wanted: from what an earlier process has saved, from other processes, or from
    /// upstreams.
    pub(super) async fn fetch(
        &self,
        asks: Asks,
        callers: &Callers,
        block: &BlockRef,
        wanted: &Wanted,
    ) -> Reply<()> {
        // A want of another process has found that none has it.
        let others = self.others.get().filter(|_| asks == Asks::Client);
        if let Wanted::AccessList(list) = wanted
            && let Some(others) = others
        {
            return self
                .fetch_shared_list(&**others, callers, block, *list)
                .await;
        }
        let Some(parts) = wanted.parts() else {
            return self.ask_upstreams(callers, block, wanted).await;
        };
        if let Some(items) = &self.items
            && items.load(Arc::clone(&block.state), parts.clone()).await
        {
            return Ok(());
        }
        if let Some(others) = others
            && let Some(()) = others.get(block, parts.clone()).await.held()?
        {
            return Ok(());
        }
        let fetched = self.ask_upstreams(callers, block, wanted).await;
        self.give_to_others();
        if let (Err(_), Some(others)) = (&fetched, others) {
            others.give_back(block, &parts).await;
        }
        fetched
    }

    /// Gets an access list from other processes, or from upstreams.
    async fn fetch_shared_list(
        &self,
        others: &dyn SharedState,
        callers: &Callers,
        block: &BlockRef,
        list: ListRef,
    ) -> Reply<()> {
        if let Some(json) = others.get_list(block, list.hash).await.held()? {
            self.access_lists.insert(list.hash, json);
            return Ok(());
        }
        let wanted = Wanted::AccessList(list);
        let fetched = self.ask_upstreams(callers, block, &wanted).await;
        if fetched.is_err() {
            others.give_back_list(list.hash).await;
        }
        fetched
    }

    /// Gives other processes what was gained. Nobody waits for it.
    pub(super) fn give_to_others(&self) {
        if let Some(others) = self.others.get() {
            let (others, store) = (Arc::clone(others), Arc::clone(&self.store));
            self.runtime.spawn(async move { others.give(&store).await });
        }
    }

    /// Asks one upstream after another until one gives what is wanted.
    async fn ask_upstreams(
        &self,
        callers: &Callers,
        block: &BlockRef,
        wanted: &Wanted,
    ) -> Reply<()> {
        let now = Instant::now();
        let order = self.standing.order(now);
        let mut retry = match order.limited_until {
            Some(until) => Retry::After(until.saturating_duration_since(now)),
            None => Retry::Futile,
        };
        for id in order.upstreams {
            match self.fetch_from(id, callers, block, wanted).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    retry = retry.or(self.report(id, block, wanted.subject(), &error));
                }
            }
        }
        Err(match retry {
            Retry::Soon => QueryError::Unavailable,
            Retry::After(retry_after) => QueryError::Overloaded { retry_after },
            Retry::Futile => QueryError::StateUnavailable,
        })
    }

    async fn fetch_from(
        &self,
        id: UpstreamId,
        callers: &Callers,
        block: &BlockRef,
        wanted: &Wanted,
    ) -> Result<(), StateFetchError> {
        let wanted = match wanted {
            Wanted::Account(wanted) => wanted,
            Wanted::Accounts(wanted) => {
                return self.fetch_accounts(id, callers, block, wanted).await;
            }
            Wanted::AccessList(list) => return self.fetch_access_list(id, callers, *list).await,
        };
        // The account is often resident when its code is not.
        let known = match wanted.with_code {
            true => block.state.account(&wanted.address).ok(),
            false => None,
        };
        let account = match known {
            Some(account) => account,
            None => self.fetch_proof(id, callers, block, wanted).await?,
        };
        match account {
            Some(account) if wanted.with_code => {
                self.fetch_code(id, callers, block, wanted, account.code_hash)
                    .await
            }
            _ => Ok(()),
        }
    }

    async fn fetch_proof(
        &self,
        id: UpstreamId,
        callers: &Callers,
        block: &BlockRef,
        wanted: &Arc<WantedAccount>,
    ) -> Result<Option<TrieAccount>, StateFetchError> {
        let client = self.having(id, OptionalMethod::Proof)?;
        let json = client
            .on_behalf_of(callers)
            .proof(wanted.address, &wanted.slots, block.hash)
            .await;
        let json = json.inspect_err(|_| self.counts.count_call(CallEnd::Failed))?;
        let (state, wanted) = (Arc::clone(&block.state), Arc::clone(wanted));
        self.check(move || {
            let json = json.get().as_bytes();
            let verified = verify_proof(json, &state, &wanted.address, &wanted.slots)?;
            state.store().insert_verified(&verified);
            Ok(verified.proof.account)
        })
        .await
    }

    async fn fetch_code(
        &self,
        id: UpstreamId,
        callers: &Callers,
        block: &BlockRef,
        wanted: &WantedAccount,
        code_hash: B256,
    ) -> Result<(), StateFetchError> {
        if block.state.code(&code_hash).is_ok() {
            return Ok(());
        }
        let client = self.having(id, OptionalMethod::Code)?;
        let client = client.on_behalf_of(callers);
        let json = client.code(wanted.address, block.hash).await;
        let json = json.inspect_err(|_| self.counts.count_call(CallEnd::Failed))?;
        let state = Arc::clone(&block.state);
        self.check(move || {
            let code = verify_code(json.get().as_bytes(), code_hash)?;
            // If the account was evicted meanwhile, the read fetches both again.
            state.store().insert_code(code);
            Ok(())
        })
        .await
    }

    async fn fetch_access_list(
        &self,
        id: UpstreamId,
        callers: &Callers,
        list: ListRef,
    ) -> Result<(), StateFetchError> {
        let client = self.having(id, OptionalMethod::AccessList)?;
        let client = client.on_behalf_of(callers);
        let turn = self.access_lists.turn(callers).await;
        let turn = turn.ok_or(CallError::Busy)?;
        let asked = self.ask_access_list(&client, list, usize::MAX, turn).await;
        self.counts.count_call(match &asked {
            Ok(_) => CallEnd::Verified,
            Err(StateFetchError::Refuted(_)) => CallEnd::Refuted,
            Err(_) => CallEnd::Failed,
        });
        asked.map(|_| ())
    }

    /// Asks a node for an access list of at most `bytes_max` bytes, verifies it, holds it, and
    /// gives it to other processes. Returns the bytes of the node's answer too.
    ///
    /// A node whose answer has another form, or whose list is false, is known to be of no use for
    /// lists afterwards. `turn` is kept until the list is verified, even if nobody waits any more.
    pub(super) async fn ask_access_list(
        &self,
        client: &UpstreamClient,
        list: ListRef,
        bytes_max: usize,
        turn: impl Send + 'static,
    ) -> Result<(AccessList, usize), StateFetchError> {
        let bytes_max = bytes_max.min(answer_bytes::access_list(list.gas_limit));
        let answer = client.access_list(list.block, bytes_max).await?;
        let bytes = answer.get().len();
        let is_shared = self.others.get().is_some();
        let verify = move || {
            let verified = AccessList::verify(answer.get().as_bytes(), list.hash);
            let json = verified.as_ref().ok().map(AccessList::json);
            let rlp = verified.as_ref().ok().filter(|_| is_shared);
            let rlp = rlp.map(AccessList::rlp);
            drop((answer, turn));
            (verified, json, rlp)
        };
        let (verified, json, rlp) = self.on_verifier_thread(verify).await?;
        if let Some(json) = json {
            self.access_lists.insert(list.hash, json);
        }
        if let (Some(others), Some(rlp)) = (self.others.get().cloned(), rlp) {
            // Nobody waits for it.
            let give = async move { others.give_list(list.hash, rlp).await };
            self.runtime.spawn(give);
        }
        let verified = verified.map(|list| (list, bytes));
        verified.map_err(|fault| match fault {
            UpstreamFault::Absent { .. } => CallError::NotFound.into(),
            UpstreamFault::Malformed { .. } => {
                tracing::debug!(node = %client.endpoint(), %fault, "not an access list");
                client.record_missing(OptionalMethod::AccessList);
                CallError::UnsupportedMethod.into()
            }
            fault => {
                client.record_missing(OptionalMethod::AccessList);
                fault.into()
            }
        })
    }

    /// The client of an upstream that is not known to lack a method.
    pub(super) fn having(
        &self,
        id: UpstreamId,
        method: OptionalMethod,
    ) -> Result<&UpstreamClient, StateFetchError> {
        let client = &self.upstreams[id].client;
        match client.lacks(method) {
            true => Err(CallError::UnsupportedMethod.into()),
            false => Ok(client),
        }
    }

    /// Verifies an answer and keeps it, on a thread other than the follower's: a thousand slots
    /// take milliseconds, and so does evicting other state to make room for them.
    pub(super) async fn check<T: Send + 'static>(
        &self,
        check: impl FnOnce() -> Result<T, UpstreamFault> + Send + 'static,
    ) -> Result<T, StateFetchError> {
        let checked = self.on_verifier_thread(check).await?;
        self.counts.count_call(match &checked {
            Ok(_) => CallEnd::Verified,
            Err(_) => CallEnd::Refuted,
        });
        Ok(checked?)
    }

    /// Runs work on a thread other than the follower's, and counts its panic.
    pub(super) async fn on_verifier_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        tokio::task::spawn_blocking(work)
            .await
            .inspect_err(|error| {
                if error.is_panic() {
                    self.panics.count();
                    tracing::error!("work on a node's answer panicked");
                }
            })
    }

    /// Reports a failure to the follower if it is the upstream's fault or limit, and returns
    /// whether another attempt may succeed soon.
    pub(super) fn report(
        &self,
        id: UpstreamId,
        block: &BlockRef,
        subject: Subject,
        error: &StateFetchError,
    ) -> Retry {
        let upstream = &self.upstreams[id];
        let (verdict, retry) = match error {
            StateFetchError::Call(CallError::UnsupportedMethod) => {
                (Verdict::NotAtFault, Retry::Futile)
            }
            // It has pruned this block's state, or does not have the block yet. That is no fault:
            // its heads and blocks still count.
            StateFetchError::Call(error @ (CallError::NotFound | CallError::Rpc { .. })) => {
                if subject == Subject::State && upstream.state_pruned.record(Instant::now()) {
                    tracing::warn!(
                        node = %upstream.client.endpoint(),
                        block = block.number,
                        %error,
                        "the node does not have the state of a served block: it may be pruned"
                    );
                }
                (Verdict::NotAtFault, Retry::Futile)
            }
            StateFetchError::Call(error @ (CallError::Busy | CallError::RateLimited { .. })) => {
                let retry = match error {
                    CallError::RateLimited {
                        retry_after: Some(wait),
                    } => Retry::After(*wait),
                    _ => Retry::Soon,
                };
                (Verdict::from(error), retry)
            }
            StateFetchError::Call(error) => (Verdict::from(error), Retry::Futile),
            StateFetchError::Refuted(_) => (Verdict::Fault(Fault::BadProof), Retry::Futile),
            StateFetchError::Unchecked(_) => (Verdict::NotAtFault, Retry::Futile),
        };
        // An access list is of its block for ever: what kept the node from giving it may pass,
        // unless it has none. One that does not know the block yet says that it is not found.
        let has_none = matches!(
            error,
            StateFetchError::Call(CallError::UnsupportedMethod | CallError::Rpc { .. })
        );
        let retry = match subject {
            Subject::AccessList if !has_none && retry == Retry::Futile => Retry::Soon,
            Subject::AccessList | Subject::State => retry,
        };
        let (number, hash) = (block.number, block.hash);
        tracing::debug!(node = %upstream.client.endpoint(), number, %hash, %error, "the node did not give the {subject}");
        if verdict != Verdict::NotAtFault {
            // If the channel is full, another report would add nothing.
            let _ = self.fault_reports.try_send(FaultReport {
                upstream: id,
                verdict,
                error: format!("{subject} of block {number} ({hash}): {error}"),
            });
        }
        retry
    }
}
