//! Routes: what answers which path, and what every answer carries.

mod access_log;
mod body;
mod compression;
mod handshake;
mod probes;
mod reply;
mod request_actor;
mod route;

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use actix::Addr;
use actix_web::{
    HttpRequest, HttpResponse,
    dev::{Payload, ServiceRequest, ServiceResponse, fn_service},
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
    web::ServiceConfig,
};
use nearhead_actors::{
    head::Head,
    head_tracker::HeadTracker,
    read::{ReadResources, Worker},
    readiness::Readiness,
};
use nearhead_chain::json::Json;

use self::{
    access_log::{Access, RequestIds},
    body::{BodyRefusal, close_after, drain, read_body},
    compression::Compression,
    handshake::Fault,
    reply::ReplyBody,
    request_actor::RequestActor,
    route::Route,
};
use crate::{
    access::{SessionCaps, Tenant, Tenants},
    connections::{Answering, BodyBudget, Connection, Watch, unless_gone},
    limits,
    metrics::Metrics,
    rpc::{Answer, Dispatcher, Refusal, RpcError},
    subscriptions::{FanoutActor, Hub, SessionSubscriptions},
    ws::{Sessions, session_actor},
};

/// Everything that the answers of one service need; cloning shares it.
#[derive(Clone)]
pub struct ServerState {
    /// The pointer to the present view.
    pub head: Head,
    /// Who may call, what, and how much.
    pub tenants: Tenants,
    /// The permits, the pool and the source of state, shared by all workers.
    pub reads: ReadResources,
    /// Where everything is counted.
    pub metrics: Metrics,
    /// Options.
    pub settings: ServerSettings,
    /// Tells of changes of the head.
    pub tracker: Addr<HeadTracker>,
    /// How many sessions may be open.
    pub session_caps: SessionCaps,
    /// What `/ready` answers.
    pub readiness: Readiness,
}

/// Options of the server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Longest run of eth_getLogs, from admission.
    pub logs_deadline: Duration,
    /// Longest wait for a request's whole body, and for a session's whole message.
    pub body_timeout: Duration,
    /// Bytes that may wait for one session's client.
    pub session_bytes: usize,
    /// Longest from the end of one request to the whole head of the next.
    pub asking_max: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            logs_deadline: limits::LOGS_DEADLINE,
            body_timeout: limits::BODY_TIMEOUT,
            session_bytes: limits::SESSION_BYTES_MAX,
            asking_max: limits::KEEP_ALIVE + limits::HEAD_TIMEOUT,
        }
    }
}

/// Adds all routes to one worker's application and starts that worker's actors; called once on each
/// worker.
pub fn configure(server: &ServerState, config: &mut ServiceConfig) {
    let worker = Rc::new(WorkerState::start(server));
    // One service that takes the path apart by hand: every path is a constant or ends in a key, and
    // a router would match patterns for each request.
    config.default_service(fn_service(move |request: ServiceRequest| {
        let worker = Rc::clone(&worker);
        async move { Ok(worker.serve(request).await) }
    }));
}

/// What one worker answers with.
struct WorkerState {
    server: ServerState,
    dispatcher: Rc<Dispatcher>,
    compression: Compression,
    bodies: BodyBudget,
    ids: RequestIds,
    watch: Rc<Watch>,
    sessions: Sessions,
    hub: Rc<Hub>,
}

impl WorkerState {
    fn start(server: &ServerState) -> Self {
        let dispatcher = Dispatcher {
            head: server.head.clone(),
            worker: Worker::start(&server.reads),
            metrics: server.metrics.clone(),
            logs_deadline: server.settings.logs_deadline,
        };
        let hub = Hub::new(server.metrics.clone());
        FanoutActor::start(server.tracker.clone(), Rc::clone(&hub));
        Self {
            server: server.clone(),
            sessions: Sessions::start(
                server.settings.session_bytes,
                server.settings.body_timeout,
                Arc::clone(&server.readiness.draining),
                server.metrics.clone(),
            ),
            hub,
            dispatcher: Rc::new(dispatcher),
            compression: Compression::default(),
            bodies: BodyBudget::default(),
            ids: RequestIds::default(),
            watch: Watch::start(server.settings.asking_max, server.metrics.clone()),
        }
    }

    async fn serve(&self, request: ServiceRequest) -> ServiceResponse {
        let (request, payload) = request.into_parts();
        let mut access = Access::begin(&self.server, &self.ids, &request);
        let answering = connection_of(&request).map(|connection| self.watch.answering(connection));
        let mut response = match Route::of(request.method(), request.path()) {
            Route::Rpc(key) => match self.answer(&request, key, payload, &mut access).await {
                Ok(answer) => self.respond(&request, answer, answering),
                Err(response) => response,
            },
            Route::Session(key) => {
                self.open_session(&request, key, payload, answering.as_ref(), &mut access)
            }
            other => self.answer_plain(&request, other, payload).await,
        };
        response.headers_mut().insert(
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            HeaderValue::from_static("*"),
        );
        // Scripts in browsers read no other header of ours.
        if request.headers().contains_key(header::ORIGIN) {
            response.headers_mut().insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("retry-after, x-request-id"),
            );
        }
        access.end(&mut response);
        ServiceResponse::new(request, response)
    }

    async fn answer_plain(
        &self,
        request: &HttpRequest,
        route: Route<'_>,
        payload: Payload,
    ) -> HttpResponse {
        // What follows an upgrade has no end.
        if request.head().upgrade() {
            return close_after(self.answer_bodiless(route));
        }
        match drain(payload, self.server.settings.body_timeout).await {
            Ok(()) => self.answer_bodiless(route),
            Err(refusal) => refuse_body(refusal),
        }
    }

    fn answer_bodiless(&self, route: Route<'_>) -> HttpResponse {
        match route {
            Route::Health => probes::health(),
            Route::Ready => probes::ready(&self.server),
            Route::Metrics => probes::metrics(&self.server),
            Route::Preflight => preflight(),
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

    /// Answers a POST with this key, or says in HTTP's way why not. Whatever is refused is refused
    /// after its body was read, or the connection could not be used again.
    async fn answer(
        &self,
        request: &HttpRequest,
        key: &str,
        payload: Payload,
        access: &mut Access<'_>,
    ) -> Result<Answer, HttpResponse> {
        let timeout = self.server.settings.body_timeout;
        let tenant = match self.admit(request, key) {
            Ok(tenant) => tenant,
            Err((status, error)) => {
                self.count_refused(&error, access);
                return Err(match drain(payload, timeout).await {
                    Ok(()) => refuse(status, &error),
                    Err(refusal) => refuse_body(refusal),
                });
            }
        };
        access.set_tenant(&tenant);
        let (body, _charge) = match read_body(payload, timeout, &self.bodies).await {
            Ok(body) => body,
            Err(refusal) => {
                self.count_refused(&refusal.error(), access);
                return Err(refuse_body(refusal));
            }
        };
        let dispatcher = Rc::clone(&self.dispatcher);
        let arrived = access.arrived;
        let answer = async move { dispatcher.answer(&tenant, &body, arrived, None).await };
        let reply = RequestActor::answer(answer, access.span());
        let connection = connection_of(request).map(Rc::as_ref);
        let answer = match unless_gone(reply, connection).await {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => {
                self.server.reads.admission.panics().count();
                Answer::error("null", &RpcError::Internal)
            }
            None => {
                let gone = HttpResponse::new(StatusCode::REQUEST_TIMEOUT);
                return Err(close_after(gone));
            }
        };
        access.asked = answer.method;
        access.outcome = Some(answer.outcome);
        Ok(answer)
    }

    /// Opens a session, or says in HTTP's way why not. A refused handshake ends its connection:
    /// what follows it could be anything.
    fn open_session(
        &self,
        request: &HttpRequest,
        key: &str,
        payload: Payload,
        answering: Option<&Answering>,
        access: &mut Access<'_>,
    ) -> HttpResponse {
        access.asked = "session";
        let Some(tenant) = self.server.tenants.resolve(key) else {
            let error = RpcError::InvalidProjectId;
            self.count_refused(&error, access);
            return close_after(refuse(StatusCode::UNAUTHORIZED, &error));
        };
        access.set_tenant(&tenant);
        let accepted = handshake::check(request)
            .and_then(|()| session_actor::accept(request).map_err(|_| Fault::NotVersion13));
        let response = match accepted {
            Ok(response) => response,
            Err(fault) => return self.refuse_handshake(fault, access),
        };
        if let Err(exceeded) = tenant.take_requests(1, access.arrived) {
            let error = RpcError::RateExceeded(exceeded);
            self.count_refused(&error, access);
            return close_after(self.respond(request, Answer::error("null", &error), None));
        }
        let slot = self
            .server
            .session_caps
            .take(&tenant)
            .filter(|_| !self.server.readiness.draining.load(Ordering::Relaxed));
        let Some(slot) = slot else {
            self.count_refused(&RpcError::Unavailable, access);
            return close_after(refuse_body(BodyRefusal::Busy));
        };
        let connection = answering
            .map(Answering::becomes_session)
            .unwrap_or_default();
        let subscriptions = SessionSubscriptions::new(Rc::clone(&self.hub));
        let session = self.sessions.open(slot, subscriptions, connection);
        let dispatcher = Rc::clone(&self.dispatcher);
        let budget = self.bodies.clone();
        session_actor::open(response, payload, session, dispatcher, tenant, budget)
    }

    fn refuse_handshake(&self, fault: Fault, access: &mut Access<'_>) -> HttpResponse {
        let (status, why) = match fault {
            Fault::NotVersion13 => (
                StatusCode::UPGRADE_REQUIRED,
                "not a WebSocket handshake of version 13",
            ),
            Fault::BadKey => (
                StatusCode::BAD_REQUEST,
                "sec-websocket-key must be 16 bytes in base64",
            ),
        };
        let error = RpcError::InvalidHttp(why);
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

    /// Counts a request that was refused before it was a JSON-RPC request at all.
    fn count_refused(&self, error: &RpcError, access: &mut Access<'_>) {
        access.outcome = Some(error.outcome());
        self.server
            .metrics
            .method(None)
            .answered(error.outcome(), access.arrived.elapsed());
    }

    /// Who asks, if what is asked can be a JSON-RPC request at all.
    fn admit(
        &self,
        request: &HttpRequest,
        key: &str,
    ) -> Result<Arc<Tenant>, (StatusCode, RpcError)> {
        let Some(tenant) = self.server.tenants.resolve(key) else {
            return Err((StatusCode::UNAUTHORIZED, RpcError::InvalidProjectId));
        };
        if !is_json(request) {
            let why = "content type must be application/json";
            return Err((
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                RpcError::InvalidHttp(why),
            ));
        }
        Ok(tenant)
    }

    fn respond(
        &self,
        request: &HttpRequest,
        answer: Answer,
        answering: Option<Answering>,
    ) -> HttpResponse {
        let (status, retry_after) = match answer.refusal {
            None => (StatusCode::OK, None),
            Some(Refusal::Unavailable) => (
                StatusCode::SERVICE_UNAVAILABLE,
                Some(limits::RETRY_AFTER_SECONDS),
            ),
            Some(Refusal::RateExceeded { backoff_seconds }) => {
                (StatusCode::TOO_MANY_REQUESTS, Some(backoff_seconds))
            }
        };
        let Some(json) = answer.json else {
            return HttpResponse::new(status);
        };
        let permits = answer.permit.into_iter().collect();
        let mut response = self
            .compression
            .response(request, status, json, permits, answering);
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// The connection that a request came by; none in tests without one.
fn connection_of(request: &HttpRequest) -> Option<&Rc<Connection>> {
    request.conn_data()
}

/// An answer of another status than 200, with a JSON-RPC error as its body.
fn refuse(status: StatusCode, error: &RpcError) -> HttpResponse {
    let json = Answer::error("null", error).json.unwrap_or(Json::NULL);
    let mut response = HttpResponse::with_body(status, ReplyBody::boxed(json, Vec::new(), None));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// The answer to a body that was not taken; one that did not come to its end leaves a connection
/// that cannot go on.
fn refuse_body(refusal: BodyRefusal) -> HttpResponse {
    let mut response = refuse(refusal.status(), &refusal.error());
    match refusal {
        BodyRefusal::TooLarge => response,
        BodyRefusal::Endless | BodyRefusal::TooSlow | BodyRefusal::Broken => close_after(response),
        BodyRefusal::Busy => {
            let seconds = HeaderValue::from(limits::RETRY_AFTER_SECONDS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        }
    }
}

fn preflight() -> HttpResponse {
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, "*"))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, "86400"))
        .finish()
}

/// Whether the content type is one that JSON-RPC comes in, whatever its parameters; a missing one
/// is not (as for geth).
fn is_json(request: &HttpRequest) -> bool {
    let Some(value) = request.headers().get(header::CONTENT_TYPE) else {
        return false;
    };
    let value = value.as_bytes();
    let end = value
        .iter()
        .position(|byte| *byte == b';')
        .unwrap_or(value.len());
    let media_type = value[..end].trim_ascii();
    [
        &b"application/json"[..],
        b"application/json-rpc",
        b"application/jsonrequest",
    ]
    .iter()
    .any(|accepted| media_type.eq_ignore_ascii_case(accepted))
}

#[cfg(test)]
mod tests;
