//! Serves the requests of operators.

use std::{
    rc::Rc,
    time::{Instant, SystemTime},
};

use actix_web::{
    HttpRequest, HttpResponse,
    dev::{Payload, ServiceRequest, ServiceResponse},
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
    rt,
};
use nearhead_tenants::administration::{Identity, Requester};

use super::{
    admin_request::AdminRequest,
    admin_state::AdminState,
    answer_body::AnswerBudget,
    api::{self, ApiContext, ApiError},
    assets,
    logins::remember_networks,
    pages::{self, PageContext},
    probes,
    recent_traffic::{RecentTraffic, SAMPLE_EVERY},
    response_headers::protect,
    route::{Endpoint, Found, Listener},
    same_origin::RequestOrigin,
    visitor::{Hop, Visitor},
};
use crate::{
    connections::{Watch, every},
    http::{
        BodyRefusal, ServerState, client_address, close_after, connection_of, drain, health, host,
        read_small, refuse, refuse_body,
    },
    limits::OPERATOR_BODY_BYTES_MAX,
    rpc::RpcError,
};

/// What the worker of a listener for operators serves requests with.
pub(super) struct AdminWorker {
    server: ServerState,
    /// `None` on the listener for metrics.
    admin: Option<AdminState>,
    recent: Rc<RecentTraffic>,
    watch: Rc<Watch>,
    answers: AnswerBudget,
}

impl AdminWorker {
    /// Starts on the current thread, whose connections `watch` watches.
    pub(super) fn start(
        server: &ServerState,
        admin: Option<&AdminState>,
        watch: Rc<Watch>,
    ) -> Self {
        let recent = Rc::new(RecentTraffic::default());
        let metrics = server.metrics.clone();
        if let Some(admin) = admin.cloned() {
            rt::spawn(async move {
                remember_networks(&admin, SystemTime::now().into()).await;
            });
            every(SAMPLE_EVERY, Rc::downgrade(&recent), move |recent| {
                recent.add(Instant::now(), metrics.traffic());
            });
        }
        Self {
            server: server.clone(),
            admin: admin.cloned(),
            recent,
            watch,
            answers: AnswerBudget::default(),
        }
    }

    /// Answers one request, after its body was read.
    pub(super) async fn serve(&self, request: ServiceRequest) -> ServiceResponse {
        let (request, payload) = request.into_parts();
        // Once this is dropped, the watch cuts the connection if its next request is slow.
        let answering = connection_of(&request).map(|connection| self.watch.answering(connection));
        let answer = self.answer(&request, payload).await;
        let mut response = self.answers.bound(answer, answering);
        protect(&mut response);
        ServiceResponse::new(request, response)
    }

    /// Every body is read to its end, so that the connection can be used again.
    async fn answer(&self, request: &HttpRequest, payload: Payload) -> HttpResponse {
        let refusal = match self.route(request) {
            Ok((endpoint, captured)) => match (endpoint, &self.admin) {
                (Endpoint::Api(_) | Endpoint::Page(_), Some(admin)) => {
                    return self
                        .administer(admin, request, payload, (endpoint, captured))
                        .await;
                }
                _ => self.answer_plain(request, endpoint, &captured),
            },
            Err(refusal) => *refusal,
        };
        // After an upgrade the body has no end.
        if request.head().upgrade() {
            return close_after(refusal);
        }
        match drain(payload, self.server.settings.body_timeout).await {
            Ok(()) => refusal,
            Err(refusal) => refuse_body(refusal),
        }
    }

    /// The host that a client has asked a trusted proxy for.
    fn forwarded_host<'r>(&self, request: &'r HttpRequest) -> Option<&'r str> {
        let peer = request.peer_addr()?.ip();
        let proxies = &self.server.settings.trusted_proxies;
        proxies.host(peer, request.headers())
    }

    /// What answers a request, or why it is refused.
    fn route(&self, request: &HttpRequest) -> Result<(Endpoint, String), Box<HttpResponse>> {
        if let Some(admin) = &self.admin {
            // Both: a script may send any X-Forwarded-Host to its own host, and this machine may
            // have a trusted proxy.
            let forwarded = self.forwarded_host(request);
            let hosts = [Some(host(request)), forwarded.map(Some)];
            for host in hosts.into_iter().flatten() {
                if let Err(reason) = admin.local_only.check_host(host) {
                    let refusal = refuse(StatusCode::FORBIDDEN, &RpcError::NotLocal(reason));
                    return Err(Box::new(refusal));
                }
            }
        }
        let listener = match self.admin {
            Some(_) => Listener::Admin,
            None => Listener::Metrics,
        };
        let is_api = self.admin.is_some() && request.path().starts_with(api::ROOT);
        match Found::of(listener, request.method(), request.path()) {
            Found::Endpoint(endpoint, captured) => Ok((endpoint, captured.into_owned())),
            Found::WrongVerb(allowed) => {
                let error = RpcError::InvalidHttp("wrong verb for this path, see the allow header");
                let mut response = match is_api {
                    true => ApiError::WRONG_VERB.response(),
                    false => refuse(StatusCode::METHOD_NOT_ALLOWED, &error),
                };
                if let Ok(allowed) = HeaderValue::try_from(allowed) {
                    response.headers_mut().insert(header::ALLOW, allowed);
                }
                Err(Box::new(response))
            }
            Found::Unknown if is_api => Err(Box::new(ApiError::UNKNOWN_PATH.response())),
            Found::Unknown => Err(Box::new(unknown_path())),
        }
    }

    /// Answers a request to which it does not matter who sends it.
    fn answer_plain(
        &self,
        request: &HttpRequest,
        endpoint: Endpoint,
        captured: &str,
    ) -> HttpResponse {
        match endpoint {
            Endpoint::Health => health(),
            Endpoint::Ready => probes::ready(&self.server),
            Endpoint::Metrics => probes::metrics(&self.server),
            Endpoint::Asset => {
                let query = request.query_string();
                assets::serve(captured, query, request.headers()).unwrap_or_else(unknown_path)
            }
            Endpoint::Api(_) | Endpoint::Page(_) => unknown_path(),
        }
    }

    /// Answers a call of the API, or a request for a page.
    async fn administer(
        &self,
        admin: &AdminState,
        request: &HttpRequest,
        payload: Payload,
        (endpoint, captured): (Endpoint, String),
    ) -> HttpResponse {
        let timeout = self.server.settings.body_timeout;
        let body = match request.head().upgrade() {
            true => Err(BodyRefusal::Broken),
            false => read_small(payload, timeout, OPERATOR_BODY_BYTES_MAX).await,
        };
        let is_page = matches!(endpoint, Endpoint::Page(_));
        let refuse = |error: &ApiError| match is_page {
            true => pages::refuse(error),
            false => error.response(),
        };
        let body = match body {
            Ok(body) => body,
            Err(BodyRefusal::TooLarge) => return refuse(&ApiError::of_body(BodyRefusal::TooLarge)),
            Err(refusal) => return close_after(refuse(&ApiError::of_body(refusal))),
        };
        let peer = request.peer_addr().map(|address| address.ip());
        let proxies = &self.server.settings.trusted_proxies;
        let headers = request.headers();
        let hop = Hop {
            is_proxy: peer.is_some_and(|peer| proxies.contain(peer)),
            is_tls: admin.tls.is_some() || peer.is_some_and(|peer| proxies.is_tls(peer, headers)),
        };
        let from = client_address(&self.server, request);
        let now = SystemTime::now().into();
        let nobody = Requester::new(Identity::nobody(), from, now);
        let visitor = match Visitor::identify(admin, headers, hop, nobody).await {
            Ok(visitor) => visitor,
            Err(error) => return refuse(&error),
        };
        if let Some(connection) = visitor.as_ref().and(connection_of(request)) {
            connection.accepted();
        }
        if let Some((account, from)) = visitor.as_ref().and_then(Visitor::logged_in).zip(from) {
            admin.throttle.lock().know(account, from);
        }
        let origin = RequestOrigin::of(headers, self.forwarded_host(request));
        let is_ambient = visitor.as_ref().is_some_and(Visitor::is_ambient);
        let is_token = visitor.is_some() && !is_ambient;
        let is_foreign = match origin {
            RequestOrigin::Same => false,
            RequestOrigin::Foreign => !is_token,
            RequestOrigin::Unstated => is_ambient,
        };
        let call = AdminRequest {
            captured,
            target: request.uri().to_string(),
            query: request.query_string().to_owned(),
            content_type: content_type(headers),
            if_match: if_match(headers),
            body,
            visitor,
            from,
            is_tls: hop.is_tls,
            now,
        };
        let is_safe = request.method().is_safe();
        if is_foreign && !is_safe {
            return refuse(&ApiError::FOREIGN_ORIGIN);
        }
        let (server, recent) = (&self.server, &*self.recent);
        match endpoint {
            Endpoint::Api(route) => {
                let context = ApiContext {
                    server,
                    admin,
                    recent,
                };
                api::serve(context, route, &call).await
            }
            Endpoint::Page(route) if route.needs_login && call.visitor.is_none() => {
                pages::log_in_first(&call)
            }
            Endpoint::Page(route) => {
                let context = PageContext {
                    server,
                    admin,
                    recent,
                };
                pages::serve(context, route.page, &call).await
            }
            _ => unknown_path(),
        }
    }
}

fn unknown_path() -> HttpResponse {
    let error = RpcError::InvalidHttp("unknown path, get /metrics, /ready or /health");
    refuse(StatusCode::NOT_FOUND, &error)
}

/// The header `If-Match`, of which several lines are one list. What is not text is malformed.
fn if_match(headers: &header::HeaderMap) -> Option<String> {
    let lines = headers.get_all(header::IF_MATCH);
    let lines: Vec<_> = lines.map(|line| line.to_str().unwrap_or("?")).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// The header `Content-Type` without its parameters, in lower case; empty without one.
fn content_type(headers: &header::HeaderMap) -> String {
    let line = headers.get(header::CONTENT_TYPE);
    let line = line.and_then(|line| line.to_str().ok()).unwrap_or_default();
    let essence = line.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}
