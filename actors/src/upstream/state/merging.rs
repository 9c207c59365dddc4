//! One merge: the changes of a block from one node after another, then what cannot be computed,
//! proven in batches.

use std::{sync::Arc, time::Instant};

use alloy_primitives::B256;
use futures_util::future::try_join_all;
use nearhead_chain::{
    block::Block,
    changes::{TraceError, add_operations, touched, traced, witness_nodes},
    remote::{UpstreamFault, verify_proof},
    trie::{Merge, Merged, State, StateChanges, TrieError, WantedProof},
};
use serde_json::value::RawValue;

use super::{
    BlockRef, Shared, StateFollow,
    fetch::StateFetchError,
    merge_counts::{ChangesFrom, MergeEnd},
};
use crate::upstream::{
    client::{CallError, OptionalMethod, UpstreamClient},
    health::UpstreamId,
};

/// Accounts and slots that one merge may have proven: more than a full block changes.
const ITEMS_MAX: usize = 1_024;
/// Bytes of JSON that one merge may ask for.
const BYTES_MAX: usize = 16 << 20;
/// Accounts and slots of one batch. geth answers a batch in order, so several are faster than one.
const BATCH_ITEMS: usize = 128;
/// Batches that are in progress at once: they leave most of a node's turns to reads.
const BATCHES_AT_ONCE: usize = 4;
/// Times that one merge asks for proofs: for what cannot be computed, and once more for what did
/// not lead to the hash that is named.
const ROUNDS: usize = 2;

/// A block to merge, after its parent.
#[derive(Clone, Copy)]
pub(super) struct Step<'b> {
    pub(super) parent: &'b Arc<Block>,
    pub(super) block: &'b Arc<Block>,
}

/// What a merge may still ask for.
struct Allowance {
    items: usize,
    bytes: usize,
    /// When its time is over.
    until: Instant,
}

impl Allowance {
    /// A client whose calls end in time, so that none is given up behind its back.
    fn client(&self, client: &UpstreamClient) -> UpstreamClient {
        client.within(self.until.saturating_duration_since(Instant::now()))
    }

    fn take_bytes(&mut self, shared: &Shared, json: &RawValue) {
        let bytes = json.get().len();
        shared.merges.count_bytes(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Shared {
    /// Merges a block, with the changes that one node reports. The next node is asked if one fails.
    pub(super) async fn merge(
        &self,
        follow: StateFollow,
        step: Step<'_>,
        until: Instant,
    ) -> (ChangesFrom, MergeEnd) {
        let mut from = ChangesFrom::Keys;
        let block = BlockRef::of(step.block);
        let (Some(block), Some(before)) = (block, &step.parent.state) else {
            return (from, MergeEnd::Failed);
        };
        let mut allowance = Allowance {
            items: ITEMS_MAX,
            bytes: BYTES_MAX,
            until,
        };
        for id in self.merge_order(follow) {
            let merged = async {
                let changes;
                (from, changes) = self.changes(id, follow, step, &mut allowance).await?;
                self.merge_changes(id, &block, before, changes, &mut allowance)
                    .await
            };
            match merged.await {
                Ok(end) => return (from, end),
                // A node that limits merges still has to give what reads lack.
                Err(StateFetchError::Call(CallError::RateLimited { .. } | CallError::Busy)) => {
                    self.upstreams[id].limits_merges.record(Instant::now());
                }
                Err(error) => _ = self.report(id, &block, &error),
            }
        }
        (from, MergeEnd::Failed)
    }

    /// The nodes to ask, those with a tracer first; without those that limit merges.
    fn merge_order(&self, follow: StateFollow) -> Vec<UpstreamId> {
        let now = Instant::now();
        let mut order = self.standing.order(now).upstreams;
        order.retain(|id| !self.upstreams[*id].limits_merges.is_known(now));
        if follow != StateFollow::Proofs {
            order.sort_by_key(|id| self.upstreams[*id].client.lacks(OptionalMethod::Trace));
        }
        order
    }

    /// What the block changed: as the node's tracer reports it, or the keys that the block names.
    async fn changes(
        &self,
        id: UpstreamId,
        follow: StateFollow,
        step: Step<'_>,
        allowance: &mut Allowance,
    ) -> Result<(ChangesFrom, StateChanges), StateFetchError> {
        let client = &self.upstreams[id].client;
        let traces = matches!(follow, StateFollow::Auto | StateFollow::Witness);
        if traces && let Some(changes) = self.traced(client, step, allowance).await? {
            let mut from = ChangesFrom::Tracer;
            if follow == StateFollow::Witness && self.take_witness(client, step, allowance).await? {
                from = ChangesFrom::Witness;
            }
            return Ok((from, changes));
        }
        let (parent, block) = (Arc::clone(step.parent), Arc::clone(step.block));
        let mut changes = self
            .on_verifier_thread(move || match &parent.state {
                Some(before) => touched(&block, before),
                None => StateChanges::default(),
            })
            .await?;
        self.recent.add_to(&mut changes);
        Ok((ChangesFrom::Keys, changes))
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
        // Half of the time is for proofs.
        let left = allowance.until.saturating_duration_since(Instant::now());
        let json = match client.within(left / 2).trace(step.block.hash).await {
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

    /// Merges changes into the state after the block.
    async fn merge_changes(
        &self,
        id: UpstreamId,
        block: &BlockRef,
        before: &Arc<State>,
        changes: StateChanges,
        allowance: &mut Allowance,
    ) -> Result<MergeEnd, StateFetchError> {
        let (before, after) = (Arc::clone(before), Arc::clone(&block.state));
        let keys = changes.keys();
        let begin = move || {
            let merge = Merge::new(before, after, &changes);
            let unheld = merge.unheld();
            (Arc::new(merge), unheld)
        };
        let not_merged = |error: TrieError| {
            tracing::warn!(number = block.number, %error, "the state cannot be merged");
            Ok(MergeEnd::Part)
        };
        let (merge, unheld) = self.on_verifier_thread(begin).await?;
        let mut wanted = match unheld {
            Ok(wanted) => wanted,
            Err(error) => return not_merged(error),
        };
        let (mut proven, mut left_out) = (0, 0);
        let mut merged = Merged::default();
        for _ in 0..ROUNDS {
            let asked = keys_of(&wanted);
            let found = self.prove(id, block, wanted, allowance).await?;
            proven += found;
            left_out += asked - found;
            let merge = Arc::clone(&merge);
            merged = match self.on_verifier_thread(move || merge.run()).await? {
                Ok(merged) => merged,
                Err(error) => return not_merged(error),
            };
            if merged.unmerged.is_empty() {
                break;
            }
            wanted = merged.unmerged.clone();
        }
        self.merges.count_keys(keys.saturating_sub(proven), proven);
        let (unmerged, unreported) = (merged.unmerged.len(), merged.unreported);
        let BlockRef { number, hash, .. } = block;
        tracing::debug!(number, %hash, keys, proven, unmerged, unreported, "state merged");
        Ok(match merged.is_complete() && left_out == 0 {
            true => MergeEnd::Whole,
            false => MergeEnd::Part,
        })
    }

    /// Has the node prove as much as is allowed, and stores it. Returns the number of proven keys.
    async fn prove(
        &self,
        id: UpstreamId,
        block: &BlockRef,
        wanted: Vec<WantedProof>,
        allowance: &mut Allowance,
    ) -> Result<usize, StateFetchError> {
        if wanted.is_empty() {
            return Ok(0);
        }
        let client = allowance.client(self.having(id, OptionalMethod::Proof)?);
        let (batches, items) = batches(wanted, allowance.items);
        allowance.items -= items;
        let mut proven = 0;
        let mut batches = batches.into_iter().peekable();
        while batches.peek().is_some() && allowance.bytes > 0 {
            let now: Vec<_> = batches.by_ref().take(BATCHES_AT_ONCE).collect();
            proven += now.iter().map(|batch| keys_of(batch)).sum::<usize>();
            let now = now.into_iter();
            let answers = try_join_all(now.map(|batch| self.prove_batch(&client, block, batch)));
            let bytes: usize = answers.await?.into_iter().sum();
            allowance.bytes = allowance.bytes.saturating_sub(bytes);
        }
        Ok(proven)
    }

    /// Asks for a batch of proofs, and stores them. Returns the bytes of the answer.
    ///
    /// It asks twice if a check fails: a node that executes the next block at that moment may
    /// prove the state of that one (anvil 1.7.1 does).
    async fn prove_batch(
        &self,
        client: &UpstreamClient,
        block: &BlockRef,
        batch: Vec<WantedProof>,
    ) -> Result<usize, StateFetchError> {
        let batch = Arc::from(batch);
        match self.prove_once(client, block, &batch).await {
            Err(StateFetchError::Refuted(_)) => self.prove_once(client, block, &batch).await,
            proven => proven,
        }
    }

    async fn prove_once(
        &self,
        client: &UpstreamClient,
        block: &BlockRef,
        batch: &Arc<[WantedProof]>,
    ) -> Result<usize, StateFetchError> {
        let asked: Vec<_> = batch
            .iter()
            // All 32 bytes: some upstreams refuse shorter keys.
            .map(|(address, slots)| (*address, slots.iter().copied().map(B256::from).collect()))
            .collect();
        self.merges.count_request();
        let answers = client.proofs(&asked, block.hash).await?;
        let bytes = answers.iter().map(|json| json.get().len()).sum();
        self.merges.count_bytes(bytes);
        let (state, batch) = (Arc::clone(&block.state), Arc::clone(batch));
        let verify = move || {
            for (json, (address, slots)) in answers.iter().zip(&*batch) {
                let json = json.get().as_bytes();
                let proof = verify_proof(json, state.root(), address, slots)?;
                state.store().insert_unread_proof(&proof);
            }
            Ok::<_, UpstreamFault>(())
        };
        self.on_verifier_thread(verify).await??;
        Ok(bytes)
    }
}

/// Number of accounts and slots.
fn keys_of(wanted: &[WantedProof]) -> usize {
    wanted.iter().map(|(_, slots)| 1 + slots.len()).sum()
}

/// Splits what is wanted into batches, up to a number of accounts and slots, which is returned too.
fn batches(wanted: Vec<WantedProof>, items_max: usize) -> (Vec<Vec<WantedProof>>, usize) {
    let mut batches: Vec<Vec<WantedProof>> = Vec::new();
    let (mut items, mut in_batch) = (0, 0);
    for (address, mut slots) in wanted {
        if items == items_max {
            break;
        }
        slots.truncate(items_max - items - 1);
        let count = 1 + slots.len();
        if batches.is_empty() || in_batch + count > BATCH_ITEMS {
            batches.push(Vec::new());
            in_batch = 0;
        }
        if let Some(batch) = batches.last_mut() {
            batch.push((address, slots));
        }
        items += count;
        in_batch += count;
    }
    (batches, items)
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

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};

    use super::*;

    #[test]
    fn batches_have_a_bounded_number_of_items() {
        let wanted = |accounts: &[usize]| -> Vec<WantedProof> {
            let account = |(at, slots): (usize, &usize)| {
                let slots = (0..*slots).map(U256::from).collect();
                (Address::with_last_byte(at as u8), slots)
            };
            accounts.iter().enumerate().map(account).collect()
        };
        let cases: [(&[usize], usize, &[usize], usize); 6] = [
            (&[], 1_024, &[], 0),
            (&[0, 0, 5], 1_024, &[8], 8),
            (&[100, 26, 0], 1_024, &[128, 1], 129),
            (&[300, 1], 1_024, &[301, 2], 303),
            (&[5, 5], 8, &[8], 8),
            (&[0, 0, 0], 2, &[2], 2),
        ];
        for (accounts, items_max, expected, total) in cases {
            let (batches, items) = batches(wanted(accounts), items_max);
            let count = |batch: &Vec<WantedProof>| -> usize {
                batch.iter().map(|(_, slots)| 1 + slots.len()).sum()
            };
            let found: Vec<usize> = batches.iter().map(count).collect();
            assert_eq!((&*found, items), (expected, total), "{accounts:?}");
        }
    }
}
