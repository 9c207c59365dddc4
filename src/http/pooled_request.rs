//! Frees the buffer that a request was read from when the request has ended.

use actix_web::{
    HttpRequest,
    dev::{Payload, ServiceRequest},
    http::Uri,
};
use scopeguard::ScopeGuard;

/// A request whose [head is forgotten](forget_head) when it is dropped.
pub(super) type ForgetfulRequest = ScopeGuard<HttpRequest, fn(HttpRequest)>;

/// The request must not be cloned: where a clone is alive, this panics when it is dropped.
pub(super) fn forgetful(request: HttpRequest) -> ForgetfulRequest {
    scopeguard::guard(request, |request| drop(forget_head(request)))
}

/// The request without its URI and headers.
///
/// To use their memory again, actix-web keeps 128 requests and 128 heads of a worker that have
/// ended. Each would keep what its URI and headers are parts of: the buffer of up to 320 KiB that
/// the head and its body were read into.
pub(super) fn forget_head(request: HttpRequest) -> HttpRequest {
    let mut request = ServiceRequest::from_parts(request, Payload::None);
    let nowhere = Uri::default();
    request.match_info_mut().get_mut().update(&nowhere);
    let head = request.head_mut();
    head.uri = nowhere;
    head.headers.clear();
    request.into_parts().0
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use actix_web::{
        http::header::{HeaderValue, USER_AGENT},
        test::TestRequest,
    };
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_request_that_has_ended_keeps_no_buffer() {
        let buffer = Bytes::from("/v3/key someone".to_owned());
        let request = || {
            let uri = Uri::from_maybe_shared(buffer.slice(..7)).unwrap();
            let agent = HeaderValue::from_maybe_shared(buffer.slice(8..)).unwrap();
            let mut request = TestRequest::default().to_srv_request();
            request.match_info_mut().get_mut().update(&uri);
            request.head_mut().uri = uri;
            request.headers_mut().insert(USER_AGENT, agent);
            forgetful(request.into_parts().0)
        };
        let one = request();
        assert_eq!((one.path(), buffer.is_unique()), ("/v3/key", false));
        let _answered = forget_head(ScopeGuard::into_inner(one));
        assert!(buffer.is_unique());
        drop(request());
        assert!(buffer.is_unique());
    }
}
