//! The addresses that the service listens on, and the HTTP server behind each of them.
//!
//! Clients, operators and scrapers have a server each, with its own threads and connections: load
//! on one of them does not starve the others.

mod acceptor;
mod busy_connections;
mod entrance;
mod exposure;
mod handshake_turns;
mod handshakes;
mod http_server;
mod inherited;
mod intake;
mod kernel_queue;
mod load;
mod proxy_headers;
mod stopping;
mod transport;
mod worker;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    rc::Rc,
    sync::Arc,
};

use actix_web::{rt, web::ServiceConfig};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    admin::{self, AdminState},
    config::{AdminListen, Config},
    connections::{Liveness, PoolWait, SharedWatch, Watch, descriptors::Besides},
    http::{self, ServerState},
    limits,
    metrics::ListenerKind,
    tls::{OwnClient, ServerTls},
};

pub use self::inherited::{InheritError, InheritedSockets};
use self::{
    exposure::Exposed,
    http_server::{HttpServer, Shape},
    stopping::Stop,
};

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}")]
pub struct ListenError {
    /// The address.
    pub(crate) address: SocketAddr,
    /// The system's error.
    pub(crate) error: io::Error,
}

/// The addresses of a service, whose ports the system may have chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) public: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
}

impl Addresses {
    /// Warns of what strangers can reach, and read on its way.
    fn warn(&self, is_tls: bool, has_proxy: bool) {
        let all = [
            (ListenerKind::Public, Some(self.public), is_tls),
            (ListenerKind::Admin, self.admin, is_tls),
            (ListenerKind::Metrics, self.metrics, false),
        ];
        for (listener, address, is_tls) in all {
            let exposed = address.map(|address| Exposed {
                listener,
                address,
                is_tls,
            });
            if let Some(warning) = exposed.and_then(|exposed| exposed.warning(has_proxy)) {
                tracing::warn!("{warning}");
            }
        }
    }
}

/// Sockets that hold the addresses of a service and do not listen yet.
#[derive(Debug)]
pub(crate) struct Sockets {
    public: BoundSocket,
    admin: Option<BoundSocket>,
    metrics: Option<BoundSocket>,
}

/// What takes file descriptors besides the connections of clients.
pub(crate) fn besides_clients(config: &Config) -> Besides {
    let has_admin = config.admin_listen != AdminListen::Off;
    let listeners = usize::from(has_admin) + usize::from(config.metrics_listen.is_some());
    Besides {
        workers: config.workers + listeners,
        connections: listeners * limits::OPERATOR_CONNECTIONS_MAX,
    }
}

impl Sockets {
    /// Binds the configured addresses, or takes the sockets that are inherited for them.
    ///
    /// # Errors
    /// An address that was asked for is taken, or is none of this machine.
    pub(crate) fn bind(config: &Config, inherited: InheritedSockets) -> Result<Self, ListenError> {
        let at = |address, socket: Option<TcpListener>| match socket {
            Some(socket) => Ok(BoundSocket::inherited(socket, address)),
            None => BoundSocket::new(address),
        };
        let public = at(config.listen, inherited.public)?;
        let metrics = config.metrics_listen;
        let metrics = metrics.map(|address| at(address, inherited.metrics));
        let admin = match config.admin_listen {
            AdminListen::Off => None,
            AdminListen::At(address) => Some(at(address, inherited.admin)?),
            AdminListen::Default => Some(BoundSocket::new_or_free(AdminListen::DEFAULT)?),
        };
        let metrics = metrics.transpose()?;
        let this = Self {
            public,
            admin,
            metrics,
        };
        this.check_distinct()?;
        Ok(this)
    }

    /// Sockets that do not listen yet may share a port: the system would find it out late.
    fn check_distinct(&self) -> Result<(), ListenError> {
        let asked: Vec<SocketAddr> = [
            Some(&self.public),
            self.admin.as_ref(),
            self.metrics.as_ref(),
        ]
        .into_iter()
        .flatten()
        .filter(|socket| !socket.may_move && !socket.is_inherited)
        .map(|socket| socket.address)
        .collect();
        for (at, address) in asked.iter().enumerate() {
            let is_same = |other: &SocketAddr| {
                let is_any = address.ip().is_unspecified() || other.ip().is_unspecified();
                let is_same_ip = is_any || address.ip() == other.ip();
                address.port() != 0 && address.port() == other.port() && is_same_ip
            };
            if asked[..at].iter().any(is_same) {
                return Err(ListenError {
                    address: *address,
                    error: io::ErrorKind::AddrInUse.into(),
                });
            }
        }
        Ok(())
    }

    /// Listens on all addresses, and starts their servers. `failed` is called with the reason if
    /// one of them cannot serve.
    ///
    /// # Errors
    /// An address cannot be listened on; then no server runs.
    pub(crate) fn serve(
        self,
        config: &Config,
        tls: Option<&Arc<ServerTls>>,
        state: &ServerState,
        admin_state: &AdminState,
        failed: impl FnOnce(String) + Clone + Send + 'static,
    ) -> Result<Servers, ListenError> {
        let public = self.public.listen(limits::BACKLOG)?;
        let operators = |socket: Option<BoundSocket>| {
            let listen = |socket: BoundSocket| socket.listen(limits::OPERATOR_BACKLOG);
            socket.map(listen).transpose()
        };
        let (admin, metrics) = (operators(self.admin)?, operators(self.metrics)?);
        let address = |socket: &Option<ListeningSocket>| socket.as_ref().map(|at| at.address);
        let addresses = Addresses {
            public: public.address,
            admin: address(&admin),
            metrics: address(&metrics),
        };
        addresses.warn(tls.is_some(), !config.trusted_proxies.is_empty());
        let of_clients = state.clone();
        let routes = move |routes: &mut ServiceConfig, watch: &Rc<Watch>| {
            http::configure_watched(&of_clients, watch, routes);
        };
        let liveness = Liveness::default();
        let watch = SharedWatch::with_liveness(&liveness);
        let reads = state.reads.clone();
        let watch = watch.with_pool(PoolWait::new(move |now| reads.pool_wait(now)));
        let clients = HttpServer::new(config, Shape::of_clients(config), watch, &state.metrics);
        let clients = clients
            .with_proxy_headers(config.proxy_protocol.then(|| admin_state.own.clone()))
            .with_tls(tls.map(ServerTls::of_public));
        let clients = public.serve(clients, routes, failed.clone())?;
        let own = tls.cloned().map(OwnClient::new);
        // Scrapers reach theirs by any name: it has nothing that a page could change.
        let of_operators = [
            (admin, Some(admin_state.with_public(addresses.public, own))),
            (metrics, None),
        ];
        let serve = |(socket, admin): (ListeningSocket, Option<AdminState>)| {
            let kind = match admin {
                Some(_) => ListenerKind::Admin,
                None => ListenerKind::Metrics,
            };
            let shape = Shape::of_operators(config, kind);
            let watch = SharedWatch::with_liveness(&liveness);
            let server = HttpServer::new(config, shape, watch, &state.metrics);
            // Scrapers are in a network of the operator's own, and admin has the metrics over TLS.
            let tls = tls.filter(|_| kind == ListenerKind::Admin);
            let server = server.with_tls(tls.map(ServerTls::of_admin));
            let state = state.clone();
            let routes = move |routes: &mut ServiceConfig, watch: &Rc<Watch>| {
                admin::configure_watched(&state, admin.as_ref(), watch, routes);
            };
            socket.serve(server, routes, failed.clone())
        };
        let operators = of_operators
            .into_iter()
            .filter_map(|(socket, admin)| Some((socket?, admin)))
            .map(serve)
            .collect::<Result<_, _>>()?;
        tracing::info!(
            address = %addresses.public,
            workers = config.workers,
            admin = addresses.admin.map(tracing::field::display),
            metrics = addresses.metrics.map(tracing::field::display),
            "listening"
        );
        Ok(Servers {
            addresses,
            liveness: liveness.clone(),
            clients,
            operators,
        })
    }
}

/// The running HTTP servers of a service.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) addresses: Addresses,
    /// Those of all workers.
    pub(crate) liveness: Liveness,
    clients: Stop,
    operators: Vec<Stop>,
}

impl Servers {
    /// Stops the servers. Operators can watch until the last client has its answer.
    pub(crate) async fn stop(self, graceful: bool) {
        self.clients.stop(graceful).await;
        // At the same time: each may wait for its clients.
        let stop = |server: Stop| rt::spawn(server.stop(graceful));
        let stopping: Vec<_> = self.operators.into_iter().map(stop).collect();
        for server in stopping {
            // It does not panic.
            let _ = server.await;
        }
    }
}

/// A socket that holds an address and does not listen yet.
#[derive(Debug)]
struct BoundSocket {
    socket: Socket,
    address: SocketAddr,
    /// Whether another port will do.
    may_move: bool,
    /// Whether it listens already, and the next process may have it.
    is_inherited: bool,
}

impl BoundSocket {
    fn new(address: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self {
            socket: bind(address).map_err(|error| ListenError { address, error })?,
            address,
            may_move: false,
            is_inherited: false,
        })
    }

    /// A socket that listens on this address already.
    fn inherited(socket: TcpListener, address: SocketAddr) -> Self {
        Self {
            socket: socket.into(),
            address,
            may_move: false,
            is_inherited: true,
        }
    }

    /// The address, or a free port of this machine's own if the address is taken.
    fn new_or_free(address: SocketAddr) -> Result<Self, ListenError> {
        let bound = Self::new(address).or_else(|_| Self::free())?;
        Ok(Self {
            may_move: true,
            ..bound
        })
    }

    fn free() -> Result<Self, ListenError> {
        Self::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    /// Listens, with room for this many connections in the kernel's queue.
    fn listen(self, backlog: i32) -> Result<ListeningSocket, ListenError> {
        let Self {
            socket,
            address: asked,
            may_move,
            is_inherited,
        } = self;
        let failed = |error| ListenError {
            address: asked,
            error,
        };
        let listens = match is_inherited {
            // Whoever opened it has chosen its room.
            true => Ok(()),
            false => socket.listen(backlog),
        };
        let listener = match listens {
            Ok(()) => TcpListener::from(socket),
            // Another process has held the address, too, and was faster to listen.
            Err(_) if may_move => {
                let free = Self::free()?;
                free.socket.listen(backlog).map_err(failed)?;
                TcpListener::from(free.socket)
            }
            Err(error) => return Err(failed(error)),
        };
        let address = listener.local_addr().map_err(failed)?;
        if may_move && address != AdminListen::DEFAULT {
            tracing::warn!(
                "{} is taken, so the admin listener is on {address}: choose with --admin-listen",
                AdminListen::DEFAULT
            );
        }
        Ok(ListeningSocket {
            listener,
            address,
            backlog,
            is_inherited,
        })
    }
}

/// A socket that listens.
struct ListeningSocket {
    listener: TcpListener,
    address: SocketAddr,
    backlog: i32,
    is_inherited: bool,
}

impl ListeningSocket {
    /// Starts a server on it.
    fn serve(
        self,
        server: HttpServer,
        routes: impl Fn(&mut ServiceConfig, &Rc<Watch>) + Clone + Send + 'static,
        failed: impl FnOnce(String) + Clone + Send + 'static,
    ) -> Result<Stop, ListenError> {
        let Self {
            listener,
            address,
            backlog,
            is_inherited,
        } = self;
        server
            .start(listener, backlog, is_inherited, routes, failed)
            .map_err(|error| ListenError { address, error })
    }
}

/// A socket that holds the address and does not listen yet: it refuses connections.
fn bind(address: SocketAddr) -> io::Result<Socket> {
    let bind = |address: SocketAddr| {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        // A restart need not wait for the connections of the previous process to expire.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    let socket: Socket = bind(address)?;
    if address.port() != 0 {
        return Ok(socket);
    }
    // A port that the system chose is lost when its socket stops listening; one that was asked for
    // is not.
    match socket.local_addr()?.as_socket() {
        Some(chosen) => bind(chosen),
        None => Ok(socket),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_service_do_not_overlap() {
        let free = BoundSocket::free().unwrap();
        let port = free
            .socket
            .local_addr()
            .unwrap()
            .as_socket()
            .unwrap()
            .port();
        drop(free);
        let at = |ip: [u8; 4], port| SocketAddr::from((ip, port));
        let (any, own) = ([0, 0, 0, 0], [127, 0, 0, 1]);
        for (listen, admin, metrics, is_bound) in [
            (at(own, port), at(own, 0), at(own, 0), true),
            (at(own, port), at([127, 0, 0, 2], port), at(own, 0), true),
            (at(own, port), at(own, port), at(own, 0), false),
            (at(any, port), at(own, port), at(own, 0), false),
            (at(own, 0), at(own, port), at(any, port), false),
        ] {
            let config = Config {
                listen,
                admin_listen: AdminListen::At(admin),
                metrics_listen: Some(metrics),
                ..Config::default()
            };
            let bound = Sockets::bind(&config, InheritedSockets::default());
            assert_eq!(bound.is_ok(), is_bound, "{listen} {admin} {metrics}");
        }
    }

    /// Two processes that start at once can both hold the default, until one of them listens.
    #[test]
    fn a_default_that_another_process_listens_on_is_replaced() {
        for may_move in [true, false] {
            let first = BoundSocket::free().unwrap();
            let address = first.socket.local_addr().unwrap().as_socket().unwrap();
            let second = BoundSocket {
                may_move,
                ..BoundSocket::new(address).unwrap()
            };
            first.socket.listen(1).unwrap();
            match second.listen(1) {
                Ok(moved) => assert!(may_move && moved.address != address),
                Err(error) => assert!(!may_move && error.address == address, "{error}"),
            }
        }
    }
}
