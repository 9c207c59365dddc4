//! Source `dev`: runs the producer, one block per tick, with scripted reorgs.

use std::{sync::Arc, time::Instant};

use alloy_primitives::B256;
use crossbeam::{channel::Receiver, select};
use nearhead_chain::{
    block::Block,
    dev::{DevConfig, DevStep, Producer},
    encode::EncodeOptions,
    window::WINDOW_BLOCKS,
};

use super::{
    blocking_tracker::BlockingTracker,
    error::SourceError,
    event::{Progress, SourceEvent},
    link::{Source, SourceLink},
};
use crate::messages::AdvanceHead;

/// Depth below the head at which a block is safe, and at which it is finalized. Deeper reorgs raise
/// both (`Depths::beyond`), so that no settled block is ever replaced.
const SAFE_DEPTH: usize = 32;
const FINALIZED_DEPTH: usize = 64;

/// Makes a chain and hands it over as it grows.
#[derive(Debug)]
pub struct DevSource {
    /// The chain to make.
    pub config: DevConfig,
    /// How blocks are encoded as JSON.
    pub options: EncodeOptions,
    /// Makes one step at each tick.
    pub ticks: Receiver<Instant>,
}

impl Source for DevSource {
    /// Fills the window, then makes blocks until it is stopped. An error is a defect of the
    /// producer, a configuration out of its bounds, or the end of the head tracker.
    fn run(self, link: SourceLink) -> Result<(), SourceError> {
        let mut chain = DevChain::start(self.config, self.options, &link)?;
        chain.fill(&link)?;
        chain.tracker.report_readable(&link);
        chain.follow(&self.ticks, &link)
    }
}

/// The chain as it is made. Only the producer holds the head: a block that was held here would keep
/// its state in memory for as long as the source runs.
struct DevChain {
    producer: Producer,
    depths: Depths,
    tracker: BlockingTracker,
}

impl DevChain {
    /// Makes the genesis and starts the head tracker with it.
    fn start(
        config: DevConfig,
        options: EncodeOptions,
        link: &SourceLink,
    ) -> Result<Self, SourceError> {
        let depths = Depths::beyond(config.reorg_every.map_or(0, |_| config.reorg_depth));
        let mut accounts = |done, total| {
            link.report(SourceEvent::Progress(Progress::Accounts { done, total }));
        };
        let producer = Producer::new(config, options, &mut accounts)?;
        let chain = producer.spec().clone().into();
        let tracker = BlockingTracker::start(link, chain, Arc::clone(producer.head()))?;
        Ok(Self {
            producer,
            depths,
            tracker,
        })
    }

    /// Makes blocks until the window is full.
    fn fill(&mut self, link: &SourceLink) -> Result<(), SourceError> {
        let total = WINDOW_BLOCKS as u64;
        while self.producer.head().number() + 1 < total {
            self.step(link)?;
            let done = self.producer.head().number() + 1;
            link.report(SourceEvent::Progress(Progress::Blocks { done, total }));
        }
        Ok(())
    }

    /// Makes a step at each tick, until the source is stopped.
    fn follow(mut self, ticks: &Receiver<Instant>, link: &SourceLink) -> Result<(), SourceError> {
        loop {
            select! {
                recv(link.stop) -> _ => return Ok(()),
                recv(ticks) -> _ => self.step(link)?,
            }
        }
    }

    /// Makes one step and hands it over. A long reorg is given up when the source is stopped.
    fn step(&mut self, link: &SourceLink) -> Result<(), SourceError> {
        let DevStep { reverted, applied } = self.producer.step_while(&mut || !link.is_stopped())?;
        let applied = applied.into_iter().map(|(_, block)| block).collect();
        let (safe, finalized) = self.depths.settled(self.producer.head());
        self.tracker.advance(AdvanceHead {
            reverted,
            applied,
            safe,
            finalized,
        })
    }
}

/// Depth below the head at which blocks are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Depths {
    safe: usize,
    finalized: usize,
}

impl Depths {
    /// The depths for a chain whose reorgs replace up to `reorg_depth` blocks: no settled block is
    /// ever replaced. The head after a reorg is above the head before it, so safe and finalized
    /// never go back either.
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
