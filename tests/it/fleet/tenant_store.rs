//! The store of tenants that the processes of a fleet share does what every store does.

use std::{
    cell::Cell,
    collections::HashMap,
    time::{Duration, Instant, SystemTime},
};

use nearhead::tenants::open_fleet_store;
use nearhead_actors::fleet::{
    FleetStatus, SharedStore,
    store::{FleetRecords, RecordsCommit, StoreOptions},
};
use nearhead_fleet::{
    fleet_key::FleetKey,
    record::Record,
    record_set::{Manifest, RecordSet, SetChanges},
    scripts::Committed,
    usage::{USAGE_NUMBERS, UsagePeriod},
};
use nearhead_tenants::{
    UnixMillis,
    audit::{AuditPage, AuditQuery},
    command::{Change, Command},
    directory::Directory,
    id::{KeyId, TenantId},
    limits::TenantLimits,
    store::{
        Commit, Loaded, Refreshed, StoreError, TenantStore,
        checks::{
            CheckedStore,
            records::{
                pages_are_whole, stores_have_what_their_owner_has, the_same_change_twice_is_one,
            },
            usage::{all_usage, sums_agree, sums_expire, today},
        },
    },
    usage::{GroupBy, KeyUse, KeyUseQuery, Resolution, UsageAnswer, UsageCell, UsageQuery, Used},
};

use super::{redis::Redis, stage::SECRET};

const DAY: Duration = Duration::from_secs(86_400);

/// Opens stores in one Redis: each is one of a process that starts.
pub(super) struct FleetStores<'a> {
    redis: &'a Redis,
    prefix: String,
    /// Processes that were started.
    started: Cell<u32>,
}

impl<'a> FleetStores<'a> {
    /// Those of a fleet of this prefix.
    pub(super) const fn new(redis: &'a Redis, prefix: String) -> Self {
        Self {
            redis,
            prefix,
            started: Cell::new(0),
        }
    }

    /// The key of the fleet.
    pub(super) fn fleet_key(&self) -> FleetKey {
        FleetKey::new(SECRET.as_bytes(), self.prefix.as_bytes()).unwrap()
    }

    fn options(&self) -> StoreOptions {
        self.started.set(self.started.get() + 1);
        StoreOptions {
            urls: vec![self.redis.url().parse().unwrap()],
            sentinel: None,
            prefix: self.prefix.clone(),
            owner: format!("process-{}", self.started.get()),
        }
    }

    /// The store of a process that starts.
    pub(super) fn open(&self) -> Box<dyn TenantStore> {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<Box<dyn TenantStore>, StoreError> {
        open_fleet_store(&SharedStore {
            options: self.options(),
            key: self.fleet_key(),
            status: FleetStatus::default(),
        })
    }

    fn checked(&self) -> CheckedStore<'_> {
        CheckedStore::reopened(|| self.open())
    }
}

/// Two processes that count in turn. Who is asked has counted last or before: it has to know what
/// the other one counted.
struct TwoProcesses {
    all: [Box<dyn TenantStore>; 2],
    turn: usize,
}

impl TwoProcesses {
    fn next(&mut self) -> &mut dyn TenantStore {
        self.turn += 1;
        &mut *self.all[self.turn % 2]
    }
}

impl TenantStore for TwoProcesses {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.next().load()
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError> {
        let next = self.next();
        next.refresh()?;
        next.commit(commit)
    }

    fn refresh(&mut self) -> Result<Refreshed, StoreError> {
        self.next().refresh()
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.next().audit(query)
    }

    fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        self.next().add_usage(cells)
    }

    fn usage(&mut self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        self.next().usage(query)
    }

    fn key_use(
        &mut self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        self.next().key_use(query, each)
    }

    fn used_lately(&mut self, now: UnixMillis) -> Result<HashMap<KeyId, UnixMillis>, StoreError> {
        self.next().used_lately(now)
    }

    fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        self.next().expire(now)
    }
}

fn now() -> UnixMillis {
    SystemTime::now().into()
}

fn redis(name: &str) -> Redis {
    Redis::start_with(name, &[])
}

#[test]
fn it_has_what_its_owner_has() {
    let redis = redis("fleet-store-records");
    for seed in 0..2 {
        let stores = FleetStores::new(&redis, format!("records-{seed}"));
        stores_have_what_their_owner_has(&mut [stores.checked()], seed);
    }
    let stores = FleetStores::new(&redis, "twice".to_owned());
    the_same_change_twice_is_one(&mut stores.checked());
    let stores = FleetStores::new(&redis, "pages".to_owned());
    pages_are_whole(&mut *stores.open());
}

/// One process, and two that count in turn, agree with the events, also after restarts.
#[test]
fn its_usage_agrees_with_events() {
    let redis = redis("fleet-store-usage");
    // Some days ago: time goes on in a case, and periods that are far ahead of the clock are not
    // read.
    let begin = today(now().before(20 * DAY)).0 + 10 * 3_600_000 + 1_800_000;
    let case = Cell::new(0);
    sums_agree(begin, 12, |run| {
        case.set(case.get() + 1);
        let one = FleetStores::new(&redis, format!("one-{}", case.get()));
        let two = FleetStores::new(&redis, format!("two-{}", case.get()));
        let processes = CheckedStore::reopened(|| {
            Box::new(TwoProcesses {
                all: [two.open(), two.open()],
                turn: 0,
            })
        });
        run(&mut [one.checked(), processes])
    });
}

#[test]
fn its_usage_expires() {
    let redis = redis("fleet-store-expires");
    let stores = FleetStores::new(&redis, "expires".to_owned());
    let mut store = stores.open();
    sums_expire(&mut *store, today(now()));
    // A process whose clock is ahead removes nothing that is not over.
    let ahead = now().after(30 * DAY);
    while stores.open().expire(ahead).unwrap() {}
    let all = all_usage(Resolution::Minute, GroupBy::default(), 10);
    let rows = stores.open().usage(&all).unwrap().rows;
    assert!(rows[0].used.requests >= 2, "{rows:?}");
}

/// Hours and days that are many are not written each time. A process that ends writes them.
#[test]
fn a_process_that_ends_writes_what_is_left() {
    let redis = redis("fleet-store-ends");
    let stores = FleetStores::new(&redis, "ends".to_owned());
    let mut store = stores.open();
    let at = now();
    let cells: Vec<_> = (0..3_000_u64)
        .map(|number| UsageCell {
            minute: at,
            key: KeyId::of_bytes(number.to_be_bytes()),
            owner: None,
            method: "eth_call".into(),
            outcome: "ok".into(),
            last: at,
            used: Used {
                requests: 1,
                ..Used::default()
            },
        })
        .collect();
    store.add_usage(&cells).unwrap();
    let mut other = stores.open();
    let mut shown = |resolution| {
        let query = all_usage(resolution, GroupBy::default(), 10);
        let rows = other.usage(&query).unwrap().rows;
        rows.iter().map(|row| row.used.requests).sum::<u64>()
    };
    assert_eq!(Resolution::ALL.map(&mut shown), [3_000, 0, 0]);
    drop(store);
    assert_eq!(Resolution::ALL.map(shown), [3_000; 3]);
}

/// What the package of the protocol says of periods and numbers is what the package of tenants has.
#[test]
fn periods_are_those_of_every_store() {
    assert_eq!(USAGE_NUMBERS, Used::NUMBERS);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
    for (period, resolution) in UsagePeriod::ALL.into_iter().zip(Resolution::ALL) {
        assert_eq!(period.millis(), millis(resolution.period()));
        assert_eq!(period.kept_millis(), millis(resolution.kept()));
    }
}

/// Another process learns when a key was last used, while it runs and when it starts.
#[test]
fn every_process_knows_when_a_key_was_last_used() {
    let redis = redis("fleet-store-last-used");
    let stores = FleetStores::new(&redis, "last-used".to_owned());
    let (mut one, mut other) = (stores.open(), stores.open());
    let key = KeyId::of_configured("key");
    let at = now();
    let cell = |last: UnixMillis| UsageCell {
        minute: last,
        key,
        owner: None,
        method: "eth_call".into(),
        outcome: "ok".into(),
        last,
        used: Used::default(),
    };
    // The first look reads all that is kept, the next ones what is new.
    let minute = Duration::from_secs(60);
    for last in [at.before(90 * DAY), at, at.after(minute)] {
        one.add_usage(&[cell(last)]).unwrap();
        let lately = other.used_lately(last).unwrap();
        assert_eq!(lately, HashMap::from([(key, last)]));
        assert_eq!(stores.open().load().unwrap().last_used, lately);
    }
    let later = at.after(10 * minute);
    assert_eq!(
        other.used_lately(later).unwrap(),
        HashMap::from([(key, at.after(minute))])
    );
    assert_eq!(other.used_lately(later).unwrap(), HashMap::new());
}

/// Writes one record as a process of a newer version does: or removes it, if there is no payload.
fn write_as_newer(stores: &FleetStores<'_>, name: &str, payload: Option<&'static [u8]>) {
    let key = stores.fleet_key();
    let records = FleetRecords::open(&stores.options()).unwrap();
    let page = records.page(0).unwrap();
    assert_eq!(page.next, None, "there are few records");
    let opened = |name: &str, bytes: &[u8]| {
        let (record, digest) = Record::open(name, bytes, &key).unwrap();
        (name.to_owned(), Some((record.revision, digest)))
    };
    let known: SetChanges = page
        .records
        .iter()
        .map(|(name, bytes)| opened(name, bytes))
        .collect();
    let mut set = RecordSet::default();
    let manifest = Manifest::open(&page.manifest, &key).unwrap();
    set.make(known, manifest).unwrap();
    let revision = manifest.revision + 1;
    let bytes = payload.map(|payload| {
        let record = Record {
            name: name.to_owned(),
            revision,
            payload: payload.into(),
        };
        record.seal(&key).unwrap()
    });
    let change = match &bytes {
        Some(bytes) => opened(name, bytes),
        None => (name.to_owned(), None),
    };
    let after = set
        .after(&SetChanges::from([change]), revision, manifest.audit)
        .unwrap();
    let commit = RecordsCommit {
        known: page.manifest,
        manifest: after.seal(&key).unwrap(),
        revision,
        records: vec![(name.to_owned(), bytes.unwrap_or_default())],
        ..RecordsCommit::default()
    };
    let written = Committed::Written {
        audit_begun_again: false,
    };
    assert_eq!(records.commit(commit), Ok(written));
}

/// The change that makes a tenant.
fn new_tenant(name: &str) -> Vec<Change> {
    let command = Command::CreateTenant {
        id: TenantId::of_configured(name),
        name: name.parse().unwrap(),
        limits: TenantLimits::default(),
    };
    Directory::default().plan(command, now()).unwrap()
}

/// A process of this version goes on with what it knows, and never writes that over what a newer
/// one has written, however long it waits.
#[test]
fn records_of_a_newer_version_are_not_written_over() {
    /// Longer than it waits before it puts back what others have spoiled.
    const WAIT: Duration = Duration::from_secs(3);

    let redis = redis("fleet-store-newer");
    for (name, payload) in [
        ("robot:1", &br#"{"arms":2}"#[..]),
        (
            "tenant:0123456789abcdef",
            br#"{"form":"of a newer version"}"#,
        ),
    ] {
        let stores = FleetStores::new(&redis, format!("newer-{}", name.len()));
        let mut store = stores.open();
        let (alice, bob) = (new_tenant("alice"), new_tenant("bob"));
        let make = |directory| Commit {
            directory,
            ..Commit::default()
        };
        store.commit(&make(&alice)).unwrap();
        let known = store.load().unwrap().directory;
        write_as_newer(&stores, name, Some(payload));
        let written = || {
            let records = FleetRecords::open(&stores.options()).unwrap();
            let page = records.page(0).unwrap();
            (page.manifest, page.records)
        };
        let before = written();
        let since = Instant::now();
        while since.elapsed() < WAIT {
            assert_eq!(store.refresh(), Err(StoreError::NewerRecords), "{name}");
            std::thread::yield_now();
        }
        assert_eq!(store.commit(&make(&bob)), Err(StoreError::NewerRecords));
        assert_eq!(written(), before, "{name}");
        assert_eq!(store.load().unwrap().directory, known);
        // One that starts knows nothing that it could serve.
        let opened = stores.try_open().map(|_| ());
        assert_eq!(opened, Err(StoreError::NewerRecords), "{name}");
        // When the newer version has left, this one goes on.
        write_as_newer(&stores, name, None);
        store.refresh().unwrap();
        store.commit(&make(&bob)).unwrap();
        assert_eq!(stores.open().load().unwrap().directory.tenants().len(), 2);
    }
}
