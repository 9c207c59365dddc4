//! Blocks that do not exist, executed one after another on the state after one that does
//! (eth_simulateV1).
//!
//! | file | what it does |
//! |---|---|
//! | `request` | the blocks, and what they override |
//! | `parents` | the state and the hashes below the block that is simulated |
//! | `plan` | the numbers and times of all blocks, also of those in gaps |
//! | `block` | executes one block, and makes its header |
//! | `calls` | runs the calls of a block |
//! | `system` | the calls that a block makes by itself |
//! | `overrides` | writes what a block overrides into the state |
//! | `transaction` | the transaction that a call is in its block |
//! | `tracer` | the logs of a call, and its transfers as logs |
//! | `error_kind` | why a simulation has no result |
//! | `result` | the blocks as JSON |
//!
//! Source: execution-apis, `eth_simulateV1`; what that leaves open is as in go-ethereum 1.17.4,
//! `internal/ethapi/simulate.go`.
//!
//! Before Byzantium, receipts have no state root here: geth's have one, and so another root.
//!
//! The state root of a block needs more than the state that it reads: where a slot is deleted, a
//! node beside its path may move up. No proof of a key that is known has that node, so a state that
//! is held in part may not have it either. Then the root is zero, in this block and in those after
//! it.

mod block;
mod calls;
mod error_kind;
mod overrides;
mod parents;
mod plan;
mod request;
mod result;
mod system;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests;
mod tracer;
mod transaction;

pub use error_kind::SimulationErrorKind;
pub use request::{BlockCalls, Simulation};

use revm::{database::State as EvmState, database_interface::WrapDatabaseRef};

use self::{block::BlockRunner, calls::SharedRun, parents::Parents, plan::plan};
use super::{
    error::CallError,
    limits::OUTPUT_BYTES_MAX,
    reads::Reads,
    request::StateOverrides,
    run::GasMeter,
    view::{CallState, Place},
};
use crate::{json::Json, log_search::Cancellation, network::ServedChain, trie::UnstoredState};

/// Nothing is overridden below the first block: each block writes its overrides into the state.
static NO_OVERRIDES: StateOverrides = StateOverrides::new();

impl Simulation {
    /// The simulated blocks as JSON (eth_simulateV1), on the state after a block. Counts the gas
    /// that it uses.
    ///
    /// # Errors
    /// Any [`CallError`] but [`CallError::Reverted`] and [`CallError::Halted`]: a call that fails
    /// is part of the result.
    pub fn run(
        &self,
        chain: &ServedChain,
        place: Place<'_>,
        gas: &GasMeter,
        cancel: &Cancellation,
    ) -> Result<Json, CallError> {
        let reads = Reads::default();
        let state = CallState::new(place, &NO_OVERRIDES, &reads);
        let result = self.run_on(&state, chain, place, gas, cancel);
        if cancel.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        // What was read before counts only if all of it was held.
        state.check()?;
        result
    }

    fn run_on(
        &self,
        state: &CallState<'_>,
        chain: &ServedChain,
        place: Place<'_>,
        gas: &GasMeter,
        cancel: &Cancellation,
    ) -> Result<Json, CallError> {
        let spec = chain.spec.as_ref().ok_or(CallError::OtherRules)?;
        let base = place.block;
        let planned = plan(&self.blocks, base.number(), base.header.timestamp)?;
        let parents = Parents::new(state, base);
        let database = EvmState::builder().with_database(WrapDatabaseRef(&parents));
        let mut runner = BlockRunner {
            shared: SharedRun {
                simulation: self,
                chain,
                gas,
                cancel,
                gas_left: self.gas_max,
                output_left: OUTPUT_BYTES_MAX,
            },
            spec,
            state,
            database: database.with_bundle_update().build(),
            roots: Some(UnstoredState::after(place.state)),
            parent: (base.header.clone(), base.hash),
            is_merged: spec.merged_after(base.header.difficulty, base.total_difficulty),
        };
        let mut blocks = Vec::with_capacity(planned.len());
        for planned in &planned {
            let block = runner.run(planned)?;
            parents.push(block.hash);
            blocks.push(block);
        }
        Ok(result::json(&blocks, self.full_transactions))
    }
}
