//! Tenants and keys for tests.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{num::NonZeroU32, time::Instant};

use nearhead_tenants::{
    UnixMillis,
    command::{Command, CommandError, NewKey},
    directory::{ChangedRecords, Directory},
    id::{KeyId, TenantId},
    limits::{Quota, Rate, TenantLimits},
    name::Name,
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
    usage::UsedToday,
};

use super::{AccessSource, ConfiguredKey, ConfiguredKeys, MethodSet, Now, ServiceLimits};

pub(super) const NOW: UnixMillis = UnixMillis(1_000);

pub(super) fn now() -> Now {
    Now {
        instant: Instant::now(),
        unix: NOW,
    }
}

pub(super) fn limits() -> ServiceLimits {
    ServiceLimits {
        methods: MethodSet::Companion,
        quota: requests(2),
        sessions: 1,
        node_calls: None,
    }
}

pub(super) fn requests(per_second: u32) -> Quota {
    Quota {
        requests: NonZeroU32::new(per_second).map(Rate::of_one_second),
        ..Quota::default()
    }
}

pub(super) fn configured<const N: usize>(keys: [(&str, &str); N]) -> Vec<ConfiguredKey> {
    let key = |(tenant, secret): &(&str, &str)| ConfiguredKey::new(tenant, secret).unwrap();
    keys.iter().map(key).collect()
}

/// Commands on a directory, and the table of it.
pub(super) struct Scene {
    pub(super) directory: Directory,
    pub(super) configured: ConfiguredKeys,
    pub(super) used_today: UsedToday,
    /// When keys end that are made or changed.
    pub(super) expires: Option<UnixMillis>,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            directory: Directory::default(),
            configured: ConfiguredKeys::default(),
            used_today: UsedToday::default(),
            expires: Some(UnixMillis(5_000)),
        }
    }
}

impl Scene {
    pub(super) fn source<'a>(&'a self, limits: &'a ServiceLimits) -> AccessSource<'a> {
        AccessSource {
            directory: &self.directory,
            configured: &self.configured,
            limits,
            used_today: &self.used_today,
            now: NOW,
            desk: None,
        }
    }

    pub(super) fn run(&mut self, command: Command) {
        self.try_run(command).unwrap();
    }

    /// What a command has changed.
    pub(super) fn try_run(&mut self, command: Command) -> Result<ChangedRecords, CommandError> {
        let mut changed = ChangedRecords::default();
        for change in self.directory.plan(command, NOW)? {
            changed.add(&change, &self.directory);
            self.directory.make(change);
        }
        Ok(changed)
    }

    pub(super) fn tenant(&mut self, number: u8, limits: TenantLimits) -> TenantId {
        let id = TenantId::from([number; 8]);
        let name = format!("tenant {number}").parse().unwrap();
        self.run(self.put_tenant(id, name, limits));
        id
    }

    /// The command that makes a tenant, or changes it if there is one.
    pub(super) fn put_tenant(&self, id: TenantId, name: Name, limits: TenantLimits) -> Command {
        match self.directory.tenant(id) {
            None => Command::CreateTenant { id, name, limits },
            Some(_) => Command::UpdateTenant { id, name, limits },
        }
    }

    /// The command that makes a key, or changes it if there is one.
    pub(super) fn put_key(
        &self,
        key: NewKey,
        tenant: TenantId,
        expires: Option<UnixMillis>,
        settings: KeySettings,
    ) -> Command {
        let (id, name) = (key.id, "key".parse().unwrap());
        match self.directory.key(id) {
            None => Command::CreateKey {
                key,
                tenant,
                name,
                expires,
                settings,
            },
            Some(_) => Command::UpdateKey {
                id,
                name,
                expires,
                settings,
            },
        }
    }

    /// The key with this secret, with a quota of its own.
    pub(super) fn key(&mut self, secret: &str, tenant: TenantId, quota: Quota) -> KeyId {
        self.key_with(
            secret,
            tenant,
            KeySettings {
                quota,
                ..KeySettings::default()
            },
        )
    }

    /// The key with this secret and these settings, which ends at 5,000 unless that was changed.
    pub(super) fn key_with(
        &mut self,
        secret: &str,
        tenant: TenantId,
        settings: KeySettings,
    ) -> KeyId {
        let id = KeyId::of_configured(secret);
        let key = NewKey {
            id,
            prefix: KeyPrefix::of(secret),
            digest: SecretDigest::of(secret),
        };
        self.run(self.put_key(key, tenant, self.expires, settings));
        id
    }
}
