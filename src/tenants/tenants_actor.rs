//! The actor that owns tenants and keys, and what they use.

use std::{
    cell::RefCell,
    time::{Duration, Instant, SystemTime},
};

use actix::{Actor, ActorContext, Addr, ArbiterHandle, AsyncContext, Context, Handler, Response};
use nearhead_actors::{
    data_folder::DataFolder,
    disk_wait::{DISK_WAIT_MAX, in_time},
    fleet::quotas::LoanDesk,
};
use nearhead_tenants::{
    UnixMillis,
    administration::{AdminError, Administration, AdministrationSetup, Changed, Operation},
    directory::ChangedRecords,
    id::KeyId,
    store::StoreError,
    usage::{Labels, Merged, UsedToday},
};

use super::{
    messages::{AddUsage, Administer, ReplaceConfigured, StopTenants},
    open::OpenedStore,
    store_state::{StoreFailure, StoreState},
    tenant_metrics::TenantMetrics,
};
use crate::{
    access::{Access, AccessSource, ConfiguredKey, ConfiguredKeys, ServiceLimits},
    metrics::Metrics,
};

/// How often the actor looks for usage to write.
const USAGE_CHECK: Duration = Duration::from_secs(1);

/// How old what somebody reads of usage may be.
const USAGE_AGE: Duration = Duration::from_secs(1);

/// How often a store that other processes write as well is looked at: a key that was revoked there
/// lets nobody in, and its sessions end, within a second.
const REFRESH: Duration = Duration::from_millis(250);

/// Longest wait for all that a start reads of such a store. Its reads have bounds of their own, and
/// one that fails is made up for later: this is for a defect alone.
const SHARED_WAIT_MAX: Duration = Duration::from_secs(60);

/// How often an operation is tried, if other processes write at the same time.
const TRIES_MAX: usize = 8;

/// How often the store is asked to remove what is old.
const EXPIRY: Duration = Duration::from_secs(60);

/// For how long others have their turn if there is more to remove.
const EXPIRY_PAUSE: Duration = Duration::from_millis(200);

/// How soon an operation is tried again that needs what all keys used of late, while that is read.
const RECENT_USE_RETRY: Duration = Duration::from_millis(50);

/// Messages that wait for their turn; whoever sends more waits. A page or a script sends one at a
/// time, so this is for many of them.
const MAILBOX: usize = 128;

/// Owns the store and everything in it. It is alone on its thread, because a store blocks; no
/// request waits for it.
pub struct TenantsActor {
    administration: Administration,
    /// Holds the lock of the store's folder.
    _folder: Option<DataFolder>,
    configured: ConfiguredKeys,
    limits: ServiceLimits,
    desk: Option<LoanDesk>,
    access: Access,
    usage: Merged,
    usage_written: UnixMillis,
    /// Whether the next part of what all keys used of late is going to be read.
    reads_recent_use: bool,
    /// Whether other processes write to the store as well.
    is_shared: bool,
    state: StoreState,
    metrics: Metrics,
    tenant_metrics: Option<TenantMetrics>,
}

/// What the actor starts with.
pub(crate) struct TenantsSetup {
    pub(crate) opened: OpenedStore,
    /// The keys that the configuration names.
    pub(crate) configured: Vec<ConfiguredKey>,
    /// The names that an allowlist of methods may have.
    pub(crate) methods: Vec<String>,
    /// What every tenant may do.
    pub(crate) limits: ServiceLimits,
    /// Where the fleet's quotas wait for what the store lends; `None` without a fleet.
    pub(crate) desk: Option<LoanDesk>,
    /// The names of methods and outcomes, by which usage is kept.
    pub(crate) labels: Labels,
    /// Shows whether the store works, as the metrics do.
    pub(crate) state: StoreState,
    pub(crate) metrics: Metrics,
    /// Metrics by tenant, if they are asked for.
    pub(crate) tenant_metrics: Option<TenantMetrics>,
}

impl TenantsActor {
    /// Reads the store, and starts the actor on this arbiter. What is returned lets keys in.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn open(
        setup: TenantsSetup,
        arbiter: &ArbiterHandle,
    ) -> Result<(Access, Addr<Self>), StoreError> {
        let TenantsSetup {
            opened:
                OpenedStore {
                    store,
                    path,
                    folder,
                    is_shared,
                },
            configured,
            methods,
            limits,
            desk,
            labels,
            state,
            metrics,
            tenant_metrics,
        } = setup;
        let now = SystemTime::now().into();
        let setup = AdministrationSetup {
            store,
            configured: configured.iter().map(ConfiguredKey::entry).collect(),
            methods,
        };
        let read = move || {
            let mut administration = Administration::open(setup)?;
            let used_today = match administration.used_today(now) {
                // The fleet's store has the sums of the day as well, and the failure is shown.
                Err(_) if is_shared => UsedToday::default(),
                used_today => used_today?,
            };
            Ok((administration, used_today))
        };
        let wait_max = match is_shared {
            true => SHARED_WAIT_MAX,
            false => DISK_WAIT_MAX,
        };
        let read = in_time(wait_max, read);
        let (administration, used_today) = read.unwrap_or_else(|error| {
            Err(StoreError::Unusable {
                path: path.unwrap_or_default(),
                reason: error.to_string(),
            })
        })?;
        let configured: ConfiguredKeys = configured.into_iter().collect();
        let access = Access::new(AccessSource {
            directory: administration.directory(),
            configured: &configured,
            limits: &limits,
            used_today: &used_today,
            now,
            desk: desk.as_ref(),
        });
        let this = Self {
            administration,
            _folder: folder,
            configured,
            limits,
            desk,
            access: access.clone(),
            usage: Merged::new(labels, now),
            usage_written: now,
            reads_recent_use: false,
            is_shared,
            state,
            metrics,
            tenant_metrics,
        };
        let address = Self::start_in_arbiter(arbiter, |_| this);
        Ok((access, address))
    }

    /// Runs an operation, and puts what it changed in force.
    fn run<O: Operation + Clone>(
        &mut self,
        request: Administer<O>,
    ) -> Result<O::Answer, AdminError> {
        let Administer { operation, by } = request;
        let now = UnixMillis::from(SystemTime::now());
        let is_old = now < self.usage_written || now >= self.usage_written.after(USAGE_AGE);
        self.on_store(|this| {
            if O::READS_USAGE && is_old {
                this.flush_usage();
            }
            let mut tries = 1;
            let answer = loop {
                // What others have written is known before it is changed, or read.
                this.refresh();
                let answer = operation.clone().run(&mut this.administration, &by);
                match answer {
                    Err(AdminError::StoreBusy) if tries < TRIES_MAX => tries += 1,
                    answer => break answer,
                }
            };
            this.put_in_force();
            answer
        })
    }

    /// Works on the store, and then shows whether it works. Such work is no part of other such
    /// work, so that what is shown is the outcome of all of it.
    fn on_store<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let state = self.state.clone();
        let outcome = state.during(|| work(self));
        let failure = self.administration.failure().map(StoreError::to_string);
        state.show(failure.map(StoreFailure::Failed), &self.metrics);
        outcome
    }

    /// Puts what has changed of tenants and keys in force, as a part of work on the store.
    fn put_in_force(&mut self) {
        let now = UnixMillis::from(SystemTime::now());
        let changed = self.administration.take_changed();
        if changed.is_empty() {
            return;
        }
        let mut used_today = UsedToday::default();
        if !changed.first_quotas.is_empty() {
            // Reading what was used may take seconds, and no revocation waits for that.
            self.shut_out(&changed, now);
            self.flush_usage();
            let used = self
                .administration
                .used_today_by(&changed.first_quotas, now);
            // That it fails is shown.
            used_today = used.unwrap_or_default();
        }
        let source = AccessSource {
            directory: self.administration.directory(),
            configured: &self.configured,
            limits: &self.limits,
            used_today: &used_today,
            now,
            desk: self.desk.as_ref(),
        };
        match changed.configured {
            true => self.access.replace(source),
            false => self.access.update(source, &changed.records),
        }
    }

    /// Puts in force that keys are revoked or gone, except those whose first quota counts what they
    /// used before.
    fn shut_out(&self, changed: &Changed, now: UnixMillis) {
        let directory = self.administration.directory();
        let is_out = |id: &KeyId| directory.key(*id).is_none_or(|key| key.revoked.is_some());
        let keys = changed.records.keys.difference(&changed.first_quotas.keys);
        let shut_out = ChangedRecords {
            keys: keys.copied().filter(is_out).collect(),
            ..ChangedRecords::default()
        };
        if !shut_out.is_empty() {
            let source = AccessSource {
                directory,
                configured: &self.configured,
                limits: &self.limits,
                used_today: &UsedToday::default(),
                now,
                desk: self.desk.as_ref(),
            };
            self.access.update(source, &shut_out);
        }
    }

    /// Reads what other processes have written, as a part of work on the store.
    fn refresh(&mut self) {
        if self.is_shared {
            // The service goes on with what it knows, and the failure is shown.
            let _ = self.administration.refresh();
        }
    }

    /// Writes what was used, as a part of work on the store.
    fn flush_usage(&mut self) {
        let now = SystemTime::now().into();
        self.usage_written = now;
        let administration = RefCell::new(&mut self.administration);
        // What it does not write stays for the next time, and the failure is shown.
        let _ = self.usage.flush(
            now,
            |key| administration.borrow().owner_of(key),
            |cells| administration.borrow_mut().add_usage(cells),
        );
    }

    fn expire(&mut self, ctx: &mut Context<Self>) {
        let expired = self.on_store(|this| {
            let expired = this.administration.expire(SystemTime::now().into());
            // Keys that were removed take no more room.
            this.put_in_force();
            expired
        });
        if let Ok(true) = expired {
            ctx.run_later(EXPIRY_PAUSE, |this, ctx| this.expire(ctx));
        }
    }

    /// Reads what all keys used of late, unless that is being done or is known.
    fn read_recent_use(&mut self, ctx: &mut Context<Self>) {
        if !self.reads_recent_use {
            self.read_recent_part(ctx);
        }
    }

    /// Reads a part of it, and later the next one. Others have as much time in between.
    fn read_recent_part(&mut self, ctx: &mut Context<Self>) {
        let (begun, now) = (Instant::now(), SystemTime::now().into());
        let read = self.on_store(|this| this.administration.read_recent_use(now));
        self.reads_recent_use = matches!(read, Ok(true));
        if self.reads_recent_use {
            ctx.run_later(begun.elapsed(), |this, ctx| this.read_recent_part(ctx));
        }
    }
}

impl Actor for TenantsActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(USAGE_CHECK, |this, _| {
            if this.usage.is_due(SystemTime::now().into()) {
                this.on_store(Self::flush_usage);
            }
            if let Some(metrics) = &mut this.tenant_metrics {
                metrics.observe(&this.access);
            }
        });
        if self.is_shared {
            ctx.run_interval(REFRESH, |this, _| {
                this.on_store(|this| {
                    this.refresh();
                    this.put_in_force();
                });
            });
        }
        ctx.run_interval(EXPIRY, |this, ctx| {
            this.expire(ctx);
            this.read_recent_use(ctx);
        });
        self.read_recent_use(ctx);
    }
}

impl<O> Handler<Administer<O>> for TenantsActor
where
    O: Operation<Answer: Send + 'static> + Clone + Send + 'static,
{
    type Result = Response<Result<O::Answer, AdminError>>;

    fn handle(&mut self, request: Administer<O>, ctx: &mut Self::Context) -> Self::Result {
        let now = SystemTime::now().into();
        if request.operation.needs_recent_use() && !self.administration.knows_recent_use(now) {
            // Just after the start, or after a failure. Others have their turn until it is read.
            self.read_recent_use(ctx);
            let actor = ctx.address();
            return Response::fut(async move {
                actix::clock::sleep(RECENT_USE_RETRY).await;
                let asked_again = actor.send(request).await;
                asked_again.unwrap_or(Err(AdminError::Stopping))
            });
        }
        Response::reply(self.run(request))
    }
}

impl Handler<ReplaceConfigured> for TenantsActor {
    type Result = ();

    fn handle(&mut self, ReplaceConfigured(keys): ReplaceConfigured, _: &mut Self::Context) {
        let now = SystemTime::now().into();
        let entries = keys.iter().map(ConfiguredKey::entry).collect();
        self.configured = keys.into_iter().collect();
        self.on_store(|this| {
            // The keys are replaced even if that is not in the audit; the failure is shown.
            let _ = this.administration.replace_configured(entries, now);
            this.put_in_force();
        });
    }
}

impl Handler<AddUsage> for TenantsActor {
    type Result = ();

    fn handle(&mut self, AddUsage(taken): AddUsage, _: &mut Self::Context) {
        if let Some(metrics) = &mut self.tenant_metrics {
            metrics.count(&taken, &self.access);
        }
        let now = SystemTime::now().into();
        for key in taken.keys() {
            self.administration.mark_used(key, now);
        }
        let dropped = self.usage.dropped();
        self.usage.merge(&taken, now);
        let dropped = self.usage.dropped() - dropped;
        self.metrics.usage_dropped.inc_by(dropped);
    }
}

impl Handler<StopTenants> for TenantsActor {
    type Result = ();

    fn handle(&mut self, StopTenants: StopTenants, ctx: &mut Self::Context) {
        self.on_store(Self::flush_usage);
        ctx.stop();
    }
}

#[cfg(test)]
mod tests;
