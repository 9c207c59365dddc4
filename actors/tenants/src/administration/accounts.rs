use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    AdminError, Administration, FindPassword, Operation, Requester, SecretText, StoredPassword,
    TenantName, TenantRef, VerifiedPassword, requester::detail,
};
use crate::{
    UnixMillis,
    account::{Account, AccountChange, Role},
    audit::{AuditEntry, Verb},
    id::TenantId,
    name::Name,
    password::PasswordHash,
};

/// What someone may do, in JSON beside the tenant of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RoleName {
    /// Everything.
    Admin,
    /// To see the keys and the usage of one tenant, and to rotate its keys.
    Holder,
}

/// Lists all accounts, sorted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListAccounts {}

/// Makes an account.
///
/// To hash its password is slow, so where others wait, [`Self::prepare`] it on another thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAccount {
    /// Its name; no other account has it.
    pub name: Name,
    /// Its password.
    pub password: SecretText,
    /// What it may do.
    pub role: RoleName,
    /// The tenant of a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantRef>,
}

/// A [`CreateAccount`] whose password is hashed.
#[derive(Clone, Debug)]
pub struct PreparedAccount {
    pub(super) name: Name,
    pub(super) password: PasswordHash,
    pub(super) role: RoleName,
    pub(super) tenant: Option<TenantRef>,
}

/// Removes an account, and ends its logins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveAccount {
    /// Which one.
    pub name: Name,
}

/// Changes a password, and ends the account's logins. Whoever changes their own gives the present
/// one too.
///
/// To hash passwords is slow, so where others wait, [`Self::prepare`] it on another thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetPassword {
    /// Whose.
    pub name: Name,
    /// The new one.
    pub password: SecretText,
    /// The present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<SecretText>,
}

/// A [`SetPassword`] whose passwords are verified and hashed.
#[derive(Clone, Debug)]
pub struct PreparedPassword {
    pub(super) name: Name,
    pub(super) password: PasswordHash,
    pub(super) verified: Option<VerifiedPassword>,
}

/// All accounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountsView {
    /// The accounts.
    pub accounts: Vec<AccountView>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountView {
    /// Its name.
    pub name: Name,
    /// What it may do.
    pub role: RoleName,
    /// The tenant of a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// When it was made.
    pub created: UnixMillis,
    /// When one of its logins was last seen, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<UnixMillis>,
}

impl Operation for ListAccounts {
    type Answer = AccountsView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<AccountsView, AdminError> {
        by.check_admin()?;
        let mut seen: HashMap<&Name, UnixMillis> = HashMap::new();
        for login in administration.accounts.logins() {
            let last = seen.entry(&login.account).or_default();
            *last = login.last_seen.max(*last);
        }
        let accounts = administration.accounts.accounts();
        let accounts = accounts.map(|account| AccountView {
            last_seen: seen.get(&account.name).copied(),
            ..administration.account_view(account)
        });
        let mut accounts: Vec<_> = accounts.collect();
        accounts.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(AccountsView { accounts })
    }
}

impl CreateAccount {
    /// Hashes the password, which takes some 20 ms.
    ///
    /// # Errors
    /// The password is too short or too long.
    pub fn prepare(self) -> Result<PreparedAccount, AdminError> {
        Ok(PreparedAccount {
            name: self.name,
            password: PasswordHash::new(self.password.expose())?,
            role: self.role,
            tenant: self.tenant,
        })
    }
}

impl Operation for CreateAccount {
    type Answer = AccountView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<AccountView, AdminError> {
        by.check_admin()?;
        self.prepare()?.run(administration, by)
    }
}

impl Operation for PreparedAccount {
    type Answer = AccountView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<AccountView, AdminError> {
        by.check_admin()?;
        let role = administration.role(self.role, self.tenant.as_ref(), by)?;
        administration.make_account(self.name, self.password, role, by)
    }
}

impl Operation for RemoveAccount {
    type Answer = ();

    fn run(self, administration: &mut Administration, by: &Requester) -> Result<(), AdminError> {
        by.check_admin()?;
        let Self { name } = self;
        let Some(account) = administration.accounts.account(name.as_str()) else {
            return Err(AdminError::NoAccount(name));
        };
        let role = account.role;
        let admins = administration.accounts.accounts();
        let admins = admins.filter(|account| account.role == Role::Admin).count();
        if role == Role::Admin && admins == 1 {
            return Err(AdminError::LastAdministrator(name));
        }
        let entry = account_entry(Verb::ACCOUNT_REMOVE, &name, role, by);
        let removed = AccountChange::AccountRemoved(name);
        Ok(administration.commit(Vec::new(), vec![removed], &[entry])?)
    }
}

impl SetPassword {
    /// Hashes the new password, and verifies the present one if it is given; this takes some 20 ms
    /// for each. `stored` is what [`FindPassword`](super::FindPassword) answers.
    ///
    /// # Errors
    /// The new password is too short or too long, or the present one is wrong.
    pub fn prepare(self, stored: &StoredPassword) -> Result<PreparedPassword, AdminError> {
        let verified = match &self.present {
            Some(present) => Some(stored.verify(present).ok_or(AdminError::WrongPassword)?),
            None => None,
        };
        Ok(PreparedPassword {
            name: self.name,
            password: PasswordHash::new(self.password.expose())?,
            verified,
        })
    }
}

impl Operation for SetPassword {
    type Answer = ();

    fn run(self, administration: &mut Administration, by: &Requester) -> Result<(), AdminError> {
        check_may_set(&self.name, by)?;
        let name = self.name.to_string();
        let stored = FindPassword { name }.run(administration, by)?;
        self.prepare(&stored)?.run(administration, by)
    }
}

impl Operation for PreparedPassword {
    type Answer = ();

    fn run(self, administration: &mut Administration, by: &Requester) -> Result<(), AdminError> {
        check_may_set(&self.name, by)?;
        let Self {
            name,
            password,
            verified,
        } = self;
        let Some(account) = administration.accounts.account(name.as_str()) else {
            return Err(AdminError::NoAccount(name));
        };
        // A browser that somebody left open is not enough to lock its owner out.
        let is_own = by.account() == Some(&name);
        let is_verified = verified.is_some_and(|verified| verified.is_of(account));
        if is_own && !is_verified {
            return Err(AdminError::WrongPassword);
        }
        let entry = account_entry(Verb::ACCOUNT_PASSWORD, &name, account.role, by);
        let changes = administration
            .accounts
            .plan_password(name.as_str(), password);
        Ok(administration.commit(Vec::new(), changes, &[entry])?)
    }
}

/// Checks that they may set the password of an account.
fn check_may_set(account: &Name, by: &Requester) -> Result<(), AdminError> {
    match by.role()? {
        Role::Admin => Ok(()),
        Role::Holder(_) if by.account() == Some(account) => Ok(()),
        Role::Holder(_) => Err(AdminError::NotAllowed),
    }
}

fn account_entry(verb: Verb, account: &Name, role: Role, by: &Requester) -> AuditEntry {
    let (role, tenant) = RoleName::of(role);
    let detail = detail(&[("account", json!(account)), ("role", json!(role))]);
    AuditEntry {
        tenant,
        ..by.entry(verb, detail)
    }
}

impl RoleName {
    /// The name of a role, and the tenant of a holder.
    #[must_use]
    pub const fn of(role: Role) -> (Self, Option<TenantId>) {
        match role {
            Role::Admin => (Self::Admin, None),
            Role::Holder(tenant) => (Self::Holder, Some(tenant)),
        }
    }
}

impl Administration {
    /// The role that is asked for.
    pub(super) fn role(
        &self,
        role: RoleName,
        tenant: Option<&TenantRef>,
        by: &Requester,
    ) -> Result<Role, AdminError> {
        match (role, tenant) {
            (RoleName::Admin, None) => Ok(Role::Admin),
            (RoleName::Holder, Some(tenant)) => Ok(Role::Holder(self.tenant(tenant, by)?.id)),
            (RoleName::Admin, Some(_)) => {
                let reason = "an administrator has no tenant: leave it out";
                Err(AdminError::invalid("tenant", reason))
            }
            (RoleName::Holder, None) => {
                let reason = "a holder needs a tenant: give its id or its name";
                Err(AdminError::invalid("tenant", reason))
            }
        }
    }

    pub(super) fn make_account(
        &mut self,
        name: Name,
        password: PasswordHash,
        role: Role,
        by: &Requester,
    ) -> Result<AccountView, AdminError> {
        let entry = account_entry(Verb::ACCOUNT_CREATE, &name, role, by);
        let account = Account {
            name,
            role,
            password,
            created: by.now,
        };
        let view = self.account_view(&account);
        let changes = self.accounts.plan_account(account)?;
        self.commit(Vec::new(), changes, &[entry])?;
        Ok(view)
    }

    fn account_view(&self, account: &Account) -> AccountView {
        let (role, tenant) = RoleName::of(account.role);
        AccountView {
            name: account.name.clone(),
            role,
            tenant: tenant.and_then(|tenant| self.tenant_name(tenant)),
            created: account.created,
            last_seen: None,
        }
    }
}
