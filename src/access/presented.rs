//! What a client presents: a key, and what stands beside it.
//!
//! | where | the key | `Authorization: Bearer` | `Authorization: Basic` |
//! |---|---|---|---|
//! | `/v3/KEY`, `/ws/v3/KEY` | in the path | a token if the key has public keys, else its secret | its secret as the password, with an empty user |
//! | `/v3`, `/ws/v3` | the bearer token | the key | none |

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::last_key::LastKey;

/// A key as a client presents it. It has no `Debug`, because it holds secrets.
#[derive(Clone)]
pub(crate) struct Presented<'a> {
    pub(crate) key: &'a str,
    pub(super) beside: Beside<'a>,
    /// What was presented before on the same connection.
    pub(super) last: Option<&'a LastKey>,
}

/// What stands beside a key.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Beside<'a> {
    /// Nothing.
    Nothing,
    /// A bearer token: a secret or a JSON Web Token.
    Bearer(&'a str),
    /// A password.
    Password(String),
    /// Something else, which is a wrong secret.
    Unreadable,
}

impl<'a> Presented<'a> {
    /// What a request presents: the key in its path, which may be empty, and its header
    /// `Authorization`.
    pub(crate) fn new(key: &'a str, authorization: Option<&'a str>) -> Self {
        let beside = authorization.map_or(Beside::Nothing, read);
        match beside {
            Beside::Bearer(bearer) if key.is_empty() => Self {
                key: bearer,
                beside: Beside::Nothing,
                last: None,
            },
            beside => Self {
                key,
                beside,
                last: None,
            },
        }
    }

    /// The same, on a connection that has presented this key last.
    pub(crate) fn after(self, last: Option<&'a LastKey>) -> Self {
        Self { last, ..self }
    }
}

/// Reads the header `Authorization` (RFC 6750, RFC 7617).
fn read(authorization: &str) -> Beside<'_> {
    let Some((scheme, rest)) = authorization.split_once(' ') else {
        return Beside::Unreadable;
    };
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Beside::Bearer(rest);
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Beside::Unreadable;
    }
    let decoded = BASE64_STANDARD.decode(rest).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    match text.as_deref().and_then(|text| text.strip_prefix(':')) {
        Some(password) => Beside::Password(password.to_owned()),
        None => Beside::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_what_stands_beside_them() {
        for (path, authorization, key, beside) in [
            ("k", None, "k", Beside::Nothing),
            ("", None, "", Beside::Nothing),
            ("", Some("Bearer abc"), "abc", Beside::Nothing),
            ("", Some("bearer  abc "), "abc", Beside::Nothing),
            ("k", Some("Bearer abc"), "k", Beside::Bearer("abc")),
            ("k", Some("BEARER a.b.c"), "k", Beside::Bearer("a.b.c")),
            // ":secret", "user:secret", ":", no base64.
            (
                "k",
                Some("Basic OnNlY3JldA=="),
                "k",
                Beside::Password("secret".to_owned()),
            ),
            (
                "",
                Some("Basic OnNlY3JldA=="),
                "",
                Beside::Password("secret".to_owned()),
            ),
            ("k", Some("Basic dXNlcjpzZWNyZXQ="), "k", Beside::Unreadable),
            (
                "k",
                Some("Basic Og=="),
                "k",
                Beside::Password(String::new()),
            ),
            ("k", Some("Basic ?"), "k", Beside::Unreadable),
            ("k", Some("Digest a=b"), "k", Beside::Unreadable),
            ("k", Some("abc"), "k", Beside::Unreadable),
            ("k", Some(""), "k", Beside::Unreadable),
        ] {
            let presented = Presented::new(path, authorization);
            let case = format!("{path:?} {authorization:?}");
            assert_eq!(presented.key, key, "{case}");
            assert!(presented.beside == beside, "{case}");
        }
    }
}
