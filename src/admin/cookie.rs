//! The cookie of a login.

use actix_web::http::header::{self, HeaderMap, HeaderValue};
use nearhead_tenants::administration::SecretText;

use crate::limits::LOGIN_LIFETIME;

/// Its name where the browser does not use TLS.
const NAME: &str = "nearhead_login";

/// Its name over TLS. Browsers take a cookie with this prefix only from this host, over TLS and for
/// all paths, so neither a sibling domain nor a plain connection can set one in its place.
const TLS_NAME: &str = "__Host-nearhead_login";

/// Longest value in bytes: that of a secret.
const VALUE_BYTES: usize = 43;

const fn name(is_tls: bool) -> &'static str {
    match is_tls {
        true => TLS_NAME,
        false => NAME,
    }
}

/// The value that a browser sends. If it sends two different ones, another server of the same host
/// has set one of them, and none counts. Cookies of other servers may have any bytes.
pub(super) fn sent(headers: &HeaderMap, is_tls: bool) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE);
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let mut found = None;
    for pair in pairs {
        let value = pair
            .trim_ascii()
            .strip_prefix(name(is_tls).as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="));
        if let Some(value) = value
            && found.replace(value).is_some_and(|before| before != value)
        {
            return None;
        }
    }
    let found = std::str::from_utf8(found?).ok()?;
    (found.len() == VALUE_BYTES).then_some(found)
}

/// The header `Set-Cookie` that begins a login. Scripts cannot read it, other sites' pages cannot
/// have it sent, and with `is_tls` it goes over TLS alone.
pub(super) fn begin(secret: &SecretText, is_tls: bool) -> Option<HeaderValue> {
    set(secret.expose(), LOGIN_LIFETIME.as_secs(), is_tls)
}

/// The header `Set-Cookie` that removes it.
pub(super) fn end(is_tls: bool) -> Option<HeaderValue> {
    set("", 0, is_tls)
}

fn set(value: &str, seconds: u64, is_tls: bool) -> Option<HeaderValue> {
    let name = name(is_tls);
    let secure = if is_tls { "; Secure" } else { "" };
    let text =
        format!("{name}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_browser_sends_it_back() {
        let [value, other] = ["a", "b"].map(|letter| letter.repeat(VALUE_BYTES));
        for (is_tls, name, name_of_other) in [(false, NAME, TLS_NAME), (true, TLS_NAME, NAME)] {
            let named = |value: &str| format!("{name}={value}");
            for (lines, expected) in [
                (vec![named(&value)], Some(&value)),
                (
                    vec![format!("x=1; {}; {name}2=2", named(&value))],
                    Some(&value),
                ),
                (
                    vec!["x=1".to_owned(), format!("y=2;{}", named(&value))],
                    Some(&value),
                ),
                (
                    vec![format!("{}; {}", named(&value), named(&value))],
                    Some(&value),
                ),
                // Another server of this host has set what is no text, or something else.
                (
                    vec![format!("x=é\u{1f512}; {}", named(&value))],
                    Some(&value),
                ),
                (
                    vec!["x=é".to_owned(), format!("y; {}", named(&value))],
                    Some(&value),
                ),
                (
                    vec![format!("{name_of_other}={other}; {}", named(&value))],
                    Some(&value),
                ),
                (vec![format!("{name_of_other}={value}")], None),
                (vec![format!("{}; {}", named(&value), named(&other))], None),
                (vec![named(&value), named(&other)], None),
                (vec![format!("{}; {}", named(&value), named("é"))], None),
                (vec![named("short")], None),
                (vec![named(&(value.clone() + "a"))], None),
                (vec![format!("x{}", named(&value))], None),
                (vec![name.to_owned()], None),
                (vec![], None),
            ] {
                let mut headers = HeaderMap::new();
                for line in &lines {
                    let line = HeaderValue::from_bytes(line.as_bytes());
                    headers.append(header::COOKIE, line.unwrap());
                }
                let found = sent(&headers, is_tls);
                assert_eq!(found, expected.map(String::as_str), "{is_tls} {lines:?}");
            }
        }
    }

    #[test]
    fn bytes_of_another_cookie_that_are_no_text_do_not_hide_it() {
        let value = "a".repeat(VALUE_BYTES);
        let line = [
            &b"x=\xff\xfe; "[..],
            NAME.as_bytes(),
            b"=",
            value.as_bytes(),
        ]
        .concat();
        let mut headers = HeaderMap::new();
        let line = HeaderValue::from_bytes(&line).unwrap();
        headers.append(header::COOKIE, line);
        assert_eq!(sent(&headers, false), Some(&*value));
    }

    #[test]
    fn it_is_kept_from_scripts_and_other_sites() {
        let secret = SecretText::from("a".repeat(VALUE_BYTES));
        let attributes = "Path=/; HttpOnly; SameSite=Strict";
        for (header, expected) in [
            (
                begin(&secret, false),
                format!("{NAME}={}; Max-Age=43200; {attributes}", secret.expose()),
            ),
            (
                begin(&secret, true),
                format!(
                    "{TLS_NAME}={}; Max-Age=43200; {attributes}; Secure",
                    secret.expose()
                ),
            ),
            (end(false), format!("{NAME}=; Max-Age=0; {attributes}")),
            (
                end(true),
                format!("{TLS_NAME}=; Max-Age=0; {attributes}; Secure"),
            ),
        ] {
            assert_eq!(header.unwrap(), expected);
        }
    }
}
