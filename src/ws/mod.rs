//! WebSocket sessions of one worker.
//!
//! | file | content |
//! |---|---|
//! | `sessions` | all sessions of a worker: heartbeat, eviction and shutdown, by one clock |
//! | `session` | one session: what waits to be sent, what may be read, when it ends |
//! | `session_sink` | a session as a sink of notifications |
//! | `shared` | what all sessions of a worker share: clock, bounds, metrics |
//! | `answers` | answers that the client has not taken yet |
//! | `outbox` | bytes that wait to be sent, within a budget |
//! | [`frame`] | frames: encoding those sent, splitting those received |
//! | `message` | a message that arrives in fragments |
//! | `inbound`, `outbound` | the two directions of a connection, as streams |
//! | `session_actor` | answers a session's messages |
//! | `session_traces` | the traces of its requests |
//! | `request_subscriptions` | the subscriptions that one request makes |
//! | `close_reason` | code and text of a close frame |
//!
//! actix runs a session's actor only while its connection is polled, so a client that does not read
//! stops the actor. What must happen even then is in `session`.

mod answers;
mod close_reason;
pub mod frame;
mod inbound;
mod message;
mod outbound;
mod outbox;
mod request_subscriptions;
mod session;
pub(crate) mod session_actor;
mod session_sink;
mod session_traces;
mod sessions;
mod shared;
#[cfg(test)]
mod tests;

pub(crate) use session_traces::SessionTraces;
pub(crate) use sessions::Sessions;
