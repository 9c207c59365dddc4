//! Tenants and keys for tests.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::HashMap, num::NonZeroU32, time::Instant};

use nearhead_tenants::{
    UnixMillis,
    command::{Command, CommandError, NewKey},
    directory::{ChangedRecords, Directory},
    id::{KeyId, TenantId},
    limits::{Quota, Rate, TenantLimits},
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
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
    pub(super) used_today: HashMap<KeyId, u64>,
    /// When keys end that are made or changed.
    pub(super) expires: Option<UnixMillis>,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            directory: Directory::default(),
            configured: ConfiguredKeys::default(),
            used_today: HashMap::new(),
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
        let command = match self.directory.tenant(id) {
            None => Command::CreateTenant { id, name, limits },
            Some(_) => Command::UpdateTenant { id, name, limits },
        };
        self.run(command);
        id
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
        let (name, expires) = ("key".parse().unwrap(), self.expires);
        self.run(match self.directory.key(id) {
            None => Command::CreateKey {
                key: NewKey {
                    id,
                    prefix: KeyPrefix::of(secret),
                    digest: SecretDigest::of(secret),
                },
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
        });
        id
    }
}
