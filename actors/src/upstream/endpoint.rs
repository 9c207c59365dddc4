//! An upstream as it is configured.

use std::{fmt, str::FromStr};

use alloy_transport::Authorization;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use url::Url;

/// An upstream's URL with what has to be sent to it: `URL`, or
/// `URL#Header-Name=value&Header-Name=value`.
///
/// The URL's scheme is http, https, ws or wss; `user:password@` in it becomes basic authorization.
/// What stands after `#` is never sent as part of a URL, so that it is free to carry headers: in a
/// value, `%`, `&`, `,` and whatever a URL cannot hold are percent-encoded, and `+` is a plus.
///
/// Shown without its secrets: a provider's key stands in the path, the query, the password or a
/// header, so that nothing but scheme, host and port is ever shown, by `Debug` either.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    headers: HeaderMap,
    scheme: Scheme,
}

/// How an upstream is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// A request and an answer at a time.
    Http,
    /// One connection, on which the upstream tells of new heads.
    WebSocket,
}

/// Headers of one upstream: more than any provider asks for.
const HEADERS_MAX: usize = 16;

/// Headers that the connection itself is made of.
const RESERVED: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

/// Why a text names no upstream. Nothing of the text is repeated but the name of a header: the rest may
/// be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It cannot be read as a URL.
    #[error("not a URL: {0}")]
    NotAUrl(url::ParseError),
    /// The URL is of another kind.
    #[error("the URL's scheme must be http, https, ws or wss")]
    Scheme,
    /// User or password are not percent-encoded UTF-8.
    #[error("the URL's user or password is not percent-encoded UTF-8")]
    UserInfo,
    /// What stands after `#` is not a header.
    #[error("part {position} after '#' is not Header-Name=value, percent-encoded")]
    Header {
        /// Which, from 1.
        position: usize,
    },
    /// The header is not the operator's to set.
    #[error("header {0} cannot be set")]
    Reserved(HeaderName),
    /// The header is there twice, or beside a user in the URL.
    #[error("header {0} is given twice")]
    Twice(HeaderName),
    /// There are too many.
    #[error("more than {HEADERS_MAX} headers")]
    TooManyHeaders,
}

impl Endpoint {
    /// Where requests are sent: without user and password, without what stands after `#`. It must
    /// not get into a log.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Headers of every request, all marked as sensitive.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// How the upstream is spoken to.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.url.scheme(), "https" | "wss")
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let mut url = Url::parse(text.trim()).map_err(EndpointError::NotAUrl)?;
        let scheme = match url.scheme() {
            "http" | "https" => Scheme::Http,
            "ws" | "wss" => Scheme::WebSocket,
            _ => return Err(EndpointError::Scheme),
        };
        let mut headers = HeaderMap::new();
        if let Some(authorization) = authorization(&url)? {
            headers.insert(AUTHORIZATION, authorization);
        }
        if let Some(fragment) = url.fragment() {
            add_headers(fragment, &mut headers)?;
        }
        url.set_fragment(None);
        // They do not fail: the URL has a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(Self {
            url,
            headers,
            scheme,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.host_str().unwrap_or_default();
        write!(f, "{}://{host}", self.url.scheme())?;
        match self.url.port() {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Basic authorization of the URL's user and password.
fn authorization(url: &Url) -> Result<Option<HeaderValue>, EndpointError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let decoded = |part| percent_decoded(part).ok_or(EndpointError::UserInfo);
    let user = decoded(url.username())?;
    let password = decoded(url.password().unwrap_or_default())?;
    let basic = Authorization::basic(user, password).to_string();
    let mut value = HeaderValue::from_str(&basic).map_err(|_| EndpointError::UserInfo)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Adds the headers that stand after `#`.
fn add_headers(fragment: &str, headers: &mut HeaderMap) -> Result<(), EndpointError> {
    let parts = fragment.split('&').filter(|part| !part.is_empty());
    for (position, part) in (1..).zip(parts) {
        let malformed = EndpointError::Header { position };
        let header = part.split_once('=').and_then(|(name, value)| {
            // A URL makes %20 of a space, and `%` may stand in a header's name.
            let name = Some(name).filter(|name| !name.contains('%'))?;
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let value = HeaderValue::from_str(&percent_decoded(value)?).ok()?;
            Some((name, value))
        });
        let (name, mut value) = header.ok_or(malformed)?;
        let is_handshake = name.as_str().starts_with("sec-websocket-");
        if is_handshake || RESERVED.contains(&name.as_str()) {
            return Err(EndpointError::Reserved(name));
        }
        if headers.contains_key(&name) {
            return Err(EndpointError::Twice(name));
        }
        if headers.len() == HEADERS_MAX {
            return Err(EndpointError::TooManyHeaders);
        }
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(())
}

/// The text that is percent-encoded here; `None` where a `%` is not followed by two hex digits, or
/// for other than UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        decoded.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? << 4 | digit(bytes.next())?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests;
