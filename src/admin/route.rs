//! The table of routes.

use std::borrow::Cow;

use actix_web::http::Method;

use super::{
    api::{self, ApiRoute},
    pages::{self, PageRoute},
    path_pattern::{Verb, matched},
};

/// What answers a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Endpoint {
    Health,
    Ready,
    Metrics,
    /// A file of the pages.
    Asset,
    /// A call of the API.
    Api(&'static ApiRoute),
    /// A page, or a form of one.
    Page(&'static PageRoute),
}

/// The route of a request, by its verb and path.
#[derive(Debug)]
pub(super) enum Found<'p> {
    /// With what stands in the place of the braces of its pattern.
    Endpoint(Endpoint, Cow<'p, str>),
    /// A known path with a verb that it does not allow; holds those that it does.
    WrongVerb(String),
    Unknown,
}

/// Which of the listeners for operators is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// For administrators.
    Admin,
    /// For what scrapes metrics.
    Metrics,
}

/// Those of both listeners.
const PROBES: [(&str, Endpoint); 3] = [
    ("/health", Endpoint::Health),
    ("/ready", Endpoint::Ready),
    ("/metrics", Endpoint::Metrics),
];

/// Verb, pattern of the path, and what answers.
type Row = (Verb, &'static str, Endpoint);

fn rows(listener: Listener) -> impl Iterator<Item = Row> {
    let probes = PROBES.map(|(path, endpoint)| (Verb::Get, path, endpoint));
    let assets = [(Verb::Get, "/assets/{name}", Endpoint::Asset)];
    let api = api::ROUTES
        .iter()
        .map(|route| (route.verb, route.path, Endpoint::Api(route)));
    let pages = pages::ROUTES
        .iter()
        .map(|route| (route.verb, route.path, Endpoint::Page(route)));
    let of_admin = assets.into_iter().chain(api).chain(pages);
    let of_admin = of_admin.filter(move |_| listener == Listener::Admin);
    probes.into_iter().chain(of_admin)
}

impl<'p> Found<'p> {
    pub(super) fn of(listener: Listener, verb: &Method, path: &'p str) -> Self {
        let mut allowed: Vec<&str> = Vec::new();
        for (allows, pattern, endpoint) in rows(listener) {
            let Some(captured) = matched(pattern, path) else {
                continue;
            };
            if allows.is(verb) {
                return Self::Endpoint(endpoint, captured);
            }
            allowed.push(allows.name());
            if allows == Verb::Get {
                allowed.push("HEAD");
            }
        }
        match allowed.is_empty() {
            true => Self::Unknown,
            false => Self::WrongVerb(allowed.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let probe = "405 GET, HEAD";
        for (verb, path, admin, metrics) in [
            (Method::GET, "/health", "Health", "Health"),
            (Method::HEAD, "/health", "Health", "Health"),
            (Method::GET, "/ready", "Ready", "Ready"),
            (Method::GET, "/metrics", "Metrics", "Metrics"),
            (Method::POST, "/metrics", probe, probe),
            (Method::OPTIONS, "/metrics", probe, probe),
            (Method::GET, "/metrics/", "404", "404"),
            (Method::POST, "/v3/key", "404", "404"),
            (Method::GET, "/ws/v3/key", "404", "404"),
            (Method::GET, "/assets/style.css", "Asset", "404"),
            (Method::GET, "/assets/../style.css", "404", "404"),
            (Method::GET, "/admin/api/v1/tenants", "Api", "404"),
            (Method::POST, "/admin/api/v1/tenants", "Api", "404"),
            (
                Method::PUT,
                "/admin/api/v1/tenants",
                "405 GET, HEAD, POST",
                "404",
            ),
            (Method::GET, "/admin/api/v1/tenants/", "404", "404"),
            (Method::DELETE, "/admin/api/v1/tenants/7", "Api", "404"),
            (Method::GET, "/admin/api/v2/tenants", "404", "404"),
        ] {
            for (listener, expected) in [(Listener::Admin, admin), (Listener::Metrics, metrics)] {
                let found = match Found::of(listener, &verb, path) {
                    Found::Endpoint(endpoint, _) => match endpoint {
                        Endpoint::Health => "Health".to_owned(),
                        Endpoint::Ready => "Ready".to_owned(),
                        Endpoint::Metrics => "Metrics".to_owned(),
                        Endpoint::Asset => "Asset".to_owned(),
                        Endpoint::Api(_) => "Api".to_owned(),
                        Endpoint::Page(_) => "Page".to_owned(),
                    },
                    Found::WrongVerb(allowed) => format!("405 {allowed}"),
                    Found::Unknown => "404".to_owned(),
                };
                assert_eq!(found, expected, "{listener:?} {verb} {path}");
            }
        }
    }

    /// The first row that matches a path answers: no row is hidden by another one.
    #[test]
    fn every_row_is_reached() {
        for (verb, pattern, _) in rows(Listener::Admin) {
            let method: Result<Method, _> = verb.name().parse();
            let found = method.map(
                |method| match Found::of(Listener::Admin, &method, pattern) {
                    Found::Endpoint(Endpoint::Api(route), _) => route.path,
                    Found::Endpoint(Endpoint::Page(route), _) => route.path,
                    _ => pattern,
                },
            );
            assert_eq!(found.ok(), Some(pattern));
        }
    }
}
