//! Random operations against a model of plain maps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::scene::*;
use crate::{
    UnixMillis,
    account::Role,
    administration::*,
    audit::Author,
    id::{KeyId, TenantId},
    record::KeyState,
};

/// Something that somebody tries. Small numbers stand for names, so that they meet.
#[derive(Clone, Debug)]
enum Step {
    CreateTenant(u8),
    RenameTenant(u8, u8),
    RemoveTenant(u8),
    CreateKey {
        tenant: u8,
        name: u8,
        lives: Option<u64>,
    },
    UpdateKey {
        key: usize,
        name: Option<u8>,
        lives: Patch<u64>,
        units: Patch<u64>,
    },
    RotateKey {
        key: usize,
        overlap: u32,
    },
    RevokeKey(usize),
    RemoveKey(usize),
    CreateAccount {
        name: u8,
        holder_of: Option<u8>,
    },
    RemoveAccount(u8),
    Wait(u64),
    /// What is over is removed.
    Expire,
    /// The process ends, and the store is opened again.
    Restart,
}

/// Who tries it: the administrator, the holder of a tenant, or nobody.
#[derive(Clone, Copy, Debug)]
enum Who {
    Admin,
    Holder(u8),
    Nobody,
}

fn steps() -> impl Strategy<Value = Vec<(Step, Who)>> {
    let name = || 0..4_u8;
    let key = || 0..8_usize;
    let lives = || 0..300_u64;
    let patch = || {
        prop_oneof![
            Just(Patch::Keep),
            Just(Patch::Remove),
            lives().prop_map(Patch::Set)
        ]
    };
    let step = prop_oneof![
        3 => name().prop_map(Step::CreateTenant),
        1 => (name(), name()).prop_map(|(from, to)| Step::RenameTenant(from, to)),
        1 => name().prop_map(Step::RemoveTenant),
        5 => (name(), name(), proptest::option::of(lives()))
            .prop_map(|(tenant, name, lives)| Step::CreateKey { tenant, name, lives }),
        3 => (key(), proptest::option::of(name()), patch(), patch())
            .prop_map(|(key, name, lives, units)| Step::UpdateKey { key, name, lives, units }),
        4 => (key(), 0..4_u32).prop_map(|(key, overlap)| Step::RotateKey { key, overlap }),
        2 => key().prop_map(Step::RevokeKey),
        2 => key().prop_map(Step::RemoveKey),
        2 => (name(), proptest::option::of(name()))
            .prop_map(|(name, holder_of)| Step::CreateAccount { name, holder_of }),
        1 => name().prop_map(Step::RemoveAccount),
        2 => (0..200_u64).prop_map(Step::Wait),
        1 => (0..40_u64).prop_map(|days| Step::Wait(days * 86_400)),
        1 => Just(Step::Expire),
        1 => Just(Step::Restart),
    ];
    let who = prop_oneof![
        6 => Just(Who::Admin),
        2 => name().prop_map(Who::Holder),
        1 => Just(Who::Nobody),
    ];
    proptest::collection::vec((step, who), 1..30)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelKey {
    tenant: TenantId,
    name: String,
    created: UnixMillis,
    expires: Option<UnixMillis>,
    revoked: Option<UnixMillis>,
    replaced_by: Option<KeyId>,
    chain: KeyId,
    units_per_day: Option<u64>,
}

impl ModelKey {
    fn state(&self, now: UnixMillis) -> KeyState {
        match (self.revoked, self.expires) {
            (Some(_), _) => KeyState::Revoked,
            (None, Some(expires)) if expires <= now => KeyState::Expired,
            _ => KeyState::Active,
        }
    }
}

/// What there should be.
#[derive(Default)]
struct Model {
    now: UnixMillis,
    tenants: BTreeMap<String, TenantId>,
    /// The tenants of names that were removed: their holders try on.
    gone: BTreeMap<String, TenantId>,
    keys: BTreeMap<KeyId, ModelKey>,
    /// All keys that there ever were, in the order of their creation.
    made: Vec<KeyId>,
    accounts: BTreeMap<String, Option<TenantId>>,
    /// Entries of the audit.
    entries: usize,
    /// When keys were last looked for that are no longer kept.
    checked: u64,
}

type Outcome = Result<(), &'static str>;

fn text(name: u8) -> String {
    format!("Name {name}")
}

fn code<T>(answer: Result<T, AdminError>) -> Result<T, &'static str> {
    answer.map_err(|error| error.code())
}

impl Model {
    fn requester(&self, who: Who) -> Requester {
        let role = match who {
            Who::Admin => Some(Role::Admin),
            Who::Holder(name) => {
                let name = text(name);
                let tenant = self.tenants.get(&name).or(self.gone.get(&name));
                tenant.map(|tenant| Role::Holder(*tenant))
            }
            Who::Nobody => None,
        };
        Requester {
            author: Author::CommandLine,
            role,
            from: None,
            now: self.now,
        }
    }

    fn check_admin(by: &Requester) -> Outcome {
        match by.role {
            Some(Role::Admin) => Ok(()),
            Some(Role::Holder(_)) => Err("not_allowed"),
            None => Err("not_logged_in"),
        }
    }

    fn tenant(&self, name: u8) -> Result<TenantId, &'static str> {
        self.tenants
            .get(&text(name))
            .copied()
            .ok_or("unknown_tenant")
    }

    /// The key of a number, and whether the one who asks may see it.
    fn key(&self, number: usize, by: &Requester) -> Result<(KeyId, ModelKey), &'static str> {
        let id = self
            .made
            .get(number)
            .copied()
            .unwrap_or(KeyId::of_bytes([9; 8]));
        let key = self.keys.get(&id).cloned().ok_or("unknown_key")?;
        match by.role {
            Some(Role::Holder(own)) if own != key.tenant => Err("unknown_key"),
            _ => Ok((id, key)),
        }
    }

    fn id(&self, number: usize) -> KeyId {
        self.made
            .get(number)
            .copied()
            .unwrap_or(KeyId::of_bytes([9; 8]))
    }

    /// Does a step in both, and compares what is answered.
    fn step(&mut self, administration: &mut Administration, step: &Step, who: Who) {
        let by = self.requester(who);
        let (expected, found) = match step.clone() {
            Step::Wait(seconds) => {
                self.now = UnixMillis(self.now.0 + seconds * 1_000);
                return;
            }
            Step::Restart => return,
            Step::Expire => {
                administration.expire(self.now).unwrap();
                return self.expire();
            }
            Step::CreateTenant(_) | Step::RenameTenant(..) | Step::RemoveTenant(_) => {
                self.step_of_tenants(administration, step, &by)
            }
            Step::CreateAccount { .. } | Step::RemoveAccount(_) => {
                self.step_of_accounts(administration, step, &by)
            }
            _ => self.step_of_keys(administration, step, &by),
        };
        assert_eq!(found, expected, "{step:?} by {who:?}");
        self.entries += usize::from(found.is_ok());
    }

    /// Removes keys that have been over for 30 days, and looks for them once an hour.
    fn expire(&mut self) {
        let now = self.now.0;
        if now < self.checked + 3_600_000 {
            return;
        }
        self.checked = now;
        let before = self.keys.len();
        self.keys.retain(|_, key| {
            let expired = key.expires.filter(|expires| expires.0 <= now);
            let over = key.revoked.into_iter().chain(expired).min();
            over.is_none_or(|over| over.0 + 30 * 86_400_000 > now)
        });
        self.entries += before - self.keys.len();
        self.unlink();
    }

    /// Forgets successors that were removed.
    fn unlink(&mut self) {
        let ids: Vec<_> = self.keys.keys().copied().collect();
        for key in self.keys.values_mut() {
            key.replaced_by = key.replaced_by.filter(|id| ids.contains(id));
        }
    }

    fn step_of_tenants(
        &mut self,
        administration: &mut Administration,
        step: &Step,
        by: &Requester,
    ) -> (Outcome, Outcome) {
        let reference = |name| text(name).parse::<TenantRef>().unwrap();
        let is_admin = Self::check_admin(by);
        match step.clone() {
            Step::CreateTenant(name) => {
                let is_taken = self.tenants.contains_key(&text(name));
                let expected = is_admin.and(if is_taken { Err("name_taken") } else { Ok(()) });
                let found = code(create_tenant(&text(name)).run(administration, by));
                if let Ok(view) = &found {
                    self.tenants.insert(text(name), view.id);
                }
                (expected, found.map(|_| ()))
            }
            Step::RenameTenant(from, to) => {
                let id = self.tenant(from);
                let is_taken = from != to && self.tenants.contains_key(&text(to));
                let expected = is_admin.and(id.map(|_| ()));
                let expected = expected.and(if is_taken { Err("name_taken") } else { Ok(()) });
                let update = UpdateTenant {
                    id: reference(from),
                    if_version: None,
                    name: Some(text(to).parse().unwrap()),
                    limits: LimitsPatch::default(),
                };
                let found = code(update.run(administration, by)).map(|_| ());
                if let (Ok(()), Ok(id)) = (expected, id) {
                    // What changes nothing has no entry.
                    self.entries -= usize::from(from == to);
                    self.tenants.remove(&text(from));
                    self.tenants.insert(text(to), id);
                }
                (expected, found)
            }
            Step::RemoveTenant(name) => {
                let id = self.tenant(name);
                let expected = is_admin.and(id.map(|_| ()));
                let remove = RemoveTenant {
                    id: reference(name),
                };
                let found = code(remove.run(administration, by));
                if let (Ok(()), Ok(id)) = (expected, id) {
                    self.tenants.remove(&text(name));
                    self.gone.insert(text(name), id);
                    self.keys.retain(|_, key| key.tenant != id);
                    self.accounts.retain(|_, holder_of| *holder_of != Some(id));
                }
                (expected, found)
            }
            other => unreachable!("{other:?} is of no tenant"),
        }
    }

    fn step_of_keys(
        &mut self,
        administration: &mut Administration,
        step: &Step,
        by: &Requester,
    ) -> (Outcome, Outcome) {
        let is_admin = Self::check_admin(by);
        let now = self.now;
        let later = |seconds: u64| UnixMillis(now.0 + seconds * 1_000);
        match step.clone() {
            Step::CreateKey {
                tenant,
                name,
                lives,
            } => {
                let of = self.tenant(tenant);
                let is_over = lives == Some(0);
                let expected = is_admin.and(of.map(|_| ()));
                let expected = expected.and(if is_over { Err("invalid") } else { Ok(()) });
                let create = CreateKey {
                    expires: lives.map(later),
                    ..create_key(&text(tenant), &text(name))
                };
                let found = code(create.run(administration, by));
                if let (Ok(view), Ok(tenant)) = (&found, of) {
                    let key = ModelKey {
                        tenant,
                        name: text(name),
                        created: now,
                        expires: lives.map(later),
                        revoked: None,
                        replaced_by: None,
                        chain: view.view.id,
                        units_per_day: None,
                    };
                    self.made.push(view.view.id);
                    self.keys.insert(view.view.id, key);
                }
                (expected, found.map(|_| ()))
            }
            Step::UpdateKey {
                key: number,
                name,
                lives,
                units,
            } => {
                let key = self.key(number, by);
                let units = match units {
                    Patch::Set(units) => Patch::Set(units + 1),
                    other => other,
                };
                let expected = is_admin.and(key.clone().and_then(|(_, key)| match key.revoked {
                    Some(_) => Err("revoked"),
                    None => Ok(()),
                }));
                let update = UpdateKey {
                    name: name.map(|name| text(name).parse().unwrap()),
                    expires: match lives {
                        Patch::Keep => Patch::Keep,
                        Patch::Remove => Patch::Remove,
                        Patch::Set(seconds) => Patch::Set(later(seconds)),
                    },
                    settings: SettingsPatch {
                        quota: QuotaPatch {
                            units_per_day: match units {
                                Patch::Keep => Patch::Keep,
                                Patch::Remove => Patch::Remove,
                                Patch::Set(units) => Patch::of(units.try_into().ok()),
                            },
                            ..QuotaPatch::default()
                        },
                        ..SettingsPatch::default()
                    },
                    ..update_key(self.id(number))
                };
                let found = code(update.run(administration, by)).map(|_| ());
                if let (Ok(()), Ok((id, mut key))) = (expected, key) {
                    let before = self.keys.clone();
                    key.units_per_day = match units {
                        Patch::Keep => key.units_per_day,
                        Patch::Remove => None,
                        Patch::Set(units) => Some(units),
                    };
                    // The keys of a chain have one quota, but for revoked ones.
                    let chain = self
                        .keys
                        .values_mut()
                        .filter(|other| other.chain == key.chain);
                    for other in chain.filter(|other| other.revoked.is_none()) {
                        other.units_per_day = key.units_per_day;
                    }
                    key.name = name.map_or(key.name, text);
                    key.expires = match lives {
                        Patch::Keep => key.expires,
                        Patch::Remove => None,
                        Patch::Set(seconds) => Some(later(seconds)),
                    };
                    self.keys.insert(id, key);
                    // An entry for each key that changed, and one was counted already.
                    let changed = self
                        .keys
                        .iter()
                        .filter(|(id, key)| before.get(id) != Some(key));
                    self.entries = self.entries + changed.count() - 1;
                }
                (expected, found)
            }
            Step::RotateKey {
                key: number,
                overlap,
            } => {
                let key = match by.role {
                    None => Err("not_logged_in"),
                    Some(_) => self.key(number, by),
                };
                let expected = key.clone().and_then(|(_, key)| match key.state(now) {
                    KeyState::Revoked => Err("revoked"),
                    _ if key.replaced_by.is_some() => Err("rotated"),
                    KeyState::Expired => Err("expired"),
                    KeyState::Active => {
                        let own = self.keys.values().filter(|other| other.chain == key.chain);
                        match own
                            .filter(|other| other.state(now) == KeyState::Active)
                            .count()
                        {
                            1 => Ok(()),
                            _ => Err("overlap"),
                        }
                    }
                });
                let overlap = Span::minutes(overlap);
                let rotate = RotateKey {
                    id: self.id(number),
                    overlap: Some(overlap),
                };
                let found = code(rotate.run(administration, by));
                if let (Ok(view), Ok((id, mut old))) = (&found, key) {
                    let new = ModelKey {
                        created: now,
                        ..old.clone()
                    };
                    let ends = now.after(overlap.duration());
                    old.expires = Some(old.expires.map_or(ends, |expires| expires.min(ends)));
                    old.replaced_by = Some(view.view.id);
                    self.keys.insert(id, old);
                    self.keys.insert(view.view.id, new);
                    self.made.push(view.view.id);
                }
                (expected, found.map(|_| ()))
            }
            Step::RevokeKey(number) => {
                let key = self.key(number, by);
                let expected = is_admin.and(key.clone().map(|_| ()));
                let revoke = RevokeKey {
                    id: self.id(number),
                };
                let found = code(revoke.run(administration, by)).map(|_| ());
                if let (Ok(()), Ok((id, mut key))) = (expected, key) {
                    self.entries -= usize::from(key.revoked.is_some());
                    key.revoked.get_or_insert(now);
                    self.keys.insert(id, key);
                }
                (expected, found)
            }
            Step::RemoveKey(number) => {
                let key = self.key(number, by);
                let expected =
                    is_admin.and(key.clone().and_then(|(_, key)| match key.state(now) {
                        KeyState::Active => Err("active"),
                        KeyState::Expired | KeyState::Revoked => Ok(()),
                    }));
                let id = self.id(number);
                let found = code(RemoveKey { id }.run(administration, by));
                if expected.is_ok() {
                    self.keys.remove(&id);
                    self.unlink();
                }
                (expected, found)
            }
            other => unreachable!("{other:?} is of no key"),
        }
    }

    fn step_of_accounts(
        &mut self,
        administration: &mut Administration,
        step: &Step,
        by: &Requester,
    ) -> (Outcome, Outcome) {
        let is_admin = Self::check_admin(by);
        match step.clone() {
            Step::CreateAccount { name, holder_of } => {
                let tenant = holder_of.map(|tenant| self.tenant(tenant)).transpose();
                let is_taken = self.accounts.contains_key(&text(name));
                let expected = is_admin.and(tenant.map(|_| ()));
                let expected = expected.and(if is_taken { Err("name_taken") } else { Ok(()) });
                let create = PreparedAccount {
                    name: text(name).parse().unwrap(),
                    password: hash(),
                    role: match holder_of {
                        Some(_) => RoleName::Holder,
                        None => RoleName::Admin,
                    },
                    tenant: holder_of.map(|tenant| text(tenant).parse().unwrap()),
                };
                let found = code(create.run(administration, by)).map(|_| ());
                if let (Ok(()), Ok(tenant)) = (expected, tenant) {
                    self.accounts.insert(text(name), tenant);
                }
                (expected, found)
            }
            Step::RemoveAccount(name) => {
                let admins = self.accounts.values().filter(|of| of.is_none()).count();
                let expected = is_admin.and(match self.accounts.get(&text(name)) {
                    None => Err("unknown_account"),
                    Some(None) if admins == 1 => Err("last_administrator"),
                    Some(_) => Ok(()),
                });
                let name_of = text(name).parse().unwrap();
                let found = code(RemoveAccount { name: name_of }.run(administration, by));
                if expected.is_ok() {
                    self.accounts.remove(&text(name));
                }
                (expected, found)
            }
            other => unreachable!("{other:?} is of no account"),
        }
    }

    /// Compares everything that the administrator sees.
    fn check(&self, administration: &mut Administration) {
        let by = self.requester(Who::Admin);
        let tenants = ListTenants::default().run(administration, &by).unwrap();
        let tenants = tenants.tenants.into_iter().map(|tenant| {
            let KeyCounts {
                active,
                expired,
                revoked,
            } = tenant.keys;
            (
                tenant.name.to_string(),
                (tenant.id, [active, expired, revoked]),
            )
        });
        let expected = self.tenants.iter().map(|(name, id)| {
            let states = [KeyState::Active, KeyState::Expired, KeyState::Revoked];
            let count = |state| {
                let own = self.keys.values().filter(|key| key.tenant == *id);
                own.filter(|key| key.state(self.now) == state).count()
            };
            (name.clone(), (*id, states.map(count)))
        });
        assert_eq!(tenants.collect::<BTreeMap<_, _>>(), expected.collect());
        self.check_keys(administration, &by);
        let accounts = ListAccounts {}.run(administration, &by).unwrap().accounts;
        let accounts = accounts
            .into_iter()
            .map(|account| (account.name.to_string(), account.tenant.map(|of| of.id)));
        assert_eq!(accounts.collect::<BTreeMap<_, _>>(), self.accounts);
        let audit = ListAudit {
            limit: Some(AUDIT_LIST_MAX),
            ..ListAudit::default()
        };
        let entries = audit.run(administration, &by).unwrap().entries;
        assert_eq!(entries.len(), self.entries);
    }

    fn check_keys(&self, administration: &mut Administration, by: &Requester) {
        let list = ListKeys {
            sort: KeySort::Created,
            ..ListKeys::default()
        };
        let found = list.run(administration, by).unwrap();
        assert_eq!(found.total, self.keys.len());
        let mut order: Vec<_> = self.keys.iter().collect();
        order.sort_by_key(|(id, key)| (key.created, key.name.to_lowercase(), **id));
        let order: Vec<_> = order.into_iter().map(|(id, _)| *id).collect();
        let ids: Vec<_> = found.keys.iter().map(|key| key.id).collect();
        assert_eq!(ids, order);
        for view in found.keys {
            let key = ModelKey {
                tenant: view.tenant.id,
                name: view.name.to_string(),
                created: view.created.unwrap(),
                expires: view.expires,
                revoked: view.revoked,
                replaced_by: view.replaced_by,
                chain: administration.directory().key(view.id).unwrap().chain(),
                units_per_day: view.settings.quota.units_per_day.map(Into::into),
            };
            assert_eq!(Some(&key), self.keys.get(&view.id));
            assert_eq!(view.state, key.state(self.now));
            let name = view.tenant.name.to_string();
            assert_eq!(self.tenants.get(&name), Some(&view.tenant.id));
        }
    }
}

fn open_without_configuration(store: &SharedStore) -> Administration {
    let setup = AdministrationSetup {
        store: Box::new(store.clone()),
        configured: Vec::new(),
        methods: Vec::new(),
    };
    Administration::open(setup).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn operations_do_what_the_model_does(steps in steps()) {
        let store = SharedStore::default();
        let mut administration = open_without_configuration(&store);
        let mut model = Model { now: NOW, ..Model::default() };
        // Half of the lists follow changes, the others are made when they are asked for.
        if steps.len() % 2 == 0 {
            administration.rows();
        }
        for (step, who) in &steps {
            match step {
                Step::Restart => {
                    administration = open_without_configuration(&store);
                    model.checked = 0;
                }
                _ => model.step(&mut administration, step, *who),
            }
        }
        model.check(&mut administration);
        model.check(&mut open_without_configuration(&store));
    }
}
