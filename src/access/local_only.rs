//! What serves this machine alone, against pages of other sites in its user's browser.
//!
//! Such a page reaches a loopback address under a name of its own (DNS rebinding), which the header
//! `Host` shows, or as a cross-origin request, which the header `Origin` shows.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
    sync::Arc,
};

/// Longest host in bytes: that of a name of DNS.
const HOST_BYTES_MAX: usize = 253;

/// The origins of a browser's extensions, which their user has installed.
const EXTENSION_SCHEMES: [&str; 3] = ["chrome-extension", "moz-extension", "safari-web-extension"];

/// A host by which a listener is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name, in lower case.
    Name(Box<str>),
    /// An address.
    Address(IpAddr),
}

/// The text is neither a host name nor an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a host name or an IP address, without a port")]
pub struct InvalidHost;

impl FromStr for Host {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let bracketed = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Some(text) = bracketed {
            let address: Ipv6Addr = text.parse().map_err(|_| InvalidHost)?;
            return Ok(Self::Address(address.to_canonical()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        // The dot at the end says that the name is whole.
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_part);
        match name.len() <= HOST_BYTES_MAX && name.split('.').all(is_label) {
            true => Ok(Self::Name(name.to_ascii_lowercase().into())),
            false => Err(InvalidHost),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Host {
    /// The host of an authority, such as the value of the header `Host`: its port may be any.
    fn of_authority(text: &str) -> Option<Self> {
        // The colons of an IPv6 address are in brackets.
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (text, ""),
        };
        let is_port = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
        let is_bare_v6 = host.contains(':') && !host.starts_with('[');
        match is_port && !is_bare_v6 {
            true => host.parse().ok(),
            false => None,
        }
    }

    /// Whether a browser on this machine reaches only this machine by it.
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => &**name == "localhost" || name.ends_with(".localhost"),
            Self::Address(address) => address.is_loopback(),
        }
    }
}

/// Why a request to what serves this machine alone is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLocal {
    /// The header `Host` names another host.
    Host,
    /// The request comes from a page of another site.
    Origin,
}

/// Checks requests to what serves this machine alone: the default key `dev` and the admin listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalOnly {
    /// Hosts that the operator allows besides those of the loopback interface.
    allowed: Arc<[Host]>,
}

impl LocalOnly {
    /// Allows these hosts besides those of the loopback interface.
    #[must_use]
    pub fn new(allowed: &[Host]) -> Self {
        Self {
            allowed: allowed.into(),
        }
    }

    /// Checks the header `Host`, if the request has one.
    ///
    /// # Errors
    /// It is missing, or names another host. Every client sends it since HTTP/1.1.
    pub(crate) fn check_host(&self, host: Option<&str>) -> Result<(), NotLocal> {
        let host = host.and_then(Host::of_authority).ok_or(NotLocal::Host)?;
        match host.is_loopback() || self.allowed.contains(&host) {
            true => Ok(()),
            false => Err(NotLocal::Host),
        }
    }

    /// Checks the header `Origin`, if the request has one: browsers send it with every request
    /// whose answer a script reads, and with every handshake of a WebSocket session.
    ///
    /// # Errors
    /// It is neither of this machine nor of an extension.
    pub(crate) fn check_origin(origin: Option<&str>) -> Result<(), NotLocal> {
        let Some(origin) = origin else {
            return Ok(());
        };
        let (scheme, rest) = origin.split_once("://").ok_or(NotLocal::Origin)?;
        let is_local = match scheme {
            "http" | "https" => Host::of_authority(rest).is_some_and(|host| host.is_loopback()),
            _ if EXTENSION_SCHEMES.contains(&scheme) => {
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
                !rest.is_empty() && rest.bytes().all(is_part)
            }
            _ => false,
        };
        match is_local {
            true => Ok(()),
            false => Err(NotLocal::Origin),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let allowed = ["Dev.Example.org", "10.1.2.3", "[2001:db8::1]"];
        let allowed = LocalOnly::new(&allowed.map(|host| host.parse().unwrap()));
        let none = LocalOnly::default();
        let long = format!("{}.localhost", "a".repeat(250));
        for (host, by_default, if_allowed) in [
            ("localhost", true, true),
            ("LocalHost:8545", true, true),
            ("localhost.", true, true),
            ("localhost:", true, true),
            ("app.localhost:1", true, true),
            ("127.0.0.1", true, true),
            ("127.0.0.1:8545", true, true),
            ("127.255.255.254:65535", true, true),
            ("[::1]", true, true),
            ("[::1]:8545", true, true),
            ("[::ffff:127.0.0.1]:1", true, true),
            ("dev.example.org", false, true),
            ("DEV.example.org.:8545", false, true),
            ("10.1.2.3:8545", false, true),
            ("[2001:db8::1]:8545", false, true),
            ("[2001:db8:0::1]", false, true),
            ("example.org", false, false),
            ("a.dev.example.org", false, false),
            ("10.1.2.4", false, false),
            ("0.0.0.0:8545", false, false),
            ("[::]", false, false),
            ("127.1", false, false),
            ("2130706433", false, false),
            ("localhost.example.org", false, false),
            ("127.0.0.1.example.org", false, false),
            ("xlocalhost", false, false),
            (".localhost", false, false),
            ("a..localhost", false, false),
            ("localhost..", false, false),
            ("user@localhost", false, false),
            ("localhost:8545@example.org", false, false),
            ("localhost:x", false, false),
            ("localhost:123456", false, false),
            ("localhost, example.org", false, false),
            ("localhost/", false, false),
            ("::1", false, false),
            ("[127.0.0.1]", false, false),
            ("[::1", false, false),
            ("[::1]x", false, false),
            ("[::1]]", false, false),
            (&long, false, false),
            ("", false, false),
            (":8545", false, false),
        ] {
            for (only, expected) in [(&none, by_default), (&allowed, if_allowed)] {
                let found = only.check_host(Some(host));
                assert_eq!(found.is_ok(), expected, "{host:?} {only:?}");
            }
        }
        assert_eq!(none.check_host(None), Err(NotLocal::Host));
    }

    #[test]
    fn origins() {
        for (origin, expected) in [
            (None, true),
            (Some("http://localhost:3000"), true),
            (Some("https://localhost"), true),
            (Some("http://app.localhost:5173"), true),
            (Some("http://127.0.0.1:8080"), true),
            (Some("http://[::1]:8080"), true),
            (
                Some("chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn"),
                true,
            ),
            (
                Some("moz-extension://3f1c9b1e-0d4c-4d3f-9a53-0c7f1c5f6a6e"),
                true,
            ),
            (Some("safari-web-extension://0A1B"), true),
            (Some("null"), false),
            (Some(""), false),
            (Some("localhost"), false),
            (Some("file://"), false),
            (Some("http://"), false),
            (Some("ftp://localhost"), false),
            (Some("https://example.org"), false),
            (Some("http://localhost.example.org"), false),
            (Some("http://localhost@example.org"), false),
            (Some("http://localhost/example.org"), false),
            (Some("http://192.168.1.2:3000"), false),
            (Some("chrome-extension://"), false),
            (Some("chrome-extension://a/b"), false),
            (Some("web-extension://abc"), false),
            (Some("http://localhost, https://example.org"), false),
        ] {
            let found = LocalOnly::check_origin(origin);
            assert_eq!(found.is_ok(), expected, "{origin:?}");
        }
    }

    #[test]
    fn hosts_that_are_allowed_have_no_port() {
        for text in [
            "",
            ".",
            "a b",
            "localhost:1",
            "[::1]:1",
            "http://a",
            "a/b",
            "*.a",
        ] {
            assert_eq!(text.parse::<Host>(), Err(InvalidHost), "{text:?}");
        }
        for (text, shown) in [
            ("A.b.", "a.b"),
            ("[::1]", "::1"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
        ] {
            assert_eq!(text.parse::<Host>().unwrap().to_string(), shown, "{text}");
        }
    }
}
