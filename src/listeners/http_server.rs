//! An HTTP server: actix's HTTP behind an acceptor and workers of our own, with slots for
//! connections, and a count of what is no HTTP.
//!
//! `actix_web::HttpServer` accepts whatever comes, however long its workers take, and drops the
//! error with which a connection ends.

use std::{io, net::TcpListener, rc::Rc, sync::Arc, time::Duration};

use actix_http::{
    HttpService,
    error::{DispatchError, ParseError},
};
use actix_service::{
    IntoServiceFactory as _, ServiceFactory, ServiceFactoryExt as _, fn_service, map_config,
};
use actix_web::{
    App, Error,
    dev::{AppConfig, Extensions},
    rt::net::TcpStream,
    web::ServiceConfig,
};
use nearhead_actors::thread_priority;
use nearhead_tenants::allowlists::Network;
use tokio::sync::{Notify, watch};

use super::{
    acceptor::{Acceptor, Workers},
    entrance::Entrance,
    handshake_turns::HandshakeTurns,
    handshakes::Handshakes,
    load::{Load, Loads},
    proxy_headers::ProxyHeaders,
    stopping::Stop,
    transport::Transport,
    worker::{self, WorkerConnections, WorkerParts},
};
use crate::{
    config::Config,
    connections::{OwnConnections, SharedWatch, SlotLimits, Watch, WatchLimits},
    limits,
    metrics::{ListenerKind, Metrics},
    tls::ListenerTls,
};

/// How many connections a server has, and on how many threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) listener: ListenerKind,
    pub(super) workers: usize,
    /// By how much the niceness of a worker's other threads exceeds its own.
    pub(super) blocking_niceness: i32,
    /// The bounds of each worker.
    pub(super) slots: SlotLimits,
    pub(super) grace: Duration,
}

impl Shape {
    /// The server for clients.
    pub(super) fn of_clients(config: &Config) -> Self {
        let auto = (config.max_connections / 4).max(limits::CONNECTIONS_PER_ADDRESS_MIN);
        let per_address = match config.connections_per_address.or(auto) {
            0 => usize::MAX,
            count => count.div_ceil(config.workers),
        };
        Self {
            listener: ListenerKind::Public,
            workers: config.workers,
            blocking_niceness: thread_priority::COMPRESSION,
            slots: SlotLimits {
                // Rounded down, so that all workers together stay within the limit.
                slots: (config.max_connections / config.workers).max(1),
                strangers_per_network: per_address,
            },
            grace: config.shutdown_grace,
        }
    }

    /// A server for operators.
    pub(super) fn of_operators(config: &Config, listener: ListenerKind) -> Self {
        Self {
            listener,
            workers: 1,
            // They hash passwords.
            blocking_niceness: 0,
            slots: SlotLimits {
                slots: limits::OPERATOR_CONNECTIONS_MAX,
                strangers_per_network: usize::MAX,
            },
            grace: config.shutdown_grace.min(limits::OPERATOR_GRACE),
        }
    }
}

/// What a server is configured with.
#[derive(Clone, Debug)]
pub(super) struct HttpServer {
    shape: Shape,
    keep_alive: Duration,
    header_timeout: Duration,
    /// Their connections are not counted by address: each has those of many clients.
    proxies: Arc<[Network]>,
    /// Those that have no header of the PROXY protocol; `None` if no connection has one.
    own: Option<OwnConnections>,
    /// `None` if it speaks plain HTTP.
    tls: Option<ListenerTls>,
    shared_watch: SharedWatch,
    metrics: Metrics,
}

impl HttpServer {
    /// A server whose workers' watches share this.
    pub(super) fn new(
        config: &Config,
        shape: Shape,
        shared_watch: SharedWatch,
        metrics: &Metrics,
    ) -> Self {
        Self {
            shape,
            keep_alive: config.keep_alive,
            header_timeout: config.header_timeout,
            proxies: config.trusted_proxies.as_slice().into(),
            own: None,
            tls: None,
            shared_watch,
            metrics: metrics.clone(),
        }
    }

    /// The same, whose connections have a header of the PROXY protocol, unless they are the
    /// service's own.
    pub(super) fn with_proxy_headers(self, own: Option<OwnConnections>) -> Self {
        Self { own, ..self }
    }

    /// The same, with TLS if there is any.
    pub(super) fn with_tls(self, tls: Option<ListenerTls>) -> Self {
        Self { tls, ..self }
    }

    /// Starts a server on a socket that listens, and that the next process may have if it is
    /// inherited. `routes` adds the routes to the application of a worker, whose connections the
    /// watch watches. `failed` is called with the reason if the server cannot serve.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        self,
        listener: TcpListener,
        backlog: i32,
        is_inherited: bool,
        routes: impl Fn(&mut ServiceConfig, &Rc<Watch>) + Clone + Send + 'static,
        failed: impl FnOnce(String) + Clone + Send + 'static,
    ) -> io::Result<Stop> {
        let (stop, stopping, ended) = Stop::new(self.shape.grace);
        let took = Arc::new(Notify::new());
        let loads = Loads::none(self.shape.workers);
        let worker = |load: &Load| {
            let parts = WorkerParts {
                slots: self.shape.slots.slots,
                niceness: self.shape.blocking_niceness,
                load: load.clone(),
                loads: loads.clone(),
                took: Arc::clone(&took),
                stopping: stopping.clone(),
                ended: ended.clone(),
            };
            let (this, routes) = (self.clone(), routes.clone());
            let factory = move || this.service(routes);
            worker::start(factory, parts, failed.clone())
        };
        let workers: io::Result<Vec<_>> = loads.iter().map(worker).collect();
        let acceptor = Acceptor {
            listener,
            backlog,
            is_inherited,
            workers: Workers {
                handles: workers?,
                loads: loads.clone(),
                took,
                next: 0,
            },
            metrics: self.metrics.of_listener(self.shape.listener),
        };
        acceptor.start(stopping, ended, failed)?;
        Ok(stop)
    }

    /// The service of a worker, on the current thread.
    fn service(
        self,
        routes: impl Fn(&mut ServiceConfig, &Rc<Watch>),
    ) -> (
        impl ServiceFactory<TcpStream, Config = (), Service: 'static>,
        WorkerConnections,
    ) {
        let watch = self.watch();
        let turns = Rc::<HandshakeTurns>::default();
        let (ending, end) = watch::channel(false);
        let entrance = Rc::new(self.entrance(&watch, &turns, end.clone()));
        let [watched, counted] = [(); 2].map(|()| Rc::clone(&watch));
        let connections = WorkerConnections {
            work_wait: Rc::new(move || watched.work_wait().max(turns.wait_of_next())),
            requests_begun: Rc::new(move || counted.requests_begun()),
            new_connections: Rc::clone(watch.new_connections()),
            newcomers: Rc::clone(watch.newcomers()),
            ending,
        };
        let app = App::new().configure(|config| routes(config, &watch));
        let app = app
            .into_factory()
            .map_err(|error: Error| error.error_response());
        let metrics = self.metrics;
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let mut end = end.clone();
                async move { _ = end.wait_for(|is_ending| *is_ending).await }
            })
            .keep_alive(self.keep_alive)
            .client_request_timeout(self.header_timeout)
            .client_disconnect_timeout(limits::DISCONNECT_TIMEOUT)
            .on_connect_ext(|transport: &Transport, data: &mut Extensions| {
                data.insert(Rc::clone(transport.connection()));
            })
            .finish(map_config(app, |()| AppConfig::default()));
        let service = fn_service(move |stream: TcpStream| {
            let entrance = Rc::clone(&entrance);
            async move { entrance.enter(stream).await }
        });
        let service = service
            .and_then(http)
            .map_err(move |error| ended(&error, &metrics));
        (service, connections)
    }

    /// The entrance of a worker.
    fn entrance(
        &self,
        watch: &Rc<Watch>,
        turns: &Rc<HandshakeTurns>,
        end: watch::Receiver<bool>,
    ) -> Entrance {
        let handshakes = |tls: &ListenerTls| Handshakes {
            tls: tls.clone(),
            longest: self.header_timeout,
            turns: Rc::clone(turns),
            metrics: self.metrics.of_listener(self.shape.listener),
        };
        Entrance {
            watch: Rc::clone(watch),
            proxies: Arc::clone(&self.proxies),
            proxy_headers: self.own.as_ref().map(|own| ProxyHeaders {
                own: own.clone(),
                longest: self.header_timeout,
                metrics: self.metrics.clone(),
            }),
            handshakes: self.tls.as_ref().map(handshakes),
            end,
        }
    }

    /// The watch over the connections of a worker, on the current thread.
    fn watch(&self) -> Rc<Watch> {
        let limits = WatchLimits {
            idle_max: self.keep_alive + self.header_timeout,
            slots: self.shape.slots,
        };
        let shared = self.shared_watch.clone();
        Watch::start(limits, self.shape.listener, shared, &self.metrics)
    }
}

/// Counts and logs why a connection ended, unless its client just left. actix logs all of it as
/// errors, which strangers could fill the log with: `logging` leaves that out.
fn ended(error: &DispatchError, metrics: &Metrics) {
    match error {
        DispatchError::Parse(ParseError::Io(_)) | DispatchError::Io(_) => {}
        DispatchError::Parse(error) => {
            metrics.unparsable_requests.inc();
            tracing::debug!(%error, "what a client sent is no HTTP request");
        }
        DispatchError::InternalError | DispatchError::Body(_) | DispatchError::Upgrade => {
            tracing::error!(%error, "a connection ended by a defect");
        }
        _ => tracing::debug!(%error, "a connection ended"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::Cap;

    #[test]
    fn workers_share_the_connections() {
        for (connections, per_address, workers, slots, strangers) in [
            (9, Cap::Auto, 4, 2, 16),
            (8, Cap::Auto, 4, 2, 16),
            (3, Cap::Auto, 4, 1, 16),
            (200, Cap::Auto, 1, 200, 64),
            (1_000, Cap::Auto, 1, 1_000, 250),
            (65_536, Cap::Auto, 2, 32_768, 8_192),
            (200, Cap::Of(7), 2, 100, 4),
            (200, Cap::Of(0), 2, 100, usize::MAX),
        ] {
            let config = Config {
                max_connections: connections,
                connections_per_address: per_address,
                workers,
                ..Config::default()
            };
            let found = Shape::of_clients(&config).slots;
            assert_eq!(found.slots, slots, "{connections} {workers}");
            let case = format!("{connections} {per_address:?} {workers}");
            assert_eq!(found.strangers_per_network, strangers, "{case}");
        }
    }

    #[test]
    fn only_what_is_no_http_is_counted() {
        let metrics = Metrics::new([]).unwrap();
        let gone = || std::io::ErrorKind::ConnectionReset.into();
        for (error, counted) in [
            (DispatchError::Parse(ParseError::Method), 1),
            (DispatchError::Parse(ParseError::TooLarge), 2),
            (DispatchError::Parse(ParseError::Io(gone())), 2),
            (DispatchError::Io(gone()), 2),
            (DispatchError::DisconnectTimeout, 2),
        ] {
            ended(&error, &metrics);
            assert_eq!(metrics.unparsable_requests.get(), counted, "{error:?}");
        }
    }
}
