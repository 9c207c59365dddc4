//! What administers the tenants of a service: their store, the keys in force, the first account.

use std::{
    num::NonZeroU32,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use actix::{Addr, Arbiter};
use nearhead_actors::{
    disk_wait::{DISK_WAIT_MAX, in_time},
    head::Head,
};
use nearhead_tenants::{
    administration::{HasAccounts, Identity, Requester},
    limits::{Quota, Rate},
    name::InvalidName,
    usage::Labels,
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};

use super::start_error::StartError;
use crate::{
    access::{Access, ConfiguredKey, LocalOnly, ServiceLimits},
    admin::{AdminSetup, AdminState, FirstAccountToken},
    config::{AdminListen, ApiKey, Config, SourceKind},
    feed::Upstreams,
    metrics::{Metrics, Outcome},
    rpc::{self, Forwarding},
    tenants::{
        self, Administer, LocalFolder, OpenError, StopTenants, StoreState, TenantMetrics,
        TenantsActor, TenantsSetup,
    },
};

/// Longest wait for the last usage to be written and the store to be closed. The source ends at the
/// same time, and waits as long for its disk: 4 s for the window (`WINDOW_WRITE_MAX`), then 2 s for
/// the safe and the finalized block (`SETTLED_WRITE_MAX`). The process has ten seconds after its
/// grace period, of which traces may take two.
const TENANTS_STOP_MAX: Duration = Duration::from_secs(6);

/// What of it is left for the store to be closed.
const STORE_CLOSE_MAX: Duration = Duration::from_secs(1);

/// The tenants' actor, and what other parts need of it.
pub(super) struct TenantParts {
    /// The keys in force.
    pub(super) access: Access,
    /// Administers them.
    pub(super) actor: Addr<TenantsActor>,
    /// Whether the store works.
    pub(super) store: StoreState,
    /// The folder of the store; `None` if it is in memory.
    pub(super) data: Option<PathBuf>,
    /// The token that makes the first account, if there is none.
    pub(super) first_account: Option<FirstAccountToken>,
    arbiter: Arbiter,
}

impl TenantParts {
    /// Opens the store of the chain that is served, and starts the actor on a thread of its own.
    pub(super) async fn start(
        config: &Config,
        upstreams: Option<&Upstreams>,
        forwarding: &Forwarding,
        head: &Head,
        metrics: &Metrics,
    ) -> Result<Self, StartError> {
        let is_known = config.source == SourceKind::Files;
        let chain = upstreams.map(|upstreams| &upstreams.chain);
        let shared = upstreams.and_then(|upstreams| upstreams.shared.clone());
        let opened = match shared {
            Some(shared) => {
                let local = LocalFolder::open(&config.data_dir, chain, head, is_known)?;
                tenants::open_shared(shared, metrics.record_refusals(), local).await?
            }
            None => tenants::open(&config.data_dir, chain, head, is_known)?,
        };
        let data = opened.path.clone();
        let store = StoreState::default();
        let setup = TenantsSetup {
            opened,
            configured: configured_keys(config),
            methods: rpc::listed_names(forwarding),
            limits: service_limits(config),
            desk: upstreams.and_then(|upstreams| upstreams.desk.clone()),
            labels: Labels::new(
                forwarding.method_names().chain(["other"]),
                Outcome::ALL.map(Outcome::label),
            ),
            tenant_metrics: config
                .tenant_metrics
                .then(|| TenantMetrics::new(metrics.clone())),
            state: store.clone(),
            metrics: metrics.clone(),
        };
        let arbiter = Arbiter::new();
        let (access, actor) =
            TenantsActor::open(setup, &arbiter.handle()).map_err(OpenError::from)?;
        let first_account = match config.admin_listen {
            AdminListen::Off => None,
            _ if has_accounts(&actor).await => None,
            _ => FirstAccountToken::generate(),
        };
        Ok(Self {
            access,
            actor,
            store,
            data,
            first_account,
            arbiter,
        })
    }

    /// What the admin listener serves with.
    pub(super) fn admin_state(&self, config: &Config) -> AdminState {
        AdminState::new(AdminSetup {
            tenants: self.actor.clone(),
            store: self.store.clone(),
            local_only: LocalOnly::new(&config.allowed_hosts),
            public: config.listen,
            public_url: config.public_url.clone(),
            nodes: config.nodes.iter().map(ToString::to_string).collect(),
            proxy_header: config.admin_proxy_header.clone(),
            first_account: self.first_account.as_ref().map(FirstAccountToken::digest),
        })
    }

    /// Writes the usage that is not written yet, and ends the actor. The store is closed, which
    /// leaves all that it has in its two files, unless the disk hangs.
    pub(super) async fn stop(self) {
        let Self { actor, arbiter, .. } = self;
        let give_up_at = Instant::now() + TENANTS_STOP_MAX;
        let written = timeout_at(give_up_at - STORE_CLOSE_MAX, actor.send(StopTenants)).await;
        arbiter.stop();
        // An inner error means that the actor has ended by itself.
        if written.is_err() {
            tracing::warn!("the last usage is not written: the disk does not answer");
            return;
        }
        let left = give_up_at.saturating_duration_since(Instant::now());
        // The store is dropped with the actor. A panic of its thread was shown.
        let closed = spawn_blocking(move || in_time(left, move || arbiter.join())).await;
        if matches!(closed, Ok(Err(_))) {
            tracing::warn!("the store of tenants is not closed: the disk does not answer");
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
    // If the disk hangs, assume that there are accounts, so that nobody is let in without a
    // password.
    !matches!(
        timeout(DISK_WAIT_MAX, tenants.send(ask)).await,
        Ok(Ok(Ok(false)))
    )
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
pub(super) fn configured_keys(config: &Config) -> Vec<ConfiguredKey> {
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
