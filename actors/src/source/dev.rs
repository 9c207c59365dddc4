//! Source `dev`: runs the producer, a block a tick, scripted reorgs included.

use std::{sync::Arc, time::Instant};

use alloy_primitives::B256;
use crossbeam::{channel::Receiver, select};
use nearhead_chain::{
    block::Block,
    dev::{DevConfig, DevStep, Producer},
    encode::EncodeOptions,
    window::WINDOW_BLOCKS,
};
use tokio::sync::oneshot;

use super::{Progress, Report, SourceError, StopSignal, TrackerLink, is_stopped};
use crate::messages::AdvanceHead;

/// Asks for one step now; answered with the number of blocks that were reverted once the new head
/// is readable.
#[derive(Debug)]
pub struct StepRequest(pub oneshot::Sender<usize>);

/// Blocks below the head at which a block is safe, and at which it is finalized, on a chain whose
/// reorgs are shorter; with deeper ones both are at the reorgs' depth, so that no settled block is
/// ever replaced.
const SAFE_DEPTH: usize = 32;
const FINALIZED_DEPTH: usize = 64;

/// Makes a chain and hands it over as it grows.
pub struct DevSource {
    producer: Producer,
    depths: Depths,
}

impl DevSource {
    /// Makes the genesis; `report` is told how far that is.
    ///
    /// # Errors
    /// The configuration is out of its bounds.
    pub fn new(
        config: DevConfig,
        options: EncodeOptions,
        report: &mut Report,
    ) -> Result<Self, SourceError> {
        let depths = Depths::beyond(config.reorg_every.map_or(0, |_| config.reorg_depth));
        let mut accounts = |done, total| report(Progress::Accounts { done, total });
        let producer = Producer::new(config, options, &mut accounts)?;
        Ok(Self { producer, depths })
    }

    /// The chain id.
    #[must_use]
    pub fn chain_id(&self) -> u64 {
        self.producer.genesis().rules().config.chain_id
    }

    /// The block that the chain stands at: the genesis until [`Self::fill`]. Nothing here keeps it,
    /// or its state would be held for as long as the source runs.
    #[must_use]
    pub fn head(&self) -> &Arc<Block> {
        self.producer.head()
    }

    /// Makes blocks until the window is full.
    ///
    /// # Errors
    /// A defect of the producer, or the tracker is gone.
    pub fn fill(
        &mut self,
        link: &TrackerLink,
        report: &mut Report,
        stop: &StopSignal,
    ) -> Result<(), SourceError> {
        let total = WINDOW_BLOCKS as u64;
        while self.producer.head().number() + 1 < total {
            self.step(link, stop)?;
            report(Progress::Blocks {
                done: self.producer.head().number() + 1,
                total,
            });
        }
        Ok(())
    }

    /// Makes a step a tick and one for each request, until told to stop.
    ///
    /// # Errors
    /// A defect of the producer, or the tracker is gone.
    pub fn follow(
        mut self,
        link: &TrackerLink,
        ticks: &Receiver<Instant>,
        requests: &Receiver<StepRequest>,
        stop: &StopSignal,
    ) -> Result<(), SourceError> {
        loop {
            select! {
                recv(stop) -> _ => return Ok(()),
                recv(ticks) -> _ => {
                    self.step(link, stop)?;
                }
                recv(requests) -> request => {
                    let Ok(StepRequest(answer)) = request else { return Ok(()) };
                    let reverted = self.step(link, stop)?;
                    // Whoever asked may have gone.
                    let _ = answer.send(reverted);
                }
            }
        }
    }

    /// One step, handed over; how many blocks it reverted. A long reorg is given up when the source
    /// is told to end.
    fn step(&mut self, link: &TrackerLink, stop: &StopSignal) -> Result<usize, SourceError> {
        let DevStep { reverted, applied } = self.producer.step_while(&mut || !is_stopped(stop))?;
        let applied = applied.into_iter().map(|(_, block)| block).collect();
        let (safe, finalized) = self.depths.settled(self.producer.head());
        link.advance(AdvanceHead {
            reverted,
            applied,
            safe,
            finalized,
        })?;
        Ok(reverted)
    }
}

/// Depth below the head at which blocks are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Depths {
    safe: usize,
    finalized: usize,
}

impl Depths {
    /// For a chain whose reorgs replace up to `reorg_depth` blocks: what is settled is never
    /// replaced. A reorg ends above the head that it began at, so that safe and finalized never go
    /// back either.
    fn beyond(reorg_depth: u64) -> Self {
        let at_least = |depth: usize| depth.max(usize::try_from(reorg_depth).unwrap_or(usize::MAX));
        Self {
            safe: at_least(SAFE_DEPTH),
            finalized: at_least(FINALIZED_DEPTH),
        }
    }

    /// Hashes of the safe and the finalized block under `head`; the genesis while the chain is
    /// shorter.
    fn settled(self, head: &Block) -> (Option<B256>, Option<B256>) {
        let below = |depth: usize| {
            head.ancestors
                .get(depth - 1)
                .or(head.ancestors.last())
                .copied()
        };
        (below(self.safe), below(self.finalized))
    }
}
