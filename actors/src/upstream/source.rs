//! Source `node`: connects to upstreams and follows what a quorum of them agrees on.

use std::{path::PathBuf, sync::Arc, time::Duration};

use nearhead_chain::{
    encode::EncodeOptions,
    network::{BlobRules, ChainSpec},
    remote::{ANSWER_BYTES_MAX, Verifier},
    trie::NodeStore,
    verify::HeaderRules,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
    time,
};

use super::{
    Endpoint, StateSource,
    agree::{Policy, Quorum},
    client::{CallLimits, ClientError, UpstreamClient, answer_bytes},
    follow::{FollowConfig, FollowError, Follower},
    health::{CallClass, FaultReport},
    priority::lower_priority,
    reporter::Reporter,
    standing::Standing,
    tracker_window::TrackerWindow,
    verified::{UnknownTransaction, VerifiedUpstream},
};
use crate::{
    data_folder::{DataFolder, DataRoot},
    source::{Source, SourceError, SourceEvent, SourceLink, read_genesis_file},
};

/// Chain ids of the networks whose genesis does not come back with other blocks: mainnet, Sepolia
/// and Hoodi.
const NETWORKS: [u64; 3] = [1, 11_155_111, 560_048];

/// Pause between attempts to reach any upstream at the start.
const START_RETRY: Duration = Duration::from_secs(1);

/// Calls for heads to one upstream that may be in progress: a poll makes three at once, and the
/// rest is for hashes of single blocks. They do not count against [`UpstreamConfig::concurrency`],
/// so that an upstream that is slow with blocks is still asked for its head.
const HEAD_CALLS_MAX: usize = 8;

/// Largest number of fault reports that wait for the follower. Further ones would add nothing.
const FAULT_REPORTS_MAX: usize = 64;

/// The configuration of source `node`.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// The upstreams, in the operator's order.
    pub endpoints: Vec<Endpoint>,
    /// Calls to one upstream that may be in progress for blocks, and as many again for state. Those
    /// for heads do not count.
    pub concurrency: usize,
    /// Longest wait for an upstream's answer.
    pub timeout: Duration,
    /// Largest number of bytes of state to hold.
    pub state_bytes_max: usize,
    /// The chain's genesis file, if given: it states the chain id and the price of blob gas.
    pub genesis: Option<PathBuf>,
    /// Where the newest finalized block is kept.
    pub data: DataRoot,
    /// How blocks are encoded.
    pub options: EncodeOptions,
}

/// The upstreams of one chain.
pub struct UpstreamSource {
    runtime: Runtime,
    upstreams: Vec<VerifiedUpstream>,
    unknown_transaction: UnknownTransaction,
    chain_id: u64,
    concurrency: usize,
    state: StateSource,
    standing: Arc<Standing>,
    fault_reports: mpsc::Receiver<FaultReport>,
}

impl UpstreamSource {
    /// Reads the chain id from the genesis file, or asks the upstreams for it until one answers or
    /// the source is stopped. The thread has a lower priority from then on.
    ///
    /// # Errors
    /// The genesis file is not valid, the runtime or a client cannot be set up, the folder for data
    /// cannot be used, or the source is stopped ([`SourceError::Stopped`]).
    pub fn connect(mut config: UpstreamConfig, link: &SourceLink) -> Result<Self, SourceError> {
        lower_priority();
        let spec = config.genesis.take().map(read_spec).transpose()?;
        // One thread makes the calls; as many threads as there are cores verify blocks. One more
        // waits for the stop signal.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(cores + 1)
            .thread_name("verifier")
            .build()
            .map_err(SourceError::Runtime)?;
        let [heads, blocks, state] = {
            let _inside = runtime.enter();
            CallClass::ALL.map(|class| clients(&config, class))
        };
        let (heads, blocks, state) = (heads?, blocks?, state?);
        let chain_id = match &spec {
            Some(spec) => spec.chain_id(),
            None => runtime.block_on(first_chain_id(&heads, link))?,
        };
        let is_known = spec.is_some() || NETWORKS.contains(&chain_id);
        let opening = open_data(&config.data, &heads, chain_id, is_known);
        if let Some(folder) = runtime.block_on(opening)? {
            link.report(SourceEvent::DataOpened(folder));
        }
        let rules = match spec {
            Some(spec) => BlobRules::of_genesis(spec),
            None => BlobRules::of_chain(chain_id),
        };
        let store = NodeStore::bounded(config.state_bytes_max);
        let verifier = Arc::new(Verifier::new(chain_id, rules, config.options, store));
        let unknown_transaction = UnknownTransaction::default();
        let (reports, fault_reports) = mpsc::channel(FAULT_REPORTS_MAX);
        let standing = Arc::new(Standing::new(heads.len(), Policy::majority(heads.len())));
        let state = StateSource::new(
            state,
            runtime.handle().clone(),
            Arc::clone(&standing),
            reports,
        );
        let upstream = |(heads, blocks)| VerifiedUpstream {
            heads,
            blocks,
            verifier: Arc::clone(&verifier),
            unknown_transaction: unknown_transaction.clone(),
            head: link.head.clone(),
        };
        Ok(Self {
            upstreams: heads.into_iter().zip(blocks).map(upstream).collect(),
            runtime,
            unknown_transaction,
            chain_id,
            concurrency: config.concurrency,
            state,
            standing,
            fault_reports,
        })
    }

    /// The source of state that is not resident.
    #[must_use]
    pub const fn state(&self) -> &StateSource {
        &self.state
    }

    /// The standing of the upstreams.
    #[must_use]
    pub const fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }
}

impl Source for UpstreamSource {
    /// Follows the upstreams until the source is stopped. It fails if the head tracker ends, if
    /// a call panics, or with [`SourceError::UnknownTransaction`]: before a block was readable,
    /// every upstream was at fault, one of them for a transaction of an unknown type.
    fn run(self, link: SourceLink) -> Result<(), SourceError> {
        let Self {
            runtime,
            upstreams,
            unknown_transaction,
            chain_id,
            concurrency,
            fault_reports,
            standing,
            ..
        } = self;
        let config = FollowConfig {
            chain_id,
            genesis: None,
            concurrency,
            seed: u64::from(std::process::id()),
        };
        let (mut reporter, mut refused) =
            Reporter::new(link.clone(), upstreams.len(), standing, unknown_transaction);
        let quorum = Policy::majority(upstreams.len());
        let handler = Box::new(move |event| reporter.report(event));
        let (end, ended) = oneshot::channel::<()>();
        let stop = link.stop.clone();
        runtime.spawn_blocking(move || {
            // Dropping the sender is the signal.
            let _ = stop.recv();
            drop(end);
        });
        let window = TrackerWindow::new(link, chain_id, HeaderRules::off());
        let policy = Policy::new(quorum, upstreams.len());
        let authority = Quorum::new(policy, upstreams.len(), None, Vec::new());
        let outcome = runtime.block_on(async {
            let follower = Follower::new(upstreams, window, authority, config, handler);
            let following = follower.run(fault_reports, ended);
            tokio::select! {
                outcome = following => outcome,
                Ok(reason) = &mut refused => {
                    Err(FollowError::Window(SourceError::UnknownTransaction { reason }))
                }
            }
        });
        // Do not wait for the thread that waits for the stop signal.
        runtime.shutdown_background();
        match outcome {
            Ok(()) => Ok(()),
            Err(FollowError::Window(error)) => Err(error),
            Err(error @ FollowError::Panicked) => Err(SourceError::Upstream(error.to_string())),
        }
    }
}

impl From<ClientError> for SourceError {
    fn from(error: ClientError) -> Self {
        Self::Upstream(error.to_string())
    }
}

/// A client of every upstream for one class of calls. Each class has clients of its own, so that
/// no call waits behind one of another class, for a turn or on a connection.
fn clients(config: &UpstreamConfig, class: CallClass) -> Result<Vec<UpstreamClient>, ClientError> {
    let (concurrency, answer_bytes_max) = match class {
        CallClass::Heads => (HEAD_CALLS_MAX, answer_bytes::CLAIM),
        CallClass::Blocks | CallClass::State => (config.concurrency, ANSWER_BYTES_MAX),
    };
    let limits = CallLimits {
        concurrency,
        timeout: config.timeout,
        answer_bytes_max,
    };
    let endpoints = config.endpoints.iter();
    endpoints
        .map(|endpoint| UpstreamClient::new(endpoint.clone(), limits))
        .collect()
}

/// The chain id of the first upstream that answers.
async fn first_chain_id(clients: &[UpstreamClient], link: &SourceLink) -> Result<u64, SourceError> {
    loop {
        for client in clients {
            match client.chain_id().await {
                Ok(chain_id) => return Ok(chain_id),
                Err(error) => {
                    tracing::warn!(node = %client.endpoint(), %error, "the upstream does not report its chain id");
                }
            }
            if link.is_stopped() {
                return Err(SourceError::Stopped);
            }
        }
        time::sleep(START_RETRY).await;
    }
}

/// Opens the folder of the chain. Its genesis is that of the first upstream that answers.
async fn open_data(
    root: &DataRoot,
    clients: &[UpstreamClient],
    chain_id: u64,
    is_known: bool,
) -> Result<Option<DataFolder>, SourceError> {
    if !root.has_folder_for(is_known) {
        return Ok(None);
    }
    for client in clients {
        if let Ok(Some(genesis)) = client.hash_at(0).await {
            return Ok(root.open(chain_id, genesis, is_known)?);
        }
    }
    tracing::warn!("no upstream states the chain's genesis: all is kept in memory");
    Ok(None)
}

fn read_spec(path: PathBuf) -> Result<ChainSpec, SourceError> {
    let genesis = read_genesis_file(&path)?;
    ChainSpec::from_genesis(&genesis).map_err(|error| SourceError::Rules { path, error })
}
