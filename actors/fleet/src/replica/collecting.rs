//! A snapshot whose parts are being read.

use alloy_primitives::B256;

use super::event::Refusal;
use crate::{
    bounds::SNAPSHOT_BYTES_MAX,
    chain::{BrokenChain, HeldChain},
    entry::{Settled, SnapshotPart},
    position::{Position, Tip},
};

/// The parts of a snapshot so far. Nothing of it is applied before the last part is there.
#[derive(Debug)]
pub(super) struct Collecting<T> {
    /// Its newest part.
    pub(super) tip: Tip,
    /// Its blocks so far.
    pub(super) chain: HeldChain,
    /// What was made of its parts.
    pub(super) verified: Vec<T>,
    pub(super) settled: Settled,
    next: u32,
    parts: u32,
    bytes: usize,
}

impl<T> Collecting<T> {
    /// No parts yet of a snapshot that begins with this one.
    pub(super) fn new(tip: Tip, part: &SnapshotPart, blocks_max: usize) -> Self {
        Self {
            tip,
            chain: HeldChain::new(blocks_max),
            verified: Vec::new(),
            settled: Settled::default(),
            next: 0,
            parts: part.parts,
            bytes: 0,
        }
    }

    /// Whether this part is the next one.
    pub(super) fn expects(&self, position: Position, previous: B256, part: &SnapshotPart) -> bool {
        let follows = position == self.tip.position.next() && previous == self.tip.digest;
        follows && part.part == self.next && part.parts == self.parts
    }

    /// Checks that a part's blocks continue those before it. Nothing is kept of it if they do not.
    pub(super) fn check(&self, part: &SnapshotPart, bytes: usize) -> Result<HeldChain, Refusal> {
        if self.bytes.saturating_add(bytes) > SNAPSHOT_BYTES_MAX {
            return Err(Refusal::SnapshotTooLarge);
        }
        let mut chain = self.chain.clone();
        chain.extend(&part.blocks)?;
        if part.part + 1 == part.parts && chain.head() != Some(part.head) {
            return Err(BrokenChain::Head(part.head.number).into());
        }
        Ok(chain)
    }

    /// Adds a part that was checked and verified.
    pub(super) fn add(
        &mut self,
        tip: Tip,
        chain: HeldChain,
        settled: Settled,
        verified: T,
        bytes: usize,
    ) {
        self.tip = tip;
        self.chain = chain;
        self.settled = settled;
        self.verified.push(verified);
        self.next += 1;
        self.bytes += bytes;
    }

    /// Whether the last part is there.
    pub(super) const fn is_complete(&self) -> bool {
        self.next == self.parts
    }
}
