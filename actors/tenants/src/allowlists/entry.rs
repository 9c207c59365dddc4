//! What entries of lists are, and how they are written.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Longest entry in bytes.
pub(super) const ENTRY_BYTES_MAX: usize = 256;

/// An entry cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntry {
    /// Of origins.
    #[error("an origin is SCHEME://HOST with an optional :PORT; a host may begin with *.")]
    Origin,
    /// Of user agents.
    #[error("a part of a user agent has 1 to {ENTRY_BYTES_MAX} visible ASCII characters or spaces")]
    UserAgent,
    /// Of methods.
    #[error("a method's name has 1 to 64 letters, digits and underscores")]
    Method,
    /// Of networks.
    #[error("a network is an IP address, or one with a prefix length such as 10.0.0.0/8")]
    Network,
}

/// A part of a user agent, in upper or lower case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserAgentPart(Box<str>);

impl UserAgentPart {
    /// Whether a user agent has it.
    pub(super) fn fits(&self, user_agent: &str) -> bool {
        let part = self.0.as_bytes();
        let mut windows = user_agent.as_bytes().windows(part.len());
        windows.any(|window| window.eq_ignore_ascii_case(part))
    }
}

impl FromStr for UserAgentPart {
    type Err = InvalidEntry;

    fn from_str(text: &str) -> Result<Self, InvalidEntry> {
        let is_valid = (1..=ENTRY_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        match is_valid {
            true => Ok(Self(text.into())),
            false => Err(InvalidEntry::UserAgent),
        }
    }
}

impl fmt::Display for UserAgentPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a method. Whether it exists is for the caller to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MethodName(Box<str>);

impl MethodName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MethodName {
    type Err = InvalidEntry;

    fn from_str(text: &str) -> Result<Self, InvalidEntry> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        match (1..=64).contains(&text.len()) && text.bytes().all(is_part) {
            true => Ok(Self(text.into())),
            false => Err(InvalidEntry::Method),
        }
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A network, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network(IpNet);

impl Network {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = InvalidEntry;

    fn from_str(text: &str) -> Result<Self, InvalidEntry> {
        let network = match text.parse::<IpAddr>() {
            Ok(address) => Ok(IpNet::from(address.to_canonical())),
            Err(_) => text.parse::<IpNet>(),
        };
        network
            .map(|network| Self(network.trunc()))
            .map_err(|_| InvalidEntry::Network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads and writes entries as texts.
macro_rules! as_text {
    ($($name:ident)+) => {$(
        impl TryFrom<String> for $name {
            type Error = InvalidEntry;

            fn try_from(text: String) -> Result<Self, InvalidEntry> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(entry: $name) -> Self {
                entry.to_string()
            }
        }
    )+};
}

pub(super) use as_text;

as_text! { UserAgentPart MethodName Network }

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.3/8", "10.9.9.9", "9.1.2.3"),
            ("10.0.0.0/8", "::ffff:10.1.1.1", "::10.1.1.1"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::1"),
            ("::1", "::1", "127.0.0.1"),
            ("::ffff:10.1.2.3", "10.1.2.3", "10.1.2.4"),
        ] {
            let parsed: Network = network.parse().unwrap();
            for (address, expected) in [(inside, true), (outside, false)] {
                let found = parsed.contains(address.parse().unwrap());
                assert_eq!(found, expected, "{network} and {address}");
            }
        }
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0",
            "::/129",
            "example.org",
            "10.0.0.0/8 ",
        ] {
            assert_eq!(
                text.parse::<Network>(),
                Err(InvalidEntry::Network),
                "{text:?}"
            );
        }
    }
}
