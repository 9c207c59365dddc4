//! Reads: one actor for each kind of query, over the view that the request took, and the pool for
//! heavy work.

pub mod block_store_actor;
pub mod log_query_actor;
mod now_or_later;
pub(crate) mod pool_actor;
pub mod proof_actor;
pub(crate) mod state_read;
