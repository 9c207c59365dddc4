use std::{collections::HashMap, fmt, mem, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    AdminError, Administration, Last24h, Operation, Requester, Span, StoreCall, TenantRef,
};
use crate::{
    UnixMillis,
    command::CommandError,
    id::KeyId,
    store::StoreError,
    usage::{
        GroupBy, KeyUse, KeyUseQuery, LATENCY_BOUNDS, LATENCY_BUCKETS, Label, OK_LABEL, Resolution,
        UsageAnswer, UsageOf, UsageQuery, UsageRow, Used,
    },
};

/// Most rows of one answer: 720 minutes of 20 methods, or so.
pub const USAGE_ROWS_MAX: usize = 20_000;

/// Most rows that are read for it: these are always grouped by outcome.
pub(super) const ROWS_READ_MAX: usize = 60_000;

/// The spans of time until now that may be asked for: a period, and as long as usage is kept.
const LAST_MIN: Duration = Resolution::Minute.period();
const LAST_MAX: Duration = Resolution::Day.kept();

const DAY: Duration = Resolution::Day.period();

/// Asks for usage: of one key, of a tenant, or of all. Holders see that of their tenant.
///
/// The range is `from` to `to`, or else the `last` span of time until now; without any, the last
/// day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GetUsage {
    /// Only that of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantRef>,
    /// Only that of this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// When the range begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<UnixMillis>,
    /// When the range ends; now if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<UnixMillis>,
    /// How long the range is that ends now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Span>,
    /// What the rows are grouped by.
    pub by: Breakdown,
}

/// What rows of usage are grouped by: any of `time`, `key`, `method` and `outcome`, with commas
/// between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Breakdown(pub GroupBy);

/// A text is not a breakdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("usage is grouped by any of time, key, method and outcome, with commas between them")]
pub struct InvalidBreakdown;

/// Usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageView {
    /// When the first period begins.
    pub from: UnixMillis,
    /// When the last period ends: later than asked for if that is within a period.
    pub to: UnixMillis,
    /// How long each period is, in milliseconds.
    pub period: u64,
    /// The bounds of the buckets of latencies in milliseconds. One more bucket has no bound.
    pub latency_bounds: Vec<f64>,
    /// What was used, sorted by time, key, method and outcome. A period without usage has no row.
    pub rows: Vec<UsageRowView>,
    /// Whether there are more rows, which are left out.
    pub is_truncated: bool,
}

/// A sum of usage. What rows are not grouped by is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageRowView {
    /// When the period begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<UnixMillis>,
    /// The key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// The method, or `session` for what sessions did besides requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The outcome, or `session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Requests.
    pub requests: u64,
    /// Those that were not answered with a result.
    pub errors: u64,
    /// Units.
    pub units: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of answers and notifications.
    pub bytes_out: u64,
    /// WebSocket sessions that were opened.
    pub sessions: u64,
    /// Notifications that were sent.
    pub notifications: u64,
    /// How long answers took.
    pub latency: LatencyView,
}

/// How long answers took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyView {
    /// Requests by bucket.
    pub buckets: [u64; LATENCY_BUCKETS],
    /// The bound in milliseconds that half of the requests kept; `None` if there is no such bound,
    /// or no request.
    pub p50: Option<f64>,
    /// The bound that 95 of 100 kept.
    pub p95: Option<f64>,
    /// The bound that 99 of 100 kept.
    pub p99: Option<f64>,
}

impl Operation for GetUsage {
    type Answer = UsageView;

    const READS_USAGE: bool = true;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<UsageView, AdminError> {
        let (query, by_outcome) = self.query(administration, by)?;
        let answer = administration.store(StoreCall::Read, |store| store.usage(&query))?;
        Ok(view_of(&query, answer, by_outcome))
    }
}

impl GetUsage {
    /// What is read for it, and whether the answer is grouped by outcome.
    pub(super) fn query(
        &self,
        administration: &Administration,
        by: &Requester,
    ) -> Result<(UsageQuery, bool), AdminError> {
        let own = by.own_tenant()?;
        let (from, to) = self.range(by.now)?;
        let tenant = match &self.tenant {
            Some(named) => Some(administration.tenant(named, by)?.id),
            None => own,
        };
        let of = match (self.key, tenant) {
            (Some(key), tenant) => {
                let of = administration.visible_tenant_of(key, by)?;
                if tenant.is_some_and(|tenant| tenant != of) {
                    return Err(CommandError::NoKey(key).into());
                }
                UsageOf::Keys(vec![key])
            }
            (None, Some(tenant)) => UsageOf::Tenant(tenant),
            (None, None) => UsageOf::All,
        };
        let GroupBy { outcome, .. } = self.by.0;
        let query = UsageQuery {
            of,
            resolution: Resolution::of_range(from, to, by.now),
            from,
            to,
            // Outcomes say which requests are errors.
            by: GroupBy {
                outcome: true,
                ..self.by.0
            },
            rows_max: ROWS_READ_MAX,
        };
        Ok((query, outcome))
    }

    fn range(&self, now: UnixMillis) -> Result<(UnixMillis, UnixMillis), AdminError> {
        let (from, to) = match (self.from, self.to, self.last) {
            (Some(from), to, None) => (from, to.unwrap_or(now)),
            (None, None, last) => {
                let last = last.unwrap_or(Span::days(1)).duration();
                if !(LAST_MIN..=LAST_MAX).contains(&last) {
                    let reason = "usage is kept for the last 30 days: give 1m to 31d";
                    return Err(AdminError::invalid("last", reason));
                }
                (now.before(last), now)
            }
            (_, _, Some(_)) => {
                let reason = "give either last, or from and to";
                return Err(AdminError::invalid("last", reason));
            }
            (None, Some(_), None) => {
                return Err(AdminError::invalid("from", "to needs a from"));
            }
        };
        match from < to && to <= now.after(LAST_MAX) {
            true => Ok((from, to)),
            false => {
                let reason = "a range ends after it begins, and not later than now";
                Err(AdminError::invalid("to", reason))
            }
        }
    }
}

/// The answer to a query, grouped by outcome or not.
pub(super) fn view_of(query: &UsageQuery, answer: UsageAnswer, by_outcome: bool) -> UsageView {
    let resolution = query.resolution;
    let (rows, is_truncated) = view_rows(answer, by_outcome);
    UsageView {
        from: resolution.start(query.from),
        to: resolution.end(query.to),
        period: u64::try_from(resolution.period().as_millis()).unwrap_or(u64::MAX),
        latency_bounds: LATENCY_BOUNDS.map(millis).into(),
        rows,
        is_truncated,
    }
}

/// Adds up the rows of all outcomes, unless the answer is grouped by outcome.
fn view_rows(answer: UsageAnswer, by_outcome: bool) -> (Vec<UsageRowView>, bool) {
    type Group = (
        Option<UnixMillis>,
        Option<KeyId>,
        Option<Label>,
        Option<Label>,
    );
    let mut sums: Vec<(Group, Used, u64)> = Vec::new();
    for row in answer.rows {
        let errors = errors_of(&row);
        let outcome = row.outcome.filter(|_| by_outcome);
        let group = (row.at, row.key, row.method, outcome);
        match sums.last_mut() {
            Some((last, used, all_errors)) if *last == group => {
                used.add(&row.used);
                *all_errors = all_errors.saturating_add(errors);
            }
            _ => sums.push((group, row.used, errors)),
        }
    }
    if answer.is_truncated {
        // Some of it may be missing.
        sums.pop();
    }
    let is_truncated = answer.is_truncated || sums.len() > USAGE_ROWS_MAX;
    let rows = sums.into_iter().take(USAGE_ROWS_MAX);
    let rows = rows.map(|((at, key, method, outcome), used, errors)| UsageRowView {
        at,
        key,
        method: method.as_deref().map(str::to_owned),
        outcome: outcome.as_deref().map(str::to_owned),
        requests: used.requests,
        errors,
        units: used.units,
        bytes_in: used.bytes_in,
        bytes_out: used.bytes_out,
        sessions: used.sessions,
        notifications: used.notifications,
        latency: LatencyView {
            buckets: used.latency,
            p50: used.latency_of(0.5).map(millis),
            p95: used.latency_of(0.95).map(millis),
            p99: used.latency_of(0.99).map(millis),
        },
    });
    (rows.collect(), is_truncated)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Requests of a row that were not answered with a result.
fn errors_of(row: &UsageRow) -> u64 {
    match row.outcome.as_deref() {
        Some(OK_LABEL) => 0,
        _ => row.used.requests,
    }
}

impl Administration {
    /// What these keys used in the last 24 hours.
    pub(super) fn last_24h(
        &mut self,
        keys: Vec<KeyId>,
        now: UnixMillis,
    ) -> Result<HashMap<KeyId, Last24h>, StoreError> {
        match keys.is_empty() {
            true => Ok(HashMap::new()),
            false => self.last_24h_of(keys, now),
        }
    }

    fn last_24h_of(
        &mut self,
        keys: Vec<KeyId>,
        now: UnixMillis,
    ) -> Result<HashMap<KeyId, Last24h>, StoreError> {
        let query = KeyUseQuery {
            of: UsageOf::Keys(keys),
            resolution: Resolution::Hour,
            from: now.before(DAY),
            to: now,
        };
        let mut all: HashMap<KeyId, Last24h> = HashMap::new();
        self.key_use(&query, |used| all.entry(used.key).or_default().add(&used))?;
        Ok(all)
    }

    fn key_use(
        &mut self,
        query: &KeyUseQuery,
        mut each: impl FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        self.store(StoreCall::Read, |store| store.key_use(query, &mut each))
    }
}

impl Administration {
    /// Whether it is known what all keys used in the last 24 hours, by which a list is sorted. If
    /// the store fails, a list has to say so.
    #[must_use]
    pub fn knows_recent_use(&self, now: UnixMillis) -> bool {
        self.recent.known(now).is_some() || self.failures.contains_key(&StoreCall::Read)
    }

    /// Reads a part of what all keys used in the last 24 hours. Says whether there is more to read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read_recent_use(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        let Some(hour) = self.recent.next(now) else {
            return Ok(false);
        };
        let query = KeyUseQuery {
            of: UsageOf::All,
            resolution: Resolution::Hour,
            from: hour,
            to: hour.after(Resolution::Hour.period()),
        };
        let mut recent = mem::take(&mut self.recent);
        let read = self.key_use(&query, |used| recent.add_read(&used));
        match read {
            Ok(()) => recent.end_hour(hour, now),
            Err(_) => recent.start_over(),
        }
        self.recent = recent;
        read.map(|()| self.recent.is_partial())
    }

    /// Reads what all keys used in the last 24 hours, if that is not known.
    pub(super) fn find_recent_use(&mut self, now: UnixMillis) -> Result<(), StoreError> {
        if self.recent.known(now).is_none() {
            while self.read_recent_use(now)? {}
        }
        Ok(())
    }
}

impl FromStr for Breakdown {
    type Err = InvalidBreakdown;

    fn from_str(text: &str) -> Result<Self, InvalidBreakdown> {
        let mut by = GroupBy::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word {
                "time" => by.time = true,
                "key" => by.key = true,
                "method" => by.method = true,
                "outcome" => by.outcome = true,
                _ => return Err(InvalidBreakdown),
            }
        }
        Ok(Self(by))
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.0;
        let words = [
            (by.time, "time"),
            (by.key, "key"),
            (by.method, "method"),
            (by.outcome, "outcome"),
        ];
        let words = words.into_iter().filter(|(is, _)| *is);
        let words: Vec<_> = words.map(|(_, word)| word).collect();
        f.write_str(&words.join(","))
    }
}

impl TryFrom<String> for Breakdown {
    type Error = InvalidBreakdown;

    fn try_from(text: String) -> Result<Self, InvalidBreakdown> {
        text.parse()
    }
}

impl From<Breakdown> for String {
    fn from(by: Breakdown) -> Self {
        by.to_string()
    }
}
