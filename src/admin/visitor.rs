//! Who sends a request.

use actix_web::http::{
    StatusCode,
    header::{self, HeaderMap},
};
use nearhead_tenants::{
    account::Role,
    administration::{Authenticate, AuthenticateNamed, Credential, Identity, Requester},
    audit::Author,
    name::Name,
    secret::SecretDigest,
};

use super::{admin_state::AdminState, api::ApiError, cookie};

/// Someone who has logged in, or a program with an API token.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// Who it is, and what they may do.
    pub(super) identity: Identity,
    /// What says so.
    pub(super) proof: Proof,
}

/// What says who someone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// An API token, which no browser sends by itself.
    Token,
    /// The cookie of a login.
    Login(SecretDigest),
    /// A proxy's header.
    Proxy,
}

impl Visitor {
    /// Whether they may do everything.
    pub(super) fn is_admin(&self) -> bool {
        self.identity.role == Some(Role::Admin)
    }

    /// The account of somebody who has logged in.
    pub(super) fn logged_in(&self) -> Option<&Name> {
        match (&self.identity.author, self.proof) {
            (Author::Account(name), Proof::Login(_)) => Some(name),
            _ => None,
        }
    }

    /// Whether a browser adds the proof to requests of any page.
    pub(super) fn is_ambient(&self) -> bool {
        self.proof != Proof::Token
    }

    /// Identifies the sender of a request with these headers, which came this way. Only what is
    /// looked at first counts: a wrong API token is not made good by a cookie.
    ///
    /// # Errors
    /// The sender is unknown: the store does not answer, or the service is stopping.
    pub(super) async fn identify(
        state: &AdminState,
        headers: &HeaderMap,
        hop: Hop,
        nobody: Requester,
    ) -> Result<Option<Self>, ApiError> {
        let Some(presented) = presented(state, headers, hop) else {
            return Ok(None);
        };
        let (identity, proof) = match presented {
            Presented::Name(name) => {
                let named = AuthenticateNamed { name };
                (state.run(named, nobody).await, Proof::Proxy)
            }
            Presented::Token(digest) => {
                let token = Authenticate(Credential::Token(digest));
                (state.run(token, nobody).await, Proof::Token)
            }
            Presented::Cookie(digest) => {
                let cookie = Authenticate(Credential::Cookie(digest));
                (state.run(cookie, nobody).await, Proof::Login(digest))
            }
        };
        match identity {
            Ok(identity) => Ok(identity.map(|identity| Self { identity, proof })),
            Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// How a request came here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// Whether a trusted proxy sent it.
    pub(super) is_proxy: bool,
    /// Whether the client sent it over TLS: to this listener, or to a trusted proxy.
    pub(super) is_tls: bool,
}

/// What a request presents.
#[derive(Debug, PartialEq, Eq)]
enum Presented {
    Token(SecretDigest),
    Cookie(SecretDigest),
    Name(String),
}

/// What counts of all that a request presents.
///
/// The header of a trusted proxy comes first. Whoever could forge it could do so in a request
/// without a token as well, so that it gains nobody anything; and proxies pass on the bearer tokens
/// of their own identity provider, which are not of this program. A token that came first would let
/// a client choose another identity than the one that the proxy has authenticated.
fn presented(state: &AdminState, headers: &HeaderMap, hop: Hop) -> Option<Presented> {
    let named = state.proxy_header.as_ref().filter(|_| hop.is_proxy);
    if let Some(name) = named.filter(|name| headers.contains_key(*name)) {
        let mut lines = headers.get_all(name);
        // With two of them, the proxy has left in what a client sent.
        let line = lines.next().filter(|_| lines.next().is_none())?;
        let name = std::str::from_utf8(line.as_bytes()).ok()?;
        return Some(Presented::Name(name.to_owned()));
    }
    if let Some(token) = bearer(headers) {
        return token.map(SecretDigest::of).map(Presented::Token);
    }
    cookie::sent(headers, hop.is_tls)
        .map(SecretDigest::of)
        .map(Presented::Cookie)
}

/// The token of `Authorization: Bearer`, the inner `None` if it is ambiguous; `None` if the request
/// has no such header. Other schemes are for the proxies in between.
#[expect(
    clippy::option_option,
    reason = "an ambiguous token is not the same as none"
)]
fn bearer(headers: &HeaderMap) -> Option<Option<&str>> {
    let mut lines = headers.get_all(header::AUTHORIZATION);
    let (scheme, token) = lines.next()?.to_str().ok()?.split_once(' ')?;
    let token = Some(token.trim()).filter(|_| lines.next().is_none());
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}
