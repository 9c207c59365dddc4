//! Responses to requests that HTTP refuses.

use actix_web::{
    HttpResponse,
    http::{
        StatusCode,
        header::{self, HeaderValue},
    },
};
use nearhead_chain::json::Json;

use super::{
    body::{BodyRefusal, close_after},
    reply::ReplyBody,
};
use crate::{
    limits,
    rpc::{Answer, RpcError, envelope::NULL_ID},
};

/// A response with this status and a JSON-RPC error as its body.
pub(crate) fn refuse(status: StatusCode, error: &RpcError) -> HttpResponse {
    let json = Answer::error(NULL_ID, error).json.unwrap_or(Json::NULL);
    let mut response = HttpResponse::with_body(status, ReplyBody::boxed(json, Vec::new(), None));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// The response to a body that was refused. If the body was not read to its end, the connection
/// cannot be used again.
pub(crate) fn refuse_body(refusal: BodyRefusal) -> HttpResponse {
    let response = || refuse(refusal.status(), &refusal.error());
    match refusal {
        BodyRefusal::TooLarge => response(),
        BodyRefusal::Endless | BodyRefusal::TooSlow | BodyRefusal::Broken => {
            close_after(response())
        }
        BodyRefusal::Busy => refuse_unavailable(),
    }
}

/// The response when the service has no capacity for a request.
pub(super) fn refuse_unavailable() -> HttpResponse {
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, &RpcError::Unavailable);
    let seconds = HeaderValue::from(limits::RETRY_AFTER_SECONDS);
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}
