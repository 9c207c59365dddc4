//! Routes: what answers which path, and what every answer carries.

mod body;
mod peer;
mod probes;

use std::{
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use actix_http::encoding::Encoder;
use actix_web::{
    HttpRequest, HttpResponse,
    body::BoxBody,
    dev::{Payload, ServiceRequest, ServiceResponse, fn_service},
    http::{
        Method, StatusCode,
        header::{
            self, AcceptEncoding, ContentEncoding, Encoding, Header, HeaderName, HeaderValue,
        },
    },
    web::ServiceConfig,
};
use nearhead_actors::{
    head::Head,
    wiring::{Permit, Pools, Worker},
};
use nearhead_chain::json::Json;
use tokio::sync::Semaphore;

pub use self::peer::on_connect;
use self::{
    body::{BodyBudget, BodyRefusal, close_after, drain, read_body},
    peer::unless_gone,
};
use crate::{
    access::{Keys, Quota, TenantId},
    limits,
    metrics::Metrics,
    reply::ReplyBody,
    request_actor::RequestActor,
    rpc::{Answer, Dispatcher, MethodSet, Refusal, RpcError},
};

/// Everything that the answers of one service need; cloning shares it.
#[derive(Clone)]
pub struct Edge {
    /// The pointer to the present view.
    pub head: Head,
    /// Who may ask.
    pub keys: Arc<Keys>,
    /// How much each may ask.
    pub quota: Arc<Quota>,
    /// Threads for heavy work, and its permits.
    pub pools: Pools,
    /// Where everything is counted.
    pub metrics: Metrics,
    /// Knobs.
    pub settings: EdgeSettings,
    /// Set when the service is going away: `/ready` says so, answers go on.
    pub draining: Arc<AtomicBool>,
}

/// Knobs of the edge.
#[derive(Clone, Debug)]
pub struct EdgeSettings {
    /// Which methods are answered.
    pub methods: MethodSet,
    /// Longest run of eth_getLogs, from admission.
    pub logs_deadline: Duration,
    /// Longest wait for a request's whole body.
    pub body_timeout: Duration,
    /// `/ready` fails when the head has not changed for longer than this; `None`: a head is always fresh.
    pub head_fresh_for: Option<Duration>,
}

impl Default for EdgeSettings {
    fn default() -> Self {
        Self {
            methods: MethodSet::default(),
            logs_deadline: limits::LOGS_DEADLINE,
            body_timeout: limits::BODY_TIMEOUT,
            head_fresh_for: None,
        }
    }
}

/// Adds all routes to one worker's application and starts that worker's actors; called once on each worker.
pub fn configure(edge: &Edge, config: &mut ServiceConfig) {
    let worker = Rc::new(WorkerEdge::start(edge));
    // One service that takes the path apart by hand: every path is a constant or ends in a key, and a router would
    // match patterns for each request.
    config.default_service(fn_service(move |request: ServiceRequest| {
        let worker = Rc::clone(&worker);
        async move { Ok(worker.serve(request).await) }
    }));
}

/// What one worker answers with.
struct WorkerEdge {
    edge: Edge,
    dispatcher: Rc<Dispatcher>,
    compressions: Arc<Semaphore>,
    bodies: BodyBudget,
}

/// What a request's verb and path ask for.
#[derive(Debug, PartialEq, Eq)]
enum Route<'a> {
    /// JSON-RPC with this key. (WebSocket sessions are to come in by `GET /ws/v3/<key>`, beside this.)
    Rpc(&'a str),
    /// What a browser asks before it posts.
    Preflight,
    Health,
    Ready,
    Metrics,
    /// The path is known, but not with this verb; what is allowed.
    WrongVerb(&'static str),
    Unknown,
}

impl<'a> Route<'a> {
    fn of(verb: &Method, path: &'a str) -> Self {
        let probe = |route| match *verb {
            Method::GET | Method::HEAD => route,
            Method::OPTIONS => Self::Preflight,
            _ => Self::WrongVerb("GET, HEAD, OPTIONS"),
        };
        match path {
            "/health" => probe(Self::Health),
            "/ready" => probe(Self::Ready),
            "/metrics" => probe(Self::Metrics),
            _ => match path
                .strip_prefix("/v3")
                .map(|rest| rest.strip_prefix('/').unwrap_or(rest))
            {
                Some(key) if !key.contains('/') && (key.is_empty() || path.starts_with("/v3/")) => {
                    match *verb {
                        Method::POST => Self::Rpc(key),
                        Method::OPTIONS => Self::Preflight,
                        _ => Self::WrongVerb("POST, OPTIONS"),
                    }
                }
                _ => Self::Unknown,
            },
        }
    }
}

impl WorkerEdge {
    fn start(edge: &Edge) -> Self {
        let dispatcher = Dispatcher {
            head: edge.head.clone(),
            worker: Worker::start(&edge.pools),
            quota: Arc::clone(&edge.quota),
            metrics: edge.metrics.clone(),
            methods: edge.settings.methods,
            logs_deadline: edge.settings.logs_deadline,
        };
        Self {
            edge: edge.clone(),
            dispatcher: Rc::new(dispatcher),
            compressions: Arc::new(Semaphore::new(limits::COMPRESSIONS_MAX)),
            bodies: BodyBudget::default(),
        }
    }

    async fn serve(&self, request: ServiceRequest) -> ServiceResponse {
        let (request, payload) = request.into_parts();
        self.edge.metrics.in_flight.inc();
        let in_flight = InFlight(&self.edge.metrics);
        let mut response = match Route::of(request.method(), request.path()) {
            Route::Rpc(key) => self.answer(&request, key, payload).await,
            other => self.answer_plain(other, payload).await,
        };
        drop(in_flight);
        let headers = response.headers_mut();
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            HeaderValue::from_static("*"),
        );
        if let Some(id) = request_id(&request) {
            headers.insert(X_REQUEST_ID, id.clone());
        }
        ServiceResponse::new(request, response)
    }

    async fn answer_plain(&self, route: Route<'_>, payload: Payload) -> HttpResponse {
        if let Err(refusal) = drain(payload, self.edge.settings.body_timeout).await {
            return refuse_body(refusal);
        }
        match route {
            Route::Health => probes::health(),
            Route::Ready => probes::ready(&self.edge),
            Route::Metrics => probes::metrics(&self.edge),
            Route::Preflight => preflight(),
            Route::WrongVerb(allowed) => {
                let error = RpcError::InvalidHttp("wrong verb for this path, see the allow header");
                let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, &error);
                response
                    .headers_mut()
                    .insert(header::ALLOW, HeaderValue::from_static(allowed));
                response
            }
            Route::Rpc(_) | Route::Unknown => {
                let error = RpcError::InvalidHttp("unknown path, post to /v3/<api key>");
                refuse(StatusCode::NOT_FOUND, &error)
            }
        }
    }

    /// Answers a POST with this key. Whatever is refused is refused after its body was read, or the connection could
    /// not be used again.
    async fn answer(&self, request: &HttpRequest, key: &str, payload: Payload) -> HttpResponse {
        let arrived = Instant::now();
        let timeout = self.edge.settings.body_timeout;
        let tenant = match self.admit(request, key) {
            Ok(tenant) => tenant,
            Err((status, error)) => {
                self.edge
                    .metrics
                    .method(None)
                    .answered(error.outcome(), Duration::ZERO);
                return match drain(payload, timeout).await {
                    Ok(()) => refuse(status, &error),
                    Err(refusal) => refuse_body(refusal),
                };
            }
        };
        let (body, _charge) = match read_body(payload, timeout, &self.bodies).await {
            Ok(body) => body,
            Err(refusal) => {
                self.edge
                    .metrics
                    .method(None)
                    .answered(refusal.error().outcome(), arrived.elapsed());
                return refuse_body(refusal);
            }
        };
        let reply = RequestActor::answer(Rc::clone(&self.dispatcher), tenant, body, arrived);
        let answer = match unless_gone(reply, request.conn_data().copied()).await {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => {
                self.edge.pools.panics().count();
                Answer::error("null", &RpcError::Internal)
            }
            None => return close_after(HttpResponse::new(StatusCode::REQUEST_TIMEOUT)),
        };
        log_access(&self.edge, request, tenant, &answer, arrived);
        self.respond(request, answer)
    }

    /// Who asks, if what is asked can be a JSON-RPC request at all.
    fn admit(&self, request: &HttpRequest, key: &str) -> Result<TenantId, (StatusCode, RpcError)> {
        let Some(tenant) = self.edge.keys.check(key) else {
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

    fn respond(&self, request: &HttpRequest, answer: Answer) -> HttpResponse {
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
        let mut response = match self.compression(request, &json) {
            Some((encoding, permit)) => compressed(status, encoding, json, answer.permits, permit),
            None => HttpResponse::with_body(status, ReplyBody::boxed(json, answer.permits)),
        };
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

    /// How to compress a reply, if it is large, the client wants it, and not too many are being compressed.
    fn compression(&self, request: &HttpRequest, json: &Json) -> Option<(ContentEncoding, Permit)> {
        if json.len() < limits::COMPRESS_BYTES_MIN
            || !request.headers().contains_key(header::ACCEPT_ENCODING)
        {
            return None;
        }
        let wanted = AcceptEncoding::parse(request).ok()?;
        let offered = [
            Encoding::identity(),
            Encoding::zstd(),
            Encoding::brotli(),
            Encoding::gzip(),
        ];
        let encoding = match wanted.negotiate(offered.iter())? {
            Encoding::Known(encoding) if encoding != ContentEncoding::Identity => encoding,
            _ => return None,
        };
        Some((
            encoding,
            Arc::clone(&self.compressions).try_acquire_owned().ok()?,
        ))
    }
}

/// Counts a request down when it is answered, or dropped because the client went away.
struct InFlight<'a>(&'a Metrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

fn compressed(
    status: StatusCode,
    encoding: ContentEncoding,
    json: Json,
    mut permits: Vec<Permit>,
    permit: Permit,
) -> HttpResponse {
    permits.push(permit);
    HttpResponse::with_body(status, ReplyBody::new(json, permits))
        .map_body(|head, body| BoxBody::new(Encoder::response(encoding, head, body)))
}

/// An answer of another status than 200, with a JSON-RPC error as its body.
fn refuse(status: StatusCode, error: &RpcError) -> HttpResponse {
    let json = Answer::error("null", error).json.unwrap_or(Json::NULL);
    let mut response = HttpResponse::with_body(status, ReplyBody::boxed(json, Vec::new()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// The answer to a body that was not taken; one that did not come to its end leaves a connection that cannot go on.
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

/// Whether the content type is one that JSON-RPC comes in, whatever its parameters; a missing one is not (as for geth).
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

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The client's own request id, if it can be repeated as it is.
fn request_id(request: &HttpRequest) -> Option<&HeaderValue> {
    let id = request.headers().get(X_REQUEST_ID)?;
    let is_sane = (1..=limits::REQUEST_ID_BYTES_MAX).contains(&id.len())
        && id.as_bytes().iter().all(u8::is_ascii_graphic);
    is_sane.then_some(id)
}

/// One event a request, off by default; the path is left out, for it has the key.
fn log_access(
    edge: &Edge,
    request: &HttpRequest,
    tenant: TenantId,
    answer: &Answer,
    arrived: Instant,
) {
    if !tracing::enabled!(target: "nearhead::access", tracing::Level::DEBUG) {
        return;
    }
    tracing::debug!(
        target: "nearhead::access",
        request_id = request_id(request).and_then(|id| id.to_str().ok()),
        tenant = edge.keys.tenant_name(tenant),
        method = answer.asked,
        outcome = answer.outcome.label(),
        bytes = answer.json.as_ref().map_or(0, Json::len),
        micros = u64::try_from(arrived.elapsed().as_micros()).unwrap_or(u64::MAX),
    );
}

#[cfg(test)]
mod tests;
