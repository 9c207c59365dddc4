//! What people call tenants and keys.

use std::{borrow::Borrow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Longest name in bytes.
const BYTES_MAX: usize = 128;

/// A name of 1 to 128 bytes of UTF-8: without control characters, without those that change the
/// direction of a text, and without spaces at its ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Box<str>);

/// A text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {BYTES_MAX} bytes, no control characters and no spaces at its ends")]
pub struct InvalidName;

impl Name {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a character would be read as something else than it is.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        )
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let is_valid = (1..=BYTES_MAX).contains(&text.len())
            && text.trim() == text
            && !text.chars().any(is_hidden);
        match is_valid {
            true => Ok(Self(text.into())),
            false => Err(InvalidName),
        }
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let (longest, longer) = ("é".repeat(64), "é".repeat(64) + "x");
        for (text, is_valid) in [
            ("alice", true),
            ("Wallet of Zoë, <b>2</b> & co", true),
            ("财务", true),
            (longest.as_str(), true),
            (longer.as_str(), false),
            ("", false),
            (" ", false),
            (" alice", false),
            ("alice\n", false),
            ("a\u{0}b", false),
            ("a\u{202e}b", false),
            ("a\u{200b}b", false),
        ] {
            assert_eq!(text.parse::<Name>().is_ok(), is_valid, "{text:?}");
        }
    }
}
