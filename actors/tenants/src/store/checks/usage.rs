//! What workers count, merged, flushed, expired and asked for, against a list of events.

use std::{collections::BTreeMap, time::Duration};

use proptest::{prelude::*, test_runner::TestRunner};

use super::*;
use crate::{
    id::TenantId,
    usage::{
        GroupBy, KeyOwner, KeyUseQuery, Labels, Merged, RequestUse, Resolution, SESSION_LABEL,
        UsageCounts, UsageOf, UsageRow, Used,
    },
};

const METHODS: [&str; 3] = ["eth_call", "eth_getLogs", "'; DROP TABLE minute; --"];
const OUTCOMES: [&str; 2] = ["ok", "limited"];

const DAY: u64 = 86_400_000;

/// Three keys of one tenant, and one of another.
fn key(number: u8) -> KeyId {
    KeyId::of_configured(&number.to_string())
}

fn tenant_of(key_of: KeyId) -> TenantId {
    let is_other = key_of == key(3);
    TenantId::of_configured(if is_other { "other" } else { "one" })
}

/// The second key took the place of the first one.
fn owner_of(key_of: KeyId) -> KeyOwner {
    KeyOwner {
        tenant: tenant_of(key_of),
        chain: (key_of == key(2)).then(|| key(1)),
    }
}

#[derive(Clone, Debug)]
enum Event {
    Request {
        worker: usize,
        key: u8,
        method: u16,
        outcome: u8,
        number: u64,
    },
    SessionOpened {
        worker: usize,
        key: u8,
    },
    Notified {
        worker: usize,
        key: u8,
        number: u64,
    },
    /// Time goes on.
    Pass(Duration),
    /// Workers hand their counts to the owner.
    Tick,
    /// The owner writes; the disk may be full for the batch of this number.
    Flush {
        fails: bool,
    },
    Expire,
    /// The process ends, and another begins.
    Reopen,
}

fn any_event() -> impl Strategy<Value = Event> {
    let (worker, key) = (0..2_usize, 0..4_u8);
    prop_oneof![
        8 => (worker.clone(), key.clone(), 0..4_u16, 0..3_u8, 0..5_000_u64).prop_map(
            |(worker, key, method, outcome, number)| {
                Event::Request { worker, key, method, outcome, number }
            }
        ),
        1 => (worker.clone(), key.clone())
            .prop_map(|(worker, key)| Event::SessionOpened { worker, key }),
        1 => (worker, key, 0..100_u64)
            .prop_map(|(worker, key, number)| Event::Notified { worker, key, number }),
        3 => (0..200_u64).prop_map(|seconds| Event::Pass(Duration::from_secs(seconds))),
        1 => (0..40_u64).prop_map(|hours| Event::Pass(Duration::from_secs(hours * 3_600))),
        3 => Just(Event::Tick),
        2 => prop::bool::weighted(0.2).prop_map(|fails| Event::Flush { fails }),
        1 => Just(Event::Expire),
        1 => Just(Event::Reopen),
    ]
}

/// What was counted: when it was merged, key, method, outcome.
type Counted = (u64, KeyId, &'static str, &'static str, Used);

fn label(labels: &[&'static str], index: usize) -> &'static str {
    labels.get(index).copied().unwrap_or("other")
}

/// What the model answers.
fn expected(counted: &[Counted], query: &UsageQuery) -> Vec<UsageRow> {
    let period = query.resolution.period().as_millis() as u64;
    let mut groups: BTreeMap<_, Used> = BTreeMap::new();
    for (at, key, method, outcome, used) in counted {
        let begin = at / period * period;
        let is_of = match &query.of {
            UsageOf::All => true,
            UsageOf::Tenant(tenant) => tenant_of(*key) == *tenant,
            UsageOf::Keys(keys) => keys.contains(key),
            UsageOf::Chains(first) => first.contains(&owner_of(*key).chain.unwrap_or(*key)),
        };
        if is_of && begin >= query.from.0 / period * period && begin < query.to.0 {
            let group = (
                query.by.time.then_some(UnixMillis(begin)),
                query.by.key.then_some(*key),
                query.by.method.then_some(*method),
                query.by.outcome.then_some(*outcome),
            );
            groups.entry(group).or_default().add(used);
        }
    }
    let rows = groups.into_iter();
    let rows = rows.map(|((at, key, method, outcome), used)| UsageRow {
        at,
        key,
        method: method.map(Into::into),
        outcome: outcome.map(Into::into),
        used,
    });
    rows.collect()
}

/// The sums of each key: requests, errors and units.
type KeySums = BTreeMap<KeyId, [u64; 3]>;

fn expected_of_keys(counted: &[Counted], query: &UsageQuery) -> KeySums {
    let query = UsageQuery {
        by: GroupBy {
            key: true,
            outcome: true,
            ..GroupBy::default()
        },
        ..query.clone()
    };
    let mut sums = KeySums::new();
    for row in expected(counted, &query) {
        let is_error = row.outcome.as_deref() != Some("ok");
        let errors = if is_error { row.used.requests } else { 0 };
        let sum = sums.entry(row.key.unwrap()).or_default();
        let more = [row.used.requests, errors, row.used.units];
        sum.iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum += more);
    }
    sums
}

fn key_use(store: &mut dyn TenantStore, query: &KeyUseQuery) -> KeySums {
    let mut sums = KeySums::new();
    let read = store.key_use(query, &mut |used| {
        assert_eq!(used.owner, Some(owner_of(used.key)));
        let sum = sums.entry(used.key).or_default();
        let more = [used.requests, used.errors, used.units];
        sum.iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum += more);
    });
    read.unwrap();
    sums
}

/// Stores, their owner and two workers.
struct Run<'a, 'b> {
    stores: &'a mut [CheckedStore<'b>],
    workers: [UsageCounts; 2],
    merged: Merged,
    now: UnixMillis,
    /// What workers have, what is merged, and what is written.
    pending: Vec<(KeyId, &'static str, &'static str, Used)>,
    merged_events: Vec<Counted>,
    written: Vec<Counted>,
}

impl Run<'_, '_> {
    fn count(&mut self, key: KeyId, method: &'static str, outcome: &'static str, used: Used) {
        self.pending.push((key, method, outcome, used));
    }

    fn flush(&mut self, fails: bool) {
        let full = || StoreError::Full {
            path: "usage".into(),
        };
        let stores = &mut self.stores;
        let flushed = self.merged.flush(
            self.now,
            |key| Some(owner_of(key)),
            |cells| {
                if fails {
                    return Err(full());
                }
                stores
                    .iter_mut()
                    .try_for_each(|store| store.get().add_usage(cells))
            },
        );
        if fails && !self.merged_events.is_empty() {
            assert_eq!(flushed, Err(full()));
        } else {
            flushed.unwrap();
            assert!(self.merged.is_empty());
            self.written.append(&mut self.merged_events);
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Request {
                worker,
                key: number_of_key,
                method,
                outcome,
                number,
            } => {
                let took = Duration::from_millis(number);
                let request = RequestUse {
                    method,
                    outcome,
                    units: number,
                    bytes_in: number * 2,
                    bytes_out: number * 3,
                    took,
                };
                self.workers[worker].request(key(number_of_key), &request);
                let mut used = Used {
                    requests: 1,
                    units: number,
                    bytes_in: number * 2,
                    bytes_out: number * 3,
                    ..Used::default()
                };
                used.latency[Used::bucket(took)] = 1;
                let method = label(&METHODS, usize::from(method));
                let outcome = label(&OUTCOMES, usize::from(outcome));
                self.count(key(number_of_key), method, outcome, used);
            }
            Event::SessionOpened {
                worker,
                key: number,
            } => {
                self.workers[worker].session_opened(key(number), 0);
                let used = Used {
                    sessions: 1,
                    ..Used::default()
                };
                self.count(key(number), SESSION_LABEL, SESSION_LABEL, used);
            }
            Event::Notified {
                worker,
                key: of,
                number,
            } => {
                self.workers[worker].notified(key(of), number, number * 5, number * 7);
                let used = Used {
                    notifications: number,
                    units: number * 5,
                    bytes_out: number * 7,
                    ..Used::default()
                };
                self.count(key(of), SESSION_LABEL, SESSION_LABEL, used);
            }
            Event::Pass(time) => {
                // What workers have is merged within a second.
                self.apply(Event::Tick);
                self.now = self.now.after(time);
            }
            Event::Tick => {
                for worker in &mut self.workers {
                    self.merged.merge(&worker.take(), self.now);
                }
                for (key, method, outcome, used) in self.pending.drain(..) {
                    self.merged_events
                        .push((self.now.0, key, method, outcome, used));
                }
            }
            Event::Flush { fails } => self.flush(fails),
            Event::Expire => {
                for store in self.stores.iter_mut() {
                    while store.get().expire(self.now).unwrap() {}
                }
            }
            Event::Reopen => {
                self.flush(false);
                self.stores.iter_mut().for_each(CheckedStore::reopen);
            }
        }
    }
}

/// Checks that sums of keys, methods and outcomes agree with events from `begin` on, for every
/// range of periods. `with` makes new stores for each case, and runs it on them.
pub fn sums_agree(begin: u64, cases: u32, with: impl Fn(Case<'_>) -> CaseResult) {
    let events = prop::collection::vec(any_event(), 1..60);
    let queries = prop::collection::vec(
        (
            0..3_usize,
            0..45_u64,
            0..45_u64,
            0..1_000_u64,
            0..6_usize,
            any::<[bool; 4]>(),
        ),
        20,
    );
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let checked = runner.run(&(events, queries), |(events, queries)| {
        with(&|stores| check_case(begin, &events, &queries, stores))
    });
    checked.unwrap();
}

/// Runs one case on stores that have nothing.
pub type Case<'a> = &'a dyn Fn(&mut [CheckedStore<'_>]) -> CaseResult;

/// Whether the stores did as they should.
pub type CaseResult = Result<(), TestCaseError>;

/// Resolution, first period, length and offset of a range, whose usage, and the groups.
type AnyQuery = (usize, u64, u64, u64, usize, [bool; 4]);

fn check_case(
    begin: u64,
    events: &[Event],
    queries: &[AnyQuery],
    stores: &mut [CheckedStore<'_>],
) -> CaseResult {
    let now = UnixMillis(begin);
    let mut run = Run {
        stores,
        workers: Default::default(),
        merged: Merged::new(Labels::new(METHODS, OUTCOMES), now),
        now,
        pending: Vec::new(),
        merged_events: Vec::new(),
        written: Vec::new(),
    };
    for event in events {
        run.apply(event.clone());
    }
    run.flush(false);
    prop_assert_eq!(run.merged.dropped(), 0);
    let mut last_used: HashMap<KeyId, UnixMillis> = HashMap::new();
    for (at, key, ..) in &run.written {
        let last = last_used.entry(*key).or_default();
        *last = UnixMillis(*at).max(*last);
    }
    for store in run.stores.iter_mut() {
        prop_assert_eq!(&store.get().load().unwrap().last_used, &last_used);
    }
    for (resolution, from, length, more, of, [time, key_too, method, outcome]) in queries.iter() {
        let resolution = Resolution::ALL[*resolution];
        let period = resolution.period().as_millis() as u64;
        // Only what is kept, from any moment on.
        let from = resolution.oldest(run.now).0.max(begin - DAY) + from * period + more;
        let query = UsageQuery {
            of: match of {
                0 => UsageOf::All,
                1 => UsageOf::Tenant(tenant_of(key(0))),
                2 => UsageOf::Keys(vec![key(1), key(3), key(9)]),
                3 => UsageOf::Keys((0..40).map(key).collect()),
                4 => UsageOf::Chains(vec![key(1), key(3)]),
                _ => UsageOf::Keys(Vec::new()),
            },
            resolution,
            from: UnixMillis(from),
            to: match length {
                0 => UnixMillis(u64::MAX),
                _ => UnixMillis(from + length * period / 2),
            },
            by: GroupBy {
                time: *time,
                key: *key_too,
                method: *method,
                outcome: *outcome,
            },
            rows_max: 1_000_000,
        };
        let of_keys = KeyUseQuery {
            of: query.of.clone(),
            resolution,
            from: query.from,
            to: query.to,
        };
        let sums = expected_of_keys(&run.written, &query);
        let rows = expected(&run.written, &query);
        let answer = UsageAnswer {
            rows,
            is_truncated: false,
        };
        for store in run.stores.iter_mut() {
            let store = store.get();
            prop_assert_eq!(&key_use(store, &of_keys), &sums, "{:?}", query);
            prop_assert_eq!(&store.usage(&query).unwrap(), &answer, "{:?}", query);
            if answer.rows.len() > 1 {
                let few = UsageQuery {
                    rows_max: 1,
                    ..query.clone()
                };
                let rows = answer.rows[..1].to_vec();
                let first = UsageAnswer {
                    rows,
                    is_truncated: true,
                };
                prop_assert_eq!(&store.usage(&few).unwrap(), &first);
            }
        }
    }
    Ok(())
}

/// Checks that minutes, hours and days are each kept for as long as they say, and no longer, at
/// `now`, when a day begins.
pub fn sums_expire(store: &mut dyn TenantStore, now: UnixMillis) {
    let first = now.0 - 40 * DAY;
    for half_day in 0..80 {
        let cell = cell(first + half_day * DAY / 2, 1);
        store.add_usage(&[cell]).unwrap();
    }
    while store.expire(now).unwrap() {}
    for (resolution, expected) in [
        (Resolution::Minute, 4),
        (Resolution::Hour, 16),
        (Resolution::Day, 31),
    ] {
        let left = periods_left(store, resolution);
        assert_eq!(left.len(), expected, "{resolution:?}");
        assert_eq!(left[0], resolution.oldest(now).0);
    }
}

/// When the day of a time began.
#[must_use]
pub fn today(at: UnixMillis) -> UnixMillis {
    Resolution::Day.start(at)
}

/// One request of a key.
pub(in crate::store) fn cell(minute: u64, number: u64) -> UsageCell {
    UsageCell {
        minute: UnixMillis(minute),
        key: KeyId::of_configured(&number.to_string()),
        owner: None,
        method: "eth_call".into(),
        outcome: "ok".into(),
        last: UnixMillis(minute),
        used: Used {
            requests: 1,
            ..Used::default()
        },
    }
}

/// A question about all that any key has used.
#[must_use]
pub const fn all_usage(resolution: Resolution, by: GroupBy, rows_max: usize) -> UsageQuery {
    UsageQuery {
        of: UsageOf::All,
        resolution,
        from: UnixMillis(0),
        to: UnixMillis(u64::MAX),
        by,
        rows_max,
    }
}

/// When the periods begin that have usage.
pub(in crate::store) fn periods_left(
    store: &mut dyn TenantStore,
    resolution: Resolution,
) -> Vec<u64> {
    let by = GroupBy {
        time: true,
        ..GroupBy::default()
    };
    let query = all_usage(resolution, by, 1_000_000);
    let rows = store.usage(&query).unwrap().rows;
    rows.into_iter().filter_map(|row| Some(row.at?.0)).collect()
}
