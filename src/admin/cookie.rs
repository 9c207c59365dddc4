//! The cookie of a login.

use actix_web::http::header::{self, HeaderMap, HeaderValue};
use nearhead_tenants::administration::SecretText;

use crate::limits::LOGIN_LIFETIME;

/// Its name.
const NAME: &str = "nearhead_login";

/// Longest value in bytes: that of a secret.
const VALUE_BYTES: usize = 43;

/// The value that a browser sends. If it sends two different ones, another server of the same host
/// has set one of them, and none counts.
pub(super) fn sent(headers: &HeaderMap) -> Option<&str> {
    let mut found = None;
    for line in headers.get_all(header::COOKIE) {
        for pair in line.to_str().ok()?.split(';') {
            let Some((NAME, value)) = pair.trim().split_once('=') else {
                continue;
            };
            if found.replace(value).is_some_and(|before| before != value) {
                return None;
            }
        }
    }
    found.filter(|value| value.len() == VALUE_BYTES)
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
    let secure = if is_tls { "; Secure" } else { "" };
    let text =
        format!("{NAME}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_browser_sends_it_back() {
        let [value, other] = ["a", "b"].map(|letter| letter.repeat(VALUE_BYTES));
        let named = |value: &str| format!("{NAME}={value}");
        for (lines, expected) in [
            (vec![named(&value)], Some(&value)),
            (
                vec![format!("x=1; {}; nearhead_login2=2", named(&value))],
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
            (vec![format!("{}; {}", named(&value), named(&other))], None),
            (vec![named(&value), named(&other)], None),
            (vec![named("short")], None),
            (vec![named(&(value.clone() + "a"))], None),
            (vec![format!("x{}", named(&value))], None),
            (vec!["nearhead_login".to_owned()], None),
            (vec![], None),
        ] {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(header::COOKIE, line.parse().unwrap());
            }
            assert_eq!(sent(&headers), expected.map(String::as_str), "{lines:?}");
        }
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
                    "{NAME}={}; Max-Age=43200; {attributes}; Secure",
                    secret.expose()
                ),
            ),
            (end(false), format!("{NAME}=; Max-Age=0; {attributes}")),
        ] {
            assert_eq!(header.unwrap(), expected);
        }
    }
}
