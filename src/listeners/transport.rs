//! What HTTP is spoken over: a socket, plain or under TLS.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use actix_web::rt::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::connections::Connection;

/// An accepted socket, and what the watch knows of it.
#[derive(Debug)]
pub(super) struct Socket {
    /// Dropped before the socket, whose descriptor it has.
    connection: Rc<Connection>,
    stream: TcpStream,
}

/// A socket, plain or under TLS.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(Socket),
    /// It has buffers of its own, which only few connections of a plain listener should pay for.
    Tls(Box<TlsStream<Socket>>),
}

impl Socket {
    pub(super) const fn new(connection: Rc<Connection>, stream: TcpStream) -> Self {
        Self { connection, stream }
    }

    pub(super) const fn connection(&self) -> &Rc<Connection> {
        &self.connection
    }

    pub(super) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn pinned(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pinned().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pinned().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pinned().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Transport {
    /// TLS over a socket, after the handshake.
    pub(super) fn tls(stream: TlsStream<Socket>) -> Self {
        stream.get_ref().0.connection.uses_tls();
        Self::Tls(Box::new(stream))
    }

    /// What the watch knows of its socket.
    pub(super) fn connection(&self) -> &Rc<Connection> {
        match self {
            Self::Plain(socket) => &socket.connection,
            Self::Tls(stream) => &stream.get_ref().0.connection,
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Tls(stream) => {
                let (before, room) = (buffer.filled().len(), buffer.remaining());
                match ready!(Pin::new(&mut *stream).poll_read(cx, buffer)) {
                    Ok(()) => {}
                    // The client has closed its side without a word. That is an end as any other:
                    // HTTP says itself how long a request is.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
                if room > 0 && buffer.filled().len() == before {
                    stream.get_ref().0.connection.read_to_end();
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// actix calls this whenever something happens on the connection and its own buffer is empty,
    /// also if nothing was written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(match self.as_mut().get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        })?;
        self.connection().sent_all();
        if self.connection().is_to_end() {
            ready!(self.as_mut().poll_shutdown(cx))?;
            self.connection().ended();
            // The session's body ends with it.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
