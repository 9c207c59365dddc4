//! Serves a request: routes it, and adds the headers of every answer.

use actix_web::{
    HttpRequest, HttpResponse,
    dev::{Payload, ServiceRequest, ServiceResponse},
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};

use nearhead_chain::json::Json;
use scopeguard::ScopeGuard;

use super::{
    access_log::AccessEntry,
    body::{close_after, drain},
    cors,
    credentials::connection_of,
    pooled_request::{forget_head, forgetful},
    probes,
    refusal::{refuse, refuse_body},
    route::Route,
    worker_state::WorkerState,
};
use crate::{connections::Answering, rpc::RpcError};

impl WorkerState {
    /// Answers one request.
    pub(super) async fn serve(&self, request: ServiceRequest) -> ServiceResponse {
        let (request, payload) = request.into_parts();
        let request = forgetful(request);
        let mut access = AccessEntry::begin(&self.server, &self.ids, &request);
        let answering = connection_of(&request).map(|connection| self.watch.answering(connection));
        let mut response = match Route::of(request.method(), request.path()) {
            Route::Rpc(key) => {
                let connection = answering.as_ref().map(Answering::connection);
                let answer = self.answer(&request, connection, key, payload, &mut access);
                match answer.await {
                    Ok(answer) => {
                        let in_turns = self.replies.first_turn(&answer).await;
                        self.respond(&request, answer, in_turns, answering)
                    }
                    Err(response) => response,
                }
            }
            Route::Session(key) => {
                self.open_session(&request, key, payload, answering.as_ref(), &mut access)
            }
            other => self.answer_plain(&request, other, payload).await,
        };
        cors::allow(&request, &mut response);
        access.end(&mut response);
        let request = forget_head(ScopeGuard::into_inner(request));
        ServiceResponse::new(request, response)
    }

    /// Answers a request that is neither JSON-RPC nor a session, after its body was read and
    /// discarded.
    async fn answer_plain(
        &self,
        request: &HttpRequest,
        route: Route<'_>,
        payload: Payload,
    ) -> HttpResponse {
        // After an upgrade the body has no end.
        if request.head().upgrade() {
            return close_after(self.answer_route(request, route));
        }
        match drain(payload, self.server.settings.body_timeout).await {
            Ok(()) => self.answer_route(request, route),
            Err(refusal) => refuse_body(refusal),
        }
    }

    /// The OpenRPC document. It stays the same while the service runs.
    fn openrpc(&self, request: &HttpRequest) -> HttpResponse {
        let json = Json::shared(self.server.openrpc.clone());
        let charge = self.replies.charge_document();
        let mut response = self
            .replies
            .response(request, StatusCode::OK, json, charge, None);
        let headers = response.headers_mut();
        let content_type = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, content_type);
        let cached = HeaderValue::from_static("max-age=300");
        headers.insert(header::CACHE_CONTROL, cached);
        response
    }

    fn answer_route(&self, request: &HttpRequest, route: Route<'_>) -> HttpResponse {
        match route {
            Route::Health => probes::health(),
            Route::Ready => probes::ready(&self.server.readiness),
            Route::OpenRpc => self.openrpc(request),
            Route::Preflight => cors::preflight(),
            Route::WrongVerb(allowed) => {
                let error = RpcError::InvalidHttp("wrong verb for this path, see the allow header");
                let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &error);
                response
                    .headers_mut()
                    .insert(header::ALLOW, HeaderValue::from_static(allowed));
                response
            }
            Route::Rpc(_) | Route::Session(_) | Route::Unknown => {
                let error = RpcError::InvalidHttp("unknown path, post to /v3/<api key>");
                refuse(StatusCode::NOT_FOUND, &error)
            }
        }
    }
}
