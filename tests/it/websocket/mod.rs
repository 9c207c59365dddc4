//! WebSocket sessions: everything that HTTP answers, RFC 6455 frame by frame, and how sessions end.
//!
//! Unit tests (src/ws/tests/notifications) compare sequences of blocks, reorgs and resumes with a
//! model; these tests use real sockets.

pub(crate) mod client;
mod hostile;
mod limits;
#[cfg(feature = "all-tests")]
mod pace;
#[cfg(feature = "all-tests")]
mod protocol;
#[cfg(feature = "all-tests")]
mod session;
#[cfg(feature = "all-tests")]
mod subscribe;
mod subscriptions;

use self::client::Client;
use crate::harness::{KEY, Server};

const GOOD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;

fn path() -> String {
    format!("/ws/v3/{KEY}")
}

fn open(server: &Server) -> Client {
    Client::open(server.address, &path())
}
