//! Where a request says what its client's own trace is.

use actix_web::{HttpRequest, http::header::HeaderName};

use crate::traces::TraceParent;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The client's span, if the header is valid.
pub(super) fn trace_parent(request: &HttpRequest) -> Option<TraceParent> {
    TraceParent::parse(request.headers().get(TRACEPARENT)?.as_bytes())
}
