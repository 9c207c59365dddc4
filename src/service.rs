//! Starts and stops the service; the only file that knows all its parts.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
    time::SystemTime,
};

use actix::{Addr, Arbiter, System};
use nearhead_actors::{
    freshness::{Freshness, HeadAgeMax},
    head::Head,
    head_tracker::HeadTracker,
    messages::StopHead,
    read::ReadResources,
    readiness::Readiness,
    source::{ProgressReport, TrackerHandle},
    upstream::FollowedChain,
};
use nearhead_tenants::{
    administration::{HasAccounts, Identity, Requester},
    limits::{Quota, Rate},
    name::InvalidName,
    usage::Labels,
};
use tokio::sync::{oneshot, watch};

use crate::{
    access::{Access, ConfiguredKey, LocalOnly, ServiceLimits, SessionCaps},
    admin::{AdminSetup, AdminState, FirstAccountToken},
    config::{AdminListen, ApiKey, Config, ConfigError, SourceKind},
    connections::descriptors,
    feed::{Feed, FeedError, FeedSetup, Upstreams},
    http::{ServerSettings, ServerState, TrustedProxies},
    listeners::{Addresses, ListenError, Sockets, besides_clients},
    metrics::{Metrics, Outcome},
    rpc,
    tenants::{
        self, Administer, OpenError, ReplaceConfigured, StopTenants, StoreState, TenantMetrics,
        TenantsActor, TenantsSetup,
    },
};

/// A running service: source, head tracker, pool and HTTP server, each on its own threads.
///
/// It needs no runtime from its caller, and one process may run several. Dropping it stops it
/// without waiting; [`Service::stop`] lets requests in flight finish.
#[derive(Debug)]
pub struct Service {
    addresses: Addresses,
    head: Head,
    chain: Option<FollowedChain>,
    data: Option<PathBuf>,
    access: Access,
    tenants: Addr<TenantsActor>,
    first_account: Option<FirstAccountToken>,
    #[cfg(test)]
    tracker: Addr<HeadTracker>,
    failure: watch::Receiver<Option<String>>,
    stop: Option<oneshot::Sender<Stop>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The source cannot start.
    #[error(transparent)]
    Source(#[from] FeedError),
    /// The store of tenants and keys cannot be used.
    #[error(transparent)]
    Tenants(#[from] OpenError),
    /// A metric's name is invalid or taken: a defect of this program.
    #[error("metrics: {0}")]
    Metrics(String),
    /// The system has no resources left.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A defect of this program; the panic's message is on stderr.
    #[error("the service panicked while it started")]
    Panicked,
}

impl StartError {
    /// Whether the options have to be corrected before another start can succeed.
    #[must_use]
    pub const fn is_misuse(&self) -> bool {
        match self {
            Self::Config(_) => true,
            Self::Source(FeedError::Source(error)) => error.is_misuse(),
            Self::Tenants(error) => error.is_misuse(),
            _ => false,
        }
    }
}

/// How to stop.
#[derive(Debug)]
struct Stop {
    graceful: bool,
    done: oneshot::Sender<()>,
}

/// The reason why the service cannot go on, from any of its parts.
#[derive(Clone, Debug)]
struct Failure(watch::Sender<Option<String>>);

impl Failure {
    /// Reports a reason. Only the first counts; the others follow from it.
    fn report(&self, reason: String) {
        tracing::error!(%reason, "the service cannot go on");
        self.0
            .send_if_modified(|first| first.is_none() && first.replace(reason).is_none());
    }
}

/// What a started service reports.
struct Started {
    addresses: Addresses,
    chain: Option<FollowedChain>,
    data: Option<PathBuf>,
    access: Access,
    tenants: Addr<TenantsActor>,
    first_account: Option<FirstAccountToken>,
    #[cfg(test)]
    tracker: Addr<HeadTracker>,
}

impl Service {
    /// Starts a service, and passes the source's progress to `report`. It blocks until the head is
    /// readable and the port answers; a large file or profile takes longer.
    ///
    /// # Errors
    /// The configuration is not complete, the port is taken, or the source cannot be served.
    pub fn start(config: Config, report: ProgressReport) -> Result<Self, StartError> {
        let config = config.complete()?;
        // Bound at once, so that a port in use is an error before a long import. They refuse
        // connections until the head is readable.
        let sockets = Sockets::bind(&config)?;
        let (failed, failure) = watch::channel(None);
        let (stop, stopped) = oneshot::channel();
        let (started, outcome) = mpsc::sync_channel(1);
        let head = Head::default();
        let startup = Startup {
            config,
            sockets,
            head: head.clone(),
            report,
            failure: Failure(failed),
        };
        let run = move || {
            let system = System::new();
            system.block_on(startup.run(started, stopped));
            System::current().stop();
            // Ends every arbiter of this system.
            let _ = system.run();
        };
        let thread = thread::Builder::new()
            .name("service".to_owned())
            .spawn(run)
            .map_err(StartError::Thread)?;
        let started = outcome.recv().map_err(|_| StartError::Panicked)??;
        Ok(Self {
            addresses: started.addresses,
            head,
            chain: started.chain,
            data: started.data,
            access: started.access,
            tenants: started.tenants,
            first_account: started.first_account,
            #[cfg(test)]
            tracker: started.tracker,
            failure,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// `http://ADDRESS:PORT` as a client on this machine reaches it, without a key.
    #[must_use]
    pub fn url(&self) -> String {
        url_of(self.addresses.public)
    }

    /// `http://ADDRESS:PORT` of the admin listener, if there is one.
    #[must_use]
    pub fn admin_url(&self) -> Option<String> {
        self.addresses.admin.map(url_of)
    }

    /// The link that makes the first account, if there was none at the start. It is for the one who
    /// started the service, and for no log.
    #[must_use]
    pub fn first_account_url(&self) -> Option<String> {
        let token = self.first_account.as_ref()?;
        Some(format!("{}{}", self.admin_url()?, token.path()))
    }

    /// `http://ADDRESS:PORT` of the metrics listener, if there is one.
    #[must_use]
    pub fn metrics_url(&self) -> Option<String> {
        self.addresses.metrics.map(url_of)
    }

    /// The pointer to the current snapshot.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The chain that the upstreams are to be on; `None` for sources without upstreams.
    #[must_use]
    pub const fn followed_chain(&self) -> Option<&FollowedChain> {
        self.chain.as_ref()
    }

    /// The folder in which tenants and keys are kept; `None` if they are kept in memory.
    #[must_use]
    pub fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// Whether there is a key that lets clients in.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.access.has_keys(SystemTime::now().into())
    }

    /// Replaces the keys that the configuration names. Sessions with a key that stays go on; those
    /// with a key that goes are closed within a second.
    pub async fn replace_keys(&self, config: &Config) {
        let keys = configured_keys(config);
        // This fails if the service is stopping.
        let _ = self.tenants.send(ReplaceConfigured(keys)).await;
    }

    /// Waits until the service cannot go on, and returns the reason.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        let reason = failure.wait_for(Option::is_some).await;
        reason
            .ok()
            .and_then(|reason| reason.clone())
            .unwrap_or_else(|| "the service stopped".to_owned())
    }

    /// Stops the service: no new requests are accepted, those in progress may finish within the
    /// grace period, then all threads end.
    pub async fn stop(mut self) {
        if let Some(done) = self.send_stop(true) {
            // This fails if the service has already stopped.
            let _ = done.await;
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported as a failure.
            let _ = thread.join();
        }
    }

    fn send_stop(&mut self, graceful: bool) -> Option<oneshot::Receiver<()>> {
        let (done, finished) = oneshot::channel();
        self.stop.take()?.send(Stop { graceful, done }).ok()?;
        Some(finished)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.send_stop(false);
    }
}

/// An address as it is reached on this machine.
fn url_of(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{address}")
}

/// What the service's own thread starts with.
struct Startup {
    config: Config,
    sockets: Sockets,
    head: Head,
    report: ProgressReport,
    failure: Failure,
}

impl Startup {
    /// Starts all parts, reports to `started`, and stops all parts at `stop` or a failure.
    async fn run(
        self,
        started: mpsc::SyncSender<Result<Started, StartError>>,
        stop: oneshot::Receiver<Stop>,
    ) {
        let Self {
            mut config,
            sockets,
            head,
            report,
            failure,
        } = self;
        config.max_connections =
            descriptors::allow_connections(config.max_connections, besides_clients(&config));
        let metrics = match Metrics::new(rpc::method_names()) {
            Ok(metrics) => metrics,
            Err(error) => {
                return drop(started.send(Err(StartError::Metrics(error.to_string()))));
            }
        };
        let arbiter = Arbiter::new();
        let setup = FeedSetup {
            arbiter: arbiter.handle(),
            head: head.clone(),
            report,
            metrics: metrics.clone(),
        };
        let source_failed = failure.clone();
        let feed = Feed::start(&config, setup, move |reason| source_failed.report(reason));
        let mut feed = match feed.await {
            Ok(feed) => feed,
            Err(error) => return drop(started.send(Err(error.into()))),
        };
        let TrackerHandle {
            address: tracker,
            end: mut tracker_end,
        } = feed.tracker.clone();
        let upstreams = feed.upstreams.take();
        let chain = upstreams.as_ref().map(|upstreams| upstreams.chain.clone());
        metrics.count_nodes(chain.as_ref().map_or(0, |chain| chain.nodes));
        let tenants_arbiter = Arbiter::new();
        let is_known = config.source == SourceKind::Files;
        let opened = tenants::open(&config.data_dir, chain.as_ref(), &head, is_known);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                feed.stop();
                return drop(started.send(Err(error.into())));
            }
        };
        let data = opened.path.clone();
        let tenant_store = StoreState::default();
        let setup = TenantsSetup {
            opened,
            configured: configured_keys(&config),
            limits: service_limits(&config),
            labels: Labels::new(
                rpc::method_names().chain(["other"]),
                Outcome::ALL.map(Outcome::label),
            ),
            tenant_metrics: config
                .tenant_metrics
                .then(|| TenantMetrics::new(metrics.clone())),
            state: tenant_store.clone(),
            metrics: metrics.clone(),
        };
        let (access, tenants) = match TenantsActor::open(setup, &tenants_arbiter.handle()) {
            Ok(opened) => opened,
            Err(error) => {
                feed.stop();
                return drop(started.send(Err(StartError::Tenants(error.into()))));
            }
        };
        let first_account = match config.admin_listen {
            AdminListen::Off => None,
            _ if has_accounts(&tenants).await => None,
            _ => FirstAccountToken::generate(),
        };
        let admin_state = AdminState::new(AdminSetup {
            tenants: tenants.clone(),
            local_only: LocalOnly::new(&config.allowed_hosts),
            public: config.listen,
            public_url: config.public_url.clone(),
            nodes: config.nodes.iter().map(ToString::to_string).collect(),
            proxy_header: config.admin_proxy_header.clone(),
            first_account: first_account.as_ref().map(FirstAccountToken::digest),
        });
        let parts = (head, tracker.clone(), upstreams);
        let keys = access.clone();
        let access = (access, tenants.clone(), tenant_store);
        let server_state = server_state(&config, parts, access, metrics);
        let draining = Arc::clone(&server_state.readiness.draining);
        let server_failed = failure.clone();
        let served = sockets.serve(&config, &server_state, &admin_state, move |reason| {
            server_failed.report(reason);
        });
        let servers = match served {
            Ok(servers) => servers,
            Err(error) => {
                feed.stop();
                return drop(started.send(Err(error.into())));
            }
        };
        // What is left shares the state with the workers alone.
        drop((server_state, admin_state));
        // Sending fails if the caller has gone; then `stop` below ends at once.
        let _ = started.send(Ok(Started {
            addresses: servers.addresses,
            chain,
            data,
            access: keys,
            tenants: tenants.clone(),
            first_account,
            #[cfg(test)]
            tracker: tracker.clone(),
        }));
        let stop = tokio::select! {
            stop = stop => stop.ok(),
            () = tracker_end.wait() => {
                failure.report("the head tracker is gone".to_owned());
                None
            }
        };
        draining.store(true, Ordering::Relaxed);
        servers
            .stop(stop.as_ref().is_some_and(|stop| stop.graceful))
            .await;
        feed.stop();
        // The tracker may have ended already, which would be the reason for the stop.
        tokio::select! {
            _ = tracker.send(StopHead) => {}
            () = tracker_end.wait() => {}
        }
        // What was used and not written is written now.
        let _ = tenants.send(StopTenants).await;
        tenants_arbiter.stop();
        arbiter.stop();
        if let Some(Stop { done, .. }) = stop {
            let _ = done.send(());
        }
    }
}

/// Whether somebody can administer, so that nobody has to be let in without a password.
async fn has_accounts(tenants: &Addr<TenantsActor>) -> bool {
    let nobody = Requester::new(Identity::nobody(), None, SystemTime::now().into());
    let ask = Administer {
        operation: HasAccounts,
        by: nobody,
    };
    !matches!(tenants.send(ask).await, Ok(Ok(false)))
}

/// The state that the workers of a configured service share.
fn server_state(
    config: &Config,
    (head, tracker, upstreams): (Head, Addr<HeadTracker>, Option<Upstreams>),
    (access, tenants, tenant_store): (Access, Addr<TenantsActor>, StoreState),
    metrics: Metrics,
) -> ServerState {
    let chain = upstreams.as_ref().map(|upstreams| &upstreams.chain);
    let freshness = freshness(config, chain);
    let has_header_rules = chain.is_none_or(|chain| chain.has_header_rules);
    let (state, standing) = upstreams
        .map(|upstreams| (upstreams.state, upstreams.standing))
        .unzip();
    let connections = config.max_connections;
    // A quarter of the connections is left for requests and probes, and half of them for other
    // tenants.
    let most = config.max_sessions.or(connections - connections / 4);
    ServerState {
        readiness: Readiness {
            head,
            freshness,
            upstreams: standing,
            has_header_rules,
            draining: Arc::default(),
        },
        tracker,
        session_caps: SessionCaps::new(most),
        access,
        tenants: Some(tenants),
        tenant_store,
        reads: ReadResources::start(config.pool_threads, state),
        openrpc: rpc::document(),
        metrics,
        settings: ServerSettings {
            logs_deadline: config.logs_deadline,
            body_timeout: config.body_timeout,
            session_bytes: config.session_bytes,
            idle_max: config.keep_alive + config.header_timeout,
            trusted_proxies: TrustedProxies::new(&config.trusted_proxies),
        },
    }
}

/// What every tenant may do, unless its own limits say otherwise.
fn service_limits(config: &Config) -> ServiceLimits {
    ServiceLimits {
        methods: config.methods,
        quota: Quota {
            requests: NonZeroU32::new(config.rate_limit).map(Rate::of_one_second),
            ..Quota::default()
        },
        sessions: config
            .max_sessions_per_key
            .or(config.max_connections.div_ceil(2)),
        node_calls: NonZeroU32::new(config.node_calls_per_key),
    }
}

/// The keys that the configuration names.
fn configured_keys(config: &Config) -> Vec<ConfiguredKey> {
    let key = |key: &ApiKey| {
        let configured = ConfiguredKey::new(&key.tenant, key.secret())?;
        Ok::<_, InvalidName>(match key.is_default() {
            true => configured.for_this_machine(LocalOnly::new(&config.allowed_hosts)),
            false => configured,
        })
    };
    // Every name that the configuration accepts is a tenant's.
    config
        .api_keys
        .iter()
        .filter_map(|api_key| key(api_key).ok())
        .collect()
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
mod tests;
