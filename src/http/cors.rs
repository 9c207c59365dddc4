//! Cross-origin requests: scripts of any web page may call (Fetch standard, CORS protocol).

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderValue},
};

/// The headers that scripts may read besides those that the standard safelists.
const EXPOSED: &str = "ratelimit-limit, ratelimit-remaining, ratelimit-reset, retry-after, \
                       x-nearhead-block, x-nearhead-units, x-nearhead-verified, x-request-id";

/// Adds the headers that let a script read the answer.
pub(super) fn allow(request: &HttpRequest, response: &mut HttpResponse) {
    response.headers_mut().insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    // Without this list, scripts see only the headers that the standard safelists. Clients that
    // send no origin need no list.
    if request.headers().contains_key(header::ORIGIN) {
        response.headers_mut().insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(EXPOSED),
        );
    }
}

/// The answer to a preflight request.
pub(super) fn preflight() -> HttpResponse {
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS"))
        // The star does not cover this one.
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, "*, authorization"))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, "86400"))
        .finish()
}
