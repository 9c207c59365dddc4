//! The files of tenants and of what they used.

use std::{
    fs,
    path::Path,
    sync::{Arc, LazyLock},
};

use nearhead_tenants::{
    UnixMillis,
    account::{AccountChange, Accounts},
    audit::AuditQuery,
    command::Change,
    directory::Directory,
    record::KeyRecord,
    store::{Commit, Loaded, MemoryStore, SqliteStore, StoreError, TenantStore},
    usage::{GroupBy, Resolution, UsageOf, UsageQuery},
};
use serde::de::DeserializeOwned;

use super::scratch::{SQLITE, Scratch};

/// The names of the files.
const NAMES: [&str; 2] = ["tenants.sqlite", "usage.sqlite"];

/// The files of a new store: to make them takes longer than all else.
static NEW: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let scratch = Scratch::new("new-tenant-store");
    drop(SqliteStore::open(&scratch.0).unwrap());
    NAMES.map(|name| fs::read(scratch.0.join(name)).unwrap())
});

/// The records that the files among the seeds have. Each has a checksum, so that a file with others
/// cannot be made of them.
static RECORDS: LazyLock<Loaded> = LazyLock::new(|| {
    let mut memory = MemoryStore::default();
    let script = include_str!("../corpus/tenant_store/script_every_record");
    run_script(script.as_bytes(), &mut memory, None);
    memory.load().unwrap()
});

/// The store of tenants is refused for a reason that an operator can act on, or has what was
/// written, and takes more.
///
/// The input is a file of tenants or of usage, or a script: each line is a table's name and a
/// record in JSON.
pub fn tenant_store(input: &[u8]) {
    let scratch = Scratch::new("tenant-store");
    for (name, new) in NAMES.iter().zip(&*NEW) {
        fs::write(scratch.0.join(name), new).unwrap();
    }
    if !input.starts_with(SQLITE) {
        return check_records(&scratch.0, input);
    }
    // The application's id says which file it is.
    let is_usage = input.get(68..72) == Some(b"nhus");
    let name = NAMES[usize::from(is_usage)];
    fs::write(scratch.0.join(name), input).unwrap();
    match SqliteStore::open(&scratch.0).and_then(|mut store| Ok((store.load()?, store))) {
        Ok((loaded, store)) => {
            let Loaded {
                directory,
                accounts,
                ..
            } = &loaded;
            let is_empty = *directory == Directory::default() && *accounts == Accounts::default();
            let is_whole = *directory == RECORDS.directory && *accounts == RECORDS.accounts;
            assert!(is_empty || is_whole, "{loaded:?}");
            check_taken(&scratch.0, store, loaded);
        }
        Err(error) => check_refusal(&scratch.0.join(name), &error),
    }
}

/// It names the file and what is wrong with it.
fn check_refusal(file: &Path, error: &StoreError) {
    match error {
        StoreError::Damaged { path, .. }
        | StoreError::OtherProgram { path }
        | StoreError::Newer { path, .. }
        | StoreError::Unusable { path, .. } => assert_eq!(path, file),
        _ => panic!("{error:?}"),
    }
}

/// What is read at run time may fail. A record that is taken is there after the next start, with
/// all that was there before.
fn check_taken(folder: &Path, mut store: SqliteStore, mut loaded: Loaded) {
    read_all(&mut store);
    let tenant = r#"{"id":"00000000000000ff","name":"a new one","created":1,"limits":{}}"#;
    let changes = [Change::Tenant(
        serde_json::from_str(tenant).map(Arc::new).unwrap(),
    )];
    let commit = Commit {
        directory: &changes,
        ..Commit::default()
    };
    if store.commit(&commit).is_err() {
        return;
    }
    drop(store);
    for change in changes {
        loaded.directory.make(change);
    }
    let again = SqliteStore::open(folder).and_then(|mut store| store.load());
    match again {
        Ok(again) => {
            assert_eq!(again.directory, loaded.directory);
            assert_eq!(again.accounts, loaded.accounts);
        }
        // A page may be damaged that was not read before.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn read_all(store: &mut SqliteStore) {
    let _ = store.audit(&AuditQuery {
        entries_max: 1_000,
        ..AuditQuery::default()
    });
    for resolution in Resolution::ALL {
        let _ = store.usage(&UsageQuery {
            of: UsageOf::All,
            resolution,
            from: UnixMillis(0),
            to: UnixMillis(u64::MAX),
            by: GroupBy {
                time: true,
                key: true,
                method: true,
                outcome: true,
            },
            rows_max: 1_000,
        });
    }
    let _ = store.expire(UnixMillis(u64::MAX));
}

/// What a store in a folder was given is what one in memory was given, also after the next start.
fn check_records(folder: &Path, script: &[u8]) {
    let mut memory = MemoryStore::default();
    let mut store = SqliteStore::open(folder).unwrap();
    run_script(script, &mut memory, Some(&mut store));
    let expected = memory.load().unwrap();
    assert_eq!(store.load().unwrap(), expected);
    drop(store);
    let again = SqliteStore::open(folder).unwrap().load().unwrap();
    assert_eq!(again, expected);
}

/// Makes the changes of a script in a store in memory, and in one in a folder.
fn run_script(script: &[u8], memory: &mut MemoryStore, mut store: Option<&mut SqliteStore>) {
    for line in script.split(|byte| *byte == b'\n').take(32) {
        let Some(end) = line.iter().position(|byte| *byte == b' ') else {
            continue;
        };
        let before = memory.load().unwrap();
        let changes = changes(&line[..end], &line[end + 1..], &before);
        let commit = Commit {
            directory: &changes.0,
            accounts: &changes.1,
            entries: &[],
        };
        memory.commit(&commit).unwrap();
        if let Some(store) = &mut store {
            store.commit(&commit).unwrap();
        }
    }
}

/// The changes that a line asks for; none if they do not fit to what there is, as commands see to.
fn changes(table: &[u8], record: &[u8], before: &Loaded) -> (Vec<Change>, Vec<AccountChange>) {
    let Loaded {
        directory,
        accounts,
        ..
    } = before;
    let (mut of_directory, mut of_accounts) = (Vec::new(), Vec::new());
    match table {
        b"tenant" => of_directory.extend(read(record).map(Change::Tenant)),
        b"key" => of_directory.extend(read(record).map(Change::Key)),
        b"account" => of_accounts.extend(read(record).map(AccountChange::Account)),
        b"login" => of_accounts.extend(read(record).map(AccountChange::Login)),
        b"token" => of_accounts.extend(read(record).map(AccountChange::Token)),
        b"-tenant" => of_directory.extend(value(record).map(Change::TenantRemoved)),
        b"-key" => of_directory.extend(value(record).map(Change::KeyRemoved)),
        b"-account" => of_accounts.extend(value(record).map(AccountChange::AccountRemoved)),
        b"-logins" => of_accounts.extend(value(record).map(AccountChange::LoginsEnded)),
        b"-token" => of_accounts.extend(value(record).map(AccountChange::TokenRemoved)),
        _ => {}
    }
    of_directory.retain(|change| match change {
        Change::Tenant(tenant) => directory
            .tenant_named(tenant.name.as_str())
            .is_none_or(|other| other.id == tenant.id),
        Change::Key(key) => {
            let same = |other: &Arc<_>| is_same_key(other, key);
            directory.key(key.id).is_none_or(same)
                && directory.key_with(&key.digest).is_none_or(same)
        }
        _ => true,
    });
    of_accounts.retain(|change| fits(change, accounts));
    (of_directory, of_accounts)
}

fn is_same_key(one: &KeyRecord, other: &KeyRecord) -> bool {
    (one.id, one.tenant, &one.digest, one.chain)
        == (other.id, other.tenant, &other.digest, other.chain)
}

fn fits(change: &AccountChange, accounts: &Accounts) -> bool {
    match change {
        AccountChange::Login(login) => {
            let mut logins = accounts.logins();
            let same = logins.find(|other| other.digest == login.digest);
            same.is_none_or(|other| other.account == login.account)
        }
        AccountChange::Token(token) => {
            let mut tokens = accounts.tokens();
            tokens.all(|other| (other.name == token.name) == (other.digest == token.digest))
        }
        _ => true,
    }
}

fn read<T: DeserializeOwned>(record: &[u8]) -> Option<Arc<T>> {
    value(record).map(Arc::new)
}

fn value<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}
