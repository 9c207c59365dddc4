//! Reads the headers of proxies that connect for others.

use std::{net::SocketAddr, time::Duration};

use tokio::{io::AsyncReadExt as _, time::timeout};

use super::transport::Socket;
use crate::{
    connections::OwnConnections,
    metrics::{Metrics, ProxyHeaderRefusal},
    proxy_header::{self, FIXED_BYTES},
};

/// Reads what each connection to a listener begins with.
pub(super) struct ProxyHeaders {
    /// Those of the service to itself, which have no header.
    pub(super) own: OwnConnections,
    /// Longest time until a header is there.
    pub(super) longest: Duration,
    pub(super) metrics: Metrics,
}

impl ProxyHeaders {
    /// The client of a connection from `peer`, by its header; `None` if the connection is refused.
    pub(super) async fn client(
        &self,
        socket: &mut Socket,
        peer: SocketAddr,
        is_proxy: bool,
    ) -> Option<SocketAddr> {
        let local = socket.stream().local_addr().ok()?;
        if self.own.has(peer, local) {
            return Some(peer);
        }
        if !is_proxy {
            self.metrics
                .refuse_proxy_header(ProxyHeaderRefusal::Untrusted);
            tracing::debug!(%peer, "it is no trusted proxy, and others may not connect");
            return None;
        }
        match timeout(self.longest, read(socket)).await {
            Ok(Ok(named)) => Some(named.unwrap_or(peer)),
            Ok(Err(error)) => {
                self.metrics
                    .refuse_proxy_header(ProxyHeaderRefusal::Malformed);
                tracing::debug!(%peer, %error, "a proxy sent no header that can be read");
                None
            }
            Err(_) => {
                self.metrics.refuse_proxy_header(ProxyHeaderRefusal::Late);
                None
            }
        }
    }
}

/// Reads a header, and no byte after it.
async fn read(socket: &mut Socket) -> Result<Option<SocketAddr>, Box<dyn std::error::Error>> {
    let mut fixed = [0; FIXED_BYTES];
    socket.read_exact(&mut fixed).await?;
    let mut rest = vec![0; proxy_header::length_after(&fixed)?];
    socket.read_exact(&mut rest).await?;
    Ok(proxy_header::client(&fixed, &rest)?)
}
