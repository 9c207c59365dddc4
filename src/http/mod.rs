//! The HTTP server: its routes, their handlers, and the headers of every answer.
//!
//! | file | content |
//! |---|---|
//! | `server_state` | what all workers share, and the options of the server |
//! | `worker_state` | what one worker serves requests with |
//! | `serve` | routes a request and completes its answer |
//! | `route` | the table of routes |
//! | `client_address` | who sent a request that proxies have passed on |
//! | `visitor_header` | for whom the dashboard calls this server |
//! | `credentials` | what a request presents, and where it comes from |
//! | `entry` | lets requests and handshakes in |
//! | `json_rpc` | answers JSON-RPC that is posted |
//! | `request_actor` | one request's work as an actor |
//! | `large_bodies` | answers large bodies on a thread of their own |
//! | `open_session`, `handshake` | open a WebSocket session |
//! | `pooled_request` | frees the buffer of a request that has ended |
//! | `probes` | health and readiness, without details |
//! | `block_header`, `min_block_header` | from which head an answer was made; which block its client has seen |
//! | `body` | reads a request's body within its bounds |
//! | `reply`, `replies` | a reply's body, in pieces; which replies are compressed |
//! | `compressed`, `compression` | a reply's body, compressed; the memory of its encoder |
//! | `refusal`, `cors` | responses to refused requests; headers for scripts in browsers |
//! | `access_log` | one log event per request, and its trace |
//! | `trace_parent` | what a client says of its own trace |

mod access_log;
mod block_header;
mod body;
mod client_address;
mod compressed;
mod compression;
mod cors;
mod credentials;
mod entry;
mod handshake;
mod json_rpc;
mod large_bodies;
mod min_block_header;
mod open_session;
mod pooled_request;
mod probes;
mod refusal;
mod replies;
mod reply;
mod request_actor;
mod route;
mod serve;
mod server_state;
mod trace_parent;
mod visitor_header;
mod worker_state;

use std::rc::Rc;

use actix_web::{
    dev::{ServiceRequest, fn_service},
    web::ServiceConfig,
};

pub use self::client_address::TrustedProxies;
pub use self::server_state::{ServerSettings, ServerState};
pub use self::visitor_header::VisitorHeader;
use self::worker_state::WorkerState;
pub(crate) use self::{
    body::{BodyRefusal, close_after, drain, read_small},
    credentials::{client_address, connection_of, host},
    probes::{health, not_cached},
    refusal::{CHALLENGE, refuse, refuse_body},
};
use crate::{
    connections::{SharedWatch, SlotLimits, Watch, WatchLimits},
    metrics::ListenerKind,
};

/// Adds all routes to one worker's application and starts that worker's actors; called once on each
/// worker. The application has no listener, so its connections are not bounded.
pub fn configure(server: &ServerState, config: &mut ServiceConfig) {
    let limits = WatchLimits {
        idle_max: server.settings.idle_max,
        slots: SlotLimits::NONE,
    };
    let watch = Watch::start(
        limits,
        ListenerKind::Public,
        SharedWatch::default(),
        &server.metrics,
    );
    configure_watched(server, &watch, config);
}

/// The same with the watch over the worker's connections.
pub(crate) fn configure_watched(
    server: &ServerState,
    watch: &Rc<Watch>,
    config: &mut ServiceConfig,
) {
    let worker = Rc::new(WorkerState::start(server, Rc::clone(watch)));
    // One service parses the path itself: each path is a constant or ends in a key, and a router
    // would match patterns for each request.
    config.default_service(fn_service(move |request: ServiceRequest| {
        let worker = Rc::clone(&worker);
        async move { Ok(worker.serve(request).await) }
    }));
}
