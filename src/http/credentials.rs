//! What a request presents, and where it comes from.

use std::{net::IpAddr, rc::Rc};

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderName},
};

use super::server_state::ServerState;
use crate::{
    access::{Admitted, Caller, LocalOnly, Now, Presented, Refused, TokenCache},
    connections::Connection,
};

/// What a request presents: the key in its path, which may be empty, and its headers. `connection`
/// is the one that it came on.
pub(super) fn presented<'a>(
    request: &'a HttpRequest,
    connection: Option<&'a Connection>,
    key: &'a str,
) -> Presented<'a> {
    let last = connection.map(|connection| &connection.last_key);
    Presented::new(key, text(request, header::AUTHORIZATION)).after(last)
}

/// Lets a request in that presents this. `tokens` are those that the worker has verified.
///
/// # Errors
/// It is not let in.
pub(super) fn admit(
    server: &ServerState,
    tokens: &TokenCache,
    request: &HttpRequest,
    presented: &Presented<'_>,
    now: Now,
) -> Result<Admitted, Refused> {
    let caller = || caller(server, request);
    let admitted = server.access.admit(presented, caller, tokens, now)?;
    if let Some(local_only) = admitted.key.local_only() {
        local_only
            .check_host(host(request))
            .and_then(|()| LocalOnly::check_origin(origin(request)))
            .map_err(Refused::NotLocal)?;
    }
    Ok(admitted)
}

/// Where a request comes from.
pub(super) fn caller<'a>(server: &ServerState, request: &'a HttpRequest) -> Caller<'a> {
    Caller {
        origin: origin(request),
        user_agent: text(request, header::USER_AGENT),
        address: client_address(server, request),
    }
}

/// The connection of a request; `None` in tests without a socket.
pub(crate) fn connection_of(request: &HttpRequest) -> Option<&Rc<Connection>> {
    request.conn_data()
}

/// The address of a request's client: the peer's, unless that is the dashboard or a trusted proxy.
pub(crate) fn client_address(server: &ServerState, request: &HttpRequest) -> Option<IpAddr> {
    let peer = request.peer_addr()?.ip();
    let (settings, headers) = (&server.settings, request.headers());
    let visitor = settings.visitor_header.client(headers);
    Some(visitor.unwrap_or_else(|| settings.trusted_proxies.client(peer, headers)))
}

/// The header `Host`, if there is exactly one and it is text.
pub(crate) fn host(request: &HttpRequest) -> Option<&str> {
    let mut hosts = request.headers().get_all(header::HOST);
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// The page that sent a request. One that cannot be read is an origin, too, and no list has it.
fn origin(request: &HttpRequest) -> Option<&str> {
    let origin = request.headers().get(header::ORIGIN)?;
    Some(origin.to_str().unwrap_or_default())
}

/// A header, if there is one and it is text.
fn text(request: &HttpRequest, name: HeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}
