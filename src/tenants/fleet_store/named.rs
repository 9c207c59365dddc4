//! Tenants, keys and accounts as records with names.

use std::{collections::BTreeMap, sync::Arc};

use alloy_primitives::hex;
use nearhead_tenants::{
    account::{Account, AccountChange, Accounts, ApiToken, Login},
    command::Change,
    directory::Directory,
    id::{KeyId, TenantId},
    name::Name,
    record::{KeyRecord, TenantRecord},
    secret::SecretDigest,
    store::{Commit, Refreshed},
};
use serde::{Serialize, de::DeserializeOwned};

/// Records by name, as JSON; `None` if they are gone.
pub(super) type Named = BTreeMap<String, Option<Vec<u8>>>;

fn tenant_name(id: TenantId) -> String {
    format!("tenant:{id}")
}

fn key_name(id: KeyId) -> String {
    format!("key:{id}")
}

fn account_name(name: &Name) -> String {
    format!("account:{name}")
}

fn login_name(digest: &[u8; 32]) -> String {
    format!("login:{}", hex::encode(digest))
}

fn token_name(name: &Name) -> String {
    format!("token:{name}")
}

fn json(record: &impl Serialize) -> serde_json::Result<Option<Vec<u8>>> {
    serde_json::to_vec(record).map(Some)
}

/// What a commit writes, to the records that a process knows. What belongs to a record goes with
/// it, and what belongs to none is left out.
pub(super) fn named(
    commit: &Commit<'_>,
    directory: &Directory,
    accounts: &Accounts,
) -> serde_json::Result<Named> {
    let mut named = Named::new();
    let is_there = |named: &Named, name: &str, is_known: bool| {
        named.get(name).map_or(is_known, Option::is_some)
    };
    for change in commit.directory {
        match change {
            Change::Tenant(tenant) => {
                named.insert(tenant_name(tenant.id), json(&**tenant)?);
            }
            Change::Key(key) => {
                let is_known = directory.tenant(key.tenant).is_some();
                if is_there(&named, &tenant_name(key.tenant), is_known) {
                    named.insert(key_name(key.id), json(&**key)?);
                }
            }
            Change::KeyRemoved(id) => {
                named.insert(key_name(*id), None);
            }
            Change::TenantRemoved(id) => {
                named.insert(tenant_name(*id), None);
                let keys = directory.keys_of(*id);
                named.extend(keys.map(|key| (key_name(key), None)));
            }
        }
    }
    let logins_of = |name: &Name| {
        let name = name.clone();
        let logins = accounts.logins().filter(move |login| login.account == name);
        logins.map(|login| (login_name(login.digest.bytes()), None))
    };
    for change in commit.accounts {
        match change {
            AccountChange::Account(account) => {
                named.insert(account_name(&account.name), json(&**account)?);
            }
            AccountChange::AccountRemoved(name) => {
                named.insert(account_name(name), None);
                named.extend(logins_of(name));
            }
            AccountChange::Login(login) => {
                let is_known = accounts.account(login.account.as_str()).is_some();
                if is_there(&named, &account_name(&login.account), is_known) {
                    named.insert(login_name(login.digest.bytes()), json(&**login)?);
                }
            }
            AccountChange::LoginEnded(digest) => {
                named.insert(login_name(digest.bytes()), None);
            }
            AccountChange::LoginsEnded(name) => named.extend(logins_of(name)),
            AccountChange::Token(token) => {
                named.insert(token_name(&token.name), json(&**token)?);
            }
            AccountChange::TokenRemoved(name) => {
                named.insert(token_name(name), None);
            }
        }
    }
    Ok(named)
}

/// All records that a process knows.
pub(super) fn all(directory: &Directory, accounts: &Accounts) -> serde_json::Result<Named> {
    let mut named = Named::new();
    for tenant in directory.tenants() {
        named.insert(tenant_name(tenant.id), json(&**tenant)?);
    }
    for key in directory.keys() {
        named.insert(key_name(key.id), json(&**key)?);
    }
    for account in accounts.accounts() {
        named.insert(account_name(&account.name), json(&**account)?);
    }
    for login in accounts.logins() {
        named.insert(login_name(login.digest.bytes()), json(&**login)?);
    }
    for token in accounts.tokens() {
        named.insert(token_name(&token.name), json(&**token)?);
    }
    Ok(named)
}

/// The changes that records are, in the order in which they are made: what others belong to is
/// first. `None` if one of them is nothing that this program knows.
pub(super) fn changes(records: &Named) -> Option<Refreshed> {
    let mut ordered: Vec<(u8, &str, &str, Option<&[u8]>)> = Vec::with_capacity(records.len());
    for (name, record) in records {
        let (kind, id) = name.split_once(':')?;
        let order = match kind {
            "tenant" | "account" => 0,
            "key" | "login" | "token" => 1,
            // What is gone need not be known.
            _ if record.is_none() => continue,
            _ => return None,
        };
        ordered.push((order, kind, id, record.as_deref()));
    }
    ordered.sort_by_key(|(order, ..)| *order);
    let mut refreshed = Refreshed::default();
    let Refreshed {
        directory,
        accounts,
    } = &mut refreshed;
    for (_, kind, id, record) in ordered {
        match (kind, record) {
            ("tenant", Some(record)) => {
                directory.push(Change::Tenant(parse::<TenantRecord>(record)?))
            }
            ("tenant", None) => directory.push(Change::TenantRemoved(id.parse().ok()?)),
            ("key", Some(record)) => directory.push(Change::Key(parse::<KeyRecord>(record)?)),
            ("key", None) => directory.push(Change::KeyRemoved(id.parse().ok()?)),
            ("account", Some(record)) => {
                accounts.push(AccountChange::Account(parse::<Account>(record)?));
            }
            ("account", None) => accounts.push(AccountChange::AccountRemoved(id.parse().ok()?)),
            ("login", Some(record)) => accounts.push(AccountChange::Login(parse::<Login>(record)?)),
            ("login", None) => {
                let digest = SecretDigest::try_from(id.to_owned()).ok()?;
                accounts.push(AccountChange::LoginEnded(digest));
            }
            ("token", Some(record)) => {
                accounts.push(AccountChange::Token(parse::<ApiToken>(record)?))
            }
            ("token", None) => accounts.push(AccountChange::TokenRemoved(id.parse().ok()?)),
            _ => return None,
        }
    }
    Some(refreshed)
}

fn parse<T: DeserializeOwned>(record: &[u8]) -> Option<Arc<T>> {
    serde_json::from_slice(record).map(Arc::new).ok()
}
