//! A port at which nobody listens.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of this machine that refuses connections for as long as this lives. It is held: a port
/// that is merely free may be given to a service of another test at any moment.
pub(crate) struct UnusedPort(Socket);

impl UnusedPort {
    pub(crate) fn take() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        socket.bind(&any.into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}
