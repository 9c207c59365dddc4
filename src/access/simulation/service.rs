//! The service's own parts, driven by the steps: directory, table, meters, sessions and usage.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::BTreeMap,
    num::{NonZeroU32, NonZeroU64},
    sync::Arc,
    time::{Duration, Instant},
};

use nearhead_tenants::{
    UnixMillis,
    command::{Command, NewKey},
    directory::{ChangedRecords, Directory},
    id::{KeyId, TenantId},
    limits::{Quota, Rate, TenantLimits},
    record::{BesideSecret, KeySettings},
    secret::{KeyPrefix, SecretDigest},
    store::{Commit, MemoryStore, TenantStore as _},
    usage::{
        GroupBy, KeyOwner, KeyUse, KeyUseQuery, Labels, Merged, RequestUse, Resolution,
        UsageCounts, UsageOf, UsageQuery, UsageRow, UsedToday,
    },
};

use super::{
    model::{OF_SERVICE, SESSIONS_MAX},
    step::{Answer, Beside, Body, Client, Limits, ORIGINS, Quotas, START, Seen, Settings, Step},
};
use crate::access::{
    Access, AccessSource, ActiveKey, Admitted, Caller, ConfiguredKeys, Exceeded, Grant, Now,
    Presented, Refused, ServiceLimits, SessionCaps, SessionPermit, TokenCache,
};

const OUTCOMES: [&str; 3] = ["ok", "denied", "refused"];

pub(super) struct SimulatedService {
    start: Instant,
    now: UnixMillis,
    limits: ServiceLimits,
    directory: Directory,
    store: MemoryStore,
    access: Access,
    caps: SessionCaps,
    tokens: TokenCache,
    sessions: Vec<Option<(Grant, SessionPermit)>>,
    counts: UsageCounts,
    merged: Merged,
}

impl SimulatedService {
    pub(super) fn new(start: Instant) -> Self {
        let (now, directory) = (UnixMillis(START), Directory::default());
        let limits = ServiceLimits {
            quota: quota(OF_SERVICE.quota),
            sessions: OF_SERVICE.sessions.unwrap() as usize,
            ..ServiceLimits::default()
        };
        let access = Access::new(AccessSource {
            directory: &directory,
            configured: &ConfiguredKeys::default(),
            limits: &limits,
            used_today: &UsedToday::default(),
            now,
            desk: None,
        });
        Self {
            start,
            now,
            limits,
            directory,
            store: MemoryStore::default(),
            access,
            caps: SessionCaps::new(SESSIONS_MAX),
            tokens: TokenCache::default(),
            sessions: Vec::new(),
            counts: UsageCounts::default(),
            merged: Merged::new(Labels::new(["method"], OUTCOMES), now),
        }
    }

    pub(super) fn take(&mut self, step: Step) -> Seen {
        let answer = self.answer(step);
        self.merged.merge(&self.counts.take(), self.now);
        let mut ended = Vec::new();
        for (at, session) in self.sessions.iter_mut().enumerate() {
            if let Some((grant, _)) = session
                && !grant.is_current(self.now)
                && let Err(refused) = grant.key(self.now)
            {
                ended.push((at, refused));
                *session = None;
            }
        }
        Seen { answer, ended }
    }

    fn answer(&mut self, step: Step) -> Answer {
        match step {
            Step::Wait(millis) => {
                self.now.0 += millis;
                if self.merged.is_due(self.now) {
                    self.flush();
                }
                Answer::Nothing
            }
            Step::Ask(key, client, body) => match self.admit(key, client) {
                Err(refused) => Answer::Refused(refused),
                Ok(admitted) => self.ask(&admitted.key, body),
            },
            Step::Open(key, client) => self.open(key, client),
            Step::AskIn(session, body) => {
                let session = self.sessions.get(session).and_then(Option::as_ref);
                let Some((grant, _)) = session else {
                    return Answer::NoSession;
                };
                match grant.key(self.now) {
                    Err(refused) => Answer::Refused(refused),
                    Ok(key) => self.ask(&key, body),
                }
            }
            Step::Close(session) => match self.sessions.get_mut(session) {
                Some(session) => {
                    *session = None;
                    Answer::Nothing
                }
                None => Answer::NoSession,
            },
            _ => self.run(step),
        }
    }

    /// What a client is answered that presents a key and perhaps a secret.
    fn admit(&self, key: u16, client: Client) -> Result<Admitted, Refused> {
        let (key, beside) = (
            secret_of(key),
            client.secret.map(|number| format!("Bearer {number}")),
        );
        let presented = Presented::new(&key, beside.as_deref());
        self.access
            .admit(&presented, || caller(client), &self.tokens, self.time())
    }

    fn time(&self) -> Now {
        Now {
            instant: self.start + Duration::from_millis(self.now.0 - START),
            unix: self.now,
        }
    }

    fn open(&mut self, key: u16, client: Client) -> Answer {
        self.sessions.push(None);
        let admitted = match self.admit(key, client) {
            Ok(admitted) => admitted,
            Err(refused) => return Answer::Refused(refused),
        };
        let (id, now) = (admitted.key.record.id, self.time());
        if let Err(exceeded) = admitted.key.take(1, now) {
            self.count(id, 1, 0);
            return self::exceeded(exceeded);
        }
        let Some(permit) = self.caps.take(&admitted.key.tenant) else {
            self.count(id, 2, 1);
            return Answer::NoRoom;
        };
        self.counts.session_opened(id, 1);
        let grant = admitted.into_grant(&self.access, caller(client));
        *self.sessions.last_mut().unwrap() = Some((grant, permit));
        Answer::LetIn(None)
    }

    fn ask(&mut self, key: &Arc<ActiveKey>, body: Body) -> Answer {
        let now = self.time();
        if let Err(exceeded) = key.take(body.requests, now) {
            self.count(key.record.id, 1, 0);
            return self::exceeded(exceeded);
        }
        key.charge(body.more, now);
        self.count(key.record.id, 0, u64::from(body.requests) + body.more);
        let left = key.remaining(now);
        Answer::LetIn(left.map(|left| (left.limit, left.remaining, left.reset_seconds.into())))
    }

    fn count(&mut self, key: KeyId, outcome: u8, units: u64) {
        let request = RequestUse {
            method: 0,
            outcome,
            units,
            bytes_in: 1,
            bytes_out: 1,
            took: Duration::ZERO,
        };
        self.counts.request(key, &request);
    }

    /// Runs a command as the owner of the store does.
    fn run(&mut self, step: Step) -> Answer {
        let command = command(step, self.now);
        let changes_quotas = matches!(
            command,
            Command::UpdateTenant { .. } | Command::UpdateKey { .. }
        );
        let Ok(changes) = self.directory.plan(command, self.now) else {
            return Answer::Commanded(false);
        };
        let commit = Commit {
            directory: &changes,
            ..Commit::default()
        };
        self.store.commit(&commit).unwrap();
        let mut changed = ChangedRecords::default();
        for change in changes {
            changed.add(&change, &self.directory);
            self.directory.make(change);
        }
        let mut used_today = UsedToday::default();
        if changes_quotas {
            self.flush();
            let query = KeyUseQuery {
                of: UsageOf::All,
                resolution: Resolution::Day,
                from: Resolution::Day.start(self.now),
                to: UnixMillis(u64::MAX),
            };
            let add = &mut |used: KeyUse| used_today.add(used.key, used.owner, used.units);
            self.store.key_use(&query, add).unwrap();
        }
        let source = AccessSource {
            directory: &self.directory,
            configured: &ConfiguredKeys::default(),
            limits: &self.limits,
            used_today: &used_today,
            now: self.now,
            desk: None,
        };
        self.access.update(source, &changed);
        Answer::Commanded(true)
    }

    fn flush(&mut self) {
        let (directory, store) = (&self.directory, &mut self.store);
        let owner_of = |id| {
            let key = directory.key(id)?;
            Some(KeyOwner {
                tenant: key.tenant,
                chain: key.chain,
            })
        };
        let flushed = self
            .merged
            .flush(self.now, owner_of, |cells| store.add_usage(cells));
        flushed.unwrap();
    }

    fn usage(&mut self, of: UsageOf, from: UnixMillis, outcome: bool) -> Vec<UsageRow> {
        let query = UsageQuery {
            of,
            resolution: Resolution::Day,
            from,
            to: UnixMillis(u64::MAX),
            by: GroupBy {
                time: outcome,
                key: true,
                method: false,
                outcome,
            },
            rows_max: usize::MAX,
        };
        self.store.usage(&query).unwrap().rows
    }

    /// By day, key and outcome: requests, units and sessions.
    pub(super) fn all_usage(&mut self) -> BTreeMap<(u64, KeyId, String), (u64, u64, u64)> {
        self.flush();
        let rows = self.usage(UsageOf::All, UnixMillis(0), true).into_iter();
        let row = |row: UsageRow| {
            let day = row.at.unwrap().0 / (24 * 3_600_000);
            let group = (day, row.key.unwrap(), row.outcome.unwrap().to_string());
            (
                group,
                (row.used.requests, row.used.units, row.used.sessions),
            )
        };
        rows.map(row).collect()
    }

    /// The units of a tenant's keys.
    pub(super) fn units_of_tenant(&mut self, tenant: u16) -> u64 {
        let of = UsageOf::Tenant(tenant_id(tenant));
        let rows = self.usage(of, UnixMillis(0), false);
        rows.iter().map(|row| row.used.units).sum()
    }
}

fn exceeded(exceeded: Exceeded) -> Answer {
    Answer::Exceeded(
        exceeded.quota,
        exceeded.allowed,
        exceeded.retry_after_seconds.into(),
    )
}

fn caller(client: Client) -> Caller<'static> {
    Caller {
        origin: client.origin.map(|at| ORIGINS[at]),
        ..Caller::default()
    }
}

fn secret_of(key: u16) -> String {
    format!("key {key}")
}

pub(super) fn key_id(key: u16) -> KeyId {
    KeyId::of_configured(&secret_of(key))
}

fn tenant_id(tenant: u16) -> TenantId {
    TenantId::of_configured(&tenant.to_string())
}

fn quota(quotas: Quotas) -> Quota {
    let rate = |(per_second, burst)| Rate {
        per_second: NonZeroU32::new(per_second).unwrap(),
        burst: NonZeroU32::new(burst).unwrap(),
    };
    Quota {
        requests: quotas.requests.map(rate),
        units: quotas.units.map(rate),
        units_per_day: quotas.units_per_day.and_then(NonZeroU64::new),
    }
}

fn settings(settings: Settings) -> (Option<UnixMillis>, KeySettings) {
    let origins = ORIGINS.iter().zip(settings.origins);
    let listed: Vec<_> = origins
        .filter(|(_, is_listed)| *is_listed)
        .map(|(origin, _)| origin.parse().unwrap())
        .collect();
    let beside = |beside: Beside| {
        Box::new(BesideSecret {
            digest: SecretDigest::of(&beside.secret.to_string()),
            is_required: beside.is_required,
            exempts: beside.exempts,
        })
    };
    let mut made = KeySettings {
        quota: quota(settings.quota),
        secret: settings.secret.map(beside),
        ..KeySettings::default()
    };
    made.allow.origins = listed.try_into().unwrap();
    (settings.expires.map(UnixMillis), made)
}

fn limits(limits: Limits) -> TenantLimits {
    TenantLimits {
        quota: quota(limits.quota),
        sessions: limits.sessions,
        ..TenantLimits::default()
    }
}

fn new_key(key: u16) -> NewKey {
    let secret = secret_of(key);
    NewKey {
        id: key_id(key),
        prefix: KeyPrefix::of(&secret),
        digest: SecretDigest::of(&secret),
    }
}

fn command(step: Step, now: UnixMillis) -> Command {
    let name = |number: u16| format!("number {number}").parse().unwrap();
    match step {
        Step::CreateTenant(tenant, of) => Command::CreateTenant {
            id: tenant_id(tenant),
            name: name(tenant),
            limits: limits(of),
        },
        Step::UpdateTenant(tenant, of) => Command::UpdateTenant {
            id: tenant_id(tenant),
            name: name(tenant),
            limits: limits(of),
        },
        Step::RemoveTenant(tenant) => Command::RemoveTenant {
            id: tenant_id(tenant),
        },
        Step::CreateKey(key, tenant, of) => {
            let (expires, settings) = settings(of);
            Command::CreateKey {
                key: new_key(key),
                tenant: tenant_id(tenant),
                name: name(key),
                expires,
                settings,
            }
        }
        Step::UpdateKey(key, of) => {
            let (expires, settings) = settings(of);
            Command::UpdateKey {
                id: key_id(key),
                name: name(key),
                expires,
                settings,
            }
        }
        Step::RotateKey(old, new, ends) => Command::RotateKey {
            id: key_id(old),
            key: new_key(new),
            old_expires: UnixMillis(now.0 + ends),
        },
        Step::RevokeKey(key) => Command::RevokeKey { id: key_id(key) },
        other => panic!("{other:?} is no command"),
    }
}
