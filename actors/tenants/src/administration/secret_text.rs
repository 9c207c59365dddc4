use std::fmt;

use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// A secret as text, on its way to or from the one who asks: a new key, a password. It is in JSON,
/// and in no log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// The text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&Secret> for SecretText {
    fn from(secret: &Secret) -> Self {
        Self(secret.expose().to_owned())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}
