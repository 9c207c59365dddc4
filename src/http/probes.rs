//! What orchestrators and monitors ask: health, readiness, metrics.

use std::{fmt::Write as _, sync::atomic::Ordering};

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use nearhead_chain::window::WINDOW_BLOCKS;

use super::ServerState;

/// The process is up.
pub(super) fn health() -> HttpResponse {
    json(StatusCode::OK, r#"{"status":"up"}"#.to_owned())
}

/// The head is fresh, the window filled, and the service not going away; 503 says what is missing.
pub(super) fn ready(server: &ServerState) -> HttpResponse {
    let mut missing = Vec::new();
    if server.draining.load(Ordering::Relaxed) {
        missing.push("the service is going away");
    }
    // Whatever comes next would not be heard of.
    let state = server.reads.state.as_ref();
    if state.is_some_and(|state| !state.standing().is_followed()) {
        missing.push("no node can be followed");
    }
    let mut facts = String::new();
    match server.head.load() {
        None => missing.push("there is no block yet"),
        Some(snapshot) => {
            let (head, blocks) = (snapshot.head().number(), snapshot.canonical().len());
            let age = server.head.age().unwrap_or_default();
            let wanted = head.saturating_add(1).min(WINDOW_BLOCKS as u64);
            if !snapshot.is_filled() {
                missing.push("the window is not filled yet");
            }
            if server
                .settings
                .head_fresh_for
                .is_some_and(|fresh_for| age > fresh_for)
            {
                missing.push("the head is stale");
            }
            // Writing to a string cannot fail.
            let _ = write!(
                facts,
                r#","head":{head},"blocks":{blocks},"blocks_wanted":{wanted},"head_age_seconds":{:.3}"#,
                age.as_secs_f64()
            );
        }
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

/// All metrics in Prometheus' text format.
pub(super) fn metrics(server: &ServerState) -> HttpResponse {
    match server.metrics.render(&server.head, &server.reads) {
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
