//! Calls: what a transaction would do on the state after a block (eth_call, eth_estimateGas,
//! eth_createAccessList, eth_simulateV1).
//!
//! | file | what it does |
//! |---|---|
//! | `request` | the call, and what it overrides |
//! | `view` | the state as the EVM reads it: overridden, and noting what is not held |
//! | `reads` | what the runs of a call have read |
//! | `environment` | block and transaction as the EVM sees them |
//! | `run` | runs a call once, with a limit of gas |
//! | `limits` | the bounds of calls that no option sets |
//! | `estimate` | the least gas that suffices |
//! | `access_list` | the accounts and slots that a call reads |
//! | `simulation` | many calls, in blocks that do not exist |
//! | `watch` | ends a run that nobody waits for any more |
//! | `error` | why there is no result, in geth's words |
//! | `revert` | what a contract says when it reverts |
//!
//! A state that is held in part is completed in rounds: a run reads what is missing as empty, goes
//! on to its end, and notes it ([`CallError::Missing`]). Its result is thrown away, what it noted
//! is fetched at once, and the call is run again. So a call that reads a hundred tokens takes about
//! as many rounds as one that reads a single token.

mod access_list;
mod environment;
mod error;
mod estimate;
mod limits;
mod reads;
mod request;
mod revert;
mod run;
mod simulation;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests;
mod view;
mod watch;

pub use access_list::CallAccessList;
pub use error::{CallError, MissingState};
pub use request::{
    AccountOverride, BlockOverrides, Call, CallRequest, GasPrice, StateOverrides, StorageOverride,
};
pub use revert::revert_reason;
pub use run::{CallRunner, GasMeter};
pub use simulation::{BlockCalls, Simulation, SimulationErrorKind};
pub use view::Place;
