//! A store of many tenants and keys: `load-tests/compare --only tenants` starts nearhead over one.
//!
//! `fill_store FOLDER KEYS TENANTS TOKEN` adds tenants, keys and an API token to the store in a
//! chain's folder, while no service has it open. It writes a line for each key: what clients
//! present, and the id. Every second key also has a list of origins, which `compare` does not send.

use std::{
    io::{BufWriter, Write as _},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nearhead_tenants::{
    UnixMillis,
    account::{AccountChange, ApiToken, Role},
    command::{Command, NewKey},
    id::{KeyId, TenantId},
    limits::TenantLimits,
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
    store::{Commit, SqliteStore, TenantStore as _},
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Every second key has this list.
const ORIGINS: [&str; 2] = ["https://app.example.org", "https://*.example.com"];

/// A year.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, keys, tenants, token] = &arguments[..] else {
        return Err("usage: fill_store FOLDER KEYS TENANTS TOKEN".into());
    };
    let (keys, tenants) = (keys.parse::<usize>()?, tenants.parse()?);
    let now = UnixMillis::from(SystemTime::now());
    let mut store = SqliteStore::open(Path::new(folder))?;
    let mut directory = store.load()?.directory;
    let tenant = (0..tenants).map(create_tenant);
    let key = (0..keys).map(|number| create_key(number, tenants, now));
    let mut changes = Vec::new();
    for command in tenant.chain(key) {
        for change in directory.plan(command?, now)? {
            directory.make(change.clone());
            changes.push(change);
        }
    }
    let token = AccountChange::Token(Arc::new(ApiToken {
        name: "compare".parse()?,
        digest: SecretDigest::of(token),
        role: Role::Admin,
        created: now,
        expires: None,
    }));
    store.commit(&Commit {
        directory: &changes,
        accounts: &[token],
        entries: &[],
    })?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for number in 0..keys {
        let key = key_of(number);
        writeln!(out, "{key} {}", KeyId::of_configured(&key))?;
    }
    out.flush().map_err(Into::into)
}

fn create_tenant(number: usize) -> Outcome<Command> {
    let name = format!("tenant {number}");
    Ok(Command::CreateTenant {
        id: TenantId::of_configured(&name),
        name: name.parse()?,
        limits: TenantLimits::default(),
    })
}

fn create_key(number: usize, tenants: usize, now: UnixMillis) -> Outcome<Command> {
    let key = key_of(number);
    let mut settings = KeySettings::default();
    if number % 2 == 1 {
        let origins: Result<Vec<_>, _> = ORIGINS.into_iter().map(str::parse).collect();
        settings.allow.origins = origins?.try_into()?;
    }
    Ok(Command::CreateKey {
        key: NewKey {
            id: KeyId::of_configured(&key),
            prefix: KeyPrefix::of(&key),
            digest: SecretDigest::of(&key),
        },
        tenant: TenantId::of_configured(&format!("tenant {}", number % tenants)),
        name: format!("backend {number}").parse()?,
        expires: Some(now.after(YEAR)),
        settings,
    })
}

/// What clients present: as long as a generated key.
fn key_of(number: usize) -> String {
    format!("{number:043}")
}
