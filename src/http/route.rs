//! What a request asks for, by its verb and path.

use actix_web::http::Method;

/// What a request's verb and path ask for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// JSON-RPC with this key. (WebSocket sessions are to come in by `GET /ws/v3/<key>`, beside this.)
    Rpc(&'a str),
    /// What a browser asks before it posts.
    Preflight,
    Health,
    Ready,
    Metrics,
    /// The path is known, but not with this verb; what is allowed.
    WrongVerb(&'static str),
    Unknown,
}

impl<'a> Route<'a> {
    pub(super) fn of(verb: &Method, path: &'a str) -> Self {
        let probe = |route| match *verb {
            Method::GET | Method::HEAD => route,
            Method::OPTIONS => Self::Preflight,
            _ => Self::WrongVerb("GET, HEAD, OPTIONS"),
        };
        match path {
            "/health" => probe(Self::Health),
            "/ready" => probe(Self::Ready),
            "/metrics" => probe(Self::Metrics),
            _ => match path
                .strip_prefix("/v3")
                .map(|rest| rest.strip_prefix('/').unwrap_or(rest))
            {
                Some(key) if !key.contains('/') && (key.is_empty() || path.starts_with("/v3/")) => {
                    match *verb {
                        Method::POST => Self::Rpc(key),
                        Method::OPTIONS => Self::Preflight,
                        _ => Self::WrongVerb("POST, OPTIONS"),
                    }
                }
                _ => Self::Unknown,
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
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
}
