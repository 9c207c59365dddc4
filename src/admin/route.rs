//! The table of routes.

use actix_web::http::Method;

/// The route of a request, by its verb and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Health,
    Ready,
    Metrics,
    /// A known path with a verb that it does not allow; holds those that it does.
    WrongVerb(&'static str),
    Unknown,
}

impl Route {
    pub(super) fn of(verb: &Method, path: &str) -> Self {
        let route = match path {
            "/health" => Self::Health,
            "/ready" => Self::Ready,
            "/metrics" => Self::Metrics,
            _ => return Self::Unknown,
        };
        match *verb {
            Method::GET | Method::HEAD => route,
            _ => Self::WrongVerb("GET, HEAD"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let wrong_verb = Route::WrongVerb("GET, HEAD");
        for (verb, path, expected) in [
            (Method::GET, "/health", Route::Health),
            (Method::HEAD, "/health", Route::Health),
            (Method::GET, "/ready", Route::Ready),
            (Method::GET, "/metrics", Route::Metrics),
            (Method::POST, "/metrics", wrong_verb),
            (Method::OPTIONS, "/metrics", wrong_verb),
            (Method::GET, "/metrics/", Route::Unknown),
            (Method::GET, "/", Route::Unknown),
            (Method::POST, "/v3/key", Route::Unknown),
            (Method::GET, "/ws/v3/key", Route::Unknown),
        ] {
            assert_eq!(Route::of(&verb, path), expected, "{verb} {path}");
        }
    }
}
