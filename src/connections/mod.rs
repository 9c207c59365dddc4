//! Connections of clients, below HTTP and WebSocket: clients that leave, clients that are too slow,
//! who has a slot, and the memory of what they send.
//!
//! | file | content |
//! |---|---|
//! | `connection` | one accepted connection |
//! | `watch` | cuts connections whose clients are too slow, or whose slots others need |
//! | `slot` | the slot of one connection |
//! | `slots` | who is evicted when the slots run out |
//! | `strangers` | connections without an accepted key, in the order in which they are evicted |
//! | `holders` | connections with an accepted key, and which of them is evicted if no stranger can be |
//! | `owners` | which tenants have connections on any worker of a listener |
//! | `own_connections` | connections of the service to itself |
//! | `new_connections` | connections on which no request has come yet |
//! | `newcomers` | clients that have come lately, and wait for an answer |
//! | `liveness` | whether all workers still run |
//! | `body_budget` | memory of bodies and messages while they are read and answered |
//! | `evictions` | ends what holds memory for clients, from any thread |
//! | `held_reply` | the memory of a reply until its client has taken it |
//! | `clock` | what is called every second, or in each turn of the event loop |
//! | `socket_pair` | tests: a connection |
//! | [`descriptors`] | how many connections the process may open |

mod body_budget;
mod clock;
mod connection;
pub(crate) mod descriptors;
mod evictions;
mod held_reply;
mod holders;
mod liveness;
mod new_connections;
mod newcomers;
mod own_connections;
mod owners;
mod slot;
mod slots;
#[cfg(test)]
mod socket_pair;
mod strangers;
mod watch;

pub(crate) use body_budget::{BodyBudget, Charge, UsedUp};
pub(crate) use clock::{Tick, every, every_second, every_turn};
pub(crate) use connection::{Connection, ConnectionHandle, unless_gone};
pub(crate) use held_reply::HeldReply;
pub(crate) use liveness::Liveness;
pub use liveness::LivenessWatch;
pub(crate) use new_connections::NewConnections;
pub(crate) use newcomers::Newcomers;
pub(crate) use own_connections::OwnConnections;
pub(crate) use slots::SlotLimits;
pub(crate) use watch::{Answering, PoolWait, SharedWatch, Watch, WatchLimits};

#[cfg(test)]
pub(crate) use socket_pair::socket_pair;
