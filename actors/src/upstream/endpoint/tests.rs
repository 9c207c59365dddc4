#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

/// Checks how a text is parsed: URL, headers, and the form that is shown.
fn check(text: &str, url: &str, headers: &[(&str, &str)], shown: &str) {
    let endpoint: Endpoint = text.parse().unwrap();
    assert_eq!(endpoint.url().as_str(), url, "{text}");
    let found = endpoint.headers().iter();
    let mut found: Vec<_> = found
        .map(|(name, value)| {
            assert!(value.is_sensitive(), "{text}: {name}");
            (name.as_str(), value.to_str().unwrap())
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, headers, "{text}");
    assert_eq!(endpoint.to_string(), shown, "{text}");
    assert_eq!(format!("{endpoint:?}"), shown, "{text}");
    assert_eq!(
        endpoint.scheme() == Scheme::WebSocket,
        url.starts_with("ws")
    );
    assert_eq!(
        endpoint.is_tls(),
        shown.starts_with("https:") || shown.starts_with("wss:"),
        "{text}"
    );
}

#[test]
fn a_text_is_parsed_into_url_and_headers() {
    check(
        "http://127.0.0.1:8545",
        "http://127.0.0.1:8545/",
        &[],
        "http://127.0.0.1:8545",
    );
    check(
        "  wss://node.example/v2/secret?key=secret\n",
        "wss://node.example/v2/secret?key=secret",
        &[],
        "wss://node.example",
    );
    check(
        "https://node.example:443/",
        "https://node.example/",
        &[],
        "https://node.example",
    );
    check(
        "ws://[::1]:8546/",
        "ws://[::1]:8546/",
        &[],
        "ws://[::1]:8546",
    );
    check(
        "https://user:pass@node.example/rpc",
        "https://node.example/rpc",
        &[("authorization", "Basic dXNlcjpwYXNz")],
        "https://node.example",
    );
    // "us@r:p/ss"
    check(
        "https://us%40r:p%2Fss@node.example",
        "https://node.example/",
        &[("authorization", "Basic dXNAcjpwL3Nz")],
        "https://node.example",
    );
    check(
        "http://:secret@node.example",
        "http://node.example/",
        &[("authorization", "Basic OnNlY3JldA==")],
        "http://node.example",
    );
    check(
        "https://node.example/#X-Api-Key=a+b%26c%2Cd=%25&Authorization=Bearer%20token&",
        "https://node.example/",
        &[
            ("authorization", "Bearer token"),
            ("x-api-key", "a+b&c,d=%"),
        ],
        "https://node.example",
    );
    check(
        "https://node.example/?a=1#x=",
        "https://node.example/?a=1",
        &[("x", "")],
        "https://node.example",
    );
}

fn check_refused(text: &str, message: &str) {
    let error = text.parse::<Endpoint>().unwrap_err().to_string();
    assert_eq!(error, message, "{text}");
    assert!(!error.contains("secret"), "{text}");
}

#[test]
fn an_invalid_endpoint_is_refused_without_repeating_it() {
    check_refused("secret", "not a URL: relative URL without a base");
    check_refused("", "not a URL: relative URL without a base");
    check_refused("http://", "not a URL: empty host");
    check_refused("http://secret:99999", "not a URL: invalid port number");
    for text in ["ftp://secret", "file:///secret", "ipc:secret"] {
        check_refused(text, "the URL's scheme must be http, https, ws or wss");
    }
    let user_info = "the URL's user or password is not percent-encoded UTF-8";
    check_refused("http://secret%zz@node.example", user_info);
    check_refused("http://user:secret%ff@node.example", user_info);
    let part =
        |position| format!("part {position} after '#' is not Header-Name=value, percent-encoded");
    check_refused("http://node.example#secret", &part(1));
    check_refused("http://node.example#x=1&=secret", &part(2));
    check_refused("http://node.example#x=1&y=secret%0d%0ahost:z", &part(2));
    check_refused("http://node.example#x=secret%f", &part(1));
    check_refused("http://node.example#x y=secret", &part(1));
    check_refused(
        "http://node.example#Host=secret",
        "header host cannot be set",
    );
    check_refused(
        "ws://node.example#Sec-WebSocket-Key=secret",
        "header sec-websocket-key cannot be set",
    );
    check_refused(
        "http://user:secret@node.example#authorization=secret",
        "header authorization is given twice",
    );
    check_refused(
        "http://node.example#x=1&X=secret",
        "header x is given twice",
    );
    let many: Vec<_> = (0..17).map(|number| format!("x{number}=secret")).collect();
    check_refused(
        &format!("http://node.example#{}", many.join("&")),
        "more than 16 headers",
    );
}
