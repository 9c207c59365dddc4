//! The TLS handshakes of one worker.

use std::{
    io::{self, ErrorKind},
    rc::Rc,
    task::Poll,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    time::{Instant, timeout_at},
};
use tokio_rustls::{LazyConfigAcceptor, rustls::server::Acceptor, server::TlsStream};

use super::{
    handshake_turns::HandshakeTurns,
    transport::{Socket, Transport},
};
use crate::{
    limits::PLAIN_REQUEST_BYTES_MAX,
    metrics::{HandshakeOutcome, ListenerMetrics},
    tls::ListenerTls,
};

/// The first byte of a handshake: the type of its record (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;

/// What a request over plain HTTP is answered.
const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    connection: close\r\n\
    content-type: text/plain\r\n\
    content-length: 62\r\n\
    \r\n\
    this port speaks TLS: use https:// or wss:// in place of http\n";

/// Makes handshakes with what the files have now.
pub(super) struct Handshakes {
    pub(super) tls: ListenerTls,
    /// Longest time from the connection to the end of a handshake.
    pub(super) longest: Duration,
    pub(super) turns: Rc<HandshakeTurns>,
    pub(super) metrics: ListenerMetrics,
}

/// Why there is no TLS on a connection.
enum Failed {
    /// The client has gone.
    Left,
    /// It spoke HTTP.
    PlainHttp,
    /// What it sent is no handshake, or is refused.
    Refused(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // rustls, of what the client has sent.
            ErrorKind::InvalidData => Self::Refused(error),
            _ => Self::Left,
        }
    }
}

impl Handshakes {
    /// Makes the handshake of a connection, and counts how it ended. `None` if there is no TLS on
    /// it: then it is closed.
    pub(super) async fn complete(&self, socket: Socket) -> Option<Transport> {
        let deadline = Instant::now() + self.longest;
        let made = timeout_at(deadline, self.make(socket)).await;
        let outcome = match &made {
            Ok(Ok(_)) => HandshakeOutcome::Made,
            Ok(Err(Failed::Left)) => HandshakeOutcome::Left,
            Ok(Err(Failed::PlainHttp)) => HandshakeOutcome::PlainHttp,
            Ok(Err(Failed::Refused(_))) => HandshakeOutcome::Refused,
            Err(_) => HandshakeOutcome::Late,
        };
        self.metrics.handshake(outcome);
        match made {
            Ok(Ok(stream)) => return Some(Transport::tls(stream)),
            Ok(Err(Failed::Refused(error))) => {
                tracing::debug!(%error, "a TLS handshake has failed");
            }
            Ok(Err(Failed::PlainHttp)) => {
                tracing::debug!("a client speaks plain HTTP on a port with TLS");
            }
            Ok(Err(Failed::Left)) => {}
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
        None
    }

    async fn make(&self, socket: Socket) -> Result<TlsStream<Socket>, Failed> {
        let mut first = [0];
        match socket.stream().peek(&mut first).await? {
            0 => return Err(Failed::Left),
            // No method of HTTP begins with another byte.
            _ if first[0].is_ascii_alphabetic() => return Err(refuse_plain(socket).await),
            _ if first[0] != HANDSHAKE => {
                return Err(Failed::Refused(ErrorKind::InvalidData.into()));
            }
            _ => {}
        }
        let started = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
        // What the files have now, not when the client connected.
        let mut accept = started.into_stream(self.tls.config());
        loop {
            if let Poll::Ready(made) = self.turns.step(&mut accept).await {
                return Ok(made?);
            }
            // What the server sends in a handshake fits into the buffer of a new socket.
            if let Some(socket) = accept.get_ref() {
                socket.stream().ready(Interest::READABLE).await?;
            }
        }
    }
}

/// Answers a request over plain HTTP, and closes the connection.
async fn refuse_plain(mut socket: Socket) -> Failed {
    if socket.write_all(PLAIN_ANSWER).await.is_ok() && socket.shutdown().await.is_ok() {
        let mut left = PLAIN_REQUEST_BYTES_MAX;
        let mut piece = [0; 4 << 10];
        while let Ok(read @ 1..) = socket.read(&mut piece).await
            && left > 0
        {
            left = left.saturating_sub(read);
        }
    }
    Failed::PlainHttp
}
