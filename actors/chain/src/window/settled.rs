//! The safe and the finalized block of the window.

use alloy_primitives::B256;

use super::{
    error::WindowError,
    snapshot::SettledBlock,
    window::{Window, changed},
};
use crate::block::Block;

impl Window {
    /// Sets the safe block: a canonical block in the window or below it.
    ///
    /// Below the window, the hash must be one of the oldest block's known ancestors or the one set
    /// before. [`Self::set_safe_at`] sets a block further below.
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`].
    pub(super) fn set_safe(&mut self, hash: B256) -> Result<(), WindowError> {
        let settled = self.settled(hash, self.snapshot.safe)?;
        changed(&mut self.snapshot).safe = Some(settled);
        Ok(())
    }

    /// Sets the finalized block, like [`Self::set_safe`]. It never goes back: a block below the
    /// finalized one changes nothing.
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`].
    pub(super) fn set_finalized(&mut self, hash: B256) -> Result<(), WindowError> {
        let settled = self.settled(hash, self.snapshot.finalized)?;
        self.finalize(settled);
        Ok(())
    }

    /// Sets the safe block by the number and hash that the source names.
    ///
    /// A block that is so far below the window that no held block names its hash is accepted: the
    /// source is trusted until the window reaches it. Any other block must be canonical.
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`].
    pub fn set_safe_at(&mut self, number: u64, hash: B256) -> Result<(), WindowError> {
        let settled = Some(self.settled_at(number, hash)?);
        if self.snapshot.safe != settled {
            changed(&mut self.snapshot).safe = settled;
        }
        Ok(())
    }

    /// Sets the finalized block, like [`Self::set_safe_at`]. It never goes back: a block below the
    /// finalized one changes nothing, unless the window never showed that one to be canonical.
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`].
    pub fn set_finalized_at(&mut self, number: u64, hash: B256) -> Result<(), WindowError> {
        let settled = self.settled_at(number, hash)?;
        self.finalize(settled);
        Ok(())
    }

    /// Forgets what was safe, if it is this block, which was reverted.
    pub(super) fn forget_reverted(&mut self, hash: B256) {
        let snapshot = changed(&mut self.snapshot);
        snapshot.safe.take_if(|safe| safe.hash == hash);
    }

    /// Checks that the head may be reverted.
    pub(super) fn check_revert(&self) -> Result<(), WindowError> {
        let head = self.snapshot.head().number();
        Self::refuse(self.irreversible.filter(|kept| kept.number >= head))
    }

    /// Checks that the block may be part of the chain: no other one of its number is irreversible.
    pub(super) fn check_irreversible(&self, number: u64, hash: B256) -> Result<(), WindowError> {
        let is_other = |kept: &SettledBlock| kept.number == number && kept.hash != hash;
        Self::refuse(self.irreversible.filter(is_other))
    }

    /// Checks that the chain that ends in `head` may have the irreversible block, as far as the
    /// ancestors that `head` names show.
    pub(super) fn check_chain(&self, head: &Block) -> Result<(), WindowError> {
        let lacks = |kept: &SettledBlock| {
            let Some(generation) = head.number().checked_sub(kept.number) else {
                return true;
            };
            let mut chain = std::iter::once(&head.hash).chain(&*head.ancestors);
            let named = usize::try_from(generation).map(|generation| chain.nth(generation));
            named.is_ok_and(|named| named.is_some_and(|named| *named != kept.hash))
        };
        Self::refuse(self.irreversible.filter(lacks))
    }

    /// Notes that a block of this number was added, and forgets a safe or finalized block of this
    /// number that has another hash: it is not on this chain.
    pub(super) fn reach_settled(&mut self, number: u64, hash: B256) {
        let irreversible = self.irreversible;
        let snapshot = changed(&mut self.snapshot);
        let is_other = |settled: &SettledBlock| settled.number == number && settled.hash != hash;
        snapshot.safe.take_if(|safe| is_other(safe));
        if snapshot
            .finalized
            .is_some_and(|finalized| is_other(&finalized))
        {
            snapshot.finalized = irreversible;
        }
        let reached = snapshot.finalized.filter(|at| at.number == number);
        if reached.is_some() {
            self.irreversible = reached;
        }
    }

    /// Makes a block finalized that is not known to be on another chain, unless a later one is.
    fn finalize(&mut self, settled: SettledBlock) {
        if self
            .irreversible
            .is_some_and(|kept| settled.number <= kept.number)
        {
            return;
        }
        if self.canonical_hash(settled.number).is_some() {
            self.irreversible = Some(settled);
        }
        if self.snapshot.finalized != Some(settled) {
            changed(&mut self.snapshot).finalized = Some(settled);
        }
    }

    fn settled(
        &self,
        hash: B256,
        before: Option<SettledBlock>,
    ) -> Result<SettledBlock, WindowError> {
        let snapshot = &self.snapshot;
        if let Some(before) = before.filter(|before| before.hash == hash) {
            return Ok(before);
        }
        let held = snapshot
            .by_hash(&hash)
            .filter(|block| snapshot.is_canonical(block));
        let number = held.map(|block| block.number()).or_else(|| {
            let ancestors = (0..snapshot.oldest())
                .rev()
                .zip(snapshot.canonical[0].ancestors.iter());
            let mut named = ancestors.filter(|(_, ancestor)| **ancestor == hash);
            named.next().map(|(number, _)| number)
        });
        self.settled_at(number.ok_or(WindowError::NotCanonical { hash })?, hash)
    }

    fn settled_at(&self, number: u64, hash: B256) -> Result<SettledBlock, WindowError> {
        let canonical = self.canonical_hash(number);
        let is_other = canonical.is_some_and(|canonical| canonical != hash);
        if number > self.snapshot.head().number() || is_other {
            return Err(WindowError::NotCanonical { hash });
        }
        Ok(SettledBlock { number, hash })
    }

    /// The hash of the canonical block with this number: of a held block, or of an ancestor that
    /// the oldest block names.
    fn canonical_hash(&self, number: u64) -> Option<B256> {
        let snapshot = &self.snapshot;
        let named = || {
            let generation =
                usize::try_from(snapshot.oldest().checked_sub(number)?.checked_sub(1)?);
            let ancestors = &snapshot.canonical[0].ancestors;
            ancestors.get(generation.ok()?).copied()
        };
        let genesis = || Some(snapshot.genesis()?.hash).filter(|_| number == 0);
        let held = snapshot.by_number(number).map(|block| block.hash);
        held.or_else(genesis).or_else(named)
    }

    /// The error of a change that would revert this block.
    const fn refuse(lost: Option<SettledBlock>) -> Result<(), WindowError> {
        match lost {
            Some(SettledBlock { number, hash }) => Err(WindowError::Finalized { number, hash }),
            None => Ok(()),
        }
    }
}
