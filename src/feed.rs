//! The source and the thread that handles its events, from an empty head until the service stops.

mod settled_writer;

use std::{
    convert::Infallible,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use actix::ArbiterHandle;
use crossbeam::channel::{self, Receiver, Sender};
use nearhead_actors::{
    fleet::{FleetConfig, FleetSource, FleetStatus, SharedStore, quotas::LoanDesk},
    head::Head,
    source::{
        DevSource, FilesSource, ProgressReport, Source, SourceError, SourceEvent, SourceLink,
        TrackerHandle,
    },
    upstream::{FollowedChain, Forwarder, Standing, StateSource, UpstreamConfig, UpstreamSource},
};
use nearhead_chain::{dev::DevConfig, encode::EncodeOptions};
use tokio::sync::oneshot;

use self::settled_writer::SettledWriter;
use crate::{
    config::{Config, FleetSecret, SourceKind},
    memory::{MemorySource, auto_state_bytes},
    metrics::Metrics,
};

/// Events that wait to be handled. Handling one takes microseconds, except for a line of progress
/// on a slow terminal, which may hold up the source too.
const EVENTS_MAX: usize = 64;

/// A running source. Dropping it stops the source once the current block is made.
pub(crate) struct Feed {
    /// The head tracker that it feeds.
    pub(crate) tracker: TrackerHandle,
    /// The upstreams that it follows; `None` for other sources.
    pub(crate) upstreams: Option<Upstreams>,
    stop: Sender<Infallible>,
    thread: thread::JoinHandle<()>,
}

/// What other parts need from the upstreams.
pub(crate) struct Upstreams {
    /// The source of state that is not held.
    pub(crate) state: StateSource,
    /// Passes calls of clients to them, if the service forwards any.
    pub(crate) forwarder: Option<Forwarder>,
    /// The standing of the upstreams.
    pub(crate) standing: Arc<Standing>,
    /// The chain that they are to be on.
    pub(crate) chain: FollowedChain,
    /// What the process is in its fleet; `None` if it is in none.
    pub(crate) fleet: Option<FleetStatus>,
    /// Where its fleet's quotas wait for what the store lends; `None` if it is in none.
    pub(crate) desk: Option<LoanDesk>,
    /// The store that all processes of the fleet share.
    pub(crate) shared: Option<SharedStore>,
}

/// Why a source could not start.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The source cannot be served.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A defect of this program; the panic's message is on stderr.
    #[error("the source panicked")]
    Panicked,
    /// The system has no resources left.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// Where a source runs, and where its events go.
pub(crate) struct FeedSetup {
    /// Where the head tracker runs.
    pub(crate) arbiter: ArbiterHandle,
    /// The pointer that the head tracker writes.
    pub(crate) head: Head,
    /// Shows progress.
    pub(crate) report: ProgressReport,
    /// Counts the events of upstreams.
    pub(crate) metrics: Metrics,
}

impl Feed {
    /// Starts the source and waits until its head is readable. A source that ends with an error
    /// later passes the reason to `failed`.
    pub(crate) async fn start(
        config: &Config,
        setup: FeedSetup,
        failed: impl FnOnce(String) + Send + 'static,
    ) -> Result<Self, FeedError> {
        let (stop, stopped) = channel::bounded(0);
        let (sender, events) = channel::bounded(EVENTS_MAX);
        let FeedSetup {
            arbiter,
            head,
            report,
            metrics,
        } = setup;
        let link = SourceLink {
            arbiter,
            head,
            events: sender,
            stop: stopped,
        };
        let (follows, followed) = oneshot::channel();
        let source = {
            let config = config.clone();
            spawn("source", move || run(config, link, follows))?
        };
        let (ready, readable) = oneshot::channel();
        let handler = EventHandler {
            ready: Some(ready),
            report: Some(report),
            metrics,
            settled: None,
        };
        let thread = spawn("source-events", move || {
            if let Some(reason) = handler.run_until_end(events, source) {
                failed(reason);
            }
        })?;
        let tracker = readable.await.map_err(|_| FeedError::Panicked)??;
        Ok(Self {
            tracker,
            // This fails if the source follows no upstream.
            upstreams: followed.await.ok(),
            stop,
            thread,
        })
    }

    /// Stops the source and waits for its end.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // The thread has reported a panic of the source, and does not panic itself.
        let _ = self.thread.join();
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>, FeedError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(FeedError::Thread)
}

/// Runs the configured source. A source that follows upstreams sends them to `follows` before its
/// first block.
fn run(
    config: Config,
    link: SourceLink,
    follows: oneshot::Sender<Upstreams>,
) -> Result<(), SourceError> {
    let options = EncodeOptions {
        omit_total_difficulty: config.omit_total_difficulty,
    };
    match config.source {
        SourceKind::Dev => {
            drop(follows);
            let source = DevSource {
                config: dev_config(&config),
                options,
                ticks: ticks(config.block_time),
            };
            source.run(link)
        }
        SourceKind::Files => {
            drop(follows);
            let source = FilesSource {
                genesis: config.genesis.unwrap_or_default(),
                chain: config.chain.unwrap_or_default(),
                options,
            };
            source.run(link)
        }
        SourceKind::Node => {
            let fleet = &config.fleet;
            let store = fleet.key.as_ref().map(|_| fleet.store(owner()));
            let secret = fleet.key.as_ref().map(FleetSecret::read).transpose();
            let secret = secret.map_err(|error| SourceError::FleetKey(error.to_string()))?;
            let config = UpstreamConfig {
                endpoints: config.nodes,
                concurrency: config.node_concurrency,
                timeout: config.node_timeout,
                forwards: !config.forward.is_empty(),
                state_bytes_max: config
                    .state_bytes
                    .or(auto_state_bytes(&MemorySource::find())),
                state_follow: config.state_follow,
                quorum: config.quorum.given(),
                network: config.network,
                chain_id: config.chain_id,
                genesis: config.genesis,
                trusted: config.trusted_blocks,
                header_rules: config.header_rules,
                data: config.data_dir,
                options,
            };
            if let (Some(store), Some(secret)) = (store, secret) {
                let config = FleetConfig {
                    nodes: config,
                    store,
                    secret,
                };
                let source = FleetSource::connect(config, &link)?;
                let _ = follows.send(Upstreams {
                    state: source.state().clone(),
                    forwarder: source.forwarder().cloned(),
                    standing: Arc::clone(source.standing()),
                    chain: source.chain().clone(),
                    fleet: Some(source.status().clone()),
                    desk: Some(source.desk().clone()),
                    shared: Some(source.shared_store()),
                });
                return source.run(link);
            }
            let source = UpstreamSource::connect(config, &link)?;
            // Sending fails if the service no longer waits for its start.
            let _ = follows.send(Upstreams {
                state: source.state().clone(),
                forwarder: source.forwarder().cloned(),
                standing: Arc::clone(source.standing()),
                chain: source.chain().clone(),
                fleet: None,
                desk: None,
                shared: None,
            });
            source.run(link)
        }
    }
}

/// Another name at each start.
fn owner() -> String {
    let random = std::hash::RandomState::new();
    let part = |salt: u64| std::hash::BuildHasher::hash_one(&random, salt);
    format!("{:016x}{:016x}", part(0), part(1))
}

/// Handles the events of a source.
struct EventHandler {
    /// Gets the head tracker once its head is readable, or an earlier error; then it is empty.
    ready: Option<oneshot::Sender<Result<TrackerHandle, FeedError>>>,
    /// Shows progress, for as long as more may follow.
    report: Option<ProgressReport>,
    metrics: Metrics,
    /// Writes what outlives the process, if anything does.
    settled: Option<SettledWriter>,
}

impl EventHandler {
    /// Handles all events, and returns why the source failed once its head was readable. An
    /// earlier error goes to the start of the service, which waits for the head.
    ///
    /// A panic here counts as a failure of the source, whose events nobody would handle.
    fn run_until_end(
        self,
        events: Receiver<SourceEvent>,
        source: thread::JoinHandle<Result<(), SourceError>>,
    ) -> Option<String> {
        catch_unwind(AssertUnwindSafe(|| self.run(events, source)))
            .unwrap_or_else(|_| Some("the handler of the source's events panicked".to_owned()))
    }

    fn run(
        mut self,
        events: Receiver<SourceEvent>,
        source: thread::JoinHandle<Result<(), SourceError>>,
    ) -> Option<String> {
        for event in events {
            self.handle(event);
        }
        // Waits until the newest block is written.
        drop(self.settled);
        // Ends an open line of progress before anything else is written.
        drop(self.report);
        match (source.join(), self.ready) {
            (Ok(Err(error)), Some(ready)) => {
                // Sending fails if the service no longer waits for its start.
                let _ = ready.send(Err(error.into()));
                None
            }
            (Ok(Ok(()) | Err(SourceError::Stopped)), _) => None,
            (Ok(Err(error)), None) => Some(format!("the source failed: {error}")),
            (Err(_), _) => Some("the source panicked".to_owned()),
        }
    }

    fn handle(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Progress(progress) => {
                if let Some(report) = &mut self.report {
                    report(progress);
                }
            }
            SourceEvent::ProgressEnded => self.report = None,
            SourceEvent::Readable(tracker) => {
                if let Some(ready) = self.ready.take() {
                    // Sending fails if the service no longer waits for its start.
                    let _ = ready.send(Ok(tracker));
                }
            }
            SourceEvent::HeadDelay(delay) => self.metrics.head.delay.observe(delay.as_secs_f64()),
            SourceEvent::StateMerged(took) => self.metrics.state_merged(took),
            SourceEvent::DataOpened(data) => match SettledWriter::start(data) {
                Ok(writer) => self.settled = Some(writer),
                Err(error) => tracing::warn!(%error, "the safe and finalized blocks are not saved"),
            },
            SourceEvent::Settled(blocks) => {
                if let Some(writer) = &self.settled {
                    writer.save(blocks);
                }
            }
            SourceEvent::HeadChoice {
                choice,
                agreeing,
                needed,
            } => self.metrics.head.set_choice(choice, agreeing, needed),
            SourceEvent::Dissent { upstream } => self.metrics.nodes.dissented(upstream),
            SourceEvent::UpstreamFault { upstream, reason } => {
                self.metrics.nodes.failed(upstream, reason);
            }
            SourceEvent::UpstreamLimited { upstream } => self.metrics.nodes.limited(upstream),
            SourceEvent::UpstreamState { upstream, state } => {
                self.metrics.nodes.set_state(upstream, state);
            }
        }
    }
}

/// One tick per block time; none if the block time is 0.
fn ticks(block_time: Duration) -> Receiver<Instant> {
    if block_time.is_zero() {
        channel::never()
    } else {
        channel::tick(block_time)
    }
}

/// The dev chain of a configuration.
pub(crate) fn dev_config(config: &Config) -> DevConfig {
    DevConfig {
        seed: config.seed,
        profile: config.profile,
        block_time_seconds: timestamp_step(config.block_time),
        reorg_every: (config.reorg_every > 0).then_some(config.reorg_every),
        reorg_depth: config.reorg_depth,
    }
}

/// The seconds between the timestamps of two blocks. Timestamps are whole seconds and must grow, so
/// blocks that come faster than one a second are stamped one second apart.
pub(crate) fn timestamp_step(block_time: Duration) -> u64 {
    block_time.as_secs().max(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use alloy_primitives::B256;
    use nearhead_actors::{data_folder::DataFolder, source::Progress};
    use nearhead_chain::window::SettledBlocks;

    use super::*;

    /// A finalized block of this number, and the safe one after it.
    fn settled(number: u64) -> SettledBlocks {
        let at = |number| Some((number, B256::repeat_byte(2)));
        SettledBlocks {
            safe: at(number + 1),
            finalized: at(number),
        }
    }

    #[test]
    fn reorgs_are_off_unless_configured() {
        let config = Config {
            reorg_depth: 3,
            ..Config::default()
        };
        assert_eq!(dev_config(&config).reorg_every, None);
        let config = Config {
            reorg_every: 4,
            ..config
        };
        let dev = dev_config(&config);
        assert_eq!((dev.reorg_every, dev.reorg_depth), (Some(4), 3));
    }

    #[test]
    fn a_panic_while_an_event_is_handled_is_a_failure() {
        let (sender, events) = channel::bounded(1);
        let source = spawn("source", || Ok(())).unwrap();
        let handler = EventHandler {
            ready: None,
            report: Some(Box::new(|_| panic!("a line of progress cannot be written"))),
            metrics: Metrics::new([]).unwrap(),
            settled: None,
        };
        let progress = Progress::Blocks { done: 1, total: 2 };
        sender.send(SourceEvent::Progress(progress)).unwrap();
        let reason = handler.run_until_end(events, source);
        assert_eq!(
            reason.as_deref(),
            Some("the handler of the source's events panicked")
        );
        assert!(
            sender.send(SourceEvent::ProgressEnded).is_err(),
            "a source that waits until its events are handled would never end"
        );
    }

    /// The first blocks are written at once, and the last ones at the end; those between them may
    /// be lost in a crash.
    #[test]
    fn the_last_settled_blocks_are_saved() {
        let root = std::env::temp_dir().join(format!("nearhead-feed-{}", std::process::id()));
        let open = || DataFolder::open(&root, 1, B256::ZERO).unwrap();
        let (sender, events) = channel::bounded(8);
        let source = spawn("source", || Ok(())).unwrap();
        let handler = EventHandler {
            ready: None,
            report: None,
            metrics: Metrics::new([]).unwrap(),
            settled: None,
        };
        sender.send(SourceEvent::DataOpened(open())).unwrap();
        for number in [7, 8, 9] {
            sender.send(SourceEvent::Settled(settled(number))).unwrap();
        }
        drop(sender);
        assert_eq!(handler.run_until_end(events, source), None);
        assert_eq!(open().settled(), settled(9));
        let _ = std::fs::remove_dir_all(root);
    }

    /// A pipe that nobody reads stands for a disk that hangs.
    #[test]
    fn a_disk_that_hangs_holds_up_neither_events_nor_the_end() {
        let name = format!("nearhead-feed-hangs-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let folder = DataFolder::open(&root, 1, B256::ZERO).unwrap();
        let pipe = folder.path().join("finalized.json.tmp");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        // No event waits in this channel.
        let (sender, events) = channel::bounded(0);
        let source = spawn("source", || Ok(())).unwrap();
        let handler = EventHandler {
            ready: None,
            report: None,
            metrics: Metrics::new([]).unwrap(),
            settled: None,
        };
        let handling = thread::spawn(move || handler.run_until_end(events, source));
        sender.send(SourceEvent::DataOpened(folder)).unwrap();
        for number in 0..100 {
            sender.send(SourceEvent::Settled(settled(number))).unwrap();
        }
        drop(sender);
        assert_eq!(handling.join().unwrap(), None);
        // The disk goes on. A pipe cannot be synced, which is logged and ends nothing.
        let disk = std::fs::File::options().read(true).write(true).open(&pipe);
        drop(disk.unwrap());
        let _ = std::fs::remove_dir_all(root);
    }
}
