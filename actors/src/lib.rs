//! The mailboxes: actors that own the head, the blocks, the logs and the proofs, and forward to the
//! pure package below.
//!
//! This package knows actix and tokio; it does not know HTTP, JSON-RPC, keys or configuration
//! files.

pub mod admission;
pub mod head;
pub mod head_tracker;
pub mod messages;
pub mod read;
pub mod source;
#[cfg(test)]
mod test_chain;
pub mod upstream;
