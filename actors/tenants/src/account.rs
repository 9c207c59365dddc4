//! Who may administer: people with a password, and programs with an API token.
//!
//! They are few, so all of them are in memory ([`Accounts`]), and what changes is stored as
//! [`AccountChange`]s, in the same way as for the [`directory`](crate::directory).

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{UnixMillis, id::TenantId, name::Name, password::PasswordHash, secret::SecretDigest};

/// Most accounts.
pub const ACCOUNTS_MAX: usize = 1_000;

/// Most API tokens.
pub const TOKENS_MAX: usize = 1_000;

/// Most login sessions of one account: browsers of one person. A new one ends the oldest.
pub const LOGINS_MAX: usize = 16;

/// What someone may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Everything.
    Admin,
    /// To see the keys and the usage of one tenant, and to rotate its keys.
    Holder(TenantId),
}

/// Someone with a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Account {
    /// Identifies it.
    pub name: Name,
    /// What it may do.
    pub role: Role,
    /// What is kept of its password.
    pub password: PasswordHash,
    /// When it was made.
    pub created: UnixMillis,
}

/// A browser in which someone has logged in. (A *session* is one of WebSocket.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Login {
    /// The digest of its cookie.
    pub digest: SecretDigest,
    /// Who.
    pub account: Name,
    /// When it began.
    pub created: UnixMillis,
    /// When it ends.
    pub expires: UnixMillis,
    /// When it was last seen, to the minute or so.
    pub last_seen: UnixMillis,
}

/// What lets a program administer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiToken {
    /// Identifies it.
    pub name: Name,
    /// The digest of what the program presents.
    pub digest: SecretDigest,
    /// What it may do.
    pub role: Role,
    /// When it was made.
    pub created: UnixMillis,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<UnixMillis>,
}

/// One record that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountChange {
    /// An account is new, or was changed.
    Account(Arc<Account>),
    /// An account is gone, and its logins with it.
    AccountRemoved(Name),
    /// Someone logged in, or was seen.
    Login(Arc<Login>),
    /// Someone logged out.
    LoginEnded(SecretDigest),
    /// All logins of an account ended.
    LoginsEnded(Name),
    /// An API token is new, or was changed.
    Token(Arc<ApiToken>),
    /// An API token is gone.
    TokenRemoved(Name),
}

/// Why an account or an API token cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// Another one has the name.
    #[error("the name {0} is in use already")]
    NameTaken(Name),
    /// There are too many.
    #[error("there are {0} already, and no more are possible: remove one")]
    TooMany(usize),
}

/// All accounts, logins and API tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    accounts: HashMap<Name, Arc<Account>>,
    logins: HashMap<SecretDigest, Arc<Login>>,
    tokens: HashMap<Name, Arc<ApiToken>>,
    tokens_by_digest: HashMap<SecretDigest, Name>,
}

impl Accounts {
    /// An account.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<&Arc<Account>> {
        self.accounts.get(name)
    }

    /// All accounts, in no particular order.
    pub fn accounts(&self) -> impl ExactSizeIterator<Item = &Arc<Account>> {
        self.accounts.values()
    }

    /// The login of a cookie, with its account, unless it is over at `now`.
    #[must_use]
    pub fn login(&self, cookie: SecretDigest, now: UnixMillis) -> Option<(&Login, &Account)> {
        let login = self.logins.get(&cookie)?;
        let account = self.accounts.get(&login.account)?;
        (now < login.expires).then_some((login, account))
    }

    /// All logins, in no particular order.
    pub fn logins(&self) -> impl ExactSizeIterator<Item = &Arc<Login>> {
        self.logins.values()
    }

    /// The API token that a program presents, unless it is over at `now`.
    #[must_use]
    pub fn token(&self, presented: SecretDigest, now: UnixMillis) -> Option<&Arc<ApiToken>> {
        let token = self.tokens.get(self.tokens_by_digest.get(&presented)?)?;
        let is_over = token.expires.is_some_and(|expires| expires <= now);
        (!is_over).then_some(token)
    }

    /// All API tokens, in no particular order.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &Arc<ApiToken>> {
        self.tokens.values()
    }

    /// What changes if this account is made.
    ///
    /// # Errors
    /// The name is taken, or there are too many.
    pub fn plan_account(&self, account: Account) -> Result<Vec<AccountChange>, AccountError> {
        if self.accounts.contains_key(&account.name) {
            return Err(AccountError::NameTaken(account.name));
        }
        if self.accounts.len() >= ACCOUNTS_MAX {
            return Err(AccountError::TooMany(ACCOUNTS_MAX));
        }
        Ok(vec![AccountChange::Account(Arc::new(account))])
    }

    /// What changes if this API token is made.
    ///
    /// # Errors
    /// The name or the token is in use, or there are too many.
    pub fn plan_token(&self, token: ApiToken) -> Result<Vec<AccountChange>, AccountError> {
        let is_taken = self.tokens_by_digest.contains_key(&token.digest);
        if is_taken || self.tokens.contains_key(&token.name) {
            return Err(AccountError::NameTaken(token.name));
        }
        if self.tokens.len() >= TOKENS_MAX {
            return Err(AccountError::TooMany(TOKENS_MAX));
        }
        Ok(vec![AccountChange::Token(Arc::new(token))])
    }

    /// What changes if an account's password does: its logins end.
    #[must_use]
    pub fn plan_password(&self, name: &str, password: PasswordHash) -> Vec<AccountChange> {
        let Some(account) = self.accounts.get(name) else {
            return Vec::new();
        };
        let mut account = Account::clone(account);
        account.password = password;
        let ended = AccountChange::LoginsEnded(account.name.clone());
        vec![AccountChange::Account(Arc::new(account)), ended]
    }

    /// What changes if someone logs in: the oldest logins end if there are too many.
    #[must_use]
    pub fn plan_login(&self, login: Login) -> Vec<AccountChange> {
        let own = self
            .logins
            .values()
            .filter(|other| other.account == login.account);
        let mut own: Vec<_> = own.map(|other| (other.created, other.digest)).collect();
        own.sort();
        let ended = (own.len() + 1).saturating_sub(LOGINS_MAX);
        let ended = own.into_iter().take(ended);
        let ended = ended.map(|(_, digest)| AccountChange::LoginEnded(digest));
        ended
            .chain([AccountChange::Login(Arc::new(login))])
            .collect()
    }

    /// What goes with a tenant: the accounts and the API tokens of its holders.
    #[must_use]
    pub fn plan_removal_of(&self, tenant: TenantId) -> Vec<AccountChange> {
        let is_holder = |role| role == Role::Holder(tenant);
        let accounts = self
            .accounts
            .values()
            .filter(|account| is_holder(account.role));
        let tokens = self.tokens.values().filter(|token| is_holder(token.role));
        let accounts = accounts.map(|account| AccountChange::AccountRemoved(account.name.clone()));
        let tokens = tokens.map(|token| AccountChange::TokenRemoved(token.name.clone()));
        accounts.chain(tokens).collect()
    }

    /// What is over at `now`: logins, and API tokens.
    #[must_use]
    pub fn plan_expiry(&self, now: UnixMillis) -> Vec<AccountChange> {
        let logins = self.logins.values().filter(|login| login.expires <= now);
        let logins = logins.map(|login| AccountChange::LoginEnded(login.digest));
        let is_over = |token: &&Arc<ApiToken>| token.expires.is_some_and(|expires| expires <= now);
        let tokens = self.tokens.values().filter(is_over);
        let tokens = tokens.map(|token| AccountChange::TokenRemoved(token.name.clone()));
        logins.chain(tokens).collect()
    }

    /// Makes a change that was planned, or read from a store. A login of an unknown account is left
    /// out: its account was removed.
    pub fn make(&mut self, change: AccountChange) {
        match change {
            AccountChange::Account(account) => {
                self.accounts.insert(account.name.clone(), account);
            }
            AccountChange::AccountRemoved(name) => {
                self.accounts.remove(&name);
                self.logins.retain(|_, login| login.account != name);
            }
            AccountChange::Login(login) if self.accounts.contains_key(&login.account) => {
                self.logins.insert(login.digest, login);
            }
            AccountChange::Login(_) => {}
            AccountChange::LoginEnded(digest) => {
                self.logins.remove(&digest);
            }
            AccountChange::LoginsEnded(name) => {
                self.logins.retain(|_, login| login.account != name)
            }
            AccountChange::Token(token) => {
                if let Some(before) = self.tokens.get(&token.name) {
                    self.tokens_by_digest.remove(&before.digest);
                }
                self.tokens_by_digest
                    .insert(token.digest, token.name.clone());
                self.tokens.insert(token.name.clone(), token);
            }
            AccountChange::TokenRemoved(name) => {
                if let Some(token) = self.tokens.remove(&name) {
                    self.tokens_by_digest.remove(&token.digest);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
