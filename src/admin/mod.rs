//! What operators read, on listeners of its own: metrics, and the probes with their details.
//!
//! | file | content |
//! |---|---|
//! | `route` | the table of routes |
//! | `admin_worker` | serves a request |
//! | `probes` | readiness with its reasons, and metrics |

mod admin_worker;
mod probes;
mod route;

use std::rc::Rc;

use actix_web::{
    dev::{ServiceRequest, fn_service},
    web::ServiceConfig,
};

use self::admin_worker::AdminWorker;
use crate::{access::LocalOnly, http::ServerState};

/// Adds the routes to the application of a listener for operators; called once for its worker. With
/// `local_only`, every request is checked.
pub fn configure(server: &ServerState, local_only: Option<&LocalOnly>, config: &mut ServiceConfig) {
    let worker = Rc::new(AdminWorker::start(server, local_only));
    config.default_service(fn_service(move |request: ServiceRequest| {
        let worker = Rc::clone(&worker);
        async move { Ok(worker.serve(request).await) }
    }));
}
