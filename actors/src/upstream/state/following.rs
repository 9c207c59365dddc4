//! Keeps the state current while the head advances.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use nearhead_chain::{block::Block, window::Snapshot};
use tokio::{sync::watch, time};

use super::{
    Shared, StateFollow, StateSource,
    merge_counts::{ChangesFrom, MergeEnd},
    merging::Step,
};
use crate::{
    source::{SourceEvent, SourceLink},
    upstream::health::BlockTime,
};

/// Blocks below the head that are merged one after another. After a longer gap, following begins
/// again at the head, and what was held of older states is fetched when it is read.
const GAP_MAX: usize = 4;

/// The same for the first merge after a restart.
const RESTART_GAP_MAX: usize = 32;

/// Merges each new block, off the follower's task. Blocks are served before they are merged.
pub(crate) struct StateFollower {
    shared: Arc<Shared>,
    follow: StateFollow,
    link: SourceLink,
    /// Whether the window of an earlier process is not taken over yet.
    is_restoring: bool,
}

impl StateFollower {
    /// Keeps the state of a source current; `None` if nothing does. Merges are reported to `link`.
    pub(crate) fn of(source: &StateSource, follow: StateFollow, link: SourceLink) -> Option<Self> {
        (follow != StateFollow::Off).then(|| Self {
            shared: Arc::clone(&source.shared),
            follow,
            link,
            is_restoring: source.shared.merged.are_restored(),
        })
    }

    /// Merges until the sender is dropped. It sends when a head has become readable.
    pub(crate) async fn run(mut self, mut readable: watch::Receiver<Instant>) {
        while readable.changed().await.is_ok() {
            let since = *readable.borrow_and_update();
            let panics = self.shared.panics.clone();
            // A panic is counted, and the next head is tried again.
            let _ = panics.catch_async(pin!(self.catch_up(since))).await;
        }
    }

    /// Merges what the head is ahead, the oldest block first. The head may change meanwhile.
    async fn catch_up(&mut self, since: Instant) {
        while let Some((parent, block)) = self.next_step() {
            let step = Step {
                parent: &parent,
                block: &block,
            };
            // Before anything can fail: no block is tried twice.
            self.shared.merged.begin(block.hash);
            let budget = self.block_time() / 2;
            let until = Instant::now() + budget;
            let mut from = ChangesFrom::Keys;
            let merging = self.shared.merge(self.follow, step, until, &mut from);
            let end = time::timeout(budget, merging).await;
            let end = end.unwrap_or(MergeEnd::Late);
            self.shared.merged.end();
            self.shared.merges.count(from, end);
            self.shared.give_to_others();
            let is_head = self
                .link
                .head
                .load()
                .is_some_and(|now| now.head().hash == block.hash);
            if is_head && matches!(end, MergeEnd::Whole | MergeEnd::Part) {
                let took = since.elapsed();
                self.link.report(SourceEvent::StateMerged(took));
            }
        }
    }

    /// The next block to merge, with its parent; `None` if all of them are.
    fn next_step(&mut self) -> Option<(Arc<Block>, Arc<Block>)> {
        let snapshot = self.link.head.load()?;
        if self.is_restoring && !self.has_restored(&snapshot) {
            return None;
        }
        // Until somebody reads state, there is nothing to keep current.
        let merged = &self.shared.merged;
        let is_read = !self.shared.recent.is_empty() || merged.are_restored();
        let gap_max = match self.is_restoring {
            true => RESTART_GAP_MAX,
            false => GAP_MAX,
        };
        let is_merged = |hash: &B256| is_read && merged.contains(hash);
        match unmerged(snapshot.canonical(), gap_max, is_merged) {
            Some([parent, block, ..]) => Some((Arc::clone(parent), Arc::clone(block))),
            Some(_) => {
                self.is_restoring = false;
                None
            }
            None => {
                self.is_restoring = false;
                // The first head, or one after a gap: its state is held as far as it is read.
                merged.remember(snapshot.head().hash);
                None
            }
        }
    }

    /// Whether the window has a block that an earlier process has merged, or never will.
    fn has_restored(&self, snapshot: &Snapshot) -> bool {
        let merged = &self.shared.merged;
        let newest = snapshot.canonical().iter().rev().take(RESTART_GAP_MAX + 1);
        let mut newest = newest.map(|block| merged.contains(&block.hash));
        let has_gap = snapshot.canonical().len() > RESTART_GAP_MAX;
        snapshot.is_filled() || has_gap || newest.any(|is_merged| is_merged)
    }

    /// The mean of the window: a merge may take longer if one block follows soon on another.
    fn block_time(&self) -> Duration {
        let mut block_time = BlockTime::default();
        let of = |block: &Block| (block.number(), block.header.timestamp);
        if let Some(snapshot) = self.link.head.load()
            && let [older, .., newer] = snapshot.canonical()
        {
            block_time.learn(of(older), of(newer));
        }
        block_time.get()
    }
}

/// The newest merged block and the blocks above it; `None` if it is too far below the head.
fn unmerged(
    canonical: &[Arc<Block>],
    gap_max: usize,
    is_merged: impl Fn(&B256) -> bool,
) -> Option<&[Arc<Block>]> {
    let from = canonical.len().saturating_sub(gap_max + 1);
    let near = &canonical[from..];
    let at = near.iter().rposition(|block| is_merged(&block.hash))?;
    Some(&near[at..])
}

#[cfg(test)]
mod tests {
    use nearhead_chain::test_block::TestBlock;

    use super::*;

    /// The numbers of the blocks from the newest merged one on, of a chain of 8 blocks.
    fn check(gap_max: usize, merged: &[u64], expected: Option<&[u64]>) {
        let mut chain = vec![TestBlock::default().genesis()];
        for at in 0..7 {
            chain.push(TestBlock::default().child_of(&chain[at]));
        }
        let is_merged = |hash: &B256| {
            let block = chain.iter().find(|block| block.hash == *hash);
            block.is_some_and(|block| merged.contains(&block.number()))
        };
        let found = unmerged(&chain, gap_max, is_merged);
        let numbers: Option<Vec<u64>> =
            found.map(|blocks| blocks.iter().map(|block| block.number()).collect());
        assert_eq!(numbers.as_deref(), expected, "{merged:?}");
    }

    #[test]
    fn following_goes_on_from_the_newest_merged_block() {
        check(GAP_MAX, &[7], Some(&[7]));
        check(GAP_MAX, &[5, 6], Some(&[6, 7]));
        check(GAP_MAX, &[3], Some(&[3, 4, 5, 6, 7]));
        check(GAP_MAX, &[3, 5], Some(&[5, 6, 7]));
        check(GAP_MAX, &[2], None);
        check(GAP_MAX, &[], None);
        check(RESTART_GAP_MAX, &[2], Some(&[2, 3, 4, 5, 6, 7]));
        check(RESTART_GAP_MAX, &[], None);
    }
}
