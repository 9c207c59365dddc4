//! Connections of clients, below HTTP and WebSocket: clients that leave, clients that are too slow,
//! and the memory of what they send.
//!
//! | file | content |
//! |---|---|
//! | `connection` | one accepted connection |
//! | `watch` | cuts connections whose clients are too slow |
//! | `body_budget` | memory of bodies and messages while they are read and answered |
//! | `clock` | a clock of whole seconds |
//! | `socket_pair` | tests: a connection |
//! | [`descriptors`] | how many connections the process may open |

mod body_budget;
mod clock;
mod connection;
pub(crate) mod descriptors;
#[cfg(test)]
mod socket_pair;
mod watch;

pub(crate) use body_budget::{BodyBudget, Charge};
pub(crate) use clock::{Tick, every, every_second};
pub(crate) use connection::{Connection, ConnectionHandle, on_connect, unless_gone};
pub(crate) use watch::{Answering, Watch};

#[cfg(test)]
pub(crate) use socket_pair::socket_pair;
