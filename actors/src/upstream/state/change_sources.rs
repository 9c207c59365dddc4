//! What a node says that a block changed.

use std::sync::Arc;

use nearhead_chain::{
    changes::{AccessList, TraceError, add_operations, touched, traced, witness_nodes},
    remote::UpstreamFault,
    trie::StateChanges,
};

use super::{
    BlockRef, Shared, StateFollow,
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
    /// keys that the block names.
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
                if follow == StateFollow::Witness
                    && self.take_witness(client, step, allowance).await?
                {
                    *from = ChangesFrom::Witness;
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

    /// The changes in the block's access list, which is kept for clients; `None` if the block has
    /// none, or the node does not give it.
    async fn listed(
        &self,
        id: UpstreamId,
        step: Step<'_>,
        allowance: &mut Allowance,
    ) -> Result<Option<StateChanges>, StateFetchError> {
        let client = &self.upstreams[id].client;
        let Some(hash) = step.block.header.block_access_list_hash else {
            return Ok(None);
        };
        if client.lacks(OptionalMethod::AccessList) {
            return Ok(None);
        }
        self.merges.count_request();
        let json = match allowance.first(client).access_list(step.block.hash).await {
            Ok(json) => json,
            Err(error) => return without(client, OptionalMethod::AccessList, error),
        };
        allowance.take_bytes(self, &json);
        let read = move || {
            let list = AccessList::verify(json.get().as_bytes(), hash)?;
            Ok::<_, UpstreamFault>((list.changes(), list.json()))
        };
        match self.on_verifier_thread(read).await? {
            Ok((changes, json)) => {
                self.access_lists.insert(hash, json);
                Ok(Some(changes))
            }
            // The node is at fault, and may be asked for what is proven, or only a hint.
            Err(fault) => {
                if let Some(block) = BlockRef::of(step.block) {
                    self.report(id, &block, &fault.into());
                }
                Ok(None)
            }
        }
    }

    /// The changes that the node's tracer reports; `None` if it does not.
    async fn traced(
        &self,
        client: &UpstreamClient,
        step: Step<'_>,
        allowance: &mut Allowance,
    ) -> Result<Option<StateChanges>, StateFetchError> {
        if client.lacks(OptionalMethod::Trace) {
            return Ok(None);
        }
        self.merges.count_request();
        let json = match allowance.first(client).trace(step.block.hash).await {
            Ok(json) => json,
            Err(error) => return without(client, OptionalMethod::Trace, error),
        };
        allowance.take_bytes(self, &json);
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
        if client.lacks(OptionalMethod::Witness) {
            return Ok(false);
        }
        self.merges.count_request();
        let json = match allowance.client(client).witness(step.block.number()).await {
            Ok(Some(json)) => json,
            Ok(None) => return Ok(false),
            Err(error) => {
                return Ok(without::<()>(client, OptionalMethod::Witness, error)?.is_some());
            }
        };
        allowance.take_bytes(self, &json);
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

/// What becomes of a merge if a method that it can do without fails: a node that is busy, limits
/// our calls or is gone is not asked further, any other one is asked for proofs.
fn without<T>(
    client: &UpstreamClient,
    method: OptionalMethod,
    error: CallError,
) -> Result<Option<T>, StateFetchError> {
    match error {
        CallError::Busy | CallError::RateLimited { .. } | CallError::Connection(_) => {
            Err(error.into())
        }
        error => {
            tracing::debug!(node = %client.endpoint(), ?method, %error, "not given");
            // It may have the next block. Other errors are not provoked again at every block.
            if error != CallError::NotFound {
                client.record_missing(method);
            }
            Ok(None)
        }
    }
}
