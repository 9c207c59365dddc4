//! Executes one block with revm: receipts, requests, state changes.
//!
//! [`execute`] runs an existing block, `build_block` makes a new one; both use the same executor.

mod block;
mod dao_fork;
mod state;

pub use block::{ExecuteError, Executed, execute};
pub use state::StateError;

pub(crate) use block::{BlockTemplate, build_block};
pub(crate) use state::take_update;

#[cfg(test)]
mod tests;
