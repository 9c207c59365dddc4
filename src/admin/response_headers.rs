//! The headers of every answer to operators.

use actix_web::{
    HttpResponse,
    http::header::{self, HeaderName, HeaderValue},
};

/// Names and values. A page loads nothing from elsewhere, is shown in no frame, and shares no
/// process with other sites' pages. Of its address, other sites learn nothing; the listener itself
/// does, because without it browsers leave the origin of a form out.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
         connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Adds them.
pub(super) fn protect(response: &mut HttpResponse) {
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
}
