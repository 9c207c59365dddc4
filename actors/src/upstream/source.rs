//! Source `node`: connects to upstreams and follows what a quorum of them agrees on.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::{
    encode::EncodeOptions,
    network::{ChainSpec, FeeRules, Network, ServedChain},
    remote::{ANSWER_BYTES_MAX, Verifier},
    trie::NodeStore,
    verify::{HeaderRules, HeaderRulesMode},
    window::SettledBlocks,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
};

use super::{
    Endpoint, Forwarder, StateFollow, StateSource,
    agree::Policy,
    client::{CallLimits, ClientError, UpstreamClient, answer_bytes},
    follow::FollowConfig,
    following::Following,
    health::CallClass,
    identity::{ChainIdentity, GenesisFile, Pins, agreed_chain},
    standing::Standing,
    tracker_window::TrackerWindow,
    verified::{UnknownTransaction, VerifiedUpstream},
};
use crate::{
    admission::FORWARDED_ANSWER_BYTES_MAX,
    data_folder::{DataFolder, DataRoot},
    follow_threads::FollowThreads,
    saved::{KeptBytes, Restored, SavedSetup, SavedWriter},
    source::{Source, SourceError, SourceEvent, SourceLink},
};

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
    /// Calls to one upstream that may be in progress for blocks, as many again for state, and as
    /// many that are forwarded. Those for heads do not count.
    pub concurrency: usize,
    /// Longest wait for an upstream's answer.
    pub timeout: Duration,
    /// Whether calls of clients are passed to the upstreams.
    pub forwards: bool,
    /// Largest number of bytes of state to hold.
    pub state_bytes_max: usize,
    /// How the state is kept current.
    pub state_follow: StateFollow,
    /// How many upstreams have to agree; `None` for more than half of them.
    pub quorum: Option<usize>,
    /// The network to follow, if the operator names it.
    pub network: Option<Network>,
    /// The chain id to follow, if the operator names it.
    pub chain_id: Option<u64>,
    /// The chain's genesis file, if given: it pins chain id, genesis and rules.
    pub genesis: Option<PathBuf>,
    /// Blocks that the chain has to contain, number and hash.
    pub trusted: Vec<(u64, B256)>,
    /// Whether headers have to obey the rules of their fork.
    pub header_rules: HeaderRulesMode,
    /// Where the newest safe and finalized block and the window are kept.
    pub data: DataRoot,
    /// How blocks are encoded.
    pub options: EncodeOptions,
}

/// The chain that is followed, and how it is decided what is served of it.
#[derive(Clone, Debug)]
pub struct FollowedChain {
    /// Its chain id.
    pub chain_id: u64,
    /// Hash of its block 0; `None` if it is not known.
    pub genesis: Option<B256>,
    /// The network with this chain id and this genesis.
    pub network: Option<Network>,
    /// How many upstreams there are.
    pub nodes: usize,
    /// How many of them have to agree.
    pub quorum: usize,
    /// Whether headers have to obey the rules of their fork.
    pub has_header_rules: bool,
    /// The folder for data; `None` if all is kept in memory.
    pub data: Option<PathBuf>,
}

/// The upstreams of one chain.
pub struct UpstreamSource {
    parts: UpstreamParts,
    forwarder: Option<Forwarder>,
    /// The chain, and how many upstreams have to agree.
    chain: FollowedChain,
}

/// What it takes to follow the upstreams.
pub(crate) struct UpstreamParts {
    pub(crate) runtime: Runtime,
    pub(crate) following: Following,
    /// The chain, as calls on its state need it.
    pub(crate) served: ServedChain,
    /// What headers are checked against.
    pub(crate) rules: HeaderRules,
    pub(crate) verifier: Arc<Verifier>,
    /// Writes what outlives the process, if anything does. Dropping it writes what the window has.
    pub(crate) writer: Option<SavedWriter>,
    /// Where the writer looks for the bytes of a block before it makes them.
    pub(crate) kept: KeptBytes,
    /// The threads that follow and verify, with the one of the source.
    pub(crate) threads: FollowThreads,
}

impl UpstreamSource {
    /// Finds out which chain to follow: it is pinned, or a quorum of the upstreams agrees on it.
    /// The upstreams are asked until then, or until the source is stopped. The thread has a lower
    /// priority once a block is readable.
    ///
    /// # Errors
    /// The genesis file is not valid or contradicts other options, no quorum agrees on a chain, its
    /// rules are not known although they are to be checked, the runtime or a client cannot be set
    /// up, the folder for data cannot be used, or the source is stopped
    /// ([`SourceError::Stopped`]).
    pub fn connect(config: UpstreamConfig, link: &SourceLink) -> Result<Self, SourceError> {
        Self::open(config, link, true)
    }

    /// The same for a process that does not follow its upstreams yet, and may have none: the chain
    /// is the one that is pinned, and no upstream is asked.
    ///
    /// # Errors
    /// As [`Self::connect`]; [`SourceError::ChainNotPinned`].
    pub(crate) fn pinned(config: UpstreamConfig, link: &SourceLink) -> Result<Self, SourceError> {
        Self::open(config, link, false)
    }

    fn open(config: UpstreamConfig, link: &SourceLink, asks: bool) -> Result<Self, SourceError> {
        let threads = FollowThreads::new();
        threads.join();
        let runtime = runtime(&threads).map_err(SourceError::Runtime)?;
        let ([heads, blocks, state], forwarded) = {
            let _inside = runtime.enter();
            let forwarded = config.forwards.then(|| forward_clients(&config));
            (
                CallClass::ALL.map(|class| clients(&config, class)),
                forwarded,
            )
        };
        let (heads, blocks, state) = (heads?, blocks?, state?);
        let forwarded = forwarded.transpose()?;
        let opening = OpenedChain::open(&config, &heads, link, asks);
        let OpenedChain {
            chain,
            served,
            fee_rules,
            rules,
            folder,
        } = runtime.block_on(opening)?;
        let FollowedChain {
            chain_id, quorum, ..
        } = chain;
        let settled = folder.as_ref().map(DataFolder::settled).unwrap_or_default();
        let SettledBlocks { safe, finalized } = still_settled(settled, &config.trusted);
        let policy = Policy::new(quorum, heads.len());
        if let Some(folder) = folder {
            link.report(SourceEvent::DataOpened(folder));
        }
        let store = StateSource::store_of(config.state_bytes_max, chain.data.is_some());
        let verifier = Verifier::new(chain_id, fee_rules, config.options, Arc::clone(&store));
        let verifier = Arc::new(verifier);
        let kept = KeptBytes::default();
        let (restored, writer) =
            open_saved(&chain, &verifier, &store, &kept, link, &config, &threads);
        let unknown_transaction = UnknownTransaction::default();
        let (reports, fault_reports) = mpsc::channel(FAULT_REPORTS_MAX);
        let standing = Arc::new(Standing::new(heads.len(), quorum));
        let state = StateSource::new(
            state,
            store,
            runtime.handle().clone(),
            Arc::clone(&standing),
            reports,
            &restored,
        );
        // The wait for a turn, and for the answer.
        let deadline = config.timeout * 2;
        let forwarder = forwarded.map(|clients| {
            let (runtime, standing) = (runtime.handle().clone(), Arc::clone(&standing));
            Forwarder::new(clients, runtime, standing, deadline)
        });
        let upstream = |(heads, blocks)| VerifiedUpstream {
            heads,
            blocks,
            verifier: Arc::clone(&verifier),
            unknown_transaction: unknown_transaction.clone(),
            head: link.head.clone(),
            saved: restored.blocks.clone(),
        };
        let following = Following {
            upstreams: heads.into_iter().zip(blocks).map(upstream).collect(),
            unknown_transaction,
            config: FollowConfig {
                chain_id,
                genesis: chain.genesis,
                concurrency: config.concurrency,
                seed: u64::from(std::process::id()),
            },
            policy,
            finalized,
            safe,
            trusted: config.trusted,
            state,
            state_follow: config.state_follow,
            standing,
            fault_reports,
        };
        let parts = UpstreamParts {
            runtime,
            following,
            served,
            rules,
            verifier,
            writer,
            kept,
            threads,
        };
        Ok(Self {
            parts,
            forwarder,
            chain,
        })
    }

    /// What it takes to follow the upstreams at some times only.
    pub(crate) fn into_parts(self) -> UpstreamParts {
        self.parts
    }

    /// The chain that is followed.
    #[must_use]
    pub const fn chain(&self) -> &FollowedChain {
        &self.chain
    }

    /// The source of state that is not resident.
    #[must_use]
    pub const fn state(&self) -> &StateSource {
        &self.parts.following.state
    }

    /// Passes calls of clients to the upstreams, if that was asked for.
    #[must_use]
    pub const fn forwarder(&self) -> Option<&Forwarder> {
        self.forwarder.as_ref()
    }

    /// The standing of the upstreams.
    #[must_use]
    pub const fn standing(&self) -> &Arc<Standing> {
        &self.parts.following.standing
    }
}

impl Source for UpstreamSource {
    /// Follows the upstreams until the source is stopped. It fails if the head tracker ends, if
    /// a call panics, or with [`SourceError::UnknownTransaction`]: before a block was readable,
    /// every upstream was at fault, one of them for a transaction of an unknown type.
    fn run(self, link: SourceLink) -> Result<(), SourceError> {
        let UpstreamParts {
            runtime,
            mut following,
            served,
            rules,
            writer,
            threads,
            ..
        } = self.parts;
        let ended = stop_of(&runtime, &link);
        let window = TrackerWindow::new(link.clone(), served, rules, threads);
        let outcome = runtime.block_on(following.run(link, window, ended));
        // Writes what the window has now.
        drop(writer);
        // Do not wait for the thread that waits for the stop signal.
        runtime.shutdown_background();
        outcome
    }
}

/// Ends when the source has to end.
pub(crate) fn stop_of(runtime: &Runtime, link: &SourceLink) -> oneshot::Receiver<()> {
    let (end, ended) = oneshot::channel::<()>();
    let stop = link.stop.clone();
    runtime.spawn_blocking(move || {
        // Dropping the sender is the signal.
        let _ = stop.recv();
        drop(end);
    });
    ended
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
    clients_with(config, concurrency, answer_bytes_max)
}

/// A client of every upstream for forwarded calls: whatever clients of the service ask for, no call
/// for heads, blocks or state waits behind it.
fn forward_clients(config: &UpstreamConfig) -> Result<Vec<UpstreamClient>, ClientError> {
    clients_with(config, config.concurrency, FORWARDED_ANSWER_BYTES_MAX)
}

fn clients_with(
    config: &UpstreamConfig,
    concurrency: usize,
    answer_bytes_max: usize,
) -> Result<Vec<UpstreamClient>, ClientError> {
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

/// One thread makes the calls; as many threads as there are cores verify blocks. One more waits for
/// the stop signal.
fn runtime(threads: &FollowThreads) -> io::Result<Runtime> {
    let threads = threads.clone();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(cores + 1)
        .thread_name("verifier")
        .on_thread_start(move || threads.join())
        .build()
}

/// The chain to follow, with its rules and its folder.
struct OpenedChain {
    chain: FollowedChain,
    served: ServedChain,
    fee_rules: FeeRules,
    rules: HeaderRules,
    folder: Option<DataFolder>,
}

impl OpenedChain {
    /// Finds out which chain to follow, and opens its folder.
    async fn open(
        config: &UpstreamConfig,
        heads: &[UpstreamClient],
        link: &SourceLink,
        asks: bool,
    ) -> Result<Self, SourceError> {
        let file = config.genesis.as_deref().map(GenesisFile::read);
        let file = file.transpose()?;
        let (network, chain_id) = (config.network, config.chain_id);
        let pins = Pins::new(file.as_ref(), network, chain_id, &config.trusted)?;
        let nodes = heads.len();
        let quorum = config.quorum.unwrap_or(Policy::majority(nodes));
        let identity = match asks {
            true => agreed_chain(&pins, quorum, heads, &config.data, link).await?,
            false => pins.identity().ok_or(SourceError::ChainNotPinned)?,
        };
        report_identity(identity, &pins);
        let ChainIdentity {
            chain_id,
            genesis,
            network,
        } = identity;
        let spec = file.map(|file| file.spec);
        let is_known = spec.is_some() || network.is_some();
        let fee_rules = match (&spec, network) {
            (Some(spec), _) => FeeRules::of_genesis(spec.clone()),
            (None, Some(network)) => FeeRules::of_network(network),
            (None, None) => FeeRules::of_chain(chain_id),
        };
        let spec = spec.or_else(|| network.map(ChainSpec::of_network));
        let served = ServedChain {
            id: chain_id,
            spec: spec.clone().map(Arc::new),
        };
        let rules = HeaderRules::new(config.header_rules, spec)?;
        let folder = open_data(&config.data, identity, is_known)?;
        let chain = FollowedChain {
            chain_id,
            genesis,
            network,
            nodes,
            quorum,
            has_header_rules: rules.is_on(),
            data: folder.as_ref().map(|folder| folder.path().to_owned()),
        };
        Ok(Self {
            chain,
            served,
            fee_rules,
            rules,
            folder,
        })
    }
}

/// Opens the chain's folder; `None` if all is kept in memory. `is_known` says that the operator
/// gave the chain's genesis file, or that it is a known network.
fn open_data(
    root: &DataRoot,
    chain: ChainIdentity,
    is_known: bool,
) -> Result<Option<DataFolder>, SourceError> {
    match (chain.genesis, root) {
        (Some(genesis), _) => Ok(root.open(chain.chain_id, genesis, is_known)?),
        // The finalized block that an earlier process served may be there.
        (None, DataRoot::Given(_)) => Err(SourceError::GenesisUnknown),
        (None, DataRoot::Memory | DataRoot::Auto(_)) => Ok(None),
    }
}

/// Opens the file with the window of an earlier process. Without it, all is fetched.
fn open_saved(
    chain: &FollowedChain,
    verifier: &Arc<Verifier>,
    store: &Arc<NodeStore>,
    kept: &KeptBytes,
    link: &SourceLink,
    config: &UpstreamConfig,
    threads: &FollowThreads,
) -> (Restored, Option<SavedWriter>) {
    let (Some(folder), Some(genesis)) = (&chain.data, chain.genesis) else {
        return (Restored::default(), None);
    };
    let started = Restored::start(SavedSetup {
        folder: folder.clone(),
        genesis,
        verifier: Arc::clone(verifier),
        store: Arc::clone(store),
        head: link.head.clone(),
        kept: kept.clone(),
        items_bytes_max: saved_state_bytes_max(config.state_bytes_max as u64),
        threads: threads.clone(),
    });
    match started {
        Ok((restored, writer)) => (restored, Some(writer)),
        Err(error) => {
            tracing::warn!(%error, "the window is not saved: a restart will fetch it");
            (Restored::default(), None)
        }
    }
}

/// The finalized block of an earlier process, which nodes have to show that they have. It is `None`
/// if the operator trusts a block at it or above it, which may be on another chain.
fn still_finalized(finalized: Option<(u64, B256)>, trusted: &[(u64, B256)]) -> Option<(u64, B256)> {
    // Every chain with this genesis contains block 0, and a node may no longer have it.
    let (number, hash) = finalized.filter(|(number, _)| *number > 0)?;
    if trusted.iter().any(|(trusted, _)| *trusted >= number) {
        tracing::warn!(number, %hash, "a trusted block replaces the block that was finalized");
        return None;
    }
    tracing::info!(number, %hash, "the chain was finalized up to this block");
    Some((number, hash))
}

/// Bytes on disk of a state with this bound: rows take a fifth more than what they have, and what
/// nobody holds is removed in parts.
#[must_use]
pub const fn saved_state_bytes_max(state_bytes_max: u64) -> u64 {
    state_bytes_max + state_bytes_max / 2
}

/// The blocks of an earlier process that count for this one: the finalized block
/// ([`still_finalized`]), and the safe one above it, which the window has to show.
fn still_settled(saved: SettledBlocks, trusted: &[(u64, B256)]) -> SettledBlocks {
    let finalized = still_finalized(saved.finalized, trusted);
    let is_above = |safe: &(u64, B256)| finalized.is_none_or(|at| at.0 < safe.0);
    let safe = saved.safe.filter(is_above);
    if let Some((number, hash)) = safe {
        tracing::info!(number, %hash, "a saved safe block waits until the window shows it");
    }
    SettledBlocks { safe, finalized }
}

/// Logs which chain is followed. Warns of one that has the chain id of a network and is not that
/// network, unless the operator pinned the chain id.
fn report_identity(chain: ChainIdentity, pins: &Pins) {
    let ChainIdentity {
        chain_id,
        genesis,
        network,
    } = chain;
    let genesis = genesis.map(tracing::field::display);
    let network = network.map(tracing::field::display);
    tracing::info!(chain_id, genesis, network, "this chain is followed");
    if let Some(namesake) = chain.namesake().filter(|_| !pins.has_chain_id()) {
        let which = match chain.genesis {
            Some(_) => "not its genesis",
            None => "no quorum of them has block 0",
        };
        tracing::warn!(
            chain_id,
            genesis,
            "the nodes have the chain id of {namesake} and {which}, so its rules are not applied: \
             name the chain with --network {namesake}, --chain-id or --genesis"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trusted_block_at_the_finalized_one_or_above_replaces_it() {
        let hash = B256::repeat_byte;
        assert_eq!(still_finalized(Some((0, hash(1))), &[]), None);
        let finalized = Some((10, hash(1)));
        for (trusted, expected) in [
            (&[][..], finalized),
            (&[9], finalized),
            (&[0, 9], finalized),
            (&[10], None),
            (&[3, 11], None),
            (&[u64::MAX], None),
        ] {
            let trusted: Vec<_> = trusted.iter().map(|number| (*number, hash(2))).collect();
            assert_eq!(
                still_finalized(finalized, &trusted),
                expected,
                "{trusted:?}"
            );
            assert_eq!(still_finalized(None, &trusted), None);
        }
    }

    #[test]
    fn a_safe_block_at_the_finalized_one_or_below_it_is_of_no_use() {
        let at = |number| (number, B256::repeat_byte(1));
        for (safe, finalized, trusted, expected) in [
            (None, None, None, None),
            (None, Some(10), None, None),
            (Some(10), None, None, Some(10)),
            (Some(11), Some(10), None, Some(11)),
            (Some(10), Some(10), None, None),
            (Some(9), Some(10), None, None),
            (Some(9), Some(10), Some(8), None),
            // The trusted block overrides the finalized one; the safe one waits for the window.
            (Some(9), Some(10), Some(10), Some(9)),
        ] {
            let saved = SettledBlocks {
                safe: safe.map(at),
                finalized: finalized.map(at),
            };
            let trusted: Vec<_> = trusted.map(at).into_iter().collect();
            let found = still_settled(saved, &trusted);
            assert_eq!(found.safe, expected.map(at), "{saved:?} {trusted:?}");
        }
    }
}
