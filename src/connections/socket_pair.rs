//! A real connection for tests.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::{TcpListener, TcpStream};

/// A client's socket, and the server's side of it, which does not block.
pub(crate) fn socket_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    server.set_nonblocking(true).unwrap();
    (client, server)
}
