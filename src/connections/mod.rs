//! Connections of clients, below HTTP and WebSocket alike: who left, who is too slow, what their
//! bodies hold.
//!
//! | file | what it is |
//! |---|---|
//! | `connection` | one accepted connection, and the watch that ends those that are too slow |
//! | `body_budget` | bytes that the bodies of requests and messages hold while they are read |
//! | `clock` | one look a second |
//! | [`descriptors`] | how many connections the process may open |

mod body_budget;
mod clock;
mod connection;
pub(crate) mod descriptors;

pub(crate) use body_budget::{BodyBudget, Charge};
pub(crate) use clock::{Tick, every_second};
pub(crate) use connection::{
    Answering, Connection, ConnectionHandle, Watch, on_connect, unless_gone,
};
