#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use actix::Arbiter;
use nearhead_actors::{data_folder::DataRoot, head::Head};
use nearhead_tenants::{
    administration::{
        CreateKey, CreateTenant, GetKey, GetUsage, Identity, KeySort, LimitsPatch, ListKeys,
        NewKeyView, Patch, QuotaPatch, Requester, RevokeKey, SettingsPatch, TenantView, UpdateKey,
        UpdateTenant,
    },
    audit::{AuditPage, AuditQuery},
    command::Change,
    id::{KeyId, TenantId},
    store::{Commit, Loaded, MemoryStore, Refreshed, TenantStore},
    usage::{
        CELLS_MAX, KeyUse, KeyUseQuery, RequestUse, UsageAnswer, UsageCell, UsageCounts, UsageQuery,
    },
};
use parking_lot::Mutex;

use super::*;
use crate::{access::Now, tenants::NoAnswer};

/// A folder of this process and test, removed when the value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("nearhead-tenants-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A service with a store.
struct Served {
    access: Access,
    actor: Addr<TenantsActor>,
    state: StoreState,
    metrics: Metrics,
}

/// Serves the store in this folder, or one in memory.
async fn start(folder: Option<&Path>) -> Served {
    serve(match folder {
        None => crate::tenants::open(&DataRoot::Memory, None, &Head::default(), false).unwrap(),
        Some(folder) => OpenedStore::of_folder(folder).unwrap(),
    })
}

fn serve(opened: OpenedStore) -> Served {
    serve_with(opened, StoreState::default())
}

fn serve_with(opened: OpenedStore, state: StoreState) -> Served {
    let metrics = Metrics::new([]).unwrap();
    let setup = TenantsSetup {
        opened,
        configured: vec![ConfiguredKey::new("flag", "key by flag").unwrap()],
        methods: Vec::new(),
        limits: ServiceLimits::default(),
        desk: None,
        labels: Labels::new(["eth_chainId", "other"], ["ok", "denied"]),
        state: state.clone(),
        metrics: metrics.clone(),
        tenant_metrics: None,
    };
    let (access, actor) = TenantsActor::open(setup, &Arbiter::current()).unwrap();
    Served {
        access,
        actor,
        state,
        metrics,
    }
}

impl Served {
    async fn run<O>(&self, operation: O) -> Result<O::Answer, AdminError>
    where
        O: Operation<Answer: Send + 'static> + Clone + Send + 'static,
    {
        let request = Administer {
            operation,
            by: Requester::new(Identity::command_line(), None, now().unix),
        };
        self.actor.send(request).await.unwrap()
    }

    async fn create_tenant(&self, units_per_day: u64) -> TenantView {
        self.create_tenant_named("alice", units_per_day).await
    }

    async fn create_tenant_named(&self, name: &str, units_per_day: u64) -> TenantView {
        let create = CreateTenant {
            name: name.parse().unwrap(),
            limits: units(units_per_day),
        };
        self.run(create).await.unwrap()
    }

    async fn create_key(&self) -> NewKeyView {
        let create = CreateKey {
            tenant: "alice".parse().unwrap(),
            name: "backend".parse().unwrap(),
            expires: None,
            settings: SettingsPatch::default(),
        };
        self.run(create).await.unwrap()
    }

    /// Checks that a key has one unit of the day left.
    fn check_one_unit_left(&self, presented: &str) {
        let key = self.access.resolve(presented, now().unix).unwrap();
        assert_eq!(key.take(1, now()), Ok(()), "{presented}");
        assert!(key.take(1, now()).is_err(), "{presented}");
    }

    async fn limit(&self, tenant: TenantId, limits: LimitsPatch) {
        let update = UpdateTenant {
            id: tenant.into(),
            name: None,
            limits,
            if_version: None,
        };
        self.run(update).await.unwrap();
    }

    /// What a worker counts for one request of this many units.
    async fn use_units(&self, key: KeyId, units: u64) {
        let mut counts = UsageCounts::default();
        let request = RequestUse {
            method: 0,
            outcome: 0,
            units,
            bytes_in: 1,
            bytes_out: 2,
            took: Duration::ZERO,
        };
        counts.request(key, &request);
        self.actor.send(AddUsage(counts.take())).await.unwrap();
    }
}

fn units(per_day: u64) -> LimitsPatch {
    LimitsPatch {
        quota: QuotaPatch {
            units_per_day: Patch::of(NonZeroU64::new(per_day)),
            ..QuotaPatch::default()
        },
        ..LimitsPatch::default()
    }
}

/// The id of the key that the configuration names.
fn key_by_flag() -> KeyId {
    let key = ConfiguredKey::new("flag", "key by flag");
    key.unwrap().entry().id
}

fn now() -> Now {
    Now {
        instant: std::time::Instant::now(),
        unix: SystemTime::now().into(),
    }
}

#[actix::test]
async fn what_an_operation_does_is_in_force_when_it_is_answered() {
    let served = start(None).await;
    let Served { access, actor, .. } = &served;
    assert!(access.resolve("key by flag", now().unix).is_some());
    served.create_tenant(5).await;
    let made = served.create_key().await;
    let key = access.resolve(made.key.expose(), now().unix).unwrap();
    assert_eq!(&*key.tenant.name, "alice");
    served.run(RevokeKey { id: made.view.id }).await.unwrap();
    assert!(access.resolve(made.key.expose(), now().unix).is_none());

    actor.send(ReplaceConfigured(Vec::new())).await.unwrap();
    assert!(access.resolve("key by flag", now().unix).is_none());
}

#[actix::test]
async fn keys_and_units_of_the_day_outlive_the_process() {
    let folder = Folder::new("outlive");
    let made = {
        let served = start(Some(&folder.0)).await;
        served.create_tenant(10).await;
        let made = served.create_key().await;
        served.use_units(made.view.id, 9).await;
        served.create_tenant_named("flag", 10).await;
        served.use_units(key_by_flag(), 9).await;
        // The counts are written before this is answered.
        served.actor.send(StopTenants).await.unwrap();
        made
    };
    let served = start(Some(&folder.0)).await;
    for presented in [made.key.expose(), "key by flag"] {
        served.check_one_unit_left(presented);
    }
    served.actor.send(StopTenants).await.unwrap();
}

/// A tenant that gets its first quota of the day has used units before.
#[actix::test]
async fn a_new_quota_counts_what_was_used_before() {
    let folder = Folder::new("before");
    let served = start(Some(&folder.0)).await;
    let tenant = served.create_tenant(0).await;
    let made = served.create_key().await;
    let resolve = || {
        served
            .access
            .resolve(made.key.expose(), now().unix)
            .unwrap()
    };
    assert_eq!(resolve().take(u32::MAX, now()), Ok(()));
    served.use_units(made.view.id, 7).await;
    served.limit(tenant.id, units(8)).await;
    served.check_one_unit_left(made.key.expose());
    served.actor.send(StopTenants).await.unwrap();
}

/// So has a key that gets its first quota, and the tenant that is made for keys of its name.
#[actix::test]
async fn a_new_quota_of_a_key_or_a_made_tenant_counts_what_was_used_before() {
    let served = start(None).await;
    served.create_tenant(0).await;
    let made = served.create_key().await;
    served.use_units(made.view.id, 7).await;
    served.use_units(key_by_flag(), 7).await;
    let update = UpdateKey {
        id: made.view.id,
        name: None,
        expires: Patch::Keep,
        settings: SettingsPatch {
            quota: units(8).quota,
            ..SettingsPatch::default()
        },
        if_version: None,
    };
    served.run(update).await.unwrap();
    served.create_tenant_named("flag", 8).await;
    for presented in [made.key.expose(), "key by flag"] {
        served.check_one_unit_left(presented);
    }
}

/// Configured keys belong to a tenant, too.
#[actix::test]
async fn what_was_used_is_seen_at_once() {
    let served = start(None).await;
    let id = key_by_flag();
    assert_eq!(served.run(GetKey { id }).await.unwrap().last_used, None);
    served.use_units(id, 7).await;
    assert!(served.run(GetKey { id }).await.unwrap().last_used.is_some());
    // What is read may be a second old.
    let deadline = now().instant + Duration::from_secs(10);
    loop {
        let of_tenant = GetUsage {
            tenant: Some("flag".parse().unwrap()),
            ..GetUsage::default()
        };
        let usage = served.run(of_tenant).await.unwrap();
        if usage.rows.iter().any(|row| row.units == 7) {
            break;
        }
        assert!(now().instant < deadline, "{usage:?}");
        tokio::task::yield_now().await;
    }
}

/// A store of which some calls fail.
#[derive(Default)]
struct FailingStore {
    store: MemoryStore,
    /// Whether commits fail.
    fails: Arc<AtomicBool>,
    /// So many commits find that another process has written.
    conflicts: Arc<AtomicUsize>,
    /// Whether reads of usage fail.
    fails_usage: Arc<AtomicBool>,
    /// What is done at each read of usage.
    at_usage: Option<Box<dyn FnMut() + Send>>,
    /// What others have written.
    refreshed: Arc<Mutex<Refreshed>>,
}

impl FailingStore {
    fn open(self) -> OpenedStore {
        OpenedStore {
            store: Box::new(self),
            path: None,
            folder: None,
            is_shared: false,
        }
    }

    fn check(fails: &AtomicBool) -> Result<(), StoreError> {
        match fails.load(Ordering::Relaxed) {
            true => Err(StoreError::Full {
                path: "tenants.sqlite".into(),
            }),
            false => Ok(()),
        }
    }
}

impl TenantStore for FailingStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.store.load()
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError> {
        Self::check(&self.fails)?;
        let left = self.conflicts.load(Ordering::Relaxed);
        if left > 0 {
            self.conflicts.store(left - 1, Ordering::Relaxed);
            return Err(StoreError::Conflict);
        }
        self.store.commit(commit)
    }

    fn refresh(&mut self) -> Result<Refreshed, StoreError> {
        Ok(std::mem::take(&mut *self.refreshed.lock()))
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.store.audit(query)
    }

    fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        self.store.add_usage(cells)
    }

    fn usage(&mut self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        Self::check(&self.fails_usage)?;
        self.store.usage(query)
    }

    fn key_use(
        &mut self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        if let Some(at_usage) = &mut self.at_usage {
            at_usage();
        }
        Self::check(&self.fails_usage)?;
        self.store.key_use(query, each)
    }

    fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        self.store.expire(now)
    }
}

#[actix::test]
async fn a_failing_store_is_shown_until_it_works() {
    let store = FailingStore::default();
    let fails = Arc::clone(&store.fails);
    let served = serve(store.open());
    served.create_tenant(0).await;
    let shown = || {
        let metric = served.metrics.tenant_store_failing.get();
        (served.state.failure().map(|text| text.to_string()), metric)
    };
    assert_eq!(shown(), (None, 0));
    fails.store(true, Ordering::Relaxed);
    let create = CreateTenant {
        name: "bob".parse().unwrap(),
        limits: LimitsPatch::default(),
    };
    let refused = served.run(create.clone()).await.unwrap_err();
    assert_eq!(refused.code(), "store_failed");
    let message = "tenants.sqlite has no space to grow: free some on its disk".to_owned();
    assert_eq!(shown(), (Some(message.clone()), 1));
    // Others may still be read, and nothing was changed.
    assert!(served.run(GetUsage::default()).await.is_ok());
    assert_eq!(shown(), (Some(message), 1));
    fails.store(false, Ordering::Relaxed);
    served.run(create).await.unwrap();
    assert_eq!(shown(), (None, 0));
}

/// What other processes write at the same time is no failure: it is tried again, and whoever asks
/// is told to do so too if that goes on.
#[actix::test]
async fn a_change_is_tried_again_if_others_write() {
    let store = FailingStore::default();
    let conflicts = Arc::clone(&store.conflicts);
    let served = serve(store.open());
    conflicts.store(TRIES_MAX - 1, Ordering::Relaxed);
    served.create_tenant(0).await;
    assert_eq!(conflicts.load(Ordering::Relaxed), 0);
    conflicts.store(TRIES_MAX, Ordering::Relaxed);
    let create = CreateTenant {
        name: "bob".parse().unwrap(),
        limits: LimitsPatch::default(),
    };
    let refused = served.run(create.clone()).await.unwrap_err();
    assert_eq!(refused, AdminError::StoreBusy);
    assert_eq!(served.state.failure(), None);
    served.run(create).await.unwrap();
}

/// A process of a fleet starts although usage cannot be read at that moment.
#[actix::test]
async fn usage_is_no_condition_of_a_start() {
    let store = FailingStore::default();
    let fails = Arc::clone(&store.fails_usage);
    fails.store(true, Ordering::Relaxed);
    let served = serve(OpenedStore {
        is_shared: true,
        ..store.open()
    });
    served.create_tenant(0).await;
    fails.store(false, Ordering::Relaxed);
    served.run(GetUsage::default()).await.unwrap();
    assert_eq!(served.state.failure(), None);
}

/// A key that another process has revoked lets nobody in while what a new quota needs is read.
#[actix::test]
async fn a_revocation_does_not_wait_for_a_read_of_usage() {
    // What the other process does.
    let mut other = Administration::open(AdministrationSetup {
        store: Box::new(MemoryStore::default()),
        configured: Vec::new(),
        methods: Vec::new(),
    })
    .unwrap();
    let by = Requester::new(Identity::command_line(), None, now().unix);
    let create = CreateTenant {
        name: "alice".parse().unwrap(),
        limits: LimitsPatch::default(),
    };
    let tenant = create.run(&mut other, &by).unwrap().id;
    let create = CreateKey {
        tenant: "alice".parse().unwrap(),
        name: "backend".parse().unwrap(),
        expires: None,
        settings: SettingsPatch::default(),
    };
    let key = create.run(&mut other, &by).unwrap();
    let id = key.view.id;
    let written = |other: &Administration| Refreshed {
        directory: vec![
            Change::Tenant(Arc::clone(other.directory().tenant(tenant).unwrap())),
            Change::Key(Arc::clone(other.directory().key(id).unwrap())),
        ],
        ..Refreshed::default()
    };

    let (mut store, lets_in) = (FailingStore::default(), Arc::new(Mutex::new(Vec::new())));
    let refreshed = Arc::clone(&store.refreshed);
    let access = Arc::new(Mutex::new(None::<Access>));
    let (at_usage, seen, secret) = (access.clone(), lets_in.clone(), key.key.clone());
    store.at_usage = Some(Box::new(move || {
        if let Some(access) = &*at_usage.lock() {
            let resolved = access.resolve(secret.expose(), now().unix);
            seen.lock().push(resolved.is_some());
        }
    }));
    *refreshed.lock() = written(&other);
    let served = serve(OpenedStore {
        is_shared: true,
        ..store.open()
    });
    served.run(GetUsage::default()).await.unwrap();
    assert!(
        served
            .access
            .resolve(key.key.expose(), now().unix)
            .is_some()
    );

    RevokeKey { id }.run(&mut other, &by).unwrap();
    let update = UpdateTenant {
        id: tenant.into(),
        name: None,
        limits: units(9),
        if_version: None,
    };
    update.run(&mut other, &by).unwrap();
    *access.lock() = Some(served.access.clone());
    *refreshed.lock() = written(&other);
    served.run(GetUsage::default()).await.unwrap();
    let lets_in = lets_in.lock();
    assert!(!lets_in.is_empty() && lets_in.iter().all(|lets_in| !lets_in));
}

/// What is missing in usage is counted.
#[actix::test]
async fn usage_that_has_no_room_is_counted() {
    let served = start(None).await;
    let request = RequestUse {
        method: 0,
        outcome: 0,
        units: 1,
        bytes_in: 0,
        bytes_out: 0,
        took: Duration::ZERO,
    };
    let mut counts = UsageCounts::default();
    for number in 0..CELLS_MAX as u64 + 3 {
        counts.request(KeyId::of_bytes(number.to_be_bytes()), &request);
    }
    served.actor.send(AddUsage(counts.take())).await.unwrap();
    assert_eq!(served.metrics.usage_dropped.get(), 3);
}

/// Usage is written as a part of a change. That it could be does not show that the change could.
#[actix::test]
async fn a_failure_is_shown_until_the_whole_work_succeeds() {
    let state = StoreState::default();
    let shown = Arc::<Mutex<Vec<bool>>>::default();
    let (seen, of_store) = (Arc::clone(&shown), state.clone());
    let store = FailingStore {
        at_usage: Some(Box::new(move || seen.lock().push(of_store.hangs()))),
        ..FailingStore::default()
    };
    let served = serve_with(store.open(), state);
    let tenant = served.create_tenant(0).await;
    // It waits until what the start begins to read is read, which would show that the store works.
    let list = ListKeys {
        sort: KeySort::Requests24h,
        ..ListKeys::default()
    };
    served.run(list).await.unwrap();
    shown.lock().clear();
    let hangs = Some(StoreFailure::DiskHangs);
    served.state.show(hangs, &served.metrics);
    served.limit(tenant.id, units(8)).await;
    let shown = shown.lock().clone();
    assert!(
        !shown.is_empty() && shown.iter().all(|hangs| *hangs),
        "{shown:?}"
    );
    assert_eq!(served.state.failure(), None);
}

/// Whoever asks while the disk is known to hang does not wait.
#[actix::test]
async fn a_store_that_hangs_is_not_asked() {
    let Served {
        access,
        actor,
        state,
        metrics,
    } = start(None).await;
    state.show(Some(StoreFailure::DiskHangs), &metrics);
    let replace = || state.ask(&actor, ReplaceConfigured(Vec::new()));
    assert_eq!(replace().await, Err(NoAnswer::DiskHangs));
    assert!(access.resolve("key by flag", now().unix).is_some());
    state.show(None, &metrics);
    assert_eq!(replace().await, Ok(()));
    assert!(access.resolve("key by flag", now().unix).is_none());
}

/// What a list is sorted by is read again when the store works again, and not only after a while.
#[actix::test]
async fn a_list_by_usage_does_not_wait_long_after_a_failure() {
    let store = FailingStore::default();
    let fails = Arc::clone(&store.fails_usage);
    let served = serve(store.open());
    fails.store(true, Ordering::Relaxed);
    served.create_tenant(0).await;
    let list = ListKeys {
        sort: KeySort::Requests24h,
        ..ListKeys::default()
    };
    let refused = served.run(list.clone()).await.unwrap_err();
    assert_eq!(refused.code(), "store_failed");
    fails.store(false, Ordering::Relaxed);
    served.run(GetUsage::default()).await.unwrap();
    assert_eq!(served.state.failure(), None);
    let listed = tokio::time::timeout(Duration::from_secs(20), served.run(list)).await;
    assert!(listed.is_ok_and(|listed| listed.is_ok()));
}

/// Each operation is in force when it is answered, however many others wait.
#[actix::test]
async fn changes_at_once_are_in_force_one_by_one() {
    let served = start(None).await;
    served.create_tenant(0).await;
    let before = served.access.version();
    let asked: Vec<_> = (0..20)
        .map(|_| {
            let operation = CreateKey {
                tenant: "alice".parse().unwrap(),
                name: "backend".parse().unwrap(),
                expires: None,
                settings: SettingsPatch::default(),
            };
            let by = Requester::new(Identity::command_line(), None, now().unix);
            actix::spawn(served.actor.send(Administer { operation, by }))
        })
        .collect();
    for asked in asked {
        let made = asked.await.unwrap().unwrap().unwrap();
        let found = served.access.resolve(made.key.expose(), now().unix);
        assert_eq!(found.map(|key| key.record.id), Some(made.view.id));
    }
    assert_eq!(served.access.version(), before + 20);
    // What changes nothing leaves sessions their keys.
    served.run(GetUsage::default()).await.unwrap();
    assert_eq!(served.access.version(), before + 20);
}

/// What all keys used of late is read after the start; a revocation does not wait for it.
#[actix::test]
async fn a_list_by_usage_holds_nobody_up() {
    let served = start(None).await;
    served.create_tenant(0).await;
    let made = served.create_key().await;
    let by = || Requester::new(Identity::command_line(), None, now().unix);
    let list = ListKeys {
        sort: KeySort::Requests24h,
        descending: true,
        ..ListKeys::default()
    };
    let list = served.actor.send(Administer {
        operation: list,
        by: by(),
    });
    let revoke = served.actor.send(Administer {
        operation: RevokeKey { id: made.view.id },
        by: by(),
    });
    let (list, revoke) = (actix::spawn(list), actix::spawn(revoke));
    revoke.await.unwrap().unwrap().unwrap();
    let is_first = !list.is_finished();
    let keys = list.await.unwrap().unwrap().unwrap().keys;
    assert!(is_first);
    assert!(keys.iter().any(|key| key.id == made.view.id));
}
