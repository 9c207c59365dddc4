//! The service's own thread: it starts all parts, waits, and stops them.

use std::{
    path::PathBuf,
    rc::Rc,
    sync::{Arc, mpsc},
    time::Duration,
};

use actix::{Addr, Arbiter};
use nearhead_actors::{
    freshness::{Freshness, HeadAgeMax},
    head::Head,
    head_tracker::HeadTracker,
    messages::StopHead,
    read::ReadResources,
    readiness::Readiness,
    shutdown_state::ShutdownState,
    source::{ProgressReport, TrackerHandle},
    upstream::FollowedChain,
};
use tokio::{
    sync::{oneshot, watch},
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{start_error::StartError, tenant_parts::TenantParts};
use crate::{
    access::{Access, GuessThrottle, SessionCaps, WaitCaps},
    admin::FirstAccountToken,
    config::{Config, SourceKind},
    connections::{Liveness, descriptors},
    disk_watch::DiskWatch,
    feed::{Feed, FeedSetup, Upstreams},
    filters::{FilterWatch, Filters, StoredFilters},
    http::{ServerSettings, ServerState, TrustedProxies, VisitorHeader},
    limits::{CallLimits, SESSION_CLOSE_TIME},
    listeners::{Addresses, Servers, Sockets, besides_clients},
    memory::{MemorySource, MemoryWatch, auto_reply_bytes},
    metrics::Metrics,
    rpc::{self, Forwarding},
    run_mark::RunMark,
    tenants::{StoreState, TenantsActor},
    tls::ServerTls,
    traces::Traces,
};

/// What the service's own thread starts with.
pub(super) struct Startup {
    pub(super) config: Config,
    pub(super) forwarding: Forwarding,
    pub(super) sockets: Sockets,
    /// `None` if the listeners speak plain HTTP.
    pub(super) tls: Option<Arc<ServerTls>>,
    pub(super) head: Head,
    pub(super) traces: Traces,
    pub(super) report: ProgressReport,
    pub(super) failure: Failure,
}

/// What a started service reports.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) addresses: Addresses,
    pub(super) liveness: Liveness,
    /// The chain that the upstreams are to be on; `None` for sources without upstreams.
    pub(super) chain: Option<FollowedChain>,
    /// The folder in which tenants and keys are kept; `None` if they are kept in memory.
    pub(super) data: Option<PathBuf>,
    pub(super) access: Access,
    pub(super) tenants: Addr<TenantsActor>,
    /// Whether their store works.
    pub(super) store: StoreState,
    pub(super) metrics: Metrics,
    /// The token that makes the first account, if there was none at the start.
    pub(super) first_account: Option<FirstAccountToken>,
    #[cfg(test)]
    pub(super) tracker: Addr<HeadTracker>,
}

/// How to stop.
#[derive(Debug)]
pub(super) struct Stop {
    /// Whether requests in progress may finish.
    pub(super) graceful: bool,
    /// Gets an answer when all parts have stopped.
    pub(super) done: oneshot::Sender<()>,
}

/// The reason why the service cannot go on, from any of its parts.
#[derive(Clone, Debug)]
pub(super) struct Failure(watch::Sender<Option<String>>);

impl Failure {
    /// Reports to the receivers of `sender`.
    pub(super) const fn new(sender: watch::Sender<Option<String>>) -> Self {
        Self(sender)
    }

    fn is_reported(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Reports a reason. Only the first counts; the others follow from it.
    fn report(&self, reason: String) {
        tracing::error!(%reason, "the service cannot go on");
        self.0
            .send_if_modified(|first| first.is_none() && first.replace(reason).is_none());
    }
}

impl Startup {
    /// Starts all parts, reports to `started`, and stops all parts at `stop` or a failure.
    pub(super) async fn run(
        self,
        started: mpsc::SyncSender<Result<Started, StartError>>,
        stop: oneshot::Receiver<Stop>,
    ) {
        let failure = self.failure.clone();
        match self.start().await {
            Ok((parts, report)) => {
                // Sending fails if the caller has gone; then `stop` ends at once.
                let _ = started.send(Ok(report));
                parts.run_until(stop, &failure).await;
            }
            Err(error) => drop(started.send(Err(error))),
        }
    }

    async fn start(self) -> Result<(Parts, Started), StartError> {
        let Self {
            mut config,
            forwarding,
            sockets,
            tls,
            head,
            traces,
            report,
            failure,
        } = self;
        config.max_connections =
            descriptors::allow_connections(config.max_connections, besides_clients(&config));
        let metrics = Metrics::new(forwarding.method_names())
            .map_err(|error| StartError::Metrics(error.to_string()))?;
        if let Some(tls) = &tls {
            metrics.tls.ends(tls.not_after());
        }
        metrics.count_spans(&traces);
        let arbiter = Arbiter::new();
        let setup = FeedSetup {
            arbiter: arbiter.handle(),
            head: head.clone(),
            report,
            metrics: metrics.clone(),
        };
        let source_failed = failure.clone();
        let feed = Feed::start(&config, setup, move |reason| source_failed.report(reason));
        let mut feed = feed.await?;
        let served = Served {
            head,
            forwarding,
            metrics: metrics.clone(),
            tls,
            traces,
        };
        let serving = Serving::start(&config, sockets, served, &mut feed, failure);
        let mut serving = match serving.await {
            Ok(serving) => serving,
            Err(error) => {
                feed.stop();
                return Err(error);
            }
        };
        // Nothing of the start fails after this.
        let mark = match serving.tenants.data.clone() {
            Some(folder) => {
                let metrics = metrics.clone();
                let set = move || RunMark::set(&folder, &metrics);
                spawn_blocking(set).await.ok()
            }
            None => None,
        };
        let tenants = &mut serving.tenants;
        let report = Started {
            addresses: serving.servers.addresses,
            liveness: serving.servers.liveness.clone(),
            chain: serving.chain.take(),
            data: tenants.data.clone(),
            access: tenants.access.clone(),
            tenants: tenants.actor.clone(),
            store: tenants.store.clone(),
            metrics,
            first_account: tenants.first_account.take(),
            #[cfg(test)]
            tracker: feed.tracker.address.clone(),
        };
        let parts = Parts {
            arbiter,
            feed,
            serving,
            mark,
            shutdown_delay: config.shutdown_delay,
            shutdown_grace: config.shutdown_grace,
        };
        Ok((parts, report))
    }
}

/// All parts of a running service.
struct Parts {
    /// Where the head tracker runs.
    arbiter: Arbiter,
    feed: Feed,
    serving: Serving,
    /// `None` without a data folder that can be written.
    mark: Option<RunMark>,
    shutdown_delay: Duration,
    shutdown_grace: Duration,
}

impl Parts {
    /// Waits for `stop` or the end of a part, and stops all.
    async fn run_until(self, stop: oneshot::Receiver<Stop>, failure: &Failure) {
        let Self {
            arbiter,
            feed,
            serving,
            mark,
            shutdown_delay,
            shutdown_grace,
        } = self;
        let TrackerHandle {
            address: tracker,
            end: mut tracker_end,
        } = feed.tracker.clone();
        let stop = tokio::select! {
            stop = stop => stop.ok(),
            () = tracker_end.wait() => {
                failure.report("the head tracker is gone".to_owned());
                None
            }
        };
        let graceful = stop.as_ref().is_some_and(|stop| stop.graceful);
        serving.shutdown.begin();
        if graceful && !shutdown_delay.is_zero() {
            tracing::info!(delay = ?shutdown_delay, "not ready any more: the service stops soon");
            tokio::select! {
                () = sleep(shutdown_delay) => {}
                () = tracker_end.wait() => tracing::error!("the head tracker is gone"),
            }
        }
        tracing::info!(
            "stopping: no new connections are accepted, and requests in progress may finish"
        );
        // The last one has a moment left to close.
        let for_sessions = match graceful {
            true => shutdown_grace.saturating_sub(SESSION_CLOSE_TIME),
            false => Duration::ZERO,
        };
        let last = Instant::now() + for_sessions;
        serving.shutdown.end_sessions(last.into_std());
        serving.servers.stop(graceful).await;
        serving.filters.settle().await;
        let source_and_tracker = async move {
            // It fails if it panicked, which was reported.
            let _ = spawn_blocking(move || feed.stop()).await;
            // The tracker may have ended already, which would be the reason for the stop.
            tokio::select! {
                _ = tracker.send(StopHead) => {}
                () = tracker_end.wait() => {}
            }
        };
        // At the same time: a disk that hangs holds up both.
        tokio::join!(source_and_tracker, serving.tenants.stop());
        if let (Some(mark), false) = (mark, failure.is_reported()) {
            mark.remove();
        }
        arbiter.stop();
        if let Some(Stop { done, .. }) = stop {
            let _ = done.send(());
        }
    }
}

/// What is served.
struct Served {
    head: Head,
    forwarding: Forwarding,
    metrics: Metrics,
    tls: Option<Arc<ServerTls>>,
    traces: Traces,
}

/// What serves: all parts but the source.
struct Serving {
    tenants: TenantParts,
    servers: Servers,
    shutdown: Arc<ShutdownState>,
    /// The chain that the upstreams are to be on; `None` for sources without upstreams.
    chain: Option<FollowedChain>,
    /// It ends with this.
    _memory: Rc<MemoryWatch>,
    /// It ends with this.
    filters: Rc<FilterWatch>,
    /// It ends with this; `None` if nothing is stored.
    _disk: Option<Rc<DiskWatch>>,
}

impl Serving {
    /// Serves the chain of a source, whose head is readable.
    async fn start(
        config: &Config,
        sockets: Sockets,
        served: Served,
        feed: &mut Feed,
        failure: Failure,
    ) -> Result<Self, StartError> {
        let Served {
            head,
            forwarding,
            metrics,
            tls,
            ..
        } = &served;
        let tls = tls.clone();
        let upstreams = feed.upstreams.take();
        let chain = upstreams.as_ref().map(|upstreams| upstreams.chain.clone());
        metrics
            .nodes
            .begin(chain.as_ref().map_or(0, |chain| chain.nodes));
        let tenants =
            TenantParts::start(config, upstreams.as_ref(), forwarding, head, metrics).await?;
        let filters = filters(upstreams.as_ref(), metrics)?;
        let tracker = feed.tracker.address.clone();
        let memory = MemorySource::find();
        let reply_bytes = config.reply_bytes.or(auto_reply_bytes(&memory));
        let parts = (tracker, filters);
        let state = server_state(config, served, parts, upstreams, &tenants, reply_bytes)?;
        let memory = MemoryWatch::start(memory, &state.reads, &state.metrics);
        let filters = FilterWatch::start(&state.filters, &state.access);
        let folder = tenants.data.as_deref();
        let saved = state.reads.state.as_ref();
        let disk =
            folder.map(|folder| DiskWatch::start(folder, &state.metrics, &tenants.store, saved));
        let shutdown = Arc::clone(&state.readiness.shutdown);
        let admin_state = tenants.admin_state(config);
        // Both states are dropped at the end: then only the workers share them.
        let failed = move |reason| failure.report(reason);
        let servers = sockets.serve(config, tls.as_ref(), &state, &admin_state, failed)?;
        Ok(Self {
            tenants,
            servers,
            shutdown,
            chain,
            _memory: memory,
            filters,
            _disk: disk,
        })
    }
}

/// The state that the workers of a configured service share.
fn server_state(
    config: &Config,
    served: Served,
    (tracker, filters): (Addr<HeadTracker>, Filters),
    upstreams: Option<Upstreams>,
    tenants: &TenantParts,
    reply_bytes: usize,
) -> Result<ServerState, StartError> {
    let Served {
        head,
        forwarding,
        metrics,
        traces,
        ..
    } = served;
    let chain = upstreams.as_ref().map(|upstreams| &upstreams.chain);
    let freshness = freshness(config, chain);
    let has_header_rules = chain.is_none_or(|chain| chain.has_header_rules);
    let forwarder = upstreams
        .as_ref()
        .and_then(|upstreams| upstreams.forwarder.clone());
    let fleet = upstreams
        .as_ref()
        .and_then(|upstreams| upstreams.fleet.clone());
    let (state, standing) = upstreams
        .map(|upstreams| (upstreams.state, upstreams.standing))
        .unzip();
    let connections = config.max_connections;
    // A quarter of the connections is left for requests and probes, and half of them for other
    // tenants.
    let most = config.max_sessions.or(connections - connections / 4);
    let reads = ReadResources::start(config.pool_threads, reply_bytes, state);
    let reads = reads.map_err(StartError::Thread)?;
    Ok(ServerState {
        readiness: Readiness {
            head,
            freshness,
            upstreams: standing,
            fleet,
            has_header_rules,
            shutdown: Arc::default(),
        },
        tracker,
        session_caps: SessionCaps::new(most),
        wait_caps: WaitCaps::default(),
        access: tenants.access.clone(),
        guesses: GuessThrottle::default(),
        tenants: Some(tenants.actor.clone()),
        tenant_store: tenants.store.clone(),
        reads: reads.with_forwarder(forwarder),
        filters,
        openrpc: rpc::document(&forwarding),
        forwarding,
        metrics,
        traces,
        settings: ServerSettings {
            logs_deadline: config.logs_deadline,
            calls: CallLimits {
                gas_max: config.call_gas_max,
                timeout: config.call_timeout,
            },
            min_block_wait: config.fleet.min_block_wait,
            body_timeout: config.body_timeout,
            session_bytes: config.session_bytes,
            idle_max: config.keep_alive + config.header_timeout,
            metrics_age_max: config.metrics_max_age,
            trusted_proxies: TrustedProxies::new(&config.trusted_proxies),
            visitor_header: VisitorHeader::generate(),
        },
    })
}

/// The filters of all keys, in the store of the fleet if there is one.
fn filters(upstreams: Option<&Upstreams>, metrics: &Metrics) -> Result<Filters, StartError> {
    let shared = upstreams.and_then(|upstreams| upstreams.shared.as_ref());
    let stored = shared.map(|shared| StoredFilters::open(shared, metrics.record_refusals()));
    let stored = stored.transpose().map_err(StartError::Thread)?;
    Ok(Filters::in_store(metrics.clone(), stored))
}

/// How old the head of the configured source may be. A chain that does not grow is never stale.
fn freshness(config: &Config, chain: Option<&FollowedChain>) -> Freshness {
    let grows = match config.source {
        SourceKind::Dev => !config.block_time.is_zero(),
        SourceKind::Files => false,
        SourceKind::Node => true,
    };
    Freshness {
        age_max: match grows {
            true => config.head_age_max,
            false => HeadAgeMax::Off,
        },
        counts_timestamp: chain.is_some_and(|chain| chain.network.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nearhead_chain::network::Network;

    use super::*;

    /// Only the blocks of a known network are stamped with the time at which they are made.
    #[test]
    fn the_age_of_a_head_counts_from_its_timestamp_on_known_networks() {
        let of = |network| FollowedChain {
            chain_id: 1,
            genesis: None,
            network,
            nodes: 1,
            quorum: 1,
            has_header_rules: true,
            data: None,
        };
        let [mainnet, unknown] = [Some(Network::Mainnet), None].map(of);
        let (node, off) = (SourceKind::Node, HeadAgeMax::Off);
        for (source, block_time, chain, age_max, counts_timestamp) in [
            (node, 1, Some(&mainnet), HeadAgeMax::Auto, true),
            (node, 1, Some(&unknown), HeadAgeMax::Auto, false),
            (SourceKind::Dev, 1, None, HeadAgeMax::Auto, false),
            (SourceKind::Dev, 0, None, off, false),
            (SourceKind::Files, 1, None, off, false),
        ] {
            let config = Config {
                source,
                block_time: Duration::from_secs(block_time),
                ..Config::default()
            };
            let expected = Freshness {
                age_max,
                counts_timestamp,
            };
            assert_eq!(freshness(&config, chain), expected, "{source:?}");
        }
    }
}
