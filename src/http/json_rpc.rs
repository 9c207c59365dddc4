//! Answers JSON-RPC requests that are posted.

use std::{rc::Rc, sync::Arc, time::SystemTime};

use actix_web::{
    HttpRequest, HttpResponse,
    dev::Payload,
    http::{
        StatusCode,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
};
use nearhead_actors::{admission::ReplyInTurns, messages::Reply};
use tracing::{Instrument, Span};

use super::{
    access_log::AccessEntry,
    block_header::X_NEARHEAD_BLOCK,
    body::{close_after, drain, read_body},
    entry::Denied,
    large_bodies::LargeBodies,
    min_block_header::min_block,
    refusal::{refuse, refuse_body},
    request_actor::RequestActor,
    worker_state::WorkerState,
};
use crate::{
    access::{ActiveKey, Now, QuotaKind, Remaining},
    connections::{Answering, Connection, unless_gone},
    limits::BUFFERED_BYTES_MAX,
    rpc::{Answer, Refusal, RpcError, Via, envelope::NULL_ID},
};

/// Tokens of the scarcest bucket when it is full, tokens in it now, and seconds until it is full.
const RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// What the answer costs, in units.
const X_NEARHEAD_UNITS: HeaderName = HeaderName::from_static("x-nearhead-units");

/// `no` if an answer has what a node says, which is not verified; otherwise it is missing.
const X_NEARHEAD_VERIFIED: HeaderName = HeaderName::from_static("x-nearhead-verified");

impl WorkerState {
    /// Answers a POST request with this key.
    ///
    /// # Errors
    /// The response to a request that is refused before its JSON-RPC is parsed, or whose client is
    /// gone. A refused request's body is read first, unless its network was refused too often:
    /// otherwise the connection could not be used again.
    pub(super) async fn answer(
        &self,
        request: &HttpRequest,
        connection: Option<&Connection>,
        key: &str,
        payload: Payload,
        access: &mut AccessEntry<'_>,
    ) -> Result<Answer, HttpResponse> {
        let timeout = self.server.settings.body_timeout;
        let now = Now {
            instant: access.arrived,
            unix: SystemTime::now().into(),
        };
        let version = self.server.access.version();
        let mut admitted = match self.admit_json(request, connection, key, now, access) {
            Ok(admitted) => admitted,
            Err(Denied::Throttled(response)) => return Err(*response),
            Err(Denied::Refused(response)) => {
                return Err(match drain(payload, timeout).await {
                    Ok(()) => *response,
                    Err(refusal) => refuse_body(refusal),
                });
            }
        };
        access.set_tenant(&admitted.tenant);
        access.begin_trace(request, &admitted.tenant);
        let bodies = self.bodies.of(admitted.tenant.call_budget.share());
        let (body, _charge) = match read_body(payload, timeout, &bodies).await {
            Ok(body) => body,
            Err(refusal) => {
                self.count_refused(&refusal.error(), access);
                return Err(self.with_head(refuse_body(refusal)));
            }
        };
        let span = access.span();
        let turn = self.turn(&admitted, &body, connection, &span).await;
        if self.server.access.version() != version {
            // A body may arrive slowly, or wait for its turn, and a key that was revoked meanwhile
            // lets nobody in.
            let again = self.admit_json(request, connection, key, now, access);
            admitted = again.map_err(Denied::response)?;
        }
        let min_block = min_block(request);
        let buffered_max = connection.map_or(BUFFERED_BYTES_MAX, Connection::buffered_max);
        let answer = match turn {
            Some(Ok(())) if LargeBodies::has(&body) => {
                let via = (min_block, buffered_max);
                let answer = self.large_bodies.answer(admitted, body, now, via, span);
                // Boxed, so that a request with a small body does not carry the future's state.
                unless_gone(Box::pin(answer), connection).await
            }
            Some(Ok(())) => {
                let dispatcher = Rc::clone(&self.dispatcher);
                let via = Via::http(min_block, buffered_max);
                let answer = async move { dispatcher.answer(&admitted, &body, now, via).await };
                let answered = RequestActor::answer(answer, span);
                unless_gone(answered, connection).await.map(Result::ok)
            }
            Some(Err(error)) => {
                let refused = self.dispatcher.refuse_unread(&admitted, &body, error, now);
                Some(Some(refused))
            }
            None => None,
        };
        let answer = match answer {
            Some(Some(answer)) => answer,
            // The dispatcher answers panics itself, so this is a thread that stops.
            Some(None) => Answer::error(NULL_ID, &RpcError::Unavailable),
            None => {
                access.is_abandoned = true;
                let gone = HttpResponse::new(StatusCode::REQUEST_TIMEOUT);
                return Err(close_after(gone));
            }
        };
        access.method = answer.method;
        access.outcome = Some(answer.outcome);
        Ok(answer)
    }

    /// Waits until a request may begin. `None`: its client is gone.
    ///
    /// # Errors
    /// Too many requests of its tenant wait.
    async fn turn(
        &self,
        key: &ActiveKey,
        body: &[u8],
        connection: Option<&Connection>,
        span: &Span,
    ) -> Option<Reply<()>> {
        if self.requests.begin(body.len()) {
            return Some(Ok(()));
        }
        let share = key.tenant.call_budget.share();
        let turn = self.requests.wait(share, body.len());
        // Boxed, so that a request that need not wait does not carry the future's state.
        unless_gone(Box::pin(turn.instrument(span.clone())), connection).await
    }

    /// Counts a request that was refused before its JSON-RPC was parsed.
    pub(super) fn count_refused(&self, error: &RpcError, access: &mut AccessEntry<'_>) {
        access.outcome = Some(error.outcome());
        self.server
            .metrics
            .method(None)
            .answered(error.outcome(), access.arrived.elapsed());
    }

    /// Lets a request in. Its content type must be one that carries JSON-RPC.
    ///
    /// # Errors
    /// The response to a request that is not let in, which is counted.
    fn admit_json(
        &self,
        request: &HttpRequest,
        connection: Option<&Connection>,
        key: &str,
        now: Now,
        access: &mut AccessEntry<'_>,
    ) -> Result<Arc<ActiveKey>, Denied> {
        let admitted = self.admit(request, connection, key, now, access)?;
        if !is_json(request) {
            let error = RpcError::InvalidHttp("content type must be application/json");
            self.count_refused(&error, access);
            let response = refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error);
            return Err(Denied::Refused(Box::new(self.with_head(response))));
        }
        Ok(admitted.key)
    }

    /// A refusal of a request whose key is accepted: as any other answer, it names the head.
    fn with_head(&self, mut response: HttpResponse) -> HttpResponse {
        let snapshot = self.server.readiness.head.load();
        let block = snapshot.and_then(|snapshot| self.block_header.of(snapshot.head()));
        if let Some(block) = block {
            response.headers_mut().insert(X_NEARHEAD_BLOCK, block);
        }
        response
    }

    /// The response that carries this answer.
    pub(super) fn respond(
        &self,
        request: &HttpRequest,
        answer: Answer,
        in_turns: Option<ReplyInTurns>,
        answering: Option<Answering>,
    ) -> HttpResponse {
        let (status, retry_after) = match answer.refusal {
            None => (StatusCode::OK, None),
            Some(Refusal::Unavailable {
                retry_after_seconds,
            }) => (StatusCode::SERVICE_UNAVAILABLE, Some(retry_after_seconds)),
            Some(Refusal::QuotaExceeded {
                quota,
                retry_after_seconds,
            }) => {
                let status = match quota {
                    QuotaKind::Requests | QuotaKind::Units => StatusCode::TOO_MANY_REQUESTS,
                    QuotaKind::UnitsOfDay => StatusCode::PAYMENT_REQUIRED,
                };
                (status, Some(retry_after_seconds))
            }
            Some(Refusal::NotListed) => (StatusCode::FORBIDDEN, None),
        };
        let (units, remaining) = (units_header(answer.units), answer.remaining);
        let verified = answer
            .is_unverified
            .then_some(HeaderValue::from_static("no"));
        let block = answer.head.and_then(|head| self.block_header.of(&head));
        let mut response = match answer.json {
            None => HttpResponse::new(status),
            Some(json) => {
                let charge = answer.permits.and_then(|permits| permits.reply);
                let charge = charge.map(|charge| (charge, in_turns));
                let mut response = self
                    .replies
                    .response(request, status, json, charge, answering);
                let headers = response.headers_mut();
                let content_type = HeaderValue::from_static("application/json");
                headers.insert(header::CONTENT_TYPE, content_type);
                if let Some(verified) = verified {
                    headers.insert(X_NEARHEAD_VERIFIED, verified);
                }
                if let Some(seconds) = retry_after {
                    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
                }
                response
            }
        };
        let headers = response.headers_mut();
        headers.insert(X_NEARHEAD_UNITS, units);
        if let Some(block) = block {
            headers.insert(X_NEARHEAD_BLOCK, block);
        }
        add_remaining(headers, remaining);
        response
    }
}

/// Adds what the key has left, if any rate of it is limited
/// (draft-ietf-httpapi-ratelimit-headers-07).
fn add_remaining(headers: &mut HeaderMap, remaining: Option<Remaining>) {
    if let Some(Remaining {
        limit,
        remaining,
        reset_seconds,
    }) = remaining
    {
        headers.insert(RATELIMIT_LIMIT, HeaderValue::from(limit));
        headers.insert(RATELIMIT_REMAINING, HeaderValue::from(remaining));
        headers.insert(RATELIMIT_RESET, HeaderValue::from(reset_seconds));
    }
}

/// The value of [`X_NEARHEAD_UNITS`]. That of a usual answer is not allocated.
fn units_header(units: u64) -> HeaderValue {
    const USUAL: &[&str] = &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    match usize::try_from(units).ok().and_then(|at| USUAL.get(at)) {
        Some(text) => HeaderValue::from_static(text),
        None => HeaderValue::from(units),
    }
}

/// Whether the content type is one of those that carry JSON-RPC, with any parameters. A missing
/// content type is refused, as in geth.
fn is_json(request: &HttpRequest) -> bool {
    let Some(value) = request.headers().get(header::CONTENT_TYPE) else {
        return false;
    };
    let value = value.as_bytes();
    // Exactly this is what most clients send.
    if value == b"application/json" {
        return true;
    }
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
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn units_are_written_as_digits() {
        for units in [0, 1, 9, 10, 11, 4_711, u64::MAX] {
            assert_eq!(units_header(units), HeaderValue::from(units));
        }
    }

    #[test]
    fn content_types() {
        for (value, expected) in [
            (Some("application/json"), true),
            (Some("application/json; charset=utf-8"), true),
            (Some("application/json;x"), true),
            (Some("Application/JSON ; a=b"), true),
            (Some("application/json-rpc"), true),
            (Some("application/jsonrequest"), true),
            (Some("application/jsonp"), false),
            (Some("application/x-json"), false),
            (Some("text/plain"), false),
            (Some("text/plain; application/json"), false),
            (Some(""), false),
            (None, false),
        ] {
            let mut request = TestRequest::post();
            if let Some(value) = value {
                request = request.insert_header((header::CONTENT_TYPE, value));
            }
            assert_eq!(is_json(&request.to_http_request()), expected, "{value:?}");
        }
    }
}
