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
    access::{Refused, TokenError},
    rpc::{Answer, Refusal, RpcError, envelope::NULL_ID},
};

/// What a request has to present that gets a status 401 (RFC 9110 §11.6.1, RFC 6750 §3).
///
/// A secret may also be presented as `Basic`, which is not offered: a browser would ask its user
/// for a name and a password, and a key has neither.
pub(crate) const CHALLENGE: HeaderValue = HeaderValue::from_static(r#"Bearer realm="nearhead""#);

/// The same for a request whose token is not accepted.
const CHALLENGE_OTHER_TOKEN: HeaderValue =
    HeaderValue::from_static(r#"Bearer realm="nearhead", error="invalid_token""#);

/// A response with this status and a JSON-RPC error as its body.
pub(crate) fn refuse(status: StatusCode, error: &RpcError) -> HttpResponse {
    let json = Answer::error(NULL_ID, error).json.unwrap_or(Json::NULL);
    let mut response = HttpResponse::with_body(status, ReplyBody::boxed(json, None, None));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// The response to a request that is not let in.
pub(super) fn refuse_entry(refused: Refused) -> HttpResponse {
    let (status, header) = match refused {
        Refused::UnknownKey | Refused::WrongSecret | Refused::Token(TokenError::Missing) => (
            StatusCode::UNAUTHORIZED,
            Some((header::WWW_AUTHENTICATE, CHALLENGE)),
        ),
        Refused::Token(TokenError::TooMany {
            retry_after_seconds,
        }) => (
            StatusCode::TOO_MANY_REQUESTS,
            Some((header::RETRY_AFTER, retry_after_seconds.into())),
        ),
        Refused::Token(_) => (
            StatusCode::UNAUTHORIZED,
            Some((header::WWW_AUTHENTICATE, CHALLENGE_OTHER_TOKEN)),
        ),
        Refused::NotListed(_) | Refused::NotLocal(_) => (StatusCode::FORBIDDEN, None),
    };
    let mut response = refuse(status, &refused.into());
    if let Some((name, value)) = header {
        response.headers_mut().insert(name, value);
    }
    response
}

/// The response to a guess that is one too many for its network. Nothing else of the request is
/// read, so the connection cannot be used again.
pub(super) fn refuse_guess(retry_after_seconds: u32) -> HttpResponse {
    let error = RpcError::TooManyGuesses {
        retry_after_seconds,
    };
    let mut response = close_after(refuse(StatusCode::TOO_MANY_REQUESTS, &error));
    let seconds = HeaderValue::from(retry_after_seconds);
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
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
        BodyRefusal::Busy { .. } => retry_after(response(), &refusal.error()),
    }
}

/// The response when the service has no capacity for a request.
pub(super) fn refuse_unavailable() -> HttpResponse {
    let error = RpcError::Unavailable;
    retry_after(refuse(StatusCode::SERVICE_UNAVAILABLE, &error), &error)
}

/// The same response, which says when the client may try again.
fn retry_after(mut response: HttpResponse, error: &RpcError) -> HttpResponse {
    if let Some(Refusal::Unavailable {
        retry_after_seconds,
    }) = Refusal::of(error)
    {
        let seconds = HeaderValue::from(retry_after_seconds);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}
