//! The window as a simple model.

use std::sync::Arc;

use alloy_primitives::B256;

use super::super::{
    BlockId, BlockNumberOrTag, BlockTag, REPLACED_BLOCKS_MAX, ResolveError, Snapshot,
    WINDOW_BLOCKS, WindowLimits, limits::CANONICAL_BLOCKS_MIN,
};
use crate::{
    block::{ANCESTORS_MAX, Block},
    test_block::transaction_hash,
};

/// Number of distinct transactions: few, so that blocks of one chain, and of two branches, share
/// some.
pub(super) const TRANSACTIONS: u64 = 300;

/// A window as plain lists that are searched from end to end.
#[derive(Clone)]
pub(super) struct WindowModel {
    /// Canonical, from block 0.
    pub(super) chain: Vec<Arc<Block>>,
    /// How many of them have left the window.
    pub(super) left: usize,
    /// Replaced blocks, the one that was replaced first in front.
    pub(super) replaced: Vec<Arc<Block>>,
    /// Numbers of the safe and the finalized block.
    pub(super) settled: [Option<usize>; 2],
    /// The number of the last finalized block that was seen to be canonical.
    pub(super) irreversible: Option<usize>,
    pub(super) limits: WindowLimits,
    pub(super) is_cut_short: bool,
}

/// Bytes of these blocks, added up anew.
pub(super) fn sum(blocks: &[Arc<Block>]) -> usize {
    blocks.iter().map(|block| block.bytes()).sum()
}

impl WindowModel {
    pub(super) fn served(&self) -> &[Arc<Block>] {
        &self.chain[self.left..]
    }

    /// Releases what is over the limits, one block at a time.
    pub(super) fn trim(&mut self) {
        self.left = self
            .left
            .max(self.chain.len().saturating_sub(WINDOW_BLOCKS));
        loop {
            self.replaced
                .retain(|replaced| replaced.number() >= self.left as u64);
            let replaced = sum(&self.replaced);
            let is_over = replaced + sum(self.served()) > self.limits.bytes;
            if replaced > self.limits.replaced_bytes
                || (is_over && replaced > 0)
                || self.replaced.len() > REPLACED_BLOCKS_MAX
            {
                self.replaced.remove(0);
            } else if is_over && self.served().len() > CANONICAL_BLOCKS_MIN {
                self.left += 1;
                self.is_cut_short = true;
            } else {
                break;
            }
        }
    }

    pub(super) fn apply(&mut self, block: &Arc<Block>) {
        self.replaced.retain(|replaced| replaced.hash != block.hash);
        self.chain.push(Arc::clone(block));
        self.trim();
    }

    /// Whether the chain may lose its last `depth` blocks.
    pub(super) fn may_revert(&self, depth: usize) -> bool {
        let length = self.chain.len() - depth;
        depth < self.served().len() && self.irreversible.is_none_or(|number| number < length)
    }

    pub(super) fn revert(&mut self) {
        self.replaced.push(self.chain.pop().unwrap());
        self.settled[0] = self.settled[0].filter(|number| *number < self.chain.len());
        self.trim();
    }

    /// Replaces the blocks from `length` on with `branch`; the window holds only its last block.
    pub(super) fn reset(&mut self, length: usize, branch: &[Arc<Block>]) {
        self.chain.truncate(length);
        self.chain.extend(branch.iter().cloned());
        self.left = self.chain.len() - 1;
        self.replaced.clear();
        self.settled = [None, self.irreversible];
        self.is_cut_short = false;
    }

    /// Makes a hash safe or finalized; returns whether that is allowed.
    pub(super) fn settle(&mut self, which: usize, hash: B256) -> bool {
        let number = self.chain.iter().position(|block| block.hash == hash);
        let reach = self.left.saturating_sub(ANCESTORS_MAX);
        let known = number.filter(|number| {
            *number == 0 || *number >= reach || self.settled[which] == Some(*number)
        });
        if let Some(number) = known {
            self.settle_at(which, number);
        }
        known.is_some()
    }

    /// Makes a canonical block safe or finalized; finalized does not go back.
    pub(super) fn settle_at(&mut self, which: usize, number: usize) {
        if which == 1 {
            if self.irreversible.is_some_and(|before| number <= before) {
                return;
            }
            let reach = self.left.saturating_sub(ANCESTORS_MAX);
            if number == 0 || number >= reach {
                self.irreversible = Some(number);
            }
        }
        self.settled[which] = Some(number);
    }

    pub(super) fn by_hash(&self, hash: B256) -> Option<&Arc<Block>> {
        let genesis = &self.chain[..1];
        let mut held = self.served().iter().chain(&self.replaced).chain(genesis);
        held.find(|block| block.hash == hash)
    }

    pub(super) fn transaction(&self, hash: B256) -> Option<(u64, usize)> {
        self.served().iter().rev().find_map(|block| {
            let index = block
                .transaction_hashes
                .iter()
                .rposition(|found| *found == hash)?;
            Some((block.number(), index))
        })
    }

    pub(super) fn resolve(&self, number: u64) -> Result<B256, ResolveError> {
        let oldest = self.left as u64;
        if number < oldest {
            return Err(ResolveError::BelowWindow { number, oldest });
        }
        let block = self
            .chain
            .get(number as usize)
            .ok_or(ResolveError::AboveHead { number })?;
        Ok(block.hash)
    }

    pub(super) fn resolve_id(
        &self,
        hash: B256,
        require_canonical: bool,
    ) -> Result<B256, ResolveError> {
        let block = self.by_hash(hash).ok_or(ResolveError::UnknownHash)?;
        let is_replaced = self.replaced.iter().any(|replaced| replaced.hash == hash);
        if is_replaced {
            return if require_canonical {
                Err(ResolveError::NotCanonical)
            } else {
                Ok(hash)
            };
        }
        self.resolve(block.number())
    }

    /// Checks every look-up of a snapshot, for these blocks.
    pub(super) fn check(&self, snapshot: &Snapshot, made: &[Arc<Block>]) {
        let hash_of = |resolved: Result<&Arc<Block>, _>| resolved.map(|block| block.hash);
        let head = self.chain.len() as u64 - 1;
        assert_eq!(
            (snapshot.head().number(), snapshot.oldest()),
            (head, self.left as u64)
        );
        assert!(
            snapshot
                .canonical()
                .iter()
                .map(|block| block.hash)
                .eq(self.served().iter().map(|block| block.hash))
        );
        let is_whole = self.served().len() == WINDOW_BLOCKS || self.left == 0;
        assert_eq!(snapshot.is_filled(), is_whole || self.is_cut_short);
        for number in 0..head + 3 {
            let at = BlockNumberOrTag::Number(number);
            assert_eq!(hash_of(snapshot.resolve(at)), self.resolve(number));
            let genesis = Some(self.chain[0].hash).filter(|_| number == 0);
            let block = genesis.map_or_else(|| self.resolve(number), Ok);
            assert_eq!(hash_of(snapshot.resolve_block(at)), block);
        }
        for (tag, settled) in [BlockTag::Safe, BlockTag::Finalized]
            .into_iter()
            .zip(self.settled)
        {
            let want = settled.map_or(Err(ResolveError::UnknownTag), |number| {
                self.resolve(number as u64)
            });
            assert_eq!(hash_of(snapshot.resolve(BlockNumberOrTag::Tag(tag))), want);
        }
        for block in made {
            let hash = block.hash;
            let found = snapshot.by_hash(&hash).map(|block| block.number());
            assert_eq!(found, self.by_hash(hash).map(|block| block.number()));
            let is_canonical = self
                .served()
                .iter()
                .chain(&self.chain[..1])
                .any(|canonical| canonical.hash == hash);
            assert_eq!(snapshot.is_canonical(block), is_canonical);
            for require_canonical in [true, false] {
                let id = BlockId::Hash {
                    hash,
                    require_canonical,
                };
                assert_eq!(
                    hash_of(snapshot.resolve_id(id)),
                    self.resolve_id(hash, require_canonical)
                );
            }
        }
        for number in 0..TRANSACTIONS {
            let hash = transaction_hash(number);
            let found = snapshot.transaction(&hash);
            assert_eq!(
                found.map(|(block, index)| (block.number(), index)),
                self.transaction(hash)
            );
            assert!(found.is_none_or(|(block, _)| snapshot.is_canonical(block)));
        }
    }
}
