//! Opens a WebSocket session.

use std::{rc::Rc, time::SystemTime};

use actix_web::{
    HttpRequest, HttpResponse,
    dev::Payload,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};

use super::{
    access_log::AccessEntry,
    body::close_after,
    credentials,
    handshake::{self, HandshakeError},
    refusal::{refuse, refuse_unavailable},
    trace_parent::trace_parent,
    worker_state::WorkerState,
};
use crate::{
    access::{ActiveKey, Now},
    connections::Answering,
    rpc::{Answer, MINIMUM_UNITS, RpcError, envelope::NULL_ID},
    subscriptions::SessionSubscriptions,
    ws::{SessionTraces, session_actor},
};

impl WorkerState {
    /// Opens a session, or refuses it. A refused handshake ends its connection, because the bytes
    /// that follow it may not be HTTP.
    pub(super) fn open_session(
        &self,
        request: &HttpRequest,
        key: &str,
        payload: Payload,
        answering: Option<&Answering>,
        access: &mut AccessEntry<'_>,
    ) -> HttpResponse {
        access.method = "session";
        let now = Now {
            instant: access.arrived,
            unix: SystemTime::now().into(),
        };
        let connection = answering.map(Answering::connection);
        let admitted = match self.admit(request, connection, key, now, access) {
            Ok(admitted) => admitted,
            Err(denied) => return close_after(denied.response()),
        };
        access.set_tenant(&admitted.key.tenant);
        let accepted = handshake::check(request).and_then(|()| {
            session_actor::accept(request).map_err(|_| HandshakeError::NotVersion13)
        });
        let response = match accepted {
            Ok(response) => response,
            Err(error) => return self.refuse_handshake(error, access),
        };
        if let Err(exceeded) = admitted.key.take(1, now) {
            let error = RpcError::QuotaExceeded(exceeded);
            self.count_refused_session(&error, &admitted.key, 0, access);
            let answer = Answer {
                remaining: admitted.key.remaining(now),
                ..Answer::error(NULL_ID, &error)
            };
            return close_after(self.respond(request, answer, None, None));
        }
        let permit = self
            .server
            .session_caps
            .take(&admitted.key.tenant)
            .filter(|_| self.server.readiness.shutdown.sessions_end().is_none());
        let Some(permit) = permit else {
            // What it took is not given back, so that handshakes without end are limited as well.
            let (error, units) = (RpcError::Unavailable, MINIMUM_UNITS);
            self.count_refused_session(&error, &admitted.key, units, access);
            return close_after(refuse_unavailable());
        };
        let connection = answering
            .map(Answering::becomes_session)
            .unwrap_or_default();
        let subscriptions = SessionSubscriptions::new(Rc::clone(&self.hub));
        let grant = admitted.into_grant(
            &self.server.access,
            credentials::caller(&self.server, request),
        );
        let share = grant.last_key().tenant.call_budget.share();
        let session = self.sessions.open(grant, permit, subscriptions, connection);
        let answering = (Rc::clone(&self.dispatcher), self.requests.clone());
        let budget = self.bodies.of(share);
        let traces = SessionTraces::new(&self.server.traces, || trace_parent(request));
        session_actor::open(response, payload, session, answering, budget, traces)
    }

    /// Counts a handshake that is refused although its key lets it in.
    fn count_refused_session(
        &self,
        error: &RpcError,
        key: &ActiveKey,
        units: u64,
        access: &mut AccessEntry<'_>,
    ) {
        self.count_refused(error, access);
        let took = access.arrived.elapsed();
        self.dispatcher
            .count_unparsed(key, error.outcome(), units, took);
    }

    fn refuse_handshake(
        &self,
        error: HandshakeError,
        access: &mut AccessEntry<'_>,
    ) -> HttpResponse {
        let (status, reason) = match error {
            HandshakeError::NotVersion13 => (
                StatusCode::UPGRADE_REQUIRED,
                "not a WebSocket handshake of version 13",
            ),
            HandshakeError::BadKey => (
                StatusCode::BAD_REQUEST,
                "sec-websocket-key must be 16 bytes in base64",
            ),
        };
        let error = RpcError::InvalidHttp(reason);
        self.count_refused(&error, access);
        let mut response = close_after(refuse(status, &error));
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(
            header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static("13"),
        );
        response
    }
}
