//! Routes and heads; whole exchanges over real sockets are in tests/it.
#![allow(clippy::unwrap_used)]

use actix_web::test::TestRequest;

use super::*;

#[test]
fn routes() {
    let probe = "GET, HEAD, OPTIONS";
    for (verb, path, expected) in [
        ("POST", "/v3/key", Route::Rpc("key")),
        ("POST", "/v3/", Route::Rpc("")),
        ("POST", "/v3", Route::Rpc("")),
        ("POST", "/v3/key/", Route::Unknown),
        ("POST", "/v3/key/more", Route::Unknown),
        ("POST", "/v3key", Route::Unknown),
        ("POST", "/v2/key", Route::Unknown),
        ("POST", "/V3/key", Route::Unknown),
        ("POST", "/", Route::Unknown),
        ("GET", "/v3/key", Route::WrongVerb("POST, OPTIONS")),
        ("HEAD", "/v3/key", Route::WrongVerb("POST, OPTIONS")),
        ("PUT", "/v3/key", Route::WrongVerb("POST, OPTIONS")),
        ("OPTIONS", "/v3/key", Route::Preflight),
        ("OPTIONS", "/else", Route::Unknown),
        ("GET", "/health", Route::Health),
        ("HEAD", "/health", Route::Health),
        ("GET", "/ready", Route::Ready),
        ("GET", "/metrics", Route::Metrics),
        ("OPTIONS", "/metrics", Route::Preflight),
        ("POST", "/health", Route::WrongVerb(probe)),
        ("GET", "/health/", Route::Unknown),
        ("GET", "/", Route::Unknown),
    ] {
        assert_eq!(
            Route::of(&verb.parse().unwrap(), path),
            expected,
            "{verb} {path}"
        );
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

#[test]
fn request_ids_are_repeated_when_they_are_sane() {
    let longest = "a".repeat(limits::REQUEST_ID_BYTES_MAX);
    for (value, expected) in [
        ("0af7651916cd43dd8448eb211c80319c", true),
        ("a-b_c/d:1", true),
        (longest.as_str(), true),
        (&format!("{longest}a"), false),
        ("", false),
        ("a b", false),
        ("a\tb", false),
    ] {
        let request = TestRequest::get()
            .insert_header((X_REQUEST_ID, value))
            .to_http_request();
        assert_eq!(request_id(&request).is_some(), expected, "{value:?}");
    }
    assert!(request_id(&TestRequest::get().to_http_request()).is_none());
}
