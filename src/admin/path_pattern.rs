//! Paths with a part that may be anything.

use std::borrow::Cow;

use actix_web::http::Method;

/// What is done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    /// As HTTP and OpenAPI write it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether a request with this method is meant. An answer to HEAD is one to GET without a body.
    pub(super) fn is(self, method: &Method) -> bool {
        match *method {
            Method::HEAD => self == Self::Get,
            _ => method.as_str() == self.name(),
        }
    }
}

/// Matches a path with a pattern, in which at most one segment stands in braces, such as
/// `/keys/{id}/rotate`. Returns what stands in its place, decoded; empty if there are no braces.
pub(super) fn matched<'p>(pattern: &str, path: &'p str) -> Option<Cow<'p, str>> {
    let mut captured = Cow::Borrowed("");
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        let segment = segments.next()?;
        if wanted.starts_with('{') {
            captured = percent_decoded(segment).filter(|text| !text.is_empty())?;
        } else if wanted != segment {
            return None;
        }
    }
    segments.next().is_none().then_some(captured)
}

/// Text without percent-encoding; `None` if it is malformed or no UTF-8.
pub(super) fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let [high, low] = [digits[0], digits[1]].map(|digit| char::from(digit).to_digit(16));
        bytes.push(u8::try_from(high? * 16 + low?).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The pairs of a query or of a form, decoded (`application/x-www-form-urlencoded`); `None` if one
/// is malformed.
pub(super) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let decoded = |part: &str| {
        let spaced = part.replace('+', " ");
        percent_decoded(&spaced).map(Cow::into_owned)
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_patterns() {
        for (pattern, path, expected) in [
            ("/health", "/health", Some("")),
            ("/health", "/health/", None),
            ("/health", "/Health", None),
            ("/", "/", Some("")),
            ("/", "", None),
            ("/keys/{id}", "/keys/7", Some("7")),
            ("/keys/{id}", "/keys/", None),
            ("/keys/{id}", "/keys", None),
            ("/keys/{id}", "/keys/7/rotate", None),
            ("/keys/{id}/rotate", "/keys/7/rotate", Some("7")),
            ("/keys/{id}/rotate", "/keys/7/revoke", None),
            (
                "/accounts/{name}",
                "/accounts/Zo%C3%AB%20%2f%25",
                Some("Zoë /%"),
            ),
            ("/accounts/{name}", "/accounts/a+b", Some("a+b")),
            ("/accounts/{name}", "/accounts/%zz", None),
            ("/accounts/{name}", "/accounts/%4", None),
            ("/accounts/{name}", "/accounts/%ff", None),
            ("/assets/{name}", "/assets/..%2f..%2fetc", Some("../../etc")),
            ("/assets/{name}", "/assets/../etc", None),
        ] {
            assert_eq!(
                matched(pattern, path).as_deref(),
                expected,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn forms_are_decoded() {
        let owned = |pairs: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            Some(pairs.iter().map(owned).collect::<Vec<_>>())
        };
        for (text, expected) in [
            ("", owned(&[])),
            ("a=1&b=2", owned(&[("a", "1"), ("b", "2")])),
            ("a=1&a=2&&b", owned(&[("a", "1"), ("a", "2"), ("b", "")])),
            ("a=x+y%2B%3D%26", owned(&[("a", "x y+=&")])),
            ("a=b=c", owned(&[("a", "b=c")])),
            ("a=%e9", None),
            ("a=%", None),
        ] {
            assert_eq!(pairs(text), expected, "{text}");
        }
    }
}
