//! Heads; whole exchanges over real sockets are in tests/it.

use actix_web::test::TestRequest;

use super::*;

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
