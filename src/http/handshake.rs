//! Checks the opening handshake of a session strictly by RFC 6455 §4.2.1.

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderMap, HeaderName},
};

/// Why a handshake is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeError {
    /// The request is not a handshake, or it is one of another version.
    NotVersion13,
    /// The key is not 16 bytes in base64.
    BadKey,
}

pub(super) fn check(request: &HttpRequest) -> Result<(), HandshakeError> {
    let headers = request.headers();
    let upgrades = request.head().upgrade()
        && values(headers, header::UPGRADE)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"websocket"));
    if !upgrades
        || !is_single(headers, header::SEC_WEBSOCKET_VERSION, |value| {
            value == b"13"
        })
    {
        return Err(HandshakeError::NotVersion13);
    }
    if !is_single(headers, header::SEC_WEBSOCKET_KEY, is_key) {
        return Err(HandshakeError::BadKey);
    }
    Ok(())
}

fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).map(header::HeaderValue::as_bytes)
}

/// Whether the header occurs exactly once, with a valid value.
fn is_single(headers: &HeaderMap, name: HeaderName, is_valid: fn(&[u8]) -> bool) -> bool {
    let mut values = values(headers, name);
    values.next().is_some_and(is_valid) && values.next().is_none()
}

/// 16 bytes in base64: 22 digits, of which the last one has two bits, and the padding.
fn is_key(value: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    match value.split_last_chunk::<3>() {
        Some((digits, [b'A' | b'Q' | b'g' | b'w', b'=', b'='])) => {
            digits.len() == 21 && digits.iter().all(is_digit)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    const VERSION: (&str, &str) = ("sec-websocket-version", "13");
    const UPGRADE: (&str, &str) = ("upgrade", "websocket");

    #[track_caller]
    fn check_headers(headers: &[(&str, &str)], expected: Result<(), HandshakeError>) {
        let mut request = TestRequest::get().append_header(("connection", "Upgrade"));
        for header in headers {
            request = request.append_header(*header);
        }
        assert_eq!(check(&request.to_http_request()), expected, "{headers:?}");
    }

    #[test]
    fn handshakes() {
        check_headers(&[UPGRADE, VERSION, KEY], Ok(()));
        check_headers(&[("upgrade", "h2c, WebSocket"), VERSION, KEY], Ok(()));
        for upgrade in ["", "notwebsocket", "websockets", "h2c"] {
            check_headers(
                &[("upgrade", upgrade), VERSION, KEY],
                Err(HandshakeError::NotVersion13),
            );
        }
        for version in ["", "7", "8", "12", "013", "13, 8"] {
            let version = (VERSION.0, version);
            check_headers(&[UPGRADE, version, KEY], Err(HandshakeError::NotVersion13));
        }
        check_headers(
            &[UPGRADE, VERSION, VERSION, KEY],
            Err(HandshakeError::NotVersion13),
        );
        check_headers(&[UPGRADE, VERSION], Err(HandshakeError::BadKey));
        check_headers(&[UPGRADE, VERSION, KEY, KEY], Err(HandshakeError::BadKey));
        for key in [
            "",
            "==",
            "dGhlIHNhbXBsZSBub25jZQ",
            "dGhlIHNhbXBsZSBub25jZQ=",
            "dGhlIHNhbXBsZSBub25jZR==",
            "dGhlIHNhbXBsZSBub25jZQ==AA==",
            "dGhlIHNhbXBsZSBub25j*Q==",
            "c2hvcnQ=",
        ] {
            check_headers(
                &[UPGRADE, VERSION, (KEY.0, key)],
                Err(HandshakeError::BadKey),
            );
        }
    }
}
