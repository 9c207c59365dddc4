//! Processes that serve one chain and share one ingest, over a store.
//!
//! `nearhead_fleet` decides; this module acts. A process that leads follows its nodes and appends
//! each change of the head. All others read these entries, verify each block as if a node had
//! stated it, and apply them. Who leads is not configured: a process with nodes asks for the lease.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | [`FleetSource`] | puts the parts together |
//! | `member` | one process: what it asks, and what it does with the answers |
//! | `reporter` | reports what it has seen, and notes how far the store is |
//! | `node_follower` | its nodes, which are followed while it leads |
//! | `publisher` | what a leader appends |
//! | `below_window` | blocks below the window: written by a leader, and read by the others |
//! | `entry_bytes` | blocks as entries have them |
//! | `entry_verifier` | blocks of entries, verified |
//! | `json_maker` | the JSON of blocks, made before it is read; with senders, if clients read such |
//! | `window_update` | changes the window to the chain of an entry |
//! | `state_share` | state and access lists that processes share, through the store |
//! | `wants` | state and access lists that others need, from this process' nodes |
//! | `presence` | writes what this process is, and reads what the others are |
//! | [`quotas`] | what tenants may use, borrowed from the store |
//! | `status` | what a process reports of itself |
//! | `event_log` | log lines that others may cause |
//! | `store` | the store: its calls, and how they fail |
//! | `store_check` | looks once whether the store suits a fleet |

mod below_window;
mod entry_bytes;
mod entry_verifier;
mod event_log;
mod json_maker;
mod member;
mod node_follower;
mod presence;
mod publisher;
pub mod quotas;
mod reporter;
mod source;
mod state_share;
mod status;
pub mod store;
mod store_check;
mod wants;
mod window_update;

#[cfg(test)]
mod tests;

pub use node_follower::HeadCheck;
pub use source::{FleetConfig, FleetSource, SharedStore};
pub use state_share::StateShareCounts;
pub use status::{FleetFacts, FleetProcesses, FleetStatus, LOST_REASONS, Role, lost_label};
pub use window_update::id_of;
