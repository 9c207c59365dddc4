//! The actor that owns tenants and keys, and what they use.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use actix::{Actor, ActorContext, Addr, ArbiterHandle, AsyncContext, Context, Handler};
use nearhead_tenants::{
    UnixMillis,
    audit::{AuditEntry, Author, Detail, Verb},
    command::Command,
    id::KeyId,
    store::{Commit, Loaded, StoreError, TenantStore},
    usage::{GroupBy, Labels, Merged, Resolution, UsageOf, UsageQuery},
};

use super::{
    messages::{AddUsage, ReplaceConfigured, RunCommand, RunError, StopTenants},
    open::OpenedStore,
    tenant_metrics::TenantMetrics,
};
use crate::access::{Access, AccessSource, ConfiguredKey, ServiceLimits};

/// How often the actor looks for usage to write.
const USAGE_CHECK: Duration = Duration::from_secs(1);

/// How often the store is asked to remove what is old.
const EXPIRY: Duration = Duration::from_secs(60);

/// Owns the store and the directory. It is alone on its thread, because a store blocks; no request
/// waits for it.
pub struct TenantsActor {
    opened: OpenedStore,
    loaded: Loaded,
    configured: Vec<ConfiguredKey>,
    limits: ServiceLimits,
    access: Access,
    usage: Merged,
    metrics: Option<TenantMetrics>,
    /// Whether the last write of usage failed.
    is_failing: bool,
}

/// What the actor starts with.
pub(crate) struct TenantsSetup {
    pub(crate) opened: OpenedStore,
    /// The keys that the configuration names.
    pub(crate) configured: Vec<ConfiguredKey>,
    /// What every tenant may do.
    pub(crate) limits: ServiceLimits,
    /// The names of methods and outcomes, by which usage is kept.
    pub(crate) labels: Labels,
    /// Metrics by tenant, if they are asked for.
    pub(crate) metrics: Option<TenantMetrics>,
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
            mut opened,
            configured,
            limits,
            labels,
            metrics,
        } = setup;
        let now = SystemTime::now().into();
        let loaded = opened.store.load()?;
        let used_today = used_today(&mut *opened.store, now)?;
        let access = Access::new(AccessSource {
            directory: &loaded.directory,
            configured: &configured,
            limits: &limits,
            used_today: &used_today,
            now,
        });
        let this = Self {
            opened,
            loaded,
            configured,
            limits,
            access: access.clone(),
            usage: Merged::new(labels, now),
            metrics,
            is_failing: false,
        };
        let address = Self::start_in_arbiter(arbiter, |_| this);
        Ok((access, address))
    }

    /// Puts the directory and the keys of the configuration in force. `used_today` is of those that
    /// had no quota of the day before.
    fn push(&self, used_today: &HashMap<KeyId, u64>) {
        self.access.replace(AccessSource {
            directory: &self.loaded.directory,
            configured: &self.configured,
            limits: &self.limits,
            used_today,
            now: SystemTime::now().into(),
        });
    }

    fn run(&mut self, request: RunCommand) -> Result<(), RunError> {
        let RunCommand {
            command,
            author,
            from,
            detail,
        } = request;
        let now = SystemTime::now().into();
        let changes_quotas = matches!(
            command,
            Command::UpdateTenant { .. } | Command::UpdateKey { .. }
        );
        let entry = self.entry(&command, author, detail, now);
        let entry = AuditEntry { from, ..entry };
        let changes = self.loaded.directory.plan(command, now)?;
        self.opened.store.commit(&Commit {
            directory: &changes,
            accounts: &[],
            entry: Some(&entry),
        })?;
        for change in changes {
            self.loaded.directory.make(change);
        }
        let used_today = match changes_quotas {
            true => {
                self.write_usage(true);
                used_today(&mut *self.opened.store, now).unwrap_or_default()
            }
            false => HashMap::new(),
        };
        self.push(&used_today);
        Ok(())
    }

    /// The entry of the audit for a command.
    fn entry(
        &self,
        command: &Command,
        author: Author,
        detail: Detail,
        at: UnixMillis,
    ) -> AuditEntry {
        let (tenant, key) = match command {
            Command::CreateTenant { id, .. }
            | Command::UpdateTenant { id, .. }
            | Command::RemoveTenant { id } => (Some(*id), None),
            Command::CreateKey { key, tenant, .. } => (Some(*tenant), Some(key.id)),
            Command::UpdateKey { id, .. }
            | Command::RotateKey { id, .. }
            | Command::RevokeKey { id } => {
                let key = self.loaded.directory.key(*id);
                (key.map(|key| key.tenant), Some(*id))
            }
        };
        AuditEntry {
            at,
            author,
            from: None,
            verb: Verb::of(command),
            tenant,
            key,
            detail,
        }
    }

    /// Writes what was used: at once, or if it is time to.
    fn write_usage(&mut self, at_once: bool) {
        let now = SystemTime::now().into();
        if !at_once && !self.usage.is_due(now) {
            return;
        }
        let (directory, store) = (&self.loaded.directory, &mut self.opened.store);
        let tenant_of = |id| directory.key(id).map(|key| key.tenant);
        let written = self
            .usage
            .flush(now, tenant_of, |cells| store.add_usage(cells));
        self.report("usage cannot be written", written);
    }

    fn expire(&mut self) {
        let expired = self.opened.store.expire(SystemTime::now().into());
        self.report("old usage cannot be removed", expired.map(|_| ()));
    }

    /// Logs a failure of the store once, until it works again. The service goes on with what it
    /// knows.
    fn report(&mut self, what: &str, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "{what}: the service goes on without it");
                }
            }
        }
    }
}

/// Units that each key has used since 00:00 UTC.
fn used_today(
    store: &mut dyn TenantStore,
    now: UnixMillis,
) -> Result<HashMap<KeyId, u64>, StoreError> {
    let answer = store.usage(&UsageQuery {
        of: UsageOf::All,
        resolution: Resolution::Day,
        from: Resolution::Day.start(now),
        to: Resolution::Day.end(now),
        by: GroupBy {
            key: true,
            ..GroupBy::default()
        },
        rows_max: usize::MAX,
    })?;
    let used = answer.rows.into_iter();
    Ok(used
        .filter_map(|row| Some((row.key?, row.used.units)))
        .collect())
}

impl Actor for TenantsActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(USAGE_CHECK, |this, _| {
            this.write_usage(false);
            if let Some(metrics) = &mut this.metrics {
                metrics.observe(&this.access);
            }
        });
        ctx.run_interval(EXPIRY, |this, _| this.expire());
    }
}

impl Handler<RunCommand> for TenantsActor {
    type Result = Result<(), RunError>;

    fn handle(&mut self, request: RunCommand, _: &mut Self::Context) -> Self::Result {
        self.run(request)
    }
}

impl Handler<ReplaceConfigured> for TenantsActor {
    type Result = ();

    fn handle(&mut self, ReplaceConfigured(keys): ReplaceConfigured, _: &mut Self::Context) {
        self.configured = keys;
        let entry = AuditEntry {
            at: SystemTime::now().into(),
            author: Author::Configuration,
            from: None,
            verb: Verb::CONFIGURATION_RELOAD,
            tenant: None,
            key: None,
            detail: Detail::default(),
        };
        let committed = self.opened.store.commit(&Commit {
            entry: Some(&entry),
            ..Commit::default()
        });
        self.report("the audit cannot be written", committed);
        self.push(&HashMap::new());
    }
}

impl Handler<AddUsage> for TenantsActor {
    type Result = ();

    fn handle(&mut self, AddUsage(taken): AddUsage, _: &mut Self::Context) {
        if let Some(metrics) = &mut self.metrics {
            metrics.count(&taken, &self.access);
        }
        self.usage.merge(&taken, SystemTime::now().into());
    }
}

impl Handler<StopTenants> for TenantsActor {
    type Result = ();

    fn handle(&mut self, StopTenants: StopTenants, ctx: &mut Self::Context) {
        self.write_usage(true);
        ctx.stop();
    }
}

#[cfg(test)]
mod tests;
