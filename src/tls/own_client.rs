//! TLS connections of the service to itself.

use std::{io, net::IpAddr, sync::Arc};

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{client, server_tls::ServerTls};

/// Connects to a listener of this process, which is reached by an address that no certificate has.
#[derive(Clone, Debug)]
pub(crate) struct OwnClient(Arc<ServerTls>);

impl OwnClient {
    /// Connects to listeners with this TLS.
    pub(crate) const fn new(server: Arc<ServerTls>) -> Self {
        Self(server)
    }

    /// Makes the handshake with the listener that is at the other end of this socket.
    ///
    /// # Errors
    /// It is another one, or the connection failed.
    pub(crate) async fn connect(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let server = Arc::clone(&self.0);
        let accepts = move |found: &CertificateDer<'_>| server.is_own(found);
        let config = client::trusting_only(Box::new(accepts)).map_err(io::Error::other)?;
        let address: IpAddr = socket.peer_addr()?.ip();
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::IpAddress(address.into());
        connector.connect(name, socket).await
    }
}
