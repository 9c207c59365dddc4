//! Source `node`: from URLs to a window that follows them.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Addr, ArbiterHandle};
use nearhead_chain::{
    encode::EncodeOptions,
    execute::ChainSpec,
    remote::{BlobRules, Verifier},
    trie::NodeStore,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
    time,
};

use super::{
    Endpoint, StateSource,
    client::{ANSWER_BYTES_MAX, CallLimits, ClientError, UpstreamClient},
    follow::{Event, EventHandler, FollowConfig, FollowError, Follower},
    health::FaultReport,
    priority::give_way,
    sink::TrackerSink,
    standing::Standing,
    verified::{UnknownType, VerifiedUpstream},
};
use crate::{
    head::Head,
    head_tracker::{HeadTracker, TrackerEnd},
    source::{Progress, Report, SourceError, StopSignal, is_stopped, read_genesis_file},
};

/// Pause before upstreams that could not be reached at the start are tried again.
const START_RETRY: Duration = Duration::from_secs(1);

/// Complaints of upstreams that wait for the follower; more of them say nothing new.
const FAULT_REPORTS_MAX: usize = 64;

/// How upstreams are followed.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// The upstreams, in the operator's order.
    pub endpoints: Vec<Endpoint>,
    /// Calls to one upstream that may be under way for blocks, and as many for state.
    pub concurrency: usize,
    /// Longest wait for an upstream's answer.
    pub timeout: Duration,
    /// Bytes of state that are held at most.
    pub state_bytes_max: usize,
    /// The chain's genesis, where it is known: it says what blob gas costs.
    pub genesis: Option<PathBuf>,
    /// How blocks are written.
    pub options: EncodeOptions,
}

/// Real upstreams of one chain.
pub struct UpstreamSource {
    runtime: Runtime,
    upstreams: Vec<VerifiedUpstream>,
    unknown: UnknownType,
    chain_id: u64,
    concurrency: usize,
    state: StateSource,
    fault_reports: mpsc::Receiver<FaultReport>,
}

/// The head tracker, and its end.
pub type Started = (Addr<HeadTracker>, TrackerEnd);

impl UpstreamSource {
    /// Asks the upstreams for their chain, until one answers or `stop` is told. The thread has a lower
    /// priority from then on.
    ///
    /// # Errors
    /// The genesis cannot be read, or the system has no resources left; [`SourceError::Stopped`].
    pub fn connect(config: UpstreamConfig, stop: &StopSignal) -> Result<Self, SourceError> {
        give_way();
        let spec = config.genesis.map(read_spec).transpose()?;
        // One thread asks; blocks are checked beside it, on as many threads as there are cores.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(cores + 1)
            .thread_name("verifier")
            .build()
            .map_err(SourceError::Runtime)?;
        let limits = CallLimits {
            concurrency: config.concurrency,
            timeout: config.timeout,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        // State is asked for in turns of its own: a new head does not wait for it.
        let [clients, state_clients] = {
            let _inside = runtime.enter();
            let clients = || -> Result<Vec<UpstreamClient>, ClientError> {
                let endpoints = config.endpoints.iter();
                endpoints
                    .map(|endpoint| UpstreamClient::new(endpoint.clone(), limits))
                    .collect()
            };
            [clients()?, clients()?]
        };
        let chain_id = match &spec {
            Some(spec) => spec.chain_id(),
            None => runtime.block_on(first_chain_id(&clients, stop))?,
        };
        let rules = match spec {
            Some(spec) => BlobRules::of_genesis(spec),
            None => BlobRules::of_chain(chain_id),
        };
        let store = NodeStore::bounded(config.state_bytes_max);
        let verifier = Arc::new(Verifier::new(chain_id, rules, config.options, store));
        let unknown = UnknownType::default();
        let (complain, fault_reports) = mpsc::channel(FAULT_REPORTS_MAX);
        let standing = Arc::new(Standing::new(clients.len()));
        let state = StateSource::new(state_clients, runtime.handle().clone(), standing, complain);
        let upstream =
            |client| VerifiedUpstream::new(client, Arc::clone(&verifier), unknown.clone());
        Ok(Self {
            upstreams: clients.into_iter().map(upstream).collect(),
            runtime,
            unknown,
            chain_id,
            concurrency: config.concurrency,
            state,
            fault_reports,
        })
    }

    /// Where state comes from that is not held.
    #[must_use]
    pub const fn state(&self) -> &StateSource {
        &self.state
    }

    /// Follows the best upstream until told to stop; `started` is told when the first block is
    /// readable.
    ///
    /// # Errors
    /// The head tracker is gone; [`SourceError::UnknownTransaction`] where the first block has a
    /// transaction of a type that is not known here, and every upstream has stated one or failed.
    pub fn follow(
        self,
        (arbiter, head): (ArbiterHandle, Head),
        started: impl FnOnce(Started),
        mut report: Report,
        mut tell: EventHandler,
        stop: &StopSignal,
    ) -> Result<(), SourceError> {
        let Self {
            runtime,
            upstreams,
            unknown,
            chain_id,
            concurrency,
            fault_reports,
            state,
            ..
        } = self;
        let (first, mut first_started) = oneshot::channel();
        let sink = TrackerSink::new(arbiter, head, chain_id, first);
        let mut total = 0;
        let (refuse, mut refused) = oneshot::channel();
        let mut refuse = Some(refuse);
        let (count, mut failed) = (upstreams.len(), HashSet::new());
        let tell = Box::new(move |event: Event| {
            state.standing().note(&event, Instant::now());
            match event {
                Event::Missing(missing) => {
                    total = total.max(missing);
                    let done = total - missing;
                    report(Progress::Backfill { done, total });
                }
                // Who was not heard yet, or asks to be asked less, may say otherwise.
                Event::Failed {
                    upstream,
                    reason: Some(_),
                    ..
                } => {
                    failed.insert(upstream);
                    if failed.len() == count
                        && let Some(why) = unknown.lock().take()
                        && let Some(refuse) = refuse.take()
                    {
                        // Once a block is readable, nobody waits for it.
                        let _ = refuse.send(why);
                    }
                }
                // What is missing is counted anew.
                Event::WindowStarted(_) => total = 0,
                Event::Switched(_)
                | Event::Failed { reason: None, .. }
                | Event::Advanced { .. }
                | Event::State { .. } => {}
            }
            tell(event);
        });
        let config = FollowConfig {
            chain_id,
            concurrency,
            seed: u64::from(std::process::id()),
        };
        let (end, ended) = oneshot::channel::<()>();
        let stop = stop.clone();
        runtime.spawn_blocking(move || {
            // It is told to end by the other side's end.
            let _ = stop.recv();
            drop(end);
        });
        let outcome = runtime.block_on(async {
            let following = Follower::new(upstreams, sink, config, tell).run(fault_reports, ended);
            let mut following = std::pin::pin!(following);
            tokio::select! {
                outcome = &mut following => outcome,
                tracker = &mut first_started => {
                    if let Ok(tracker) = tracker {
                        started(tracker);
                    }
                    following.await
                }
                Ok(why) = &mut refused => {
                    Err(FollowError::Sink(SourceError::UnknownTransaction { why }))
                }
            }
        });
        // The thread that waits for the stop may wait for long.
        runtime.shutdown_background();
        match outcome {
            Ok(()) => Ok(()),
            Err(FollowError::Sink(error)) => Err(error),
            Err(error @ FollowError::Panicked) => Err(SourceError::Node(error.to_string())),
        }
    }
}

impl From<ClientError> for SourceError {
    fn from(error: ClientError) -> Self {
        Self::Node(error.to_string())
    }
}

/// The chain that the first upstream that answers is of.
async fn first_chain_id(clients: &[UpstreamClient], stop: &StopSignal) -> Result<u64, SourceError> {
    loop {
        for client in clients {
            match client.chain_id().await {
                Ok(chain_id) => return Ok(chain_id),
                Err(error) => {
                    tracing::warn!(node = %client.endpoint(), %error, "the node does not say its chain");
                }
            }
            if is_stopped(stop) {
                return Err(SourceError::Stopped);
            }
        }
        time::sleep(START_RETRY).await;
    }
}

fn read_spec(path: PathBuf) -> Result<ChainSpec, SourceError> {
    let genesis = read_genesis_file(&path)?;
    ChainSpec::from_genesis(&genesis).map_err(|error| SourceError::Rules { path, error })
}
