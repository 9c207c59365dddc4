//! Serves the requests of operators.

use std::rc::Rc;

use actix_web::{
    HttpRequest, HttpResponse,
    dev::{ServiceRequest, ServiceResponse},
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};

use super::{probes, route::Route};
use crate::{
    access::LocalOnly,
    connections::Watch,
    http::{ServerState, close_after, connection_of, drain, health, host, refuse, refuse_body},
    rpc::RpcError,
};

/// What the worker of a listener for operators serves requests with.
pub(super) struct AdminWorker {
    server: ServerState,
    /// Checks every request; `None` on a listener that any host may name.
    local_only: Option<LocalOnly>,
    watch: Rc<Watch>,
}

impl AdminWorker {
    /// Starts on the current thread.
    pub(super) fn start(server: &ServerState, local_only: Option<&LocalOnly>) -> Self {
        Self {
            server: server.clone(),
            local_only: local_only.cloned(),
            watch: Watch::start(server.settings.idle_max, server.metrics.clone()),
        }
    }

    /// Answers one request, after its body was read and discarded.
    pub(super) async fn serve(&self, request: ServiceRequest) -> ServiceResponse {
        let (request, payload) = request.into_parts();
        // From now on, the watch cuts the connection if its next request is slow.
        let _answering = connection_of(&request).map(|connection| self.watch.answering(connection));
        // After an upgrade the body has no end.
        let mut response = if request.head().upgrade() {
            close_after(self.answer(&request))
        } else {
            match drain(payload, self.server.settings.body_timeout).await {
                Ok(()) => self.answer(&request),
                Err(refusal) => refuse_body(refusal),
            }
        };
        response.headers_mut().insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        ServiceResponse::new(request, response)
    }

    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        if let Some(local_only) = &self.local_only
            && let Err(reason) = local_only.check_host(host(request))
        {
            return refuse(StatusCode::FORBIDDEN, &RpcError::NotLocal(reason));
        }
        match Route::of(request.method(), request.path()) {
            Route::Health => health(),
            Route::Ready => probes::ready(&self.server),
            Route::Metrics => probes::metrics(&self.server),
            Route::WrongVerb(allowed) => {
                let error = RpcError::InvalidHttp("wrong verb for this path, see the allow header");
                let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &error);
                let allowed = HeaderValue::from_static(allowed);
                response.headers_mut().insert(header::ALLOW, allowed);
                response
            }
            Route::Unknown => {
                let error = RpcError::InvalidHttp("unknown path, get /metrics, /ready or /health");
                refuse(StatusCode::NOT_FOUND, &error)
            }
        }
    }
}
