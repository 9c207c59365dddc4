#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, num::NonZeroU32};

use nearhead_tenants::{
    command::{Command, NewKey},
    limits::{Quota, Rate},
    name::Name,
    record::KeySettings,
    secret::KeyPrefix,
};
use proptest::prelude::*;

use super::*;
use crate::access::{
    LocalOnly,
    issuer::Issuer,
    meter::Meter,
    scene::{NOW, Scene, configured, limits},
};

/// Tenants, names and secrets are few, so that steps meet each other.
const TENANTS: u8 = 5;
const NAMES: u8 = 4;
const SECRETS: u8 = 12;

#[derive(Clone, Debug)]
enum Step {
    Tenant {
        id: u8,
        name: u8,
        quota: u8,
    },
    RemoveTenant(u8),
    Key {
        secret: u8,
        tenant: u8,
        settings: u8,
    },
    Rotate {
        old: u8,
        new: u8,
    },
    Revoke(u8),
    /// The configuration names these tenants, each with a key.
    Configure(Vec<(u8, u8, bool)>),
    /// What every tenant may do.
    Serve {
        quota: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let configured = prop::collection::vec((0..NAMES, 0..SECRETS, any::<bool>()), 0..4);
    let step = prop_oneof![
        6 => (0..TENANTS, 0..NAMES, 0..3_u8)
            .prop_map(|(id, name, quota)| Step::Tenant { id, name, quota }),
        1 => (0..TENANTS).prop_map(Step::RemoveTenant),
        8 => (0..SECRETS, 0..TENANTS, 0..8_u8)
            .prop_map(|(secret, tenant, settings)| Step::Key { secret, tenant, settings }),
        2 => (0..SECRETS, 0..SECRETS).prop_map(|(old, new)| Step::Rotate { old, new }),
        2 => (0..SECRETS).prop_map(Step::Revoke),
        2 => configured.prop_map(Step::Configure),
        1 => (0..3_u8).prop_map(|quota| Step::Serve { quota }),
    ];
    prop::collection::vec(step, 0..60)
}

/// Some ids are those of configured tenants.
fn tenant_id(number: u8) -> TenantId {
    match number < NAMES / 2 {
        true => TenantId::of_configured(name(number).as_str()),
        false => TenantId::from([number; 8]),
    }
}

fn name(number: u8) -> Name {
    format!("name {number}").parse().unwrap()
}

fn secret(number: u8) -> String {
    format!("secret {number}")
}

/// A stored key never has the id of a configured one.
fn key_id(number: u8) -> KeyId {
    KeyId::from([number; 8])
}

fn quota(number: u8) -> Quota {
    Quota {
        requests: NonZeroU32::new(number.into()).map(Rate::of_one_second),
        ..Quota::default()
    }
}

fn settings(number: u8, issuer: &Issuer) -> KeySettings {
    let public_keys = match number {
        // To read them takes long, so few have them.
        7.. => vec![issuer.public_key()],
        _ => Vec::new(),
    };
    KeySettings {
        quota: quota(number % 3),
        public_keys,
        ..KeySettings::default()
    }
}

fn new_key(number: u8) -> NewKey {
    NewKey {
        id: key_id(number),
        prefix: KeyPrefix::of(&secret(number)),
        digest: SecretDigest::of(&secret(number)),
    }
}

/// A table that follows steps, and everything that it is made of.
struct Followed {
    scene: Scene,
    limits: ServiceLimits,
    table: KeyTable,
    issuer: Issuer,
}

impl Followed {
    fn new() -> Self {
        Self {
            scene: Scene::default(),
            limits: limits(),
            table: KeyTable::default(),
            issuer: Issuer::new("one"),
        }
    }

    fn take(&mut self, step: Step) {
        let command = match step {
            Step::Tenant { id, name, quota } => {
                let (id, name) = (tenant_id(id), self::name(name));
                let limits = TenantLimits {
                    quota: self::quota(quota),
                    ..TenantLimits::default()
                };
                self.scene.put_tenant(id, name, limits)
            }
            Step::RemoveTenant(id) => Command::RemoveTenant { id: tenant_id(id) },
            Step::Key {
                secret,
                tenant,
                settings,
            } => {
                let settings = self::settings(settings, &self.issuer);
                let (key, tenant) = (new_key(secret), tenant_id(tenant));
                self.scene.put_key(key, tenant, None, settings)
            }
            Step::Rotate { old, new } => Command::RotateKey {
                id: key_id(old),
                key: new_key(new),
                old_expires: NOW,
            },
            Step::Revoke(id) => Command::RevokeKey { id: key_id(id) },
            Step::Configure(keys) => {
                let key = |(tenant, secret, local): (u8, u8, bool)| {
                    let tenant = name(tenant);
                    let key = ConfiguredKey::new(tenant.as_str(), &self::secret(secret)).unwrap();
                    match local {
                        true => key.for_this_machine(LocalOnly::default()),
                        false => key,
                    }
                };
                self.scene.configured = keys.into_iter().map(key).collect();
                return self.replace();
            }
            Step::Serve { quota } => {
                self.limits.quota = self::quota(quota);
                return self.replace();
            }
        };
        // Some are refused.
        if let Ok(changed) = self.scene.try_run(command) {
            let source = self.scene.source(&self.limits);
            self.table = TableUpdate::of(&self.table, source, &changed);
        }
    }

    fn replace(&mut self) {
        self.table = TableUpdate::all(&self.table, self.scene.source(&self.limits));
    }

    /// The table of the same, made from nothing.
    fn rebuilt(&self) -> KeyTable {
        TableUpdate::all(&KeyTable::default(), self.scene.source(&self.limits))
    }
}

/// What a table says, without counters.
#[derive(Debug, PartialEq)]
struct Content {
    tenants: BTreeMap<TenantId, String>,
    keys: BTreeMap<KeyId, String>,
    secrets: Vec<Option<KeyId>>,
    lengths: (usize, usize, usize),
}

impl Content {
    fn of(table: &KeyTable) -> Self {
        let tenant = |entry: &Arc<TenantEntry>| {
            let TenantEntry {
                tenant,
                record,
                service,
            } = &**entry;
            let (limits, most) = (tenant.limits, tenant.subscriptions_max);
            let quota = tenant.meter.as_ref().map(|meter| *meter.quota());
            let name = &tenant.name;
            let shown = format!("{name} {limits:?} {most:?} {quota:?} {record:?} {service:?}");
            (tenant.id, shown)
        };
        let key = |key: &Arc<ActiveKey>| {
            let entry = table.tenants.get(&key.tenant.id).unwrap();
            assert!(
                Arc::ptr_eq(&entry.tenant, &key.tenant),
                "its tenant as it is now"
            );
            let (record, local_only) = (&key.record, key.local_only());
            let quota = key.meter().map(|meter| *meter.quota());
            let public_keys = key.public_keys();
            let shown = format!("{record:?} {local_only:?} {quota:?} {public_keys:?}");
            (key.record.id, shown)
        };
        let by_secret = |number| {
            table
                .by_digest
                .find(&secret(number))
                .map(|key| key.record.id)
        };
        let (tenants, keys) = (&table.tenants, &table.by_id);
        Self {
            tenants: tenants.iter().map(tenant).collect(),
            keys: keys.iter().map(key).collect(),
            secrets: (0..SECRETS).map(by_secret).collect(),
            lengths: (tenants.len(), keys.len(), table.by_digest.len()),
        }
    }
}

/// Those that stay have the counters that they had.
fn check_counters(before: &KeyTable, after: &KeyTable) {
    for entry in after.tenants.iter() {
        let tenant = &entry.tenant;
        if let Some(before) = before.tenants.get(&tenant.id) {
            let _session = before.tenant.open_sessions.take(usize::MAX);
            assert_eq!(tenant.open_sessions(), before.tenant.open_sessions());
            check_meter(before.tenant.meter.as_ref(), tenant.meter.as_ref());
        }
    }
    for key in after.by_id.iter() {
        if let Some(before) = before.by_id.get(&key.record.id) {
            check_meter(before.meter(), key.meter());
            let is_same = before.record.settings.public_keys == key.record.settings.public_keys;
            let pairs = before.public_keys().iter().zip(key.public_keys());
            for (before, after) in pairs.filter(|_| is_same) {
                assert!(Arc::ptr_eq(before, after), "a public key was read again");
            }
        }
    }
}

fn check_meter(before: Option<&Arc<Meter>>, after: Option<&Arc<Meter>>) {
    if let (Some(before), Some(after)) = (before, after) {
        let is_same = before.quota() == after.quota();
        assert_eq!(Arc::ptr_eq(before, after), is_same);
    }
}

proptest! {
    // Each step makes a table from nothing.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a table came to be, it is the one that is made from nothing, except for counters.
    #[test]
    fn a_table_that_follows_changes_is_the_one_made_from_nothing(steps in steps()) {
        let mut followed = Followed::new();
        for step in steps {
            let before = followed.table.clone();
            let shown = format!("{step:?}");
            followed.take(step);
            let found = Content::of(&followed.table);
            let expected = Content::of(&followed.rebuilt());
            prop_assert_eq!(found, expected, "after {}", shown);
            check_counters(&before, &followed.table);
        }
    }
}

/// What one step does to a key that the configuration names, and to a stored one with the same
/// secret.
#[test]
fn what_the_configuration_names_wins_while_it_does() {
    let mut followed = Followed::new();
    let winner = |followed: &Followed| {
        let key = followed.table.by_digest.find(&secret(1));
        key.map(|key| (key.record.id == key_id(1), key.tenant.name.to_string()))
    };
    let steps = [
        (
            Step::Configure(vec![(0, 1, false)]),
            Some((false, "name 0")),
        ),
        (
            Step::Tenant {
                id: 3,
                name: 2,
                quota: 0,
            },
            Some((false, "name 0")),
        ),
        (
            Step::Key {
                secret: 1,
                tenant: 3,
                settings: 0,
            },
            Some((false, "name 0")),
        ),
        (Step::Configure(Vec::new()), Some((true, "name 2"))),
        (
            Step::Configure(vec![(2, 1, false)]),
            Some((false, "name 2")),
        ),
        (Step::RemoveTenant(3), Some((false, "name 2"))),
        (Step::Configure(Vec::new()), None),
    ];
    for (step, expected) in steps {
        let shown = format!("{step:?}");
        followed.take(step);
        let expected = expected.map(|(is_stored, name)| (is_stored, name.to_owned()));
        assert_eq!(winner(&followed), expected, "{shown}");
    }
}

/// Units of today count for the tenant, whether it is stored or configured.
#[test]
fn units_of_today_count_for_their_tenant() {
    let mut scene = Scene::default();
    let stored = scene.tenant(1, TenantLimits::default());
    let other = TenantId::of_configured("other");
    for (tenant, units) in [(stored, 20), (stored, 1), (other, 4_300)] {
        scene.used_today.add_to_tenant(tenant, units);
    }
    let keys = configured([("tenant 1", "by flag"), ("other", "another")]);
    scene.configured = keys.into_iter().collect();
    let service = ServiceLimits {
        quota: Quota {
            units_per_day: std::num::NonZeroU64::new(1_000_000),
            ..Quota::default()
        },
        ..limits()
    };
    let table = TableUpdate::all(&KeyTable::default(), scene.source(&service));
    for (id, expected) in [(stored, 21), (other, 4_300)] {
        let tenant = &table.tenants.get(&id).unwrap().tenant;
        assert_eq!(tenant.meter.as_ref().unwrap().used_today(NOW), expected);
    }
}
