//! An entry as JSON, for stores that keep it as one text.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{AuditEntry, Author, Detail};
use crate::{
    UnixMillis,
    id::{KeyId, TenantId},
};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEntry {
    at: UnixMillis,
    author: Author,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<IpAddr>,
    verb: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<TenantId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<KeyId>,
    detail: String,
}

impl AuditEntry {
    /// The entry as JSON.
    ///
    /// # Errors
    /// None that is known: all of it has a form in JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(&StoredEntry {
            at: self.at,
            author: self.author.clone(),
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
        Some(Self {
            at: stored.at,
            author: stored.author,
            from: stored.from,
            verb: stored.verb.parse().ok()?,
            tenant: stored.tenant,
            key: stored.key,
            detail: Detail::stored(&stored.detail)?,
        })
    }
}
