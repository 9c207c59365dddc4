//! Health, readiness and metrics, for orchestrators and monitors.

use std::fmt::Write as _;

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use nearhead_actors::readiness::{HeadStatus, ReadinessReport, Unready};

use super::server_state::ServerState;

/// The answer to `/health`: the process is up.
pub(super) fn health() -> HttpResponse {
    json(StatusCode::OK, r#"{"status":"up"}"#.to_owned())
}

/// The answer to `/ready`: 200, or 503 with the reasons.
pub(super) fn ready(server: &ServerState) -> HttpResponse {
    let ReadinessReport { reasons, head } = server.readiness.report();
    let missing: Vec<_> = reasons.into_iter().map(reason).collect();
    let mut facts = String::new();
    if let Some(HeadStatus {
        number,
        blocks,
        blocks_wanted,
        age,
    }) = head
    {
        // Writing to a string cannot fail.
        let _ = write!(
            facts,
            r#","head":{number},"blocks":{blocks},"blocks_wanted":{blocks_wanted},"head_age_seconds":{:.3}"#,
            age.as_secs_f64()
        );
    }
    let is_ready = missing.is_empty();
    let missing: Vec<String> = missing.iter().map(|what| format!("\"{what}\"")).collect();
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(
        status,
        format!(
            r#"{{"ready":{is_ready},"missing":[{}]{facts}}}"#,
            missing.join(",")
        ),
    )
}

const fn reason(unready: Unready) -> &'static str {
    match unready {
        Unready::Draining => "the service is going away",
        Unready::NoUpstream => "no node can be followed",
        Unready::NoBlock => "there is no block yet",
        Unready::WindowNotFilled => "the window is not filled yet",
        Unready::HeadStale => "the head is stale",
    }
}

/// The answer to `/metrics`: all metrics in Prometheus' text format.
pub(super) fn metrics(server: &ServerState) -> HttpResponse {
    match server.metrics.render(&server.readiness, &server.reads) {
        Ok(text) => with_type(StatusCode::OK, prometheus::TEXT_FORMAT, text),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be written");
            json(
                StatusCode::INTERNAL_SERVER_ERROR,
                r#"{"error":"internal error"}"#.to_owned(),
            )
        }
    }
}

fn json(status: StatusCode, body: String) -> HttpResponse {
    with_type(status, "application/json", body)
}

fn with_type(status: StatusCode, content_type: &'static str, body: String) -> HttpResponse {
    let mut response = HttpResponse::new(status).set_body(actix_web::body::BoxBody::new(body));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
