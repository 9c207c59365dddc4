//! What an accepted socket goes through before HTTP is spoken over it.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

use actix_http::{Protocol, error::DispatchError};
use actix_web::rt::net::TcpStream;
use nearhead_tenants::allowlists::Network;
use tokio::sync::watch;

use super::{
    handshakes::Handshakes,
    proxy_headers::ProxyHeaders,
    transport::{Socket, Transport},
};
use crate::{access::network_of, connections::Watch};

/// The entrance of one worker: gives a connection its slot, reads the header of a proxy, and makes
/// the TLS handshake.
///
/// The slot comes first: whoever does not finish the others is a stranger as any other.
pub(super) struct Entrance {
    pub(super) watch: Rc<Watch>,
    /// Their connections are not counted by address: each has those of many clients.
    pub(super) proxies: Arc<[Network]>,
    /// `None` if connections have no header of the PROXY protocol.
    pub(super) proxy_headers: Option<ProxyHeaders>,
    /// `None` if HTTP is spoken over the socket itself.
    pub(super) handshakes: Option<Handshakes>,
    /// Set when all connections are to end.
    pub(super) end: watch::Receiver<bool>,
}

/// What HTTP is spoken over, and with whom.
pub(super) type Entered = (Transport, Protocol, Option<SocketAddr>);

impl Entrance {
    /// Lets a connection in.
    ///
    /// # Errors
    /// It has ended before; that was counted.
    pub(super) async fn enter(&self, stream: TcpStream) -> Result<Entered, DispatchError> {
        // If this fails, small answers take longer.
        let _ = stream.set_nodelay(true);
        // Without an address, the client is gone already.
        let peer = stream.peer_addr().ok();
        let network = peer.and_then(|peer| self.network_of(peer.ip()));
        let connection = self.watch.connect(&stream, network);
        let socket = Socket::new(connection, stream);
        if self.proxy_headers.is_none() && self.handshakes.is_none() {
            return Ok((Transport::Plain(socket), Protocol::Http1, peer));
        }
        let mut end = self.end.clone();
        let prepared = tokio::select! {
            biased;
            prepared = self.prepare(socket, peer) => prepared,
            _ = end.wait_for(|is_ending| *is_ending) => None,
        };
        let ended = || DispatchError::Io(io::Error::from(ErrorKind::ConnectionAborted));
        let (transport, client) = prepared.ok_or_else(ended)?;
        Ok((transport, Protocol::Http1, client))
    }

    /// Does what needs bytes of the client; `None` if the connection is to be closed.
    async fn prepare(
        &self,
        mut socket: Socket,
        peer: Option<SocketAddr>,
    ) -> Option<(Transport, Option<SocketAddr>)> {
        let mut client = peer;
        if let (Some(headers), Some(peer)) = (&self.proxy_headers, peer) {
            let named = headers.client(&mut socket, peer, self.is_proxy(peer.ip()));
            let named = named.await?;
            if named != peer {
                let network = self.network_of(named.ip());
                self.watch.count_by(socket.connection(), network);
            }
            client = Some(named);
        }
        let transport = match &self.handshakes {
            None => Transport::Plain(socket),
            Some(handshakes) => handshakes.complete(socket).await?,
        };
        Some((transport, client))
    }

    /// What the connections of this client are counted by; `None` if they are not.
    fn network_of(&self, peer: IpAddr) -> Option<IpAddr> {
        (!self.is_proxy(peer)).then(|| network_of(peer))
    }

    fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.iter().any(|proxies| proxies.contains(peer))
    }
}
