//! An entry as JSON, for stores that keep it as one text.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{AuditEntry, Author, Detail};
use crate::{
    UnixMillis,
    id::{KeyId, TenantId},
    name::Name,
};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEntry {
    at: UnixMillis,
    author: StoredAuthor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<IpAddr>,
    verb: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<TenantId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<KeyId>,
    detail: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum StoredAuthor {
    Account(Name),
    Token(Name),
    CommandLine,
    Configuration,
    Service,
    Unknown,
}

impl AuditEntry {
    /// The entry as JSON.
    ///
    /// # Errors
    /// None that is known: all of it has a form in JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let author = match &self.author {
            Author::Account(name) => StoredAuthor::Account(name.clone()),
            Author::Token(name) => StoredAuthor::Token(name.clone()),
            Author::CommandLine => StoredAuthor::CommandLine,
            Author::Configuration => StoredAuthor::Configuration,
            Author::Service => StoredAuthor::Service,
            Author::Unknown => StoredAuthor::Unknown,
        };
        serde_json::to_vec(&StoredEntry {
            at: self.at,
            author,
            from: self.from,
            verb: self.verb.as_str().to_owned(),
            tenant: self.tenant,
            key: self.key,
            detail: self.detail.as_str().to_owned(),
        })
    }

    /// Reads what [`Self::to_json`] has written; `None` if it is something else.
    #[must_use]
    pub fn from_json(bytes: &[u8]) -> Option<Self> {
        let stored: StoredEntry = serde_json::from_slice(bytes).ok()?;
        let author = match stored.author {
            StoredAuthor::Account(name) => Author::Account(name),
            StoredAuthor::Token(name) => Author::Token(name),
            StoredAuthor::CommandLine => Author::CommandLine,
            StoredAuthor::Configuration => Author::Configuration,
            StoredAuthor::Service => Author::Service,
            StoredAuthor::Unknown => Author::Unknown,
        };
        Some(Self {
            at: stored.at,
            author,
            from: stored.from,
            verb: stored.verb.parse().ok()?,
            tenant: stored.tenant,
            key: stored.key,
            detail: Detail::stored(&stored.detail)?,
        })
    }
}
