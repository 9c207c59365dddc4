//! One merge: the changes of a block from one node after another, then what cannot be computed,
//! proven in batches.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use futures_util::future::try_join_all;
use nearhead_chain::{
    block::Block,
    remote::{UpstreamFault, verify_proof},
    trie::{Merge, Merged, State, StateChanges, TrieError, WantedProof},
};

use super::{
    BlockRef, Shared, StateFollow,
    fetch::StateFetchError,
    merge_counts::{ChangesFrom, MergeEnd},
    single_flight::Subject,
};
use crate::{
    saved::WantedState,
    upstream::{
        client::{CallError, OptionalMethod, UpstreamClient, answer_bytes},
        health::UpstreamId,
        standing::Order,
    },
};

/// Accounts and slots that one merge may have proven: more than a full block changes.
const ITEMS_MAX: usize = 1_024;
/// Bytes of JSON that one merge may ask for.
const BYTES_MAX: usize = 16 << 20;
/// Accounts and slots of one batch. geth answers a batch in order, so several are faster than one.
const BATCH_ITEMS: usize = 128;
/// Batches that are in progress at once: they leave most of a node's turns to reads.
const BATCHES_AT_ONCE: usize = 4;
/// Accounts that are loaded at once of what an earlier process has saved.
const RESTORED_AT_ONCE: usize = 32;
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
pub(super) struct Allowance {
    items: usize,
    bytes: usize,
    /// When its time is over.
    until: Instant,
    /// Methods that the node was asked for when its connection ended.
    pub(super) lost: Vec<OptionalMethod>,
}

impl Allowance {
    /// A client whose calls end in time, so that none is given up behind its back.
    pub(super) fn client(&self, client: &UpstreamClient) -> UpstreamClient {
        client.within(self.until.saturating_duration_since(Instant::now()))
    }

    /// The same for a call before the proofs: it gets half of the time that is left.
    pub(super) fn before_proofs(&self, client: &UpstreamClient) -> UpstreamClient {
        client.within(self.until.saturating_duration_since(Instant::now()) / 2)
    }

    /// Bytes that the next answer may have.
    pub(super) const fn bytes_left(&self) -> usize {
        self.bytes
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Counts an answer of so many bytes.
    pub(super) fn take_bytes(&mut self, shared: &Shared, bytes: usize) {
        shared.merges.count_bytes(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Shared {
    /// Merges a block, with the changes that one node reports. The next node is asked if one fails.
    /// `from` is set to their source before it is asked.
    pub(super) async fn merge(
        &self,
        follow: StateFollow,
        step: Step<'_>,
        until: Instant,
        from: &mut ChangesFrom,
    ) -> MergeEnd {
        let block = BlockRef::of(step.block);
        let (Some(block), Some(before)) = (block, &step.parent.state) else {
            return MergeEnd::Failed;
        };
        let mut allowance = Allowance {
            items: ITEMS_MAX,
            bytes: BYTES_MAX,
            until,
            lost: Vec::new(),
        };
        let mut order = VecDeque::from(self.merge_order(follow, step.block));
        // A node that is asked without any time would be late, through no fault of its own.
        while !allowance.is_over()
            && let Some(id) = order.pop_front()
        {
            let merged = async {
                let changes = self.changes(id, follow, step, &mut allowance, from).await?;
                self.merge_changes(id, &block, before, changes, &mut allowance)
                    .await
            };
            let merged = merged.await;
            let is_gone = matches!(merged, Err(StateFetchError::Call(CallError::Connection(_))));
            // It is there: the answer to this method has ended its connection, and would again.
            for method in allowance.lost.drain(..).filter(|_| !is_gone) {
                self.upstreams[id].client.record_missing(method);
            }
            match merged {
                Ok(end) => return end,
                // A node that limits merges still has to give what reads lack.
                Err(StateFetchError::Call(CallError::RateLimited { .. } | CallError::Busy)) => {
                    self.upstreams[id].limits_merges.record(Instant::now());
                }
                Err(error) => {
                    self.report(id, &block, Subject::State, &error);
                    // Who gave a false list is not asked for lists any more, and may have proofs.
                    if let StateFetchError::Refuted(UpstreamFault::AccessListHash { .. }) = error {
                        order.push_back(id);
                    }
                }
            }
        }
        match allowance.is_over() {
            true => MergeEnd::Late,
            false => MergeEnd::Failed,
        }
    }

    /// The nodes to ask, those with the best source of changes first, and those with a fault last;
    /// without those that limit merges.
    pub(super) fn merge_order(&self, follow: StateFollow, block: &Block) -> Vec<UpstreamId> {
        let now = Instant::now();
        let Order {
            mut upstreams,
            without_fault,
            ..
        } = self.standing.order(now);
        if follow != StateFollow::Proofs {
            let has_list = block.header.block_access_list_hash.is_some();
            let (without_fault, with_fault) = upstreams.split_at_mut(without_fault);
            for ids in [without_fault, with_fault] {
                ids.sort_by_key(|id| {
                    let lacks_list = !has_list || !self.gives_lists(*id);
                    let client = &self.upstreams[*id].client;
                    (lacks_list, client.lacks(OptionalMethod::Trace))
                });
            }
        }
        upstreams.retain(|id| !self.upstreams[*id].limits_merges.is_known(now));
        upstreams
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
        let before_merge = Arc::clone(before);
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
        if self.restore_paths(&before_merge, &wanted).await {
            let merge = Arc::clone(&merge);
            wanted = match self.on_verifier_thread(move || merge.unheld()).await? {
                Ok(wanted) => wanted,
                Err(error) => return not_merged(error),
            };
        }
        let (mut proven, mut left_out) = (0, 0);
        let mut merged = Merged::default();
        for _ in 0..ROUNDS {
            let asked = keys_of(&wanted);
            let found = self.prove(id, block, wanted, allowance).await?;
            proven += found;
            // What the first round leaves out is asked for again in the second one.
            left_out = left_out.max(asked - found);
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
        let lacking = left_out.max(keys_of(&merged.unmerged));
        let computed = keys.saturating_sub(proven + lacking);
        self.merges.count_keys(computed, proven);
        let (unmerged, unreported) = (merged.unmerged.len(), merged.unreported);
        let BlockRef { number, hash, .. } = block;
        tracing::debug!(number, %hash, keys, proven, unmerged, unreported, "state merged");
        Ok(match merged.is_complete() && left_out == 0 {
            true => MergeEnd::Whole,
            false => MergeEnd::Part,
        })
    }

    /// Loads what an earlier process has saved of the state before a block, so that it need not be
    /// proven. Returns whether anything may have been loaded.
    async fn restore_paths(&self, before: &Arc<State>, wanted: &[WantedProof]) -> bool {
        let Some(items) = &self.items else {
            return false;
        };
        for some in wanted.chunks(RESTORED_AT_ONCE) {
            let some = some.iter().map(|(address, slots)| WantedState {
                address: *address,
                slots: slots.clone(),
                with_code: false,
            });
            items.load(Arc::clone(before), some.collect()).await;
        }
        !wanted.is_empty()
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
        let (batches, items) = batches(wanted, allowance.items, BATCH_ITEMS);
        allowance.items -= items;
        let mut proven = 0;
        let mut batches = batches.into_iter().peekable();
        while batches.peek().is_some() {
            let now: Vec<_> = batches.by_ref().take(BATCHES_AT_ONCE).collect();
            let share = allowance.bytes / now.len();
            if share == 0 {
                break;
            }
            let taken = AtomicUsize::new(0);
            let now = now.into_iter();
            let asked = now.map(|batch| self.prove_batch(&client, block, batch, share, &taken));
            let asked = try_join_all(asked).await;
            allowance.bytes = allowance.bytes.saturating_sub(taken.into_inner());
            let found = asked?;
            proven += found.iter().flatten().sum::<usize>();
            if found.contains(&None) {
                allowance.bytes = 0;
            }
        }
        Ok(proven)
    }

    /// Asks for a batch of proofs of at most `share` bytes, and stores them. Returns the number of
    /// keys; `None` if they have more bytes than that, and may.
    ///
    /// It asks twice if a check fails: a node that executes the next block at that moment may
    /// prove the state of that one (anvil 1.7.1 does).
    async fn prove_batch(
        &self,
        client: &UpstreamClient,
        block: &BlockRef,
        batch: Vec<WantedProof>,
        share: usize,
        taken: &AtomicUsize,
    ) -> Result<Option<usize>, StateFetchError> {
        let batch = Arc::from(batch);
        let mut bytes_max = share;
        let (mut bytes, mut asked) = self.prove_once(client, block, &batch, share).await;
        if matches!(asked, Err(StateFetchError::Refuted(_))) && bytes < share {
            bytes_max = share - bytes;
            let (more, again) = self.prove_once(client, block, &batch, bytes_max).await;
            bytes += more;
            asked = again;
        }
        taken.fetch_add(bytes, Ordering::Relaxed);
        let longest = answer_bytes::proofs(batch.iter().map(|(_, slots)| slots.len()));
        match asked {
            // What is left has refused it, and not the bound of honest proofs.
            Err(StateFetchError::Call(CallError::TooLarge { limit }))
                if limit == bytes_max && limit < longest =>
            {
                Ok(None)
            }
            asked => asked.map(|()| Some(keys_of(&batch))),
        }
    }

    /// Asks once, for at most `bytes_max` bytes; returns how many came.
    async fn prove_once(
        &self,
        client: &UpstreamClient,
        block: &BlockRef,
        batch: &Arc<[WantedProof]>,
        bytes_max: usize,
    ) -> (usize, Result<(), StateFetchError>) {
        self.merges.count_request();
        self.merges.count_keys_asked(keys_of(batch));
        let answers = match client.proofs(batch, block.hash, bytes_max).await {
            Ok(answers) => answers,
            Err(error) => return (0, Err(error.into())),
        };
        let bytes = answers.iter().flatten().map(|json| json.get().len()).sum();
        self.merges.count_bytes(bytes);
        let (state, batch) = (Arc::clone(&block.state), Arc::clone(batch));
        let verify = move || {
            let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
            for (json, (address, slots)) in answers.iter().zip(&*batch) {
                let json = json.get().as_bytes();
                let proof = verify_proof(json, &state, address, slots)?;
                state.store().insert_unread(&proof);
            }
            Ok::<_, StateFetchError>(())
        };
        let verified = self.on_verifier_thread(verify).await;
        (bytes, verified.unwrap_or_else(|error| Err(error.into())))
    }
}

/// Number of accounts and slots.
fn keys_of(wanted: &[WantedProof]) -> usize {
    wanted.iter().map(|(_, slots)| 1 + slots.len()).sum()
}

/// Splits what is wanted into batches of some `batch_max` accounts and slots, up to a number of
/// them, which is returned too.
pub(super) fn batches(
    wanted: Vec<WantedProof>,
    items_max: usize,
    batch_max: usize,
) -> (Vec<Vec<WantedProof>>, usize) {
    let mut batches: Vec<Vec<WantedProof>> = Vec::new();
    let (mut items, mut in_batch) = (0, 0);
    for (address, mut slots) in wanted {
        if items == items_max {
            break;
        }
        slots.truncate(items_max - items - 1);
        let count = 1 + slots.len();
        if batches.is_empty() || in_batch + count > batch_max {
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
            let (batches, items) = batches(wanted(accounts), items_max, BATCH_ITEMS);
            let count = |batch: &Vec<WantedProof>| -> usize {
                batch.iter().map(|(_, slots)| 1 + slots.len()).sum()
            };
            let found: Vec<usize> = batches.iter().map(count).collect();
            assert_eq!((&*found, items), (expected, total), "{accounts:?}");
        }
    }
}
