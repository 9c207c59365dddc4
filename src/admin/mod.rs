//! What operators see and do, on listeners of its own: metrics and the details of the probes; and
//! on the admin listener alone, administration by the API and by pages.
//!
//! | file | content |
//! |---|---|
//! | `route`, `path_pattern` | the table of routes |
//! | `admin_worker` | serves a request: who sends it, from which page, and what answers it |
//! | `admin_state` | what administration needs |
//! | `admin_request` | a request, as the API and the pages see it |
//! | `visitor`, `same_origin` | who sends a request, and from which page |
//! | `logins`, `cookie` | logins of people |
//! | `login_throttle`, `known_networks` | how often somebody may try to log in, by where they are |
//! | `usage_reads`, `usage_parts` | whose turn it is to read usage, and how it is read |
//! | `passwords` | new accounts and changed passwords |
//! | `first_account` | the link that makes the first account |
//! | `api` | the API |
//! | `pages`, `assets` | the pages, and their files |
//! | `overview`, `recent_traffic` | what the service does now |
//! | `fleet_view` | the processes of its fleet |
//! | `probes` | readiness with its reasons, and metrics |
//! | `response_headers` | the headers of every answer |
//! | `answer_body` | large answers, of which so much at most is in memory |

mod admin_request;
mod admin_state;
mod admin_worker;
mod answer_body;
mod api;
mod assets;
mod cookie;
mod first_account;
mod fleet_view;
mod known_networks;
mod login_throttle;
mod logins;
mod overview;
mod pages;
mod passwords;
mod path_pattern;
mod probes;
mod recent_traffic;
mod response_headers;
mod route;
mod same_origin;
mod usage_parts;
mod usage_reads;
mod visitor;

use std::rc::Rc;

use actix_web::{
    dev::{ServiceRequest, fn_service},
    web::ServiceConfig,
};

pub use self::admin_state::AdminState;
use self::admin_worker::AdminWorker;
pub(crate) use self::{admin_state::AdminSetup, first_account::FirstAccountToken};
use crate::{
    connections::{SharedWatch, SlotLimits, Watch, WatchLimits},
    http::ServerState,
    metrics::ListenerKind,
};

/// Adds the routes to the application of a listener for operators; called once for its worker.
/// Without `admin`, these are the routes of the listener for metrics. The application has no
/// listener, so its connections are not bounded.
pub fn configure(server: &ServerState, admin: Option<&AdminState>, config: &mut ServiceConfig) {
    let limits = WatchLimits {
        idle_max: server.settings.idle_max,
        slots: SlotLimits::NONE,
    };
    let watch = Watch::start(
        limits,
        ListenerKind::Admin,
        SharedWatch::default(),
        &server.metrics,
    );
    configure_watched(server, admin, &watch, config);
}

/// The same with the watch over the worker's connections.
pub(crate) fn configure_watched(
    server: &ServerState,
    admin: Option<&AdminState>,
    watch: &Rc<Watch>,
    config: &mut ServiceConfig,
) {
    let worker = Rc::new(AdminWorker::start(server, admin, Rc::clone(watch)));
    config.default_service(fn_service(move |request: ServiceRequest| {
        let worker = Rc::clone(&worker);
        async move { Ok(worker.serve(request).await) }
    }));
}
