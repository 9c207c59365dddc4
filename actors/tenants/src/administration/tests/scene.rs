//! What the tests administer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use crate::{
    UnixMillis,
    account::Role,
    administration::*,
    audit::{AuditPage, AuditQuery, Author},
    id::KeyId,
    password::PasswordHash,
    secret::KeyPrefix,
    store::{Commit, Loaded, MemoryStore, StoreError, TenantStore},
    usage::{KeyUse, KeyUseQuery, UsageAnswer, UsageCell, UsageOf, UsageQuery},
};

/// Argon2 is slow, and few tests verify a password.
pub(super) const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// When nothing else is said: some time on 2026-01-15, in the middle of an hour.
pub(super) const NOW: UnixMillis = UnixMillis(1_768_480_200_000);

/// A store that outlives its owner, and counts what is read of it.
#[derive(Clone, Default)]
pub(super) struct SharedStore {
    store: Arc<Mutex<MemoryStore>>,
    /// The keys of each query of usage; 0 for all.
    pub(super) usage_queries: Arc<Mutex<Vec<usize>>>,
    pub(super) fails: Arc<Mutex<bool>>,
    /// What another process has used.
    pub(super) used_elsewhere: Arc<Mutex<HashMap<KeyId, UnixMillis>>>,
}

impl SharedStore {
    fn call<T>(
        &self,
        call: impl FnOnce(&mut MemoryStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match *self.fails.lock().unwrap() {
            true => Err(StoreError::Full {
                path: "tenants.sqlite".into(),
            }),
            false => call(&mut self.store.lock().unwrap()),
        }
    }

    fn note_query(&self, of: &UsageOf) {
        let keys = match of {
            UsageOf::Keys(keys) => keys.len(),
            UsageOf::Chains(keys) => keys.len(),
            UsageOf::All | UsageOf::Tenant(_) => 0,
        };
        self.usage_queries.lock().unwrap().push(keys);
    }
}

impl TenantStore for SharedStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.call(|store| store.load())
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError> {
        self.call(|store| store.commit(commit))
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.call(|store| store.audit(query))
    }

    fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        self.call(|store| store.add_usage(cells))
    }

    fn usage(&mut self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        self.note_query(&query.of);
        self.call(|store| store.usage(query))
    }

    fn key_use(
        &mut self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        self.note_query(&query.of);
        self.call(|store| store.key_use(query, each))
    }

    fn used_lately(&mut self, _: UnixMillis) -> Result<HashMap<KeyId, UnixMillis>, StoreError> {
        Ok(self.used_elsewhere.lock().unwrap().clone())
    }

    fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        self.call(|store| store.expire(now))
    }
}

/// The tenants alice and bob with a key each, the administrator root, the holder ann of alice, and
/// the configured key of the tenant flag.
pub(super) struct Scene {
    pub(super) administration: Administration,
    pub(super) store: SharedStore,
    pub(super) alice: NewKeyView,
    pub(super) bob: NewKeyView,
    pub(super) flag: KeyId,
}

/// An administration of an empty store, with one configured key.
pub(super) fn open(store: &SharedStore) -> Administration {
    let configured = ConfiguredEntry {
        tenant: "flag".parse().unwrap(),
        id: KeyId::of_configured("flag"),
        prefix: KeyPrefix::of("a key of the configuration"),
    };
    let setup = AdministrationSetup {
        store: Box::new(store.clone()),
        configured: vec![configured],
        methods: vec!["eth_call".to_owned(), "eth_chainId".to_owned()],
    };
    Administration::open(setup).unwrap()
}

impl Scene {
    pub(super) fn new() -> Self {
        let store = SharedStore::default();
        let mut administration = open(&store);
        let claim = ClaimFirstAccount {
            name: "root".parse().unwrap(),
            password: hash(),
        };
        claim.run(&mut administration, &nobody()).unwrap();
        let [alice, bob] = ["alice", "bob"].map(|tenant| {
            let create = create_tenant(tenant);
            create.run(&mut administration, &admin()).unwrap();
            let create = create_key(tenant, "backend");
            create.run(&mut administration, &admin()).unwrap()
        });
        let role = Role::Holder(alice.view.tenant.id);
        let name = "ann".parse().unwrap();
        let made = administration.make_account(name, hash(), role, &admin());
        made.unwrap();
        Self {
            administration,
            store,
            alice,
            bob,
            flag: KeyId::of_configured("flag"),
        }
    }

    pub(super) fn run<O: Operation>(
        &mut self,
        operation: O,
        by: &Requester,
    ) -> Result<O::Answer, AdminError> {
        operation.run(&mut self.administration, by)
    }

    /// Runs it as the administrator.
    pub(super) fn done<O: Operation>(&mut self, operation: O) -> O::Answer {
        self.run(operation, &admin()).unwrap()
    }

    /// The holder of the tenant alice.
    pub(super) fn ann(&self) -> Requester {
        holder("ann", &self.alice)
    }

    /// The holder of the tenant bob.
    pub(super) fn ben(&self) -> Requester {
        holder("ben", &self.bob)
    }

    /// The verbs of the audit, the oldest first.
    pub(super) fn verbs(&mut self) -> Vec<String> {
        let list = ListAudit {
            limit: Some(AUDIT_LIST_MAX),
            ..ListAudit::default()
        };
        let entries = self.done(list).entries.into_iter().rev();
        entries.map(|entry| entry.verb).collect()
    }
}

pub(super) fn hash() -> PasswordHash {
    HASH.to_owned().try_into().unwrap()
}

pub(super) fn admin() -> Requester {
    Requester {
        author: Author::Account("root".parse().unwrap()),
        role: Some(Role::Admin),
        from: Some([192, 0, 2, 1].into()),
        now: NOW,
    }
}

fn holder(name: &str, of: &NewKeyView) -> Requester {
    Requester {
        author: Author::Account(name.parse().unwrap()),
        role: Some(Role::Holder(of.view.tenant.id)),
        from: Some([192, 0, 2, 2].into()),
        now: NOW,
    }
}

pub(super) fn nobody() -> Requester {
    Requester::new(Identity::nobody(), Some([192, 0, 2, 3].into()), NOW)
}

pub(super) fn command_line() -> Requester {
    Requester::new(Identity::command_line(), None, NOW)
}

pub(super) fn at(by: Requester, now: UnixMillis) -> Requester {
    Requester { now, ..by }
}

pub(super) fn create_tenant(name: &str) -> CreateTenant {
    CreateTenant {
        name: name.parse().unwrap(),
        limits: LimitsPatch::default(),
    }
}

pub(super) fn create_key(tenant: &str, name: &str) -> CreateKey {
    CreateKey {
        tenant: tenant.parse().unwrap(),
        name: name.parse().unwrap(),
        expires: None,
        settings: SettingsPatch::default(),
    }
}

pub(super) fn update_key(id: KeyId) -> UpdateKey {
    UpdateKey {
        id,
        name: None,
        expires: Patch::Keep,
        settings: SettingsPatch::default(),
        if_version: None,
    }
}

/// An operation as the admin API has it.
pub(super) fn of_json<O: serde::de::DeserializeOwned>(json: serde_json::Value) -> O {
    serde_json::from_value(json).unwrap()
}
