use std::{convert::Infallible, fmt, str::FromStr};

use ring::digest;
use serde::{Deserialize, Serialize};

/// What a record is at one time: after a change of it, its version is another one. Whoever changes
/// what they have read sends it back, so that they do not undo what others have changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(String);

impl Version {
    /// That of a record. It depends on nothing but what is in it.
    pub(super) fn of(record: &impl Serialize) -> Self {
        // A record is stored as JSON, so this does not fail.
        let json = serde_json::to_vec(record).unwrap_or_default();
        let digest = digest::digest(&digest::SHA256, &json);
        let mut first = [0; 8];
        first.copy_from_slice(&digest.as_ref()[..8]);
        Self(format!("{:016x}", u64::from_be_bytes(first)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Any text is one, if perhaps that of no record.
impl FromStr for Version {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}
