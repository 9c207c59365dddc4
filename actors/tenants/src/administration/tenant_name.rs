use std::{convert::Infallible, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{id::TenantId, name::Name};

/// A tenant's id and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantName {
    /// Identifies it.
    pub id: TenantId,
    /// Its name.
    pub name: Name,
}

/// Names a tenant: by its id, or by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantRef(String);

impl TenantRef {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantRef {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl From<TenantId> for TenantRef {
    fn from(id: TenantId) -> Self {
        Self(id.to_string())
    }
}

impl From<&Name> for TenantRef {
    fn from(name: &Name) -> Self {
        Self(name.as_str().to_owned())
    }
}

impl fmt::Display for TenantRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
