//! The plain model: what is said of keys in docs/access.md, without regard to speed.

use std::collections::BTreeMap;

use nearhead_tenants::allowlists::ListKind;

use super::{
    bucket::{Bucket, TOKEN},
    rule::Rule,
    step::{Answer, Body, Client, Limits, Quotas, START, Seen, Settings, Step},
};
use crate::access::{QuotaKind, Refused};

const DAY: u64 = 24 * 3_600_000;

/// What tenants get that have no limits of their own.
pub(super) const OF_SERVICE: Limits = Limits {
    quota: Quotas {
        requests: Some((3, 3)),
        units: None,
        units_per_day: None,
    },
    sessions: Some(2),
};

/// Sessions of all tenants.
pub(super) const SESSIONS_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Model {
    broken: Option<Rule>,
    now: u64,
    tenants: BTreeMap<u16, Metered<Limits>>,
    keys: BTreeMap<u16, Key>,
    /// By the first key of each chain of rotations, its quota.
    chains: BTreeMap<u16, Metered<Quotas>>,
    /// The tenants and the chains of all keys that ever were.
    tenant_of: BTreeMap<u16, u16>,
    chain_of: BTreeMap<u16, u16>,
    sessions: Vec<Option<Session>>,
    /// By day, key and outcome: requests, units and sessions.
    pub(super) usage: BTreeMap<(u64, u16, &'static str), (u64, u64, u64)>,
}

/// A chain of keys or a tenant with its buckets.
#[derive(Clone, Debug)]
struct Metered<T> {
    is: T,
    requests: Option<Bucket>,
    units: Option<Bucket>,
    /// Whether the units of the day are forgotten, by which a rule is broken.
    forgets_day: bool,
}

#[derive(Clone, Debug)]
struct Key {
    tenant: u16,
    is_revoked: bool,
    is_replaced: bool,
    is: Settings,
}

#[derive(Debug)]
struct Session {
    key: u16,
    tenant: u16,
    client: Client,
    is_exempt: bool,
    at_open: Settings,
}

impl<T> Metered<T> {
    fn new(is: T, quota: Quotas, now: u64) -> Self {
        Self {
            is,
            requests: quota.requests.map(|rate| Bucket::new(rate, now)),
            units: quota.units.map(|rate| Bucket::new(rate, now)),
            forgets_day: false,
        }
    }

    fn buckets(&mut self) -> impl Iterator<Item = &mut Bucket> {
        [&mut self.requests, &mut self.units].into_iter().flatten()
    }
}

fn with_service(limits: Limits) -> Quotas {
    Quotas {
        requests: limits.quota.requests.or(OF_SERVICE.quota.requests),
        units: limits.quota.units.or(OF_SERVICE.quota.units),
        units_per_day: limits
            .quota
            .units_per_day
            .or(OF_SERVICE.quota.units_per_day),
    }
}

impl Model {
    pub(super) fn new(broken: Option<Rule>) -> Self {
        Self {
            broken,
            now: START,
            tenants: BTreeMap::new(),
            keys: BTreeMap::new(),
            chains: BTreeMap::new(),
            tenant_of: BTreeMap::new(),
            chain_of: BTreeMap::new(),
            sessions: Vec::new(),
            usage: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, step: Step) -> Seen {
        let answer = self.answer(step);
        let mut ended = Vec::new();
        for at in 0..self.sessions.len() {
            if let Some(session) = &self.sessions[at]
                && self.keeps(Rule::SessionIsChecked)
                && let Err(refused) = self.check_session(session)
            {
                ended.push((at, refused));
                self.sessions[at] = None;
            }
        }
        Seen { answer, ended }
    }

    /// The units of a tenant's keys.
    pub(super) fn units_of_tenants(&self) -> BTreeMap<u16, u64> {
        let of = |tenant: &u16| {
            let usage = self.usage.iter();
            let own = usage.filter(|((_, key, _), _)| self.tenant_of[key] == *tenant);
            own.map(|(_, (_, units, _))| units).sum()
        };
        self.tenants
            .keys()
            .map(|tenant| (*tenant, of(tenant)))
            .collect()
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    fn answer(&mut self, step: Step) -> Answer {
        match step {
            Step::Wait(millis) => {
                self.now += millis;
                Answer::Nothing
            }
            Step::Ask(key, client, body) => match self.admit(key, client) {
                Err(refused) => Answer::Refused(refused),
                Ok(_) => self.ask(key, body),
            },
            Step::Open(key, client) => self.open(key, client),
            Step::AskIn(session, body) => match self.sessions.get(session) {
                Some(Some(session)) => self.ask(session.key, body),
                _ => Answer::NoSession,
            },
            Step::Close(session) => match self.sessions.get_mut(session) {
                Some(session) => {
                    *session = None;
                    Answer::Nothing
                }
                None => Answer::NoSession,
            },
            command => Answer::Commanded(self.command(command).is_some()),
        }
    }

    /// Runs a command; `None` if it is refused.
    fn command(&mut self, step: Step) -> Option<()> {
        let now = self.now;
        match step {
            Step::CreateTenant(tenant, limits) => {
                let metered = Metered::new(limits, with_service(limits), now);
                self.tenants.insert(tenant, metered);
            }
            Step::UpdateTenant(tenant, limits) => {
                let outlives = self.keeps(Rule::DayOutlivesChange);
                let metered = self.tenants.get_mut(&tenant)?;
                let quota = with_service(limits);
                if with_service(metered.is) != quota {
                    *metered = Metered::new(limits, quota, now);
                    metered.forgets_day = !outlives;
                }
                metered.is = limits;
            }
            Step::RemoveTenant(tenant) => {
                self.tenants.get(&tenant)?;
                if self.keeps(Rule::Removal) {
                    self.tenants.remove(&tenant);
                    self.keys.retain(|_, key| key.tenant != tenant);
                }
            }
            Step::CreateKey(key, tenant, settings) => {
                self.tenants.get(&tenant)?;
                self.add_key(key, tenant, settings, key);
            }
            Step::UpdateKey(key, settings) => {
                let outlives = self.keeps(Rule::DayOutlivesChange);
                let known = self.keys.get_mut(&key).filter(|key| !key.is_revoked)?;
                known.is = settings;
                let (quota, chain) = (settings.quota, self.chain_of[&key]);
                if self.chains[&chain].is != quota {
                    let mut metered = Metered::new(quota, quota, now);
                    metered.forgets_day = !outlives;
                    self.chains.insert(chain, metered);
                }
                let of_chain = self.keys.iter_mut();
                let of_chain = of_chain.filter(|(number, _)| self.chain_of[number] == chain);
                for (_, key) in of_chain.filter(|(_, key)| !key.is_revoked) {
                    key.is.quota = quota;
                }
            }
            Step::RotateKey(old, new, ends) => {
                let (is_broken, ends) = match self.keeps(Rule::OverlapOfRotation) {
                    true => (!self.keeps(Rule::SettingsOfRotation), now + ends),
                    false => (false, now),
                };
                let chain = *self.chain_of.get(&old)?;
                let is_other = |number: &u16| *number != old && self.chain_of[number] == chain;
                let mut others = self.keys.keys().filter(|number| is_other(number));
                let overlaps = others.any(|number| self.lets_in(*number));
                if !self.lets_in(old) || overlaps && self.keeps(Rule::OneOverlap) {
                    return None;
                }
                let chain = match self.keeps(Rule::QuotaOfChain) {
                    true => chain,
                    false => new,
                };
                let key = self.keys.get_mut(&old).filter(|key| !key.is_replaced)?;
                key.is_replaced = true;
                let (tenant, settings) = (key.tenant, key.is);
                let expires = settings.expires;
                key.is.expires = Some(expires.map_or(ends, |expires| expires.min(ends)));
                let same = if is_broken {
                    Settings::default()
                } else {
                    settings
                };
                self.add_key(new, tenant, same, chain);
            }
            Step::RevokeKey(key) => {
                let is_revoked = self.keeps(Rule::Revocation);
                self.keys.get_mut(&key)?.is_revoked |= is_revoked;
            }
            _ => return None,
        }
        Some(())
    }

    fn add_key(&mut self, key: u16, tenant: u16, settings: Settings, chain: u16) {
        self.tenant_of.insert(key, tenant);
        self.chain_of.insert(key, chain);
        let quota = settings.quota;
        let metered = || Metered::new(quota, quota, self.now);
        self.chains.entry(chain).or_insert_with(metered);
        let made = Key {
            tenant,
            is_revoked: false,
            is_replaced: false,
            is: settings,
        };
        self.keys.insert(key, made);
    }

    /// Whether a key lets clients in, as far as commands look at it.
    fn lets_in(&self, key: u16) -> bool {
        let is_over = |key: &Key| key.is.expires.is_some_and(|expires| expires <= self.now);
        let key = self.keys.get(&key);
        key.is_some_and(|key| !key.is_revoked && !is_over(key))
    }

    fn active(&self, key: u16) -> Result<&Key, Refused> {
        let key = self.keys.get(&key).ok_or(Refused::UnknownKey)?;
        let is_over = |expires| expires <= self.now && self.keeps(Rule::Expiry);
        match key.is_revoked || key.is.expires.is_some_and(is_over) {
            true => Err(Refused::UnknownKey),
            false => Ok(key),
        }
    }

    /// Lets a client in; returns whether it is exempt.
    fn admit(&self, key: u16, client: Client) -> Result<bool, Refused> {
        let settings = self.active(key)?.is;
        let is_exempt = match settings.secret.filter(|_| self.keeps(Rule::Secrets)) {
            None => false,
            Some(beside) => match client.secret {
                None if beside.is_required => return Err(Refused::WrongSecret),
                None => false,
                Some(secret) if secret != beside.secret => return Err(Refused::WrongSecret),
                Some(_) => beside.exempts && self.keeps(Rule::Exemptions),
            },
        };
        self.check_origin(settings, client, is_exempt)?;
        Ok(is_exempt)
    }

    fn check_origin(
        &self,
        settings: Settings,
        client: Client,
        is_exempt: bool,
    ) -> Result<(), Refused> {
        let is_open = settings.origins == [false; 2] || is_exempt || !self.keeps(Rule::Origins);
        match is_open || client.origin.is_some_and(|origin| settings.origins[origin]) {
            true => Ok(()),
            false => Err(Refused::NotListed(ListKind::Origins)),
        }
    }

    fn check_session(&self, session: &Session) -> Result<(), Refused> {
        let settings = self.active(session.key)?.is;
        if settings.secret != session.at_open.secret && self.keeps(Rule::SecretOfSession) {
            return Err(Refused::WrongSecret);
        }
        self.check_origin(settings, session.client, session.is_exempt)
    }

    fn open(&mut self, key: u16, client: Client) -> Answer {
        self.sessions.push(None);
        let is_exempt = match self.admit(key, client) {
            Ok(is_exempt) => is_exempt,
            Err(refused) => return Answer::Refused(refused),
        };
        if let Err(exceeded) = self.use_up(key, 1) {
            self.count(key, "denied", (1, 0, 0));
            return exceeded;
        }
        let (tenant, at_open) = (self.keys[&key].tenant, self.keys[&key].is);
        let limits = self.tenants[&tenant].is;
        let most = limits.sessions.or(OF_SERVICE.sessions).unwrap_or(0) as usize;
        let open = |all: bool| {
            let sessions = self.sessions.iter().flatten();
            let own = sessions.filter(|session| all || session.tenant == tenant);
            own.count()
        };
        let is_full = match self.keeps(Rule::SessionIsGivenBack) {
            true => open(true) >= SESSIONS_MAX || open(false) >= most,
            false => self.sessions.len() > SESSIONS_MAX,
        };
        if is_full && self.keeps(Rule::SessionIsCounted) {
            self.count(key, "refused", (1, 1, 0));
            return Answer::NoRoom;
        }
        self.count(key, "session", (0, 1, 1));
        let last = self.sessions.len() - 1;
        self.sessions[last] = Some(Session {
            key,
            tenant,
            client,
            is_exempt,
            at_open,
        });
        Answer::LetIn(None)
    }

    fn ask(&mut self, key: u16, body: Body) -> Answer {
        if let Err(exceeded) = self.use_up(key, body.requests) {
            let units = match self.keeps(Rule::RefusedIsFree) {
                true => 0,
                false => u64::from(body.requests),
            };
            self.count(key, "denied", (1, units, 0));
            return exceeded;
        }
        let now = self.now;
        if self.keeps(Rule::Debts) {
            for bucket in self.buckets(key) {
                bucket.fill(now);
                bucket.left -= i128::from(body.more) * TOKEN;
            }
        }
        let units = u64::from(body.requests) + body.more;
        self.count(key, "ok", (1, units, 0));
        Answer::LetIn(self.remaining(key))
    }

    /// The buckets of units, of a key's chain and its tenant.
    fn buckets(&mut self, key: u16) -> impl Iterator<Item = &mut Bucket> {
        let chain = self.chain_of.get(&key);
        let own = chain.and_then(|chain| self.chains.get_mut(chain));
        let tenant = self.tenant_of.get(&key);
        let tenant = tenant.and_then(|tenant| self.tenants.get_mut(tenant));
        let own = own.and_then(|own| own.units.as_mut());
        own.into_iter()
            .chain(tenant.and_then(|tenant| tenant.units.as_mut()))
    }

    fn remaining(&mut self, key: u16) -> Option<(u32, u32, u64)> {
        let now = self.now;
        let own = self.chains.get_mut(self.chain_of.get(&key)?)?;
        let tenant = self.tenants.get_mut(self.tenant_of.get(&key)?)?;
        let buckets = own.buckets().chain(tenant.buckets());
        let left = buckets.map(|bucket| {
            bucket.fill(now);
            bucket.remaining()
        });
        left.reduce(|one, other| {
            let share =
                |of: (u32, u32, u64), by: (u32, u32, u64)| u64::from(of.1) * u64::from(by.0);
            if share(one, other) <= share(other, one) {
                one
            } else {
                other
            }
        })
    }

    /// Takes requests of a key and its tenant, or nothing.
    fn use_up(&mut self, key: u16, requests: u32) -> Result<(), Answer> {
        let (now, keeps_rate) = (self.now, self.keeps(Rule::RateOfSecond));
        let (chain, owner) = (self.chain_of[&key], self.tenant_of[&key]);
        let (own, tenant) = (self.chains[&chain].clone(), self.tenants[&owner].clone());
        let of_chain = |number: u16| self.chain_of[&number] == chain;
        let of_tenant = |number: u16| self.tenant_of[&number] == owner;
        if self.keeps(Rule::QuotaOfKey) {
            let used = self.used_today(own.forgets_day, of_chain);
            let quota = own.is;
            check(own, quota, used, (requests, now, keeps_rate))?;
        }
        if self.keeps(Rule::QuotaOfTenant) {
            let used = self.used_today(tenant.forgets_day, of_tenant);
            let quota = with_service(tenant.is);
            check(tenant, quota, used, (requests, now, keeps_rate))?;
        }
        let take = |bucket: &mut Bucket| {
            bucket.fill(now);
            bucket.left -= i128::from(requests) * TOKEN;
        };
        if let Some(own) = self.chains.get_mut(&chain) {
            own.buckets().for_each(take);
        }
        if let Some(tenant) = self.tenants.get_mut(&owner) {
            tenant.buckets().for_each(take);
        }
        Ok(())
    }

    fn used_today(&self, is_forgotten: bool, is_own: impl Fn(u16) -> bool) -> u64 {
        if is_forgotten {
            return 0;
        }
        let today = match self.keeps(Rule::Renewal) {
            true => self.now / DAY,
            false => START / DAY,
        };
        let days = self
            .usage
            .iter()
            .filter(|((day, key, _), _)| *day >= today && is_own(*key));
        days.map(|(_, (_, units, _))| units).sum()
    }

    fn count(&mut self, key: u16, outcome: &'static str, more: (u64, u64, u64)) {
        let sums = self
            .usage
            .entry((self.now / DAY, key, outcome))
            .or_default();
        *sums = (sums.0 + more.0, sums.1 + more.1, sums.2 + more.2);
    }
}

/// Whether as many requests fit into a quota, of which so many units were used today.
fn check<T>(
    mut metered: Metered<T>,
    quota: Quotas,
    used: u64,
    (requests, now, keeps_rate): (u32, u64, bool),
) -> Result<(), Answer> {
    if let Some(most) = quota.units_per_day
        && used >= most
    {
        let wait = (DAY - now % DAY).div_ceil(1_000);
        return Err(Answer::Exceeded(QuotaKind::UnitsOfDay, most, wait));
    }
    metered.buckets().for_each(|bucket| bucket.fill(now));
    let rates = [
        (metered.requests, QuotaKind::Requests),
        (metered.units, QuotaKind::Units),
    ];
    for (bucket, kind) in rates {
        if let Some(bucket) = bucket
            && keeps_rate
            && bucket.wait(requests) > 0
        {
            let allowed = u64::try_from(bucket.rate).unwrap_or(0);
            return Err(Answer::Exceeded(kind, allowed, bucket.wait(requests)));
        }
    }
    Ok(())
}
