use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::entry::{ENTRY_BYTES_MAX, InvalidEntry, as_text};

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

as_text! { OriginPattern }

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
}
