//! The access log: one event per request, with an id that client and operator both see.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::Arc,
    time::Instant,
};

use actix_web::{
    HttpRequest, HttpResponse,
    body::{BodySize, MessageBody as _},
    http::header::{HeaderName, HeaderValue},
};
use tracing::{Level, Span};

use super::{credentials::client_address, server_state::ServerState, trace_parent::trace_parent};
use crate::{
    access::Tenant,
    limits::REQUEST_ID_BYTES_MAX,
    metrics::Outcome,
    traces::{RequestEnd, RequestTrace, TracedRequest},
};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Whether requests are logged. This costs one load of a cached decision.
fn is_on() -> bool {
    tracing::enabled!(target: "nearhead::access", Level::DEBUG)
}

/// Makes ids for requests that come without one; one per worker.
#[derive(Debug)]
pub(super) struct RequestIds {
    /// Differs between workers and between runs of the program.
    prefix: u32,
    next: Cell<u32>,
}

impl Default for RequestIds {
    fn default() -> Self {
        // The random keys of std suffice: an id must be unique, not secret.
        let prefix = RandomState::new().hash_one(0_u8) as u32;
        Self {
            prefix,
            next: Cell::new(0),
        }
    }
}

impl RequestIds {
    /// The client's own id if it is valid, or a new one if requests are logged.
    fn of(&self, request: &HttpRequest) -> Option<HeaderValue> {
        let is_valid = |id: &&HeaderValue| {
            (1..=REQUEST_ID_BYTES_MAX).contains(&id.len())
                && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        match request.headers().get(X_REQUEST_ID).filter(is_valid) {
            Some(id) => Some(id.clone()),
            None if is_on() => self.make(),
            None => None,
        }
    }

    fn make(&self) -> Option<HeaderValue> {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        HeaderValue::try_from(format!("{:08x}{number:08x}", self.prefix)).ok()
    }
}

/// One request: it counts as in flight until this is dropped, and is then logged.
///
/// The path is not logged, because it contains the key.
pub(super) struct AccessEntry<'a> {
    server: &'a ServerState,
    pub(super) arrived: Instant,
    id: Option<HeaderValue>,
    peer: Option<std::net::SocketAddr>,
    /// The client's address, if the peer is a proxy that names it.
    client: Option<IpAddr>,
    /// The tenant whose key the request has, if requests are logged.
    tenant: Option<Arc<Tenant>>,
    /// The name of the method, or the kind of request.
    pub(super) method: &'static str,
    /// `None` if the status is enough, or if the client did not wait for the answer.
    pub(super) outcome: Option<Outcome>,
    status: Option<u16>,
    /// Whether the client was gone before the answer was ready.
    pub(super) is_abandoned: bool,
    /// Length of the answer's body; `None` for a compressed answer and for a session, whose
    /// lengths are not known yet.
    bytes: Option<u64>,
    trace: RequestTrace,
}

impl<'a> AccessEntry<'a> {
    pub(super) fn begin(server: &'a ServerState, ids: &RequestIds, request: &HttpRequest) -> Self {
        server.metrics.in_flight.inc();
        let peer = is_on().then(|| request.peer_addr()).flatten();
        Self {
            server,
            arrived: Instant::now(),
            id: ids.of(request),
            peer,
            client: peer.and_then(|peer| {
                let client = client_address(server, request);
                client.filter(|client| *client != peer.ip())
            }),
            tenant: None,
            method: "none",
            outcome: None,
            status: None,
            is_abandoned: false,
            bytes: None,
            trace: RequestTrace::default(),
        }
    }

    /// Decides whether the request is traced, now that the tenant's key has let it in.
    pub(super) fn begin_trace(&mut self, request: &HttpRequest, tenant: &Tenant) {
        let traces = &self.server.traces;
        if traces.is_on() {
            self.trace = traces.begin(&TracedRequest {
                parent: trace_parent(request),
                log_span: &self.log_span(),
                protocol: "http",
                tenant: &tenant.name,
            });
        }
    }

    /// Records the tenant, if requests are logged.
    pub(super) fn set_tenant(&mut self, tenant: &Arc<Tenant>) {
        self.tenant = is_on().then(|| Arc::clone(tenant));
    }

    /// The span of all work for this request: the first one of its trace if it is traced.
    pub(super) fn span(&self) -> Span {
        match self.trace.is_traced() {
            true => self.trace.span().clone(),
            false => self.log_span(),
        }
    }

    /// The span of all log events of this request.
    fn log_span(&self) -> Span {
        tracing::debug_span!(target: "nearhead::access", "request", id = self.id())
    }

    /// Records what is sent, and adds the request's id to it.
    pub(super) fn end(mut self, response: &mut HttpResponse) {
        if !self.is_abandoned {
            self.status = Some(response.status().as_u16());
            self.bytes = known_length(response.body().size());
        }
        if let Some(id) = &self.id {
            response.headers_mut().insert(X_REQUEST_ID, id.clone());
        }
    }

    fn id(&self) -> Option<&str> {
        self.id.as_ref().and_then(|id| id.to_str().ok())
    }
}

const fn known_length(size: BodySize) -> Option<u64> {
    match size {
        BodySize::None => Some(0),
        BodySize::Sized(bytes) => Some(bytes),
        BodySize::Stream => None,
    }
}

impl Drop for AccessEntry<'_> {
    fn drop(&mut self) {
        self.server.metrics.in_flight.dec();
        self.trace.end(&RequestEnd {
            method: self.method,
            outcome: self.outcome.map(Outcome::label),
            is_failure: self.outcome == Some(Outcome::Internal),
            status: self.status,
            bytes_out: self.bytes,
        });
        if !is_on() {
            return;
        }
        tracing::debug!(
            target: "nearhead::access",
            parent: self.trace.span(),
            request_id = self.id(),
            peer = self.peer.map(tracing::field::display),
            client = self.client.map(tracing::field::display),
            tenant = self.tenant.as_ref().map(|tenant| &*tenant.name),
            method = self.method,
            outcome = self.outcome.map(Outcome::label),
            // `None`: the client was gone before the answer was ready.
            status = self.status,
            bytes = self.bytes,
            micros = u64::try_from(self.arrived.elapsed().as_micros()).unwrap_or(u64::MAX),
        );
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn valid_ids_of_clients_are_kept() {
        let longest = "a".repeat(REQUEST_ID_BYTES_MAX);
        for (value, expected) in [
            ("0af7651916cd43dd8448eb211c80319c", true),
            ("a-b_c/d:1", true),
            (longest.as_str(), true),
            (&format!("{longest}a"), false),
            ("", false),
            ("a b", false),
            ("a\tb", false),
        ] {
            let request = TestRequest::get()
                .insert_header((X_REQUEST_ID, value))
                .to_http_request();
            let id = RequestIds::default().of(&request);
            assert_eq!(id.is_some_and(|id| id == value), expected, "{value:?}");
        }
        let without = TestRequest::get().to_http_request();
        assert_eq!(
            RequestIds::default().of(&without),
            None,
            "requests are not logged"
        );
    }

    #[test]
    fn a_length_that_is_not_known_yet_is_left_out() {
        assert_eq!(known_length(BodySize::None), Some(0));
        assert_eq!(known_length(BodySize::Sized(7)), Some(7));
        assert_eq!(known_length(BodySize::Stream), None);
    }

    #[test]
    fn new_ids_differ() {
        let (one, other) = (RequestIds::default(), RequestIds::default());
        let mut ids = [one.make(), one.make(), other.make()].map(Option::unwrap);
        assert!(ids.iter().all(|id| id.len() == 16));
        ids.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    }
}
