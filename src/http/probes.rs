//! Health and readiness, for load balancers and orchestrators. The reasons are on the admin
//! listener.

use actix_web::{
    HttpResponse,
    body::BoxBody,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use bytes::Bytes;
use nearhead_actors::readiness::Readiness;

/// The answer to `/health`: the process is up.
pub(crate) fn health() -> HttpResponse {
    json(StatusCode::OK, r#"{"status":"up"}"#)
}

/// The answer to `/ready`: 200 or 503.
pub(super) fn ready(readiness: &Readiness) -> HttpResponse {
    match readiness.report().reasons.is_empty() {
        true => json(StatusCode::OK, r#"{"ready":true}"#),
        false => json(StatusCode::SERVICE_UNAVAILABLE, r#"{"ready":false}"#),
    }
}

fn json(status: StatusCode, body: &'static str) -> HttpResponse {
    not_cached(status, "application/json", body)
}

/// An answer about this moment, which no cache may keep.
pub(crate) fn not_cached(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> HttpResponse {
    let mut response = HttpResponse::new(status).set_body(BoxBody::new(body.into()));
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    let cached = HeaderValue::from_static("no-store");
    headers.insert(header::CACHE_CONTROL, cached);
    response
}
