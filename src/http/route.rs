//! The table of routes.

use actix_web::http::Method;

/// The route of a request, by its verb and path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// JSON-RPC with this key.
    Rpc(&'a str),
    /// A WebSocket session with this key.
    Session(&'a str),
    /// A CORS preflight request.
    Preflight,
    Health,
    Ready,
    OpenRpc,
    /// A known path with a verb that it does not allow; holds those that it does.
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
            "/openrpc.json" => probe(Self::OpenRpc),
            _ => match (key_after("/v3", path), key_after("/ws/v3", path)) {
                (Some(key), _) => match *verb {
                    Method::POST => Self::Rpc(key),
                    Method::OPTIONS => Self::Preflight,
                    _ => Self::WrongVerb("POST, OPTIONS"),
                },
                (None, Some(key)) => match *verb {
                    Method::GET => Self::Session(key),
                    _ => Self::WrongVerb("GET"),
                },
                (None, None) => Self::Unknown,
            },
        }
    }
}

/// The key at the end of a path; empty if it is missing.
fn key_after<'a>(prefix: &str, path: &'a str) -> Option<&'a str> {
    match path.strip_prefix(prefix)? {
        "" => Some(""),
        rest => rest.strip_prefix('/').filter(|key| !key.contains('/')),
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
            ("OPTIONS", "/ready", Route::Preflight),
            ("GET", "/metrics", Route::Unknown),
            ("GET", "/openrpc.json", Route::OpenRpc),
            ("HEAD", "/openrpc.json", Route::OpenRpc),
            ("OPTIONS", "/openrpc.json", Route::Preflight),
            ("POST", "/openrpc.json", Route::WrongVerb(probe)),
            ("GET", "/openrpc.json/", Route::Unknown),
            ("GET", "/ws/v3/key", Route::Session("key")),
            ("GET", "/ws/v3", Route::Session("")),
            ("GET", "/ws/v3/key/", Route::Unknown),
            ("GET", "/ws/v3key", Route::Unknown),
            ("GET", "/ws", Route::Unknown),
            ("POST", "/ws/v3/key", Route::WrongVerb("GET")),
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
