use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    AccountView, AdminError, Administration, AuthorView, Identity, Operation, Requester, RoleName,
    SecretText, TenantName, VerifiedPassword, requester::detail,
};
use crate::{
    UnixMillis,
    account::{Account, AccountChange, Login, Role},
    audit::{AuditEntry, Author, Detail, Verb},
    name::Name,
    password::PasswordHash,
    secret::{Secret, SecretDigest},
};

/// How old the time may be at which a login was last seen: each new one is a write.
const SEEN_INTERVAL: Duration = Duration::from_secs(60);

/// Asks whether there is an account. If not, the first one may be claimed.
#[derive(Clone, Copy, Debug)]
pub struct HasAccounts;

/// Logs somebody in whose password was verified.
#[derive(Clone, Debug)]
pub struct BeginLogin {
    /// The proof.
    pub verified: VerifiedPassword,
    /// How long the login lasts.
    pub lifetime: Duration,
}

/// Writes down that somebody gave a wrong name or password.
#[derive(Clone, Debug)]
pub struct RefuseLogin {
    /// The name that they gave.
    pub name: String,
}

/// Ends a login.
#[derive(Clone, Copy, Debug)]
pub struct EndLogin {
    /// The digest of its cookie.
    pub cookie: SecretDigest,
}

/// Looks up who presents a credential.
#[derive(Clone, Copy, Debug)]
pub struct Authenticate(pub Credential);

/// Looks up the account of a name. Only a proxy that authenticates people is believed so.
#[derive(Clone, Debug)]
pub struct AuthenticateNamed {
    /// The name that it gave.
    pub name: String,
}

/// What somebody presents, as its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The cookie of a login.
    Cookie(SecretDigest),
    /// An API token.
    Token(SecretDigest),
}

/// Makes the first administrator. The caller has checked the one-time token of the first start.
///
/// To hash a password is slow, so it is hashed before, on another thread.
#[derive(Clone, Debug)]
pub struct ClaimFirstAccount {
    /// Its name.
    pub name: Name,
    /// What is kept of its password.
    pub password: PasswordHash,
}

/// A login that has begun. It has no JSON.
#[derive(Clone, Debug)]
pub struct NewLogin {
    /// The cookie itself.
    pub cookie: SecretText,
    /// When it ends.
    pub expires: UnixMillis,
    /// Who logged in.
    pub identity: Identity,
}

/// Asks who one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhoAmI {}

/// Who one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeView {
    /// Who.
    pub author: AuthorView,
    /// What one may do.
    pub role: RoleName,
    /// The tenant of a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
}

impl Operation for HasAccounts {
    type Answer = bool;

    fn run(self, administration: &mut Administration, _: &Requester) -> Result<bool, AdminError> {
        Ok(administration.accounts.accounts().len() > 0)
    }
}

impl Operation for BeginLogin {
    type Answer = NewLogin;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<NewLogin, AdminError> {
        let Self { verified, lifetime } = self;
        let account = administration.accounts.account(verified.account.as_str());
        // The password may have changed since it was verified.
        let account = account.filter(|account| verified.is_of(account));
        let account = Arc::clone(account.ok_or(AdminError::WrongPassword)?);
        let made = Secret::generate()?;
        let expires = by.now.after(lifetime);
        let login = Login {
            digest: made.digest(),
            account: account.name.clone(),
            created: by.now,
            expires,
            last_seen: by.now,
        };
        let identity = identity_of(&account);
        let changes = administration.accounts.plan_login(login);
        let entry = login_entry(Verb::LOGIN, &account, by);
        administration.commit(Vec::new(), changes, &[entry])?;
        Ok(NewLogin {
            cookie: SecretText::from(&made),
            expires,
            identity,
        })
    }
}

impl Operation for RefuseLogin {
    type Answer = ();

    fn run(self, administration: &mut Administration, by: &Requester) -> Result<(), AdminError> {
        let account = administration.accounts.account(&self.name);
        // What is no account's name may be a password in the wrong field.
        let name = account.map(|account| &account.name);
        let tenant = account.and_then(|account| RoleName::of(account.role).1);
        let detail = detail(&[("account", json!(name))]);
        let entry = AuditEntry {
            tenant,
            author: Author::Unknown,
            ..by.entry(Verb::LOGIN_REFUSED, detail)
        };
        Ok(administration.commit(Vec::new(), Vec::new(), &[entry])?)
    }
}

impl Operation for EndLogin {
    type Answer = ();

    fn run(self, administration: &mut Administration, by: &Requester) -> Result<(), AdminError> {
        let found = administration.accounts.login(self.cookie, by.now);
        let Some((_, account)) = found else {
            // It is over already.
            return Ok(());
        };
        let entry = login_entry(Verb::LOGOUT, account, by);
        let ended = AccountChange::LoginEnded(self.cookie);
        Ok(administration.commit(Vec::new(), vec![ended], &[entry])?)
    }
}

impl Operation for Authenticate {
    type Answer = Option<Identity>;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<Option<Identity>, AdminError> {
        let accounts = &administration.accounts;
        let cookie = match self.0 {
            Credential::Cookie(cookie) => cookie,
            Credential::Token(presented) => {
                let token = accounts.token(presented, by.now);
                return Ok(token.map(|token| Identity {
                    author: Author::Token(token.name.clone()),
                    role: Some(token.role),
                }));
            }
        };
        let Some((login, account)) = accounts.login(cookie, by.now) else {
            return Ok(None);
        };
        let identity = identity_of(account);
        if by.now >= login.last_seen.after(SEEN_INTERVAL) {
            let mut seen = login.clone();
            seen.last_seen = by.now;
            let seen = AccountChange::Login(Arc::new(seen));
            // If this cannot be stored, they are logged in all the same.
            let _ = administration.commit(Vec::new(), vec![seen], &[]);
        }
        Ok(Some(identity))
    }
}

impl Operation for AuthenticateNamed {
    type Answer = Option<Identity>;

    fn run(
        self,
        administration: &mut Administration,
        _: &Requester,
    ) -> Result<Option<Identity>, AdminError> {
        let account = administration.accounts.account(&self.name);
        Ok(account.map(|account| identity_of(account)))
    }
}

impl Operation for ClaimFirstAccount {
    type Answer = AccountView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<AccountView, AdminError> {
        if administration.accounts.accounts().len() > 0 {
            return Err(AdminError::HasAccounts);
        }
        administration.make_account(self.name, self.password, Role::Admin, by)
    }
}

impl Operation for WhoAmI {
    type Answer = MeView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<MeView, AdminError> {
        let (role, tenant) = RoleName::of(by.role()?);
        Ok(MeView {
            author: AuthorView::from(&by.author),
            role,
            tenant: tenant.and_then(|tenant| administration.tenant_name(tenant)),
        })
    }
}

fn identity_of(account: &Account) -> Identity {
    Identity {
        author: Author::Account(account.name.clone()),
        role: Some(account.role),
    }
}

/// The entry of what the owner of an account does before or after being logged in.
fn login_entry(verb: Verb, account: &Account, by: &Requester) -> AuditEntry {
    AuditEntry {
        author: Author::Account(account.name.clone()),
        tenant: RoleName::of(account.role).1,
        ..by.entry(verb, Detail::default())
    }
}
