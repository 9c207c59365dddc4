//! What a node says that a block changed.

use std::{sync::Arc, time::Instant};

use nearhead_chain::{
    changes::{TraceError, add_operations, touched, traced, witness_nodes},
    trie::StateChanges,
};

use super::{
    ListRef, Shared, StateFollow, StateUpstream,
    fetch::StateFetchError,
    merge_counts::ChangesFrom,
    merging::{Allowance, Step},
};
use crate::upstream::{
    client::{CallError, OptionalMethod, UpstreamClient},
    health::UpstreamId,
};

impl Shared {
    /// What the block changed: as its access list has it, as the node's tracer reports it, or the
    /// keys that the block names. `from` is set to each of these before the node is asked.
    pub(super) async fn changes(
        &self,
        id: UpstreamId,
        follow: StateFollow,
        step: Step<'_>,
        allowance: &mut Allowance,
        from: &mut ChangesFrom,
    ) -> Result<StateChanges, StateFetchError> {
        let client = &self.upstreams[id].client;
        if matches!(follow, StateFollow::Auto | StateFollow::Witness) {
            *from = ChangesFrom::AccessList;
            let mut changes = self.listed(id, step, allowance).await?;
            if changes.is_none() {
                *from = ChangesFrom::Tracer;
                changes = self.traced(client, step, allowance).await?;
            }
            if let Some(changes) = changes {
                let changes_from = *from;
                if follow == StateFollow::Witness {
                    *from = ChangesFrom::Witness;
                    if !self.take_witness(client, step, allowance).await? {
                        *from = changes_from;
                    }
                }
                return Ok(changes);
            }
        }
        *from = ChangesFrom::Keys;
        let (parent, block) = (Arc::clone(step.parent), Arc::clone(step.block));
        let mut changes = self
            .on_verifier_thread(move || match &parent.state {
                Some(before) => touched(&block, before),
                None => StateChanges::default(),
            })
            .await?;
        self.recent.add_to(&mut changes);
        Ok(changes)
    }

    /// The changes in the block's access list, which is held for clients too; `None` if the block
    /// has none, or the node does not give it.
    async fn listed(
        &self,
        id: UpstreamId,
        step: Step<'_>,
        allowance: &mut Allowance,
    ) -> Result<Option<StateChanges>, StateFetchError> {
        let Some(list) = ListRef::of(step.block).filter(|_| self.gives_lists(id)) else {
            return Ok(None);
        };
        let bytes_max = allowance.bytes_left();
        if bytes_max == 0 {
            return Ok(None);
        }
        let client = allowance.before_proofs(&self.upstreams[id].client);
        self.merges.count_request();
        // One merge is under way at a time: it waits for no turn.
        let asked = self.ask_access_list(&client, list, bytes_max, ());
        let error = match asked.await {
            Ok((list, bytes)) => {
                allowance.take_bytes(self, bytes);
                return Ok(Some(list.changes()));
            }
            Err(StateFetchError::Call(error)) => error,
            Err(error) => return Err(error),
        };
        // It may be short of time, or lack this one list: clients may ask it for others.
        if !matches!(error, CallError::NotFound | CallError::UnsupportedMethod) {
            self.upstreams[id].gives_no_lists.record(Instant::now());
        }
        match error {
            CallError::Busy | CallError::RateLimited { .. } | CallError::Connection(_) => {
                Err(error.into())
            }
            _ => Ok(None),
        }
    }

    /// Whether a merge asks this node for access lists.
    pub(super) fn gives_lists(&self, id: UpstreamId) -> bool {
        let StateUpstream {
            client,
            gives_no_lists,
            ..
        } = &self.upstreams[id];
        !client.lacks(OptionalMethod::AccessList) && !gives_no_lists.is_known(Instant::now())
    }

    /// The changes that the node's tracer reports; `None` if it does not.
    async fn traced(
        &self,
        client: &UpstreamClient,
        step: Step<'_>,
        allowance: &mut Allowance,
    ) -> Result<Option<StateChanges>, StateFetchError> {
        let bytes_max = allowance.bytes_left();
        if bytes_max == 0 || client.lacks(OptionalMethod::Trace) {
            return Ok(None);
        }
        self.merges.count_request();
        let asked = allowance.before_proofs(client);
        let json = match asked.trace(step.block.hash, bytes_max).await {
            Ok(json) => json,
            Err(error) => return without(client, OptionalMethod::Trace, allowance, error),
        };
        allowance.take_bytes(self, json.get().len());
        let (parent, block) = (Arc::clone(step.parent), Arc::clone(step.block));
        let read = move || {
            let transactions = block.transaction_hashes.len();
            let mut changes = traced(json.get().as_bytes(), transactions)?;
            if let Some(before) = &parent.state {
                add_operations(&mut changes, &block, before);
            }
            Ok::<_, TraceError>(changes)
        };
        match self.on_verifier_thread(read).await? {
            Ok(changes) => Ok(Some(changes)),
            Err(error) => {
                // Some clients have another tracer under this name.
                if !matches!(error, TraceError::Count { .. }) {
                    client.record_missing(OptionalMethod::Trace);
                }
                let number = step.block.number();
                tracing::debug!(node = %client.endpoint(), number, %error, "the trace is not used");
                Ok(None)
            }
        }
    }

    /// Adds the nodes of the state before the block that the node's witness holds, so that the
    /// changes can be computed. Returns whether there is one.
    async fn take_witness(
        &self,
        client: &UpstreamClient,
        step: Step<'_>,
        allowance: &mut Allowance,
    ) -> Result<bool, StateFetchError> {
        let bytes_max = allowance.bytes_left();
        if bytes_max == 0 || client.lacks(OptionalMethod::Witness) {
            return Ok(false);
        }
        self.merges.count_request();
        let asked = allowance.before_proofs(client);
        let json = match asked.witness(step.block.number(), bytes_max).await {
            Ok(Some(json)) => json,
            Ok(None) => return Ok(false),
            Err(error) => {
                let method = OptionalMethod::Witness;
                return Ok(without::<()>(client, method, allowance, error)?.is_some());
            }
        };
        allowance.take_bytes(self, json.get().len());
        let before = step.parent.state.clone();
        let insert = move || {
            let nodes = witness_nodes(json.get().as_bytes())?;
            if let Some(before) = before {
                before.store().insert_nodes(nodes);
            }
            Ok::<_, serde_json::Error>(())
        };
        let inserted = self.on_verifier_thread(insert).await?;
        if let Err(error) = &inserted {
            let number = step.block.number();
            tracing::debug!(node = %client.endpoint(), number, %error, "the witness is not used");
        }
        Ok(inserted.is_ok())
    }
}

/// What becomes of a merge if a method that it can do without fails: a node that is busy or limits
/// our calls is not asked further, any other one is asked for proofs.
fn without<T>(
    client: &UpstreamClient,
    method: OptionalMethod,
    allowance: &mut Allowance,
    error: CallError,
) -> Result<Option<T>, StateFetchError> {
    if let CallError::Busy | CallError::RateLimited { .. } = error {
        return Err(error.into());
    }
    tracing::debug!(node = %client.endpoint(), ?method, %error, "not given");
    match error {
        // It may have the next block.
        CallError::NotFound => {}
        // The node may be gone: whether it is shows when it is asked for proofs.
        CallError::Connection(_) => allowance.lost.push(method),
        // Other errors are not provoked again at every block.
        _ => client.record_missing(method),
    }
    Ok(None)
}
