//! The mailboxes: actors that own the head, the blocks, the logs and the proofs, and forward to the pure package below.
//!
//! This package knows actix and tokio; it does not know HTTP, JSON-RPC, keys or configuration files.

pub mod block_store_actor;
pub mod head;
pub mod head_tracker;
pub mod log_query_actor;
pub mod messages;
mod now_or_later;
mod pool_actor;
pub mod proof_actor;
pub mod source;
mod state_read;
#[cfg(test)]
mod test_chain;
pub mod wiring;
