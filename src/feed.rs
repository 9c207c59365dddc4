//! The source's thread: from nothing to a readable head, then on until the service stops.

use std::{
    cell::Cell,
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use actix::{Addr, ArbiterHandle};
use crossbeam::channel::{self, Receiver, Sender};
use nearhead_actors::{
    head::Head,
    head_tracker::{HeadTracker, TrackerEnd},
    source::{DevSource, FilesSource, Report, SourceError, StepRequest, StopSignal, TrackerLink},
    upstream::{StateSource, UpstreamConfig, UpstreamSource, follow::Event},
};
use nearhead_chain::{block::Block, dev::DevConfig, encode::EncodeOptions};
use tokio::sync::oneshot;

use crate::{
    config::{Config, SourceKind},
    metrics::Metrics,
    service::{Failure, StartError},
};

/// A running source. Dropping it tells its thread to end; a block that is being made is finished
/// first.
pub(crate) struct Feed {
    /// The head tracker that it feeds.
    pub(crate) tracker: Addr<HeadTracker>,
    /// Ends when the head tracker does.
    pub(crate) tracker_end: TrackerEnd,
    /// Where state comes from that is not held here; `None` where all of it is.
    pub(crate) state: Option<StateSource>,
    stop: Sender<Infallible>,
    thread: thread::JoinHandle<()>,
}

/// What a source's thread is given.
struct Plan {
    config: Config,
    arbiter: ArbiterHandle,
    head: Head,
    report: Report,
    steps: Receiver<StepRequest>,
    stop: StopSignal,
    metrics: Metrics,
}

/// What is there once the head is readable.
struct Readable {
    tracker: Addr<HeadTracker>,
    tracker_end: TrackerEnd,
    state: Option<StateSource>,
}

impl Feed {
    /// Starts the source and a head tracker on `arbiter`; done when the source's head is readable:
    /// the file is imported, or the dev chain's window is full.
    pub(crate) async fn start(
        config: Config,
        arbiter: ArbiterHandle,
        head: Head,
        report: Report,
        steps: Receiver<StepRequest>,
        failure: Failure,
        metrics: Metrics,
    ) -> Result<Self, StartError> {
        let (stop, stopped) = channel::bounded(0);
        let (ready, readable) = oneshot::channel();
        let plan = Plan {
            config,
            arbiter,
            head,
            report,
            steps,
            stop: stopped,
            metrics,
        };
        let run = move || match catch_unwind(AssertUnwindSafe(|| run(plan, ready))) {
            Ok(Ok(()) | Err(SourceError::Stopped)) => {}
            Ok(Err(error)) => failure.tell(format!("the source failed: {error}")),
            Err(_) => failure.tell("the source panicked".to_owned()),
        };
        let thread = thread::Builder::new()
            .name("source".to_owned())
            .spawn(run)
            .map_err(StartError::Thread)?;
        let Readable {
            tracker,
            tracker_end,
            state,
        } = readable.await.map_err(|_| StartError::SourcePanicked)??;
        Ok(Self {
            tracker,
            tracker_end,
            state,
            stop,
            thread,
        })
    }

    /// Tells the thread to end and waits for it.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // A panic of the thread was told as a failure.
        let _ = self.thread.join();
    }
}

/// The thread: faults before the head is readable go to whoever starts the service, later ones are
/// returned.
fn run(
    mut plan: Plan,
    ready: oneshot::Sender<Result<Readable, SourceError>>,
) -> Result<(), SourceError> {
    let prepared = match plan.config.source {
        SourceKind::Node => return plan.follow_nodes(ready),
        SourceKind::Files => plan.import().map(|readable| (readable, None)),
        SourceKind::Dev => plan
            .fill()
            .map(|(readable, follow)| (readable, Some(follow))),
    };
    // Ends a line of progress that is still open before anybody says something else.
    drop(plan.report);
    let (readable, follow) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            // Whoever started the service may have gone.
            let _ = ready.send(Err(error));
            return Ok(());
        }
    };
    let _ = ready.send(Ok(readable));
    match follow {
        Some((source, link)) => source.follow(
            &link,
            &ticks(plan.config.block_time),
            &plan.steps,
            &plan.stop,
        ),
        None => Ok(()),
    }
}

impl Plan {
    fn options(&self) -> EncodeOptions {
        EncodeOptions {
            omit_total_difficulty: self.config.omit_total_difficulty,
        }
    }

    fn link(
        &self,
        chain_id: u64,
        first: &Arc<Block>,
    ) -> Result<(TrackerLink, Readable), SourceError> {
        let (link, end) = TrackerLink::start(
            &self.arbiter,
            self.head.clone(),
            chain_id,
            Arc::clone(first),
        )?;
        let readable = Readable {
            tracker: link.tracker().clone(),
            tracker_end: end,
            state: None,
        };
        Ok((link, readable))
    }

    /// Follows nodes until told to stop.
    fn follow_nodes(
        self,
        ready: oneshot::Sender<Result<Readable, SourceError>>,
    ) -> Result<(), SourceError> {
        let options = self.options();
        let Self {
            config,
            arbiter,
            head,
            report,
            stop,
            metrics,
            ..
        } = self;
        let ready = Cell::new(Some(ready));
        let tell = |readable| {
            if let Some(ready) = ready.take() {
                // Whoever started the service may have gone.
                let _ = ready.send(readable);
            }
        };
        let outcome = UpstreamSource::connect(
            UpstreamConfig {
                endpoints: config.nodes,
                concurrency: config.node_concurrency,
                timeout: config.node_timeout,
                state_bytes_max: config.state_bytes,
                genesis: config.genesis,
                options,
            },
            &stop,
        )
        .and_then(|source| {
            let count = move |event: Event| match event {
                Event::Failed {
                    upstream,
                    reason: Some(reason),
                    ..
                } => metrics.node_failed(upstream, reason),
                Event::Failed { upstream, .. } => metrics.node_limited(upstream),
                Event::Advanced { named, .. } => metrics.head_delay.observe(named.as_secs_f64()),
                Event::State { upstream, state } => metrics.node_is(upstream, state),
                Event::Switched(_) | Event::WindowStarted(_) | Event::Missing(_) => {}
            };
            let state = Some(source.state().clone());
            let started = |(tracker, tracker_end)| {
                tell(Ok(Readable {
                    tracker,
                    tracker_end,
                    state,
                }));
            };
            source.follow((arbiter, head), started, report, Box::new(count), &stop)
        });
        match (outcome, ready.take()) {
            (Err(error), Some(ready)) => {
                let _ = ready.send(Err(error));
                Ok(())
            }
            (outcome, _) => outcome,
        }
    }

    fn import(&mut self) -> Result<Readable, SourceError> {
        let genesis = self.config.genesis.clone().unwrap_or_default();
        let chain = self.config.chain.clone().unwrap_or_default();
        let source = FilesSource::open(&genesis, chain, self.options())?;
        let (link, readable) = self.link(source.chain_id(), source.first())?;
        source.import(&link, &mut self.report, &self.stop)?;
        Ok(readable)
    }

    fn fill(&mut self) -> Result<(Readable, (DevSource, TrackerLink)), SourceError> {
        let mut source =
            DevSource::new(dev_config(&self.config), self.options(), &mut self.report)?;
        let (link, readable) = self.link(source.chain_id(), source.head())?;
        source.fill(&link, &mut self.report, &self.stop)?;
        Ok((readable, (source, link)))
    }
}

/// One tick a block; none at all where blocks are made on request alone.
fn ticks(block_time: Duration) -> Receiver<Instant> {
    if block_time.is_zero() {
        channel::never()
    } else {
        channel::tick(block_time)
    }
}

/// The dev chain that a configuration asks for.
pub(crate) fn dev_config(config: &Config) -> DevConfig {
    DevConfig {
        seed: config.seed,
        profile: config.profile,
        block_time_seconds: timestamp_step(config.block_time),
        reorg_every: (config.reorg_every > 0).then_some(config.reorg_every),
        reorg_depth: config.reorg_depth,
    }
}

/// Timestamps are whole seconds and must grow: blocks that come faster than one a second are
/// stamped one second apart.
pub(crate) fn timestamp_step(block_time: Duration) -> u64 {
    block_time.as_secs().max(1)
}
