//! Whether a page of this listener sent a request, or one of another site (CSRF).

use actix_web::http::header::{self, HeaderMap, HeaderName};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Where a request comes from, by what browsers say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOrigin {
    /// A page of this listener.
    Same,
    /// A page of another site.
    Foreign,
    /// Nothing says so: it is no browser's, or an old one's.
    Unstated,
}

impl RequestOrigin {
    /// By `Sec-Fetch-Site`, which a browser computes from the address that it shows, so that it
    /// holds behind a proxy that changes `Host`; else by `Origin`, which has to name the host that
    /// the request was sent to. That is `forwarded` where a trusted proxy has changed `Host`.
    pub(super) fn of(headers: &HeaderMap, forwarded: Option<&str>) -> Self {
        let single = |name| {
            let mut lines = headers.get_all(&name);
            let first = lines.next()?;
            // Two lines agree with nothing.
            Some(match lines.next() {
                None => first.to_str().unwrap_or_default(),
                Some(_) => "",
            })
        };
        if let Some(site) = single(SEC_FETCH_SITE) {
            return Self::is_same(site == "same-origin");
        }
        let host = forwarded.or_else(|| single(header::HOST));
        match (single(header::ORIGIN), host) {
            (None, _) => Self::Unstated,
            (Some(origin), Some(host)) => Self::is_same(names(origin, host)),
            (Some(_), None) => Self::Foreign,
        }
    }

    const fn is_same(is_same: bool) -> Self {
        match is_same {
            true => Self::Same,
            false => Self::Foreign,
        }
    }
}

/// Whether an origin is that of this host and port.
fn names(origin: &str, host: &str) -> bool {
    let authority = ["http://", "https://"]
        .iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    authority.is_some_and(|authority| !host.is_empty() && authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{RequestOrigin::*, *};

    #[test]
    fn origins() {
        let host = ("host", "localhost:8590");
        for (lines, expected) in [
            (&[host][..], Unstated),
            (&[host, ("origin", "http://localhost:8590")], Same),
            (&[host, ("origin", "https://LOCALHOST:8590")], Same),
            (&[host, ("origin", "http://localhost:8591")], Foreign),
            (&[host, ("origin", "http://localhost")], Foreign),
            (&[host, ("origin", "http://localhost:8590/")], Foreign),
            (&[host, ("origin", "ftp://localhost:8590")], Foreign),
            (&[host, ("origin", "https://example.org")], Foreign),
            (&[host, ("origin", "null")], Foreign),
            (&[host, ("origin", "")], Foreign),
            (
                &[
                    host,
                    ("origin", "http://localhost:8590"),
                    ("origin", "https://example.org"),
                ],
                Foreign,
            ),
            (&[("host", ""), ("origin", "http://")], Foreign),
            (&[("origin", "http://localhost:8590")], Foreign),
            (&[host, ("sec-fetch-site", "same-origin")], Same),
            // Another port of this machine.
            (&[host, ("sec-fetch-site", "same-site")], Foreign),
            (&[host, ("sec-fetch-site", "cross-site")], Foreign),
            (&[host, ("sec-fetch-site", "none")], Foreign),
            (
                &[
                    host,
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "http://localhost:8590"),
                ],
                Foreign,
            ),
            // The proxy in between has changed the host.
            (
                &[
                    host,
                    ("sec-fetch-site", "same-origin"),
                    ("origin", "https://admin.example.org"),
                ],
                Same,
            ),
            (
                &[
                    host,
                    ("sec-fetch-site", "same-origin"),
                    ("sec-fetch-site", "same-origin"),
                ],
                Foreign,
            ),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                let name = HeaderName::from_static(name);
                headers.append(name, value.parse().unwrap());
            }
            assert_eq!(RequestOrigin::of(&headers, None), expected, "{lines:?}");
        }
    }

    #[test]
    fn origins_behind_a_proxy() {
        for (origin, expected) in [
            ("http://admin.example.org:8443", Same),
            ("https://admin.example.org:8443", Same),
            ("https://admin.example.org", Foreign),
            // What the proxy has asked for.
            ("http://localhost:8590", Foreign),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "localhost:8590".parse().unwrap());
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            let found = RequestOrigin::of(&headers, Some("admin.example.org:8443"));
            assert_eq!(found, expected, "{origin}");
        }
    }
}
