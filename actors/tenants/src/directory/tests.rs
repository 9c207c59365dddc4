#![expect(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroU64;

use proptest::prelude::*;

use super::*;
use crate::{
    limits::{Quota, TenantLimits},
    public_key::{Algorithm, InvalidPublicKey, PublicKey},
    record::BesideSecret,
    secret::KeyPrefix,
};

const NOW: UnixMillis = UnixMillis(1_000);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn tenant_id(number: u8) -> TenantId {
    TenantId::from([number; 8])
}

fn key_id(number: u8) -> KeyId {
    KeyId::from([number; 8])
}

fn new_key(number: u8) -> NewKey {
    let secret = format!("secret of the key with the number {number}");
    NewKey {
        id: key_id(number),
        prefix: KeyPrefix::of(&secret),
        digest: SecretDigest::of(&secret),
    }
}

fn rotate(id: u8, by: u8, old_expires: u64) -> Command {
    Command::RotateKey {
        id: key_id(id),
        key: new_key(by),
        old_expires: UnixMillis(old_expires),
    }
}

fn create_tenant(number: u8, named: &str) -> Command {
    Command::CreateTenant {
        id: tenant_id(number),
        name: name(named),
        limits: TenantLimits::default(),
    }
}

fn create_key(number: u8, tenant: u8, expires: Option<u64>) -> Command {
    Command::CreateKey {
        key: new_key(number),
        tenant: tenant_id(tenant),
        name: name("backend"),
        expires: expires.map(UnixMillis),
        settings: KeySettings::default(),
    }
}

fn update_key(number: u8, expires: Option<u64>, units_per_day: u64) -> Command {
    let quota = Quota {
        units_per_day: NonZeroU64::new(units_per_day),
        ..Quota::default()
    };
    Command::UpdateKey {
        id: key_id(number),
        name: name("backend"),
        expires: expires.map(UnixMillis),
        settings: KeySettings {
            quota,
            ..KeySettings::default()
        },
    }
}

impl Directory {
    fn run(&mut self, command: Command, now: UnixMillis) -> Result<(), CommandError> {
        let changes = self.plan(command, now)?;
        changes.into_iter().for_each(|change| self.make(change));
        Ok(())
    }
}

/// One tenant `a` with the keys 1 (for good), 2 (until 2,000) and 3 (revoked).
fn directory() -> Directory {
    let mut directory = Directory::default();
    for command in [
        create_tenant(1, "a"),
        create_key(1, 1, None),
        create_key(2, 1, Some(2_000)),
        create_key(3, 1, None),
        Command::RevokeKey { id: key_id(3) },
    ] {
        directory.run(command, NOW).unwrap();
    }
    directory
}

#[test]
fn a_key_is_active_until_it_expires_or_is_revoked() {
    let directory = directory();
    for (number, now, expected) in [
        (1, u64::MAX, KeyState::Active),
        (2, 1_999, KeyState::Active),
        (2, 2_000, KeyState::Expired),
        (3, 1_000, KeyState::Revoked),
    ] {
        let state = directory
            .key(key_id(number))
            .unwrap()
            .state(UnixMillis(now));
        assert_eq!(state, expected, "key {number} at {now}");
    }
}

#[test]
fn refused_commands_change_nothing() {
    let before = directory();
    let taken = |id, secret| Command::CreateKey {
        key: NewKey {
            id: key_id(id),
            ..new_key(secret)
        },
        tenant: tenant_id(1),
        name: name("x"),
        expires: None,
        settings: KeySettings::default(),
    };
    let rotate = |id| Command::RotateKey {
        id: key_id(id),
        key: new_key(9),
        old_expires: UnixMillis(5_000),
    };
    let update = |id| Command::UpdateKey {
        id: key_id(id),
        name: name("x"),
        expires: None,
        settings: KeySettings::default(),
    };
    for (command, expected) in [
        (create_tenant(2, "a"), CommandError::NameTaken(name("a"))),
        (create_tenant(1, "b"), CommandError::TenantTaken),
        (create_key(9, 2, None), CommandError::NoTenant(tenant_id(2))),
        (taken(1, 9), CommandError::KeyTaken),
        (taken(9, 1), CommandError::KeyTaken),
        (rotate(9), CommandError::NoKey(key_id(9))),
        (rotate(3), CommandError::Revoked(key_id(3))),
        (rotate(2), CommandError::Expired(key_id(2))),
        (
            Command::RemoveKey { id: key_id(1) },
            CommandError::Active(key_id(1)),
        ),
        (
            Command::RemoveKey { id: key_id(9) },
            CommandError::NoKey(key_id(9)),
        ),
        (update(3), CommandError::Revoked(key_id(3))),
        (update(9), CommandError::NoKey(key_id(9))),
        (
            Command::RevokeKey { id: key_id(9) },
            CommandError::NoKey(key_id(9)),
        ),
        (
            Command::RemoveTenant { id: tenant_id(2) },
            CommandError::NoTenant(tenant_id(2)),
        ),
    ] {
        let mut directory = before.clone();
        let refused = directory.run(command.clone(), UnixMillis(3_000));
        assert_eq!(refused, Err(expected), "{command:?}");
        assert_eq!(directory, before, "{command:?}");
    }
}

#[test]
fn a_rotation_makes_a_second_key_and_the_first_one_ends() {
    let mut directory = directory();
    directory.run(rotate(1, 4, 5_000), NOW).unwrap();
    directory.run(rotate(2, 5, 5_000), NOW).unwrap();
    let ends = |number| directory.key(key_id(number)).unwrap().expires;
    assert_eq!(ends(1), Some(UnixMillis(5_000)));
    assert_eq!(ends(4), None);
    assert_eq!(ends(2), Some(UnixMillis(2_000)), "it ends before");
    assert_eq!(ends(5), Some(UnixMillis(2_000)));
    assert_eq!(
        directory.key(key_id(1)).unwrap().replaced_by,
        Some(key_id(4))
    );
    assert_eq!(directory.key(key_id(4)).unwrap().tenant, tenant_id(1));
}

/// Each rotation of a chain that overlapped would be one more key that lets clients in.
#[test]
fn one_key_of_a_chain_overlaps_another() {
    let mut directory = directory();
    directory.run(rotate(1, 4, 5_000), NOW).unwrap();
    let overlap = |key, other, ends: Option<u64>| CommandError::Overlap {
        key: key_id(key),
        other: key_id(other),
        ends: ends.map(UnixMillis),
    };
    let rotated = CommandError::Rotated {
        key: key_id(1),
        successor: key_id(4),
    };
    for (command, now, expected) in [
        (rotate(1, 5, 5_000), 1_000, Err(rotated)),
        (rotate(4, 5, 9_000), 4_999, Err(overlap(4, 1, Some(5_000)))),
        (rotate(4, 5, 9_000), 5_000, Ok(())),
        (rotate(5, 6, 9_000), 8_999, Err(overlap(5, 4, Some(9_000)))),
        (Command::RevokeKey { id: key_id(4) }, 8_999, Ok(())),
        (rotate(5, 6, 8_999), 8_999, Ok(())),
        // An administrator lets the first one in again, for good.
        (update_key(1, None, 0), 8_999, Ok(())),
        (rotate(6, 7, 9_000), 8_999, Err(overlap(6, 1, None))),
        (Command::RevokeKey { id: key_id(1) }, 8_999, Ok(())),
        (rotate(6, 7, 9_000), 8_999, Ok(())),
    ] {
        let done = directory.run(command.clone(), UnixMillis(now));
        assert_eq!(done, expected, "{command:?} at {now}");
    }
    let error = overlap(4, 1, Some(86_400_000)).to_string();
    assert!(error.contains("until 1970-01-02T00:00:00Z"), "{error}");
    let chain = |first| directory.chain(key_id(first)).map(|key| key.id.bytes()[0]);
    assert_eq!(chain(1).collect::<BTreeSet<_>>(), [1, 4, 5, 6, 7].into());
    assert_eq!(chain(4).collect::<Vec<_>>(), [4], "no chain begins with it");
}

/// So that a chain has one meter.
#[test]
fn the_keys_of_a_chain_have_one_quota() {
    let mut directory = directory();
    let rotate = |id, by| Command::RotateKey {
        id: key_id(id),
        key: new_key(by),
        old_expires: NOW,
    };
    for command in [
        rotate(1, 4),
        rotate(4, 5),
        Command::RevokeKey { id: key_id(4) },
    ] {
        directory.run(command, NOW).unwrap();
    }
    for (updated, units) in [(5, 7), (1, 8), (2, 9)] {
        directory
            .run(update_key(updated, None, units), NOW)
            .unwrap();
        let units = |number| {
            let quota = directory.key(key_id(number)).unwrap().settings.quota;
            quota.units_per_day.map(NonZeroU64::get)
        };
        let expected = match updated {
            5 => [Some(7), None, None, Some(7)],
            1 => [Some(8), None, None, Some(8)],
            // One that is no part of the chain; and one that is revoked stays as it was.
            _ => [Some(8), Some(9), None, Some(8)],
        };
        assert_eq!([1, 2, 4, 5].map(units), expected, "{updated}");
    }
}

#[test]
fn a_key_that_is_over_can_be_removed() {
    let mut directory = directory();
    let rotate = Command::RotateKey {
        id: key_id(1),
        key: new_key(4),
        old_expires: UnixMillis(5_000),
    };
    directory.run(rotate, NOW).unwrap();
    let remove = |id| Command::RemoveKey { id: key_id(id) };
    for command in [remove(3), Command::RevokeKey { id: key_id(4) }, remove(4)] {
        directory.run(command, NOW).unwrap();
    }
    let first = directory.key(key_id(1)).unwrap();
    assert_eq!(directory.successor(first), None, "it was removed");
    assert!(directory.key(key_id(3)).is_none() && directory.key(key_id(4)).is_none());
    assert!(directory.chains.is_empty());
    // The first key of a chain goes, and the chain stays.
    let rotate = Command::RotateKey {
        id: key_id(1),
        key: new_key(6),
        old_expires: NOW,
    };
    for command in [rotate, remove(1)] {
        directory.run(command, NOW).unwrap();
    }
    let last = directory.key(key_id(6)).unwrap();
    assert_eq!(last.chain(), key_id(1));
    assert_eq!(directory.chain(key_id(1)).collect::<Vec<_>>(), [last]);
    let again = directory.run(create_key(1, 1, None), NOW);
    assert_eq!(
        again,
        Err(CommandError::KeyTaken),
        "the chain has this name"
    );
    directory.run(create_key(3, 1, None), NOW).unwrap();
}

#[test]
fn a_revocation_is_for_good() {
    let mut directory = directory();
    let again = Command::RevokeKey { id: key_id(3) };
    directory.run(again, UnixMillis(9_000)).unwrap();
    let revoked = directory.key(key_id(3)).unwrap().revoked;
    assert_eq!(revoked, Some(NOW), "the first time counts");
}

#[test]
fn a_tenant_goes_with_its_keys() {
    let mut directory = directory();
    directory.run(create_tenant(2, "b"), NOW).unwrap();
    directory.run(create_key(9, 2, None), NOW).unwrap();
    let remove = Command::RemoveTenant { id: tenant_id(1) };
    directory.run(remove, NOW).unwrap();
    assert!(directory.tenant_named("a").is_none());
    let left: Vec<_> = directory.keys().map(|key| key.id).collect();
    assert_eq!(left, [key_id(9)]);
    // Neither the name nor the keys are in use any more.
    directory.run(create_tenant(3, "a"), NOW).unwrap();
    directory.run(create_key(1, 3, None), NOW).unwrap();
}

#[test]
fn a_new_name_frees_the_old_one() {
    let mut directory = directory();
    let rename = Command::UpdateTenant {
        id: tenant_id(1),
        name: name("b"),
        limits: TenantLimits::default(),
    };
    directory.run(rename, UnixMillis(7_000)).unwrap();
    assert!(directory.tenant_named("a").is_none());
    let tenant = directory.tenant_named("b").unwrap();
    assert_eq!((tenant.id, tenant.created), (tenant_id(1), NOW));
    directory.run(create_tenant(2, "a"), NOW).unwrap();
}

/// A command out of few tenants, keys and names, so that they meet.
fn any_command() -> impl Strategy<Value = Command> {
    let time = (0_u64..4_000).prop_map(UnixMillis);
    prop_oneof![
        (0_u8..4, 0_u8..4).prop_map(|(id, named)| create_tenant(id, &named.to_string())),
        (0_u8..4, 0_u8..4).prop_map(|(id, named)| Command::UpdateTenant {
            id: tenant_id(id),
            name: name(&named.to_string()),
            limits: TenantLimits::default(),
        }),
        (0_u8..4).prop_map(|id| Command::RemoveTenant { id: tenant_id(id) }),
        (0_u8..8, 0_u8..4).prop_map(|(key, tenant)| create_key(key, tenant, Some(2_000))),
        (0_u8..8, 0_u8..8, time).prop_map(|(id, by, old_expires)| Command::RotateKey {
            id: key_id(id),
            key: new_key(by),
            old_expires,
        }),
        (0_u8..8).prop_map(|id| Command::RevokeKey { id: key_id(id) }),
        (0_u8..8).prop_map(|id| Command::RemoveKey { id: key_id(id) }),
        (0_u8..8, 0_u64..3).prop_map(|(id, units)| update_key(id, Some(2_000), units)),
    ]
}

proptest! {
    /// The indexes agree with the records, no revoked key comes back while it stays, a chain has
    /// one quota, no rotation adds to two keys of a chain that let clients in, and a directory that
    /// reads all records again is the same.
    #[test]
    fn indexes_agree_with_records(
        commands in prop::collection::vec((any_command(), 0_u64..4_000), 1..60)
    ) {
        let mut directory = Directory::default();
        for (command, now) in commands {
            let before = directory.clone();
            let is_removal = matches!(
                command, Command::RemoveTenant { .. } | Command::RemoveKey { .. }
            );
            let rotated = match command {
                Command::RotateKey { id, .. } => Some(id),
                _ => None,
            };
            let is_done = directory.run(command, UnixMillis(now)).is_ok();
            // Other chains may have more: an update makes an expired key active again.
            if let Some(key) = rotated.filter(|_| is_done).and_then(|id| directory.key(id)) {
                let own = directory.chain(key.chain());
                let active = own.filter(|key| key.state(UnixMillis(now)) == KeyState::Active);
                prop_assert!(active.count() <= 2);
            }
            for key in directory.keys().filter(|_| is_done) {
                let own = directory.chain(key.chain());
                let quotas = own.filter(|key| key.revoked.is_none());
                let quotas: Vec<_> = quotas.map(|key| key.settings.quota).collect();
                prop_assert!(quotas.iter().all(|quota| *quota == quotas[0]));
            }
            for key in before.keys().filter(|key| key.revoked.is_some()) {
                let after = directory.key(key.id);
                prop_assert!(after == Some(key) || is_removal);
            }
            let mut read = Directory::default();
            let tenants = directory.tenants().cloned().map(Change::Tenant);
            let keys = directory.keys().cloned().map(Change::Key);
            tenants.chain(keys).for_each(|change| read.make(change));
            prop_assert_eq!(&read, &directory);
            prop_assert_eq!(directory.by_name.len(), directory.tenants.len());
            prop_assert_eq!(directory.by_digest.len(), directory.keys.len());
        }
    }
}

/// Public keys are checked before a key gets them, whether it is made or changed.
#[test]
fn public_keys_are_checked() {
    let pem = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n\
        6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n\
        -----END PUBLIC KEY-----\n";
    let public_key = |number: usize, pem: &str| PublicKey {
        kid: name(&format!("issuer {number}")),
        algorithm: Algorithm::Es256,
        pem: pem.to_owned(),
    };
    let settings = |public_keys: Vec<PublicKey>| KeySettings {
        public_keys,
        ..KeySettings::default()
    };
    let several = |count| (0..count).map(|at| public_key(at, pem)).collect();
    let secret = Box::new(BesideSecret {
        digest: SecretDigest::of("secret"),
        is_required: false,
        exempts: false,
    });
    let both = KeySettings {
        secret: Some(secret),
        ..settings(several(1))
    };
    let invalid = CommandError::PublicKey(name("issuer 1"), InvalidPublicKey::Pem);
    for (settings, expected) in [
        (settings(several(1)), Ok(())),
        (settings(several(PUBLIC_KEYS_MAX)), Ok(())),
        (
            settings(several(PUBLIC_KEYS_MAX + 1)),
            Err(CommandError::TooManyPublicKeys(PUBLIC_KEYS_MAX)),
        ),
        (
            settings(vec![public_key(0, pem), public_key(0, pem)]),
            Err(CommandError::SameKid(name("issuer 0"))),
        ),
        (
            settings(vec![public_key(0, pem), public_key(1, "")]),
            Err(invalid),
        ),
        (both, Err(CommandError::SecretAndPublicKeys)),
    ] {
        let update = Command::UpdateKey {
            id: key_id(1),
            name: name("backend"),
            expires: None,
            settings: settings.clone(),
        };
        let create = Command::CreateKey {
            key: new_key(9),
            tenant: tenant_id(1),
            name: name("backend"),
            expires: None,
            settings,
        };
        for command in [update, create] {
            assert_eq!(
                directory().run(command.clone(), NOW),
                expected,
                "{command:?}"
            );
        }
    }
}
