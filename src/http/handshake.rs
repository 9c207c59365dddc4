//! The opening handshake of a session (RFC 6455 §4.2.1), judged as strictly as it is written.

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderMap, HeaderName},
};

/// What a handshake lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is none, or of another version.
    NotVersion13,
    /// Its key is not 16 bytes in base64.
    BadKey,
}

pub(super) fn check(request: &HttpRequest) -> Result<(), Fault> {
    let headers = request.headers();
    let upgrades = request.head().upgrade()
        && values(headers, header::UPGRADE)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"websocket"));
    if !upgrades
        || !is_alone(headers, header::SEC_WEBSOCKET_VERSION, |value| {
            value == b"13"
        })
    {
        return Err(Fault::NotVersion13);
    }
    if !is_alone(headers, header::SEC_WEBSOCKET_KEY, is_key) {
        return Err(Fault::BadKey);
    }
    Ok(())
}

fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).map(header::HeaderValue::as_bytes)
}

/// Whether the header is there once, with a value that is good.
fn is_alone(headers: &HeaderMap, name: HeaderName, is_good: fn(&[u8]) -> bool) -> bool {
    let mut values = values(headers, name);
    values.next().is_some_and(is_good) && values.next().is_none()
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
    fn judge(headers: &[(&str, &str)], expected: Result<(), Fault>) {
        let mut request = TestRequest::get().append_header(("connection", "Upgrade"));
        for header in headers {
            request = request.append_header(*header);
        }
        assert_eq!(check(&request.to_http_request()), expected, "{headers:?}");
    }

    #[test]
    fn handshakes() {
        judge(&[UPGRADE, VERSION, KEY], Ok(()));
        judge(&[("upgrade", "h2c, WebSocket"), VERSION, KEY], Ok(()));
        for upgrade in ["", "notwebsocket", "websockets", "h2c"] {
            judge(
                &[("upgrade", upgrade), VERSION, KEY],
                Err(Fault::NotVersion13),
            );
        }
        for version in ["", "7", "8", "12", "013", "13, 8"] {
            let version = (VERSION.0, version);
            judge(&[UPGRADE, version, KEY], Err(Fault::NotVersion13));
        }
        judge(&[UPGRADE, VERSION, VERSION, KEY], Err(Fault::NotVersion13));
        judge(&[UPGRADE, VERSION], Err(Fault::BadKey));
        judge(&[UPGRADE, VERSION, KEY, KEY], Err(Fault::BadKey));
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
            judge(&[UPGRADE, VERSION, (KEY.0, key)], Err(Fault::BadKey));
        }
    }
}
