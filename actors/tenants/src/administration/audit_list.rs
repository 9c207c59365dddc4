use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{
    AdminError, Administration, Operation, Requester, StoreCall, TenantRef, key_list::list_limit,
};
use crate::{
    UnixMillis,
    account::Role,
    audit::{AuditEntry, AuditNumber, AuditPage, AuditQuery, Author},
    id::{KeyId, TenantId},
    name::Name,
};

/// Most entries of one page of the audit.
pub const AUDIT_LIST_MAX: usize = 500;

/// Entries of a page, unless it is said.
const LIMIT: usize = 100;

/// Lists entries of the audit, the newest first. Holders see those of their tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListAudit {
    /// Only older ones than this: [`AuditListView::next`] of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Only those of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantRef>,
    /// Only those of this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// Most entries of the answer; 100 if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Lists who has logged in from where, the newest first. It is no call of the admin API.
#[derive(Clone, Copy, Debug)]
pub struct ListLogins {
    /// Only older ones than this: [`LoginPage::next`] of the page before.
    pub before: Option<AuditNumber>,
    /// Most entries of the page.
    pub limit: usize,
}

/// Who has logged in from where. Of those whose address is not known, there is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginPage {
    /// Accounts and addresses, the newest first.
    pub logins: Vec<(Name, IpAddr)>,
    /// Where the next page begins, if there is one.
    pub next: Option<AuditNumber>,
}

/// A page of the audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditListView {
    /// The entries, the newest first.
    pub entries: Vec<AuditEntryView>,
    /// What `before` is for the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// An entry of the audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntryView {
    /// Its place among all.
    pub number: u64,
    /// When.
    pub at: UnixMillis,
    /// Who.
    pub author: AuthorView,
    /// The address that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// What: a word such as `key.revoke`.
    pub verb: String,
    /// The tenant that it was done to, or the key's tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The tenant's name, if there still is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_name: Option<Name>,
    /// The key that it was done to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// The key's name, if there still is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_name: Option<Name>,
    /// What else is known of it: an object.
    pub detail: serde_json::Value,
}

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "name")]
pub enum AuthorView {
    /// Someone with a password: the account's name.
    Account(Name),
    /// A program: the name of its API token.
    Token(Name),
    /// Whoever can run commands on the machine.
    CommandLine,
    /// The configuration.
    Configuration,
    /// The service itself.
    Service,
    /// Nobody who is known.
    Unknown,
}

impl From<&Author> for AuthorView {
    fn from(author: &Author) -> Self {
        match author {
            Author::Account(name) => Self::Account(name.clone()),
            Author::Token(name) => Self::Token(name.clone()),
            Author::CommandLine => Self::CommandLine,
            Author::Configuration => Self::Configuration,
            Author::Service => Self::Service,
            Author::Unknown => Self::Unknown,
        }
    }
}

impl Operation for ListAudit {
    type Answer = AuditListView;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<AuditListView, AdminError> {
        let limit = list_limit(self.limit.or(Some(LIMIT)), AUDIT_LIST_MAX)?;
        let own = by.own_tenant()?;
        let tenant = match &self.tenant {
            Some(named) => Some(administration.tenant_of_entries(named, by)?),
            None => own,
        };
        let query = AuditQuery {
            before: self.before.map(AuditNumber),
            tenant,
            key: self.key,
            logins: false,
            entries_max: limit,
        };
        let AuditPage { entries, next } =
            administration.store(StoreCall::Read, |store| store.audit(&query))?;
        let entries = entries.into_iter();
        let entries = entries.map(|(number, entry)| administration.entry_view(number, entry, by));
        Ok(AuditListView {
            entries: entries.collect(),
            next: next.map(|number| number.0),
        })
    }
}

impl Operation for ListLogins {
    type Answer = LoginPage;

    fn run(
        self,
        administration: &mut Administration,
        by: &Requester,
    ) -> Result<LoginPage, AdminError> {
        by.check_admin()?;
        let query = AuditQuery {
            before: self.before,
            logins: true,
            entries_max: self.limit,
            ..AuditQuery::default()
        };
        let AuditPage { entries, next } =
            administration.store(StoreCall::Read, |store| store.audit(&query))?;
        let logins = entries.into_iter().filter_map(|(_, entry)| {
            let Author::Account(name) = entry.author else {
                return None;
            };
            Some((name, entry.from?))
        });
        Ok(LoginPage {
            logins: logins.collect(),
            next,
        })
    }
}

impl Administration {
    /// The tenant whose entries are asked for. An administrator may ask for one that is gone, by
    /// its id.
    fn tenant_of_entries(&self, named: &TenantRef, by: &Requester) -> Result<TenantId, AdminError> {
        let id: Option<TenantId> = named.as_str().parse().ok();
        match (self.tenant(named, by), id) {
            (Ok(tenant), _) => Ok(tenant.id),
            (Err(_), Some(id)) if by.role == Some(Role::Admin) => Ok(id),
            (Err(error), _) => Err(error),
        }
    }

    fn entry_view(
        &self,
        AuditNumber(number): AuditNumber,
        entry: AuditEntry,
        by: &Requester,
    ) -> AuditEntryView {
        // Where administrators work is not for holders to know.
        let sees_address = by.role == Some(Role::Admin) || entry.author == by.author;
        let tenant_name = entry.tenant.and_then(|id| self.tenant_name(id));
        let key_name = entry.key.and_then(|id| self.key_name(id));
        AuditEntryView {
            number,
            at: entry.at,
            author: AuthorView::from(&entry.author),
            from: entry.from.filter(|_| sees_address),
            verb: entry.verb.to_string(),
            tenant: entry.tenant,
            tenant_name: tenant_name.map(|tenant| tenant.name),
            key: entry.key,
            key_name,
            // It was written as an object.
            detail: serde_json::from_str(entry.detail.as_str()).unwrap_or_default(),
        }
    }

    fn key_name(&self, id: KeyId) -> Option<Name> {
        self.directory.key(id).map(|key| key.name.clone())
    }
}
