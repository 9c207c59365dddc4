#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    num::NonZeroU64,
    path::{Path, PathBuf},
};

use actix::Arbiter;
use nearhead_actors::{data_folder::DataRoot, head::Head};
use nearhead_tenants::{
    command::{CommandError, NewKey},
    id::TenantId,
    limits::{Quota, TenantLimits},
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
    usage::{RequestUse, UsageCounts},
};

use super::*;
use crate::access::Now;

const TENANT: TenantId = TenantId::of_bytes([1; 8]);

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

/// A service's access and actor, with a store in this folder, or in memory.
async fn start(folder: Option<&Path>) -> (Access, Addr<TenantsActor>) {
    let opened = match folder {
        None => crate::tenants::open(&DataRoot::Memory, None, &Head::default(), false).unwrap(),
        Some(folder) => OpenedStore::of_folder(folder).unwrap(),
    };
    let setup = TenantsSetup {
        opened,
        configured: vec![ConfiguredKey::new("flag", "key by flag").unwrap()],
        limits: ServiceLimits::default(),
        labels: Labels::new(["eth_chainId", "other"], ["ok", "denied"]),
        metrics: None,
    };
    TenantsActor::open(setup, &Arbiter::current()).unwrap()
}

async fn run(actor: &Addr<TenantsActor>, command: Command) -> Result<(), RunError> {
    let request = RunCommand {
        command,
        author: Author::CommandLine,
        from: None,
        detail: Detail::default(),
    };
    actor.send(request).await.unwrap()
}

fn create_tenant(units_per_day: u64) -> Command {
    Command::CreateTenant {
        id: TENANT,
        name: "alice".parse().unwrap(),
        limits: TenantLimits {
            quota: Quota {
                units_per_day: NonZeroU64::new(units_per_day),
                ..Quota::default()
            },
            ..TenantLimits::default()
        },
    }
}

fn create_key(secret: &str) -> (KeyId, Command) {
    let id = KeyId::of_configured(secret);
    let command = Command::CreateKey {
        key: NewKey {
            id,
            prefix: KeyPrefix::of(secret),
            digest: SecretDigest::of(secret),
        },
        tenant: TENANT,
        name: "backend".parse().unwrap(),
        expires: None,
        settings: KeySettings::default(),
    };
    (id, command)
}

fn now() -> Now {
    Now {
        instant: std::time::Instant::now(),
        unix: SystemTime::now().into(),
    }
}

/// What a worker counts for one request of this many units.
async fn use_units(actor: &Addr<TenantsActor>, key: KeyId, units: u64) {
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
    actor.send(AddUsage(counts.take())).await.unwrap();
}

#[actix::test]
async fn what_a_command_does_is_in_force_when_it_is_answered() {
    let (access, actor) = start(None).await;
    assert!(access.resolve("key by flag", now().unix).is_some());
    let (id, create) = create_key("a new key");
    let refused = run(&actor, create.clone()).await;
    assert_eq!(refused, Err(CommandError::NoTenant(TENANT).into()));
    run(&actor, create_tenant(5)).await.unwrap();
    run(&actor, create).await.unwrap();
    let key = access.resolve("a new key", now().unix).unwrap();
    assert_eq!(&*key.tenant.name, "alice");
    run(&actor, Command::RevokeKey { id }).await.unwrap();
    assert!(access.resolve("a new key", now().unix).is_none());

    actor.send(ReplaceConfigured(Vec::new())).await.unwrap();
    assert!(access.resolve("key by flag", now().unix).is_none());
}

#[actix::test]
async fn keys_and_units_of_the_day_outlive_the_process() {
    let folder = Folder::new("outlive");
    let (id, create) = create_key("a new key");
    {
        let (_, actor) = start(Some(&folder.0)).await;
        run(&actor, create_tenant(10)).await.unwrap();
        run(&actor, create).await.unwrap();
        use_units(&actor, id, 9).await;
        // The counts are written before this is answered.
        actor.send(StopTenants).await.unwrap();
    }
    let (access, actor) = start(Some(&folder.0)).await;
    let key = access.resolve("a new key", now().unix).unwrap();
    assert_eq!(key.take(1, now()), Ok(()), "9 of 10 are used");
    assert!(key.take(1, now()).is_err());
    actor.send(StopTenants).await.unwrap();
}

/// A tenant that gets its first quota of the day has used units before.
#[actix::test]
async fn a_new_quota_counts_what_was_used_before() {
    let folder = Folder::new("before");
    let (access, actor) = start(Some(&folder.0)).await;
    let (id, create) = create_key("a new key");
    run(&actor, create_tenant(0)).await.unwrap();
    run(&actor, create).await.unwrap();
    assert!(
        !access
            .resolve("a new key", now().unix)
            .unwrap()
            .is_metered()
    );
    use_units(&actor, id, 7).await;
    let Command::CreateTenant { id, name, limits } = create_tenant(8) else {
        unreachable!("made as one")
    };
    let update = Command::UpdateTenant { id, name, limits };
    run(&actor, update).await.unwrap();
    let key = access.resolve("a new key", now().unix).unwrap();
    assert_eq!(key.take(1, now()), Ok(()), "7 of 8 are used");
    assert!(key.take(1, now()).is_err());
    actor.send(StopTenants).await.unwrap();
}
