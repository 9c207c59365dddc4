//! One block through revm: receipts, requests, state changes.
//!
//! [`execute`] runs a block that somebody else made, [`assemble`] makes one; both go through the
//! same executor.

mod block;
mod dao_fork;
mod net_gas;
mod state;

pub use block::{ExecuteError, Executed, execute};
pub use state::StateError;

pub(crate) use block::{BlockTemplate, assemble};

#[cfg(test)]
mod tests;
