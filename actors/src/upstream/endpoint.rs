//! The configuration of one upstream.

use std::{fmt, str::FromStr};

use alloy_transport::Authorization;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use url::Url;

/// An upstream's URL and the headers to send to it: `URL`, or
/// `URL#Header-Name=value&Header-Name=value`.
///
/// The scheme is http, https, ws or wss; `user:password@` becomes basic authorization. The fragment
/// is never sent as part of a URL, so it can carry headers. In a value, `%`, `&`, `,` and
/// characters that a URL cannot hold are percent-encoded; `+` is a plus.
///
/// `Display` and `Debug` show only scheme, host and port: the path, the query, the password or a
/// header may contain a provider's key.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    headers: HeaderMap,
    scheme: Scheme,
    /// Parts of it that may be secrets, as an upstream may repeat them.
    secrets: Box<[Box<str>]>,
}

/// How an upstream is called, with or without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// One request and one answer at a time.
    Http,
    /// One connection, on which the upstream announces new heads.
    WebSocket,
}

/// Largest number of headers for one upstream: more than any provider needs.
const HEADERS_MAX: usize = 16;

/// Shortest part of a path, query or header, in bytes, that may be a secret: words such as
/// `mainnet` are shorter than any key.
const SECRET_BYTES_MIN: usize = 8;

/// Headers that the HTTP client or the WebSocket handshake sets itself.
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

/// Why a text is not an endpoint. The message repeats only a header's name from the text: the rest
/// may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is not a URL.
    #[error("not a URL: {0}")]
    NotAUrl(url::ParseError),
    /// The URL has another scheme.
    #[error("the URL's scheme must be http, https, ws or wss")]
    Scheme,
    /// The user or the password is not percent-encoded UTF-8.
    #[error("the URL's user or password is not percent-encoded UTF-8")]
    UserInfo,
    /// A part of the fragment is not a header.
    #[error("part {position} after '#' is not Header-Name=value, percent-encoded")]
    Header {
        /// Its position, from 1.
        position: usize,
    },
    /// The header is reserved for the client.
    #[error("header {0} cannot be set")]
    Reserved(HeaderName),
    /// The header is given twice, or `Authorization` together with a user in the URL.
    #[error("header {0} is given twice")]
    Duplicate(HeaderName),
    /// There are too many headers.
    #[error("more than {HEADERS_MAX} headers")]
    TooManyHeaders,
}

impl Endpoint {
    /// The URL without user, password and fragment. It may hold a secret: never log it.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// The headers of every request, all marked as sensitive.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// How the upstream is called.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Whether a text of the upstream has its host, or a part of the URL or a header that may be a
    /// secret.
    pub(crate) fn is_named_in(&self, text: &str) -> bool {
        let host = self.url.host_str().unwrap_or_default();
        let is_host = !host.is_empty() && text.to_ascii_lowercase().contains(host);
        is_host || self.secrets.iter().any(|secret| text.contains(&**secret))
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
        let secrets = secrets(&url, &headers);
        // These cannot fail, because the URL has a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(Self {
            url,
            headers,
            scheme,
            secrets,
        })
    }
}

/// The password of a URL, and all parts of its path, its query and the headers that are long
/// enough.
fn secrets(url: &Url, headers: &HeaderMap) -> Box<[Box<str>]> {
    let password = url.password().and_then(percent_decoded);
    let query = url.query().unwrap_or_default().split(['&', '=']);
    let path = url.path().split('/');
    let values = headers.values().filter_map(|value| value.to_str().ok());
    let parts = path
        .chain(query)
        .chain(values.flat_map(|value| value.split(' ')));
    let parts = parts.filter(|part| part.len() >= SECRET_BYTES_MIN);
    let password = password.filter(|password| !password.is_empty());
    parts
        .map(Box::from)
        .chain(password.map(Box::from))
        .collect()
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

/// The basic authorization for the URL's user and password.
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

/// Adds the headers of the fragment.
fn add_headers(fragment: &str, headers: &mut HeaderMap) -> Result<(), EndpointError> {
    let parts = fragment.split('&').filter(|part| !part.is_empty());
    for (position, part) in (1..).zip(parts) {
        let malformed = EndpointError::Header { position };
        let header = part.split_once('=').and_then(|(name, value)| {
            // The URL parser encodes a space as %20, and `%` is legal in a header's name.
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
            return Err(EndpointError::Duplicate(name));
        }
        if headers.len() == HEADERS_MAX {
            return Err(EndpointError::TooManyHeaders);
        }
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(())
}

/// The text without percent-encoding; `None` if two hex digits do not follow a `%`, or if the
/// result is not UTF-8.
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
