//! Reads: one actor for each kind of query, answered from the snapshot that the request took, and
//! the pool for large queries.

mod ask;
pub mod block_store_actor;
pub mod call_actor;
pub mod forward_actor;
pub mod log_query_actor;
mod now_or_later;
pub(crate) mod pool;
pub mod proof_actor;
pub mod raw_actor;
mod resources;
mod state_read;
mod traced;
mod worker;

pub use ask::ask;
pub use resources::ReadResources;
pub use traced::Traced;
pub use worker::Worker;
