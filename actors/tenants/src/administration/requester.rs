use std::net::IpAddr;

use serde_json::Value;

use crate::{
    UnixMillis,
    account::Role,
    administration::AdminError,
    audit::{AuditEntry, Author, Detail, Verb},
    id::TenantId,
    name::Name,
};

/// Who somebody is, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who.
    pub author: Author,
    /// What they may do; `None` for somebody who is not logged in.
    pub role: Option<Role>,
}

impl Identity {
    /// Somebody who is not logged in.
    #[must_use]
    pub const fn nobody() -> Self {
        Self {
            author: Author::Unknown,
            role: None,
        }
    }

    /// Whoever can run commands on the machine. They may do everything.
    #[must_use]
    pub const fn command_line() -> Self {
        Self {
            author: Author::CommandLine,
            role: Some(Role::Admin),
        }
    }
}

/// Who asks for an operation, from where, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// Who.
    pub author: Author,
    /// What they may do; `None` for somebody who is not logged in.
    pub role: Option<Role>,
    /// The address that they ask from.
    pub from: Option<IpAddr>,
    /// When they ask.
    pub now: UnixMillis,
}

impl Requester {
    /// Somebody who asks from `from` at `now`.
    #[must_use]
    pub fn new(Identity { author, role }: Identity, from: Option<IpAddr>, now: UnixMillis) -> Self {
        Self {
            author,
            role,
            from,
            now,
        }
    }

    /// What they may do.
    pub(super) fn role(&self) -> Result<Role, AdminError> {
        self.role.ok_or(AdminError::NotLoggedIn)
    }

    /// Checks that they may do everything.
    pub(super) fn check_admin(&self) -> Result<(), AdminError> {
        match self.role()? {
            Role::Admin => Ok(()),
            Role::Holder(_) => Err(AdminError::NotAllowed),
        }
    }

    /// Whether they may see what belongs to a tenant.
    pub(super) fn may_see(&self, tenant: TenantId) -> bool {
        match self.role {
            Some(Role::Admin) => true,
            Some(Role::Holder(own)) => own == tenant,
            None => false,
        }
    }

    /// The tenant to whose things they are confined; `None` for an administrator.
    pub(super) fn own_tenant(&self) -> Result<Option<TenantId>, AdminError> {
        Ok(match self.role()? {
            Role::Admin => None,
            Role::Holder(own) => Some(own),
        })
    }

    /// An entry of the audit that says what they did, without a tenant or key.
    pub(super) fn entry(&self, verb: Verb, detail: Detail) -> AuditEntry {
        AuditEntry {
            at: self.now,
            author: self.author.clone(),
            from: self.from,
            verb,
            tenant: None,
            key: None,
            detail,
        }
    }

    /// The name of their account, if they have one.
    pub(super) const fn account(&self) -> Option<&Name> {
        match &self.author {
            Author::Account(name) => Some(name),
            _ => None,
        }
    }
}

/// The detail of an entry of the audit, of these members.
pub(super) fn detail(members: &[(&str, Value)]) -> Detail {
    let members = members.iter();
    let members = members.filter(|(_, value)| !value.is_null());
    Detail::of(
        members
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    )
}
