//! Where a store is.

use std::{fmt, num::ParseIntError, str::FromStr};

use url::{Host, Url};

/// The port of Redis.
const PORT: u16 = 6379;

/// The URL of a store or of a sentinel: `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, or
/// `rediss://` for TLS.
///
/// `Display` and `Debug` show only scheme, host and port.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    pub(super) is_tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
}

/// Why a text is not the URL of a store. It repeats nothing of the text, which may have a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// It is not a URL.
    #[error("not a URL: {0}")]
    NotAUrl(url::ParseError),
    /// The URL has another scheme.
    #[error("the URL's scheme must be redis or rediss")]
    Scheme,
    /// The URL names no host.
    #[error("the URL has no host")]
    Host,
    /// The path is not the number of a database.
    #[error("the URL's path is not the number of a database")]
    Database,
    /// The user or the password is not percent-encoded UTF-8.
    #[error("the URL's user or password is not percent-encoded UTF-8")]
    UserInfo,
    /// Something comes after the path.
    #[error("the URL has a query or a fragment: leave it out")]
    Rest,
}

impl StoreUrl {
    /// The same with another host and port: the master that a sentinel names.
    pub(super) fn at(&self, host: String, port: u16) -> Self {
        Self {
            host,
            port,
            ..self.clone()
        }
    }

    /// The same without user, password and database.
    pub(super) fn anonymous(&self) -> Self {
        Self {
            user: None,
            password: None,
            database: 0,
            ..self.clone()
        }
    }

    /// A text of the server without what may be secret: a server that does not know a command may
    /// repeat its arguments.
    pub(super) fn redact(&self, text: &str) -> String {
        let secrets = [self.password.as_deref(), self.user.as_deref()];
        let secrets = secrets.into_iter().flatten();
        let secrets = secrets.filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        let url = Url::parse(text.trim()).map_err(StoreUrlError::NotAUrl)?;
        let is_tls = match url.scheme() {
            "redis" => false,
            "rediss" => true,
            _ => return Err(StoreUrlError::Scheme),
        };
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err(StoreUrlError::Host),
        };
        if url.query().is_some() || url.fragment().is_some() {
            return Err(StoreUrlError::Rest);
        }
        let database = match url.path().trim_matches('/') {
            "" => 0,
            path => number(path).map_err(|_| StoreUrlError::Database)?.into(),
        };
        let user = Some(url.username()).filter(|user| !user.is_empty());
        Ok(Self {
            is_tls,
            host,
            port: url.port().unwrap_or(PORT),
            user: user.map(decoded).transpose()?,
            password: url.password().map(decoded).transpose()?,
            database,
        })
    }
}

fn number(text: &str) -> Result<u16, ParseIntError> {
    text.parse()
}

/// What is percent-encoded here.
fn decoded(text: &str) -> Result<String, StoreUrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()];
        let digits = digits.map(|digit| char::from(digit.unwrap_or_default()).to_digit(16));
        let [Some(high), Some(low)] = digits else {
            return Err(StoreUrlError::UserInfo);
        };
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| StoreUrlError::UserInfo)?);
    }
    String::from_utf8(bytes).map_err(|_| StoreUrlError::UserInfo)
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let (host, port) = (&self.host, self.port);
        match host.contains(':') {
            true => write!(formatter, "{scheme}://[{host}]:{port}"),
            false => write!(formatter, "{scheme}://{host}:{port}"),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StoreUrl({self})")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_url_shows_no_secret() {
        let url: StoreUrl = "rediss://us%65r:p%40ss%3a@redis.example:7000/3"
            .parse()
            .unwrap();
        assert_eq!(url.user.as_deref(), Some("user"));
        assert_eq!(url.password.as_deref(), Some("p@ss:"));
        assert_eq!((url.is_tls, url.port, url.database), (true, 7000, 3));
        assert_eq!(url.to_string(), "rediss://redis.example:7000");
        assert_eq!(format!("{url:?}"), "StoreUrl(rediss://redis.example:7000)");
        let text = "unknown command 'AUTH', with args beginning with: 'user' 'p@ss:'";
        assert_eq!(
            url.redact(text),
            "unknown command 'AUTH', with args beginning with: '***' '***'"
        );
    }

    #[test]
    fn parts_that_are_left_out_have_defaults() {
        let url: StoreUrl = " redis://[::1] ".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port), ("::1", 6379));
        assert_eq!((&url.user, &url.password), (&None, &None));
        assert_eq!(url.to_string(), "redis://[::1]:6379");
        let url: StoreUrl = "redis://:secret@127.0.0.1/".parse().unwrap();
        assert_eq!((url.user, url.password), (None, Some("secret".to_owned())));
    }

    #[test]
    fn what_is_no_url_of_a_store_is_refused_without_repeating_it() {
        for (text, error) in [
            ("http://secret@host", StoreUrlError::Scheme),
            ("redis:///1", StoreUrlError::Host),
            ("redis://host/secret", StoreUrlError::Database),
            ("redis://host/1?secret", StoreUrlError::Rest),
            ("redis://host#secret", StoreUrlError::Rest),
            ("redis://:secret%zz@host", StoreUrlError::UserInfo),
            ("redis://:secret%ff@host", StoreUrlError::UserInfo),
        ] {
            let found = text.parse::<StoreUrl>().unwrap_err();
            assert_eq!(found, error, "{text}");
            assert!(!found.to_string().contains("secret"));
        }
        assert!(matches!(
            "secret".parse::<StoreUrl>(),
            Err(StoreUrlError::NotAUrl(_))
        ));
    }
}
