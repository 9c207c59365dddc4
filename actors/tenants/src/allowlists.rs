//! To what a key is narrowed: origins, user agents, methods, contracts and networks.
//!
//! A request has to pass every list that is not empty, and passes a list if one entry fits.

use std::{fmt, net::IpAddr, str::FromStr};

use alloy_primitives::Address;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Most entries of one list.
pub const ENTRIES_MAX: usize = 30;

/// Longest entry in bytes.
const ENTRY_BYTES_MAX: usize = 256;

/// What a list is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// The pages that a browser sends requests from.
    Origins,
    /// The programs that send requests.
    UserAgents,
    /// The methods that may be called.
    Methods,
    /// The contracts that may be read.
    Contracts,
    /// The networks that requests come from.
    Networks,
}

impl fmt::Display for ListKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Origins => "origin",
            Self::UserAgents => "user agent",
            Self::Methods => "method",
            Self::Contracts => "contract address",
            Self::Networks => "IP address",
        })
    }
}

/// The lists of a key. An empty one allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Allowlists {
    /// Pages.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub origins: Entries<OriginPattern>,
    /// Programs.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub user_agents: Entries<UserAgentPart>,
    /// Methods.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub methods: Entries<MethodName>,
    /// Contracts.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub contracts: Entries<Address>,
    /// Networks; an address alone is a network of one.
    #[serde(skip_serializing_if = "Entries::is_empty")]
    pub networks: Entries<Network>,
}

impl Allowlists {
    /// Whether a page may send requests; `origin` is the header of that name.
    #[must_use]
    pub fn allow_origin(&self, origin: Option<&str>) -> bool {
        self.origins
            .allow(|pattern| origin.is_some_and(|origin| pattern.fits(origin)))
    }

    /// Whether a program may send requests; `user_agent` is the header of that name.
    #[must_use]
    pub fn allow_user_agent(&self, user_agent: Option<&str>) -> bool {
        self.user_agents
            .allow(|part| user_agent.is_some_and(|user_agent| part.fits(user_agent)))
    }

    /// Whether a method may be called.
    #[must_use]
    pub fn allow_method(&self, name: &str) -> bool {
        self.methods.allow(|method| *method.0 == *name)
    }

    /// Whether a contract may be read.
    #[must_use]
    pub fn allow_contract(&self, address: &Address) -> bool {
        self.contracts.allow(|contract| contract == address)
    }

    /// Whether requests may come from an address. An IPv4 address that is mapped to IPv6 counts as
    /// the IPv4 address.
    #[must_use]
    pub fn allow_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.allow(|network| network.0.contains(&address))
    }
}

/// The entries of a list: at most [`ENTRIES_MAX`], none of them twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<T>", into = "Vec<T>")]
#[serde(bound(
    serialize = "T: Clone + Serialize",
    deserialize = "T: PartialEq + Deserialize<'de>"
))]
pub struct Entries<T>(Box<[T]>);

/// A list has too many entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a list has at most {ENTRIES_MAX} entries")]
pub struct TooManyEntries;

impl<T> Entries<T> {
    /// Whether it allows everything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    fn allow(&self, fits: impl FnMut(&T) -> bool) -> bool {
        self.0.is_empty() || self.0.iter().any(fits)
    }
}

impl<'a, T> IntoIterator for &'a Entries<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<T: PartialEq> TryFrom<Vec<T>> for Entries<T> {
    type Error = TooManyEntries;

    fn try_from(entries: Vec<T>) -> Result<Self, TooManyEntries> {
        let mut kept: Vec<T> = Vec::new();
        for entry in entries {
            if !kept.contains(&entry) {
                if kept.len() == ENTRIES_MAX {
                    return Err(TooManyEntries);
                }
                kept.push(entry);
            }
        }
        Ok(Self(kept.into()))
    }
}

impl<T> From<Entries<T>> for Vec<T> {
    fn from(entries: Entries<T>) -> Self {
        entries.0.into()
    }
}

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

/// `https://app.example.org`, with a port unless it is the scheme's own; `https://*.example.org`
/// fits every name below example.org, and not that one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OriginPattern {
    /// As a browser writes it: in lower case.
    text: Box<str>,
    /// Where `*.` begins, if it has one.
    star: Option<usize>,
}

impl OriginPattern {
    /// Whether an origin, as the header of that name has it, fits. An opaque origin, `null`, fits
    /// no pattern.
    #[must_use]
    pub fn fits(&self, origin: &str) -> bool {
        let Some(star) = self.star else {
            return origin.eq_ignore_ascii_case(&self.text);
        };
        // From the dot behind the star on.
        let (head, tail) = (&self.text[..star], &self.text[star + 1..]);
        let Some(middle) = origin.len().checked_sub(head.len() + tail.len()) else {
            return false;
        };
        let (Some(begin), Some(name), Some(end)) = (
            origin.get(..star),
            origin.get(star..star + middle),
            origin.get(star + middle..),
        ) else {
            return false;
        };
        begin.eq_ignore_ascii_case(head) && end.eq_ignore_ascii_case(tail) && is_host(name)
    }
}

/// Whether this may be a part of a host's name.
fn is_host(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !text.is_empty() && text.bytes().all(is_part)
}

impl FromStr for OriginPattern {
    type Err = InvalidEntry;

    fn from_str(text: &str) -> Result<Self, InvalidEntry> {
        let text = text.to_ascii_lowercase();
        let (scheme, rest) = text.split_once("://").ok_or(InvalidEntry::Origin)?;
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
        let name = rest.strip_prefix("*.").unwrap_or(rest);
        // An IPv6 address has its colons in brackets.
        let (host, port) = match name.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (name, None),
        };
        let is_name = is_host(host) || (host.starts_with('[') && host.ends_with(']'));
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if text.len() > ENTRY_BYTES_MAX || !is_scheme || !is_name || !is_port {
            return Err(InvalidEntry::Origin);
        }
        let star = (name.len() < rest.len()).then_some(scheme.len() + 3);
        // Browsers leave the scheme's own port out.
        let own_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => "",
        };
        let text = match text.strip_suffix(own_port) {
            Some(shorter) if !own_port.is_empty() => shorter.into(),
            _ => text.into_boxed_str(),
        };
        Ok(Self { text, star })
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A part of a user agent, in upper or lower case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserAgentPart(Box<str>);

impl UserAgentPart {
    fn fits(&self, user_agent: &str) -> bool {
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

as_text! { OriginPattern UserAgentPart MethodName Network }

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        #[rustfmt::skip]
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("https://app.example.org", &["https://app.example.org", "HTTPS://App.Example.org"],
                &["http://app.example.org", "https://app.example.org:8443", "https://example.org",
                    "https://app.example.org.evil.net", "null", ""]),
            ("https://App.example.org:443", &["https://app.example.org"], &[]),
            ("http://localhost:3000", &["http://localhost:3000"],
                &["http://localhost", "http://localhost:30000", "https://localhost:3000"]),
            ("https://*.example.org", &["https://a.example.org", "https://a.b.example.org"],
                &["https://example.org", "https://.example.org", "https://aexample.org",
                    "http://a.example.org", "https://a.example.org:8443", "https://evil.net/.example.org",
                    "https://evil.net:1.example.org", "https://é.example.org", "https://évil/é.example.org"]),
            ("https://*.example.org:8443", &["https://a.example.org:8443"], &["https://a.example.org"]),
            ("http://[::1]:3000", &["http://[::1]:3000"], &["http://[::1]"]),
            ("chrome-extension://abcdef", &["chrome-extension://abcdef"], &["chrome-extension://abc"]),
        ];
        for (pattern, fitting, others) in cases {
            let parsed: OriginPattern = pattern.parse().unwrap();
            for origin in *fitting {
                assert!(parsed.fits(origin), "{pattern} and {origin}");
            }
            for origin in *others {
                assert!(!parsed.fits(origin), "{pattern} and {origin}");
            }
        }
        for text in [
            "",
            "*",
            "example.org",
            "https://",
            "https://*",
            "https://a.*.org",
            "https://example.org/",
            "https://example.org:0",
            "https://example.org:x",
            "https://a b.org",
            "1http://example.org",
            &format!("https://{}.org", "a".repeat(300)),
        ] {
            assert_eq!(
                text.parse::<OriginPattern>(),
                Err(InvalidEntry::Origin),
                "{text:?}"
            );
        }
    }

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

    #[test]
    fn every_list_has_to_allow_and_one_entry_is_enough() {
        let lists: Allowlists = serde_json::from_str(
            r#"{"origins":["https://a.org","https://b.org"],"userAgents":["Wallet/"],
                "methods":["eth_chainId"],"contracts":["0x0000000000000000000000000000000000000001"],
                "networks":["10.0.0.0/8"]}"#,
        )
        .unwrap();
        assert!(lists.allow_origin(Some("https://b.org")));
        assert!(!lists.allow_origin(Some("https://c.org")) && !lists.allow_origin(None));
        assert!(lists.allow_user_agent(Some("my wallet/2.0 (x)")));
        assert!(!lists.allow_user_agent(Some("wallet")) && !lists.allow_user_agent(None));
        assert!(lists.allow_method("eth_chainId") && !lists.allow_method("eth_chainid"));
        let [listed, other] = [1, 2].map(Address::with_last_byte);
        assert!(lists.allow_contract(&listed) && !lists.allow_contract(&other));
        assert!(lists.allow_address("10.0.0.1".parse().unwrap()));
        assert!(!lists.allow_address("::1".parse().unwrap()));
        let all = Allowlists::default();
        assert!(all.allow_origin(None) && all.allow_user_agent(None) && all.allow_method("x"));
        assert!(all.allow_contract(&other) && all.allow_address("::1".parse().unwrap()));
        assert_eq!(serde_json::to_string(&all).unwrap(), "{}");
        let text = serde_json::to_string(&lists).unwrap();
        assert_eq!(serde_json::from_str::<Allowlists>(&text).unwrap(), lists);
    }

    #[test]
    fn a_list_is_bounded_and_has_no_entry_twice() {
        let names = |count: usize| (0..count).map(|at| format!("m{at}")).collect::<Vec<_>>();
        let list = |names: Vec<String>| {
            let parsed: Vec<MethodName> = names.iter().map(|name| name.parse().unwrap()).collect();
            Entries::try_from(parsed)
        };
        assert_eq!(list(names(31)), Err(TooManyEntries));
        let twice = [names(30), names(30)].concat();
        assert_eq!(list(twice).unwrap().iter().len(), 30);
    }
}
