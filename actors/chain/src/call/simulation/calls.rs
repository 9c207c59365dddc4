//! Runs the calls of a block.

use std::fmt::Display;

use alloy_consensus::Header;
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_evm::{Evm, eth::EthEvm, precompiles::PrecompilesMap};
use alloy_primitives::{Bytes, U256};
use revm::{
    Database, DatabaseCommit,
    context_interface::{
        Transaction as _,
        result::{EVMError, ExecutionResult, InvalidTransaction},
    },
};

use super::{
    error_kind::SimulationErrorKind,
    overrides,
    parents::SimulatedState,
    request::Simulation,
    result::SimulatedCall,
    tracer::{TracedLog, Tracer},
    transaction,
};
use crate::{
    block::{Receipt, Transaction, with_bloom},
    call::{
        environment::{Environment, set_blob_gas_price},
        error::CallError,
        limits::OUTPUT_BYTES_MAX,
        request::CallRequest,
        revert::revert_reason,
        run::GasMeter,
    },
    log_search::Cancellation,
    network::ServedChain,
};

/// What the calls of a block did.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) transactions: Vec<Transaction>,
    pub(super) receipts: Vec<Receipt>,
    pub(super) calls: Vec<SimulatedCall>,
    pub(super) gas_used: u64,
    pub(super) blob_gas_used: u64,
}

pub(super) type SimulationEvm<'a, 'b> = EthEvm<&'b mut SimulatedState<'a>, Tracer, PrecompilesMap>;

/// What all blocks of a simulation share.
pub(super) struct SharedRun<'a> {
    pub(super) simulation: &'a Simulation,
    pub(super) chain: &'a ServedChain,
    pub(super) gas: &'a GasMeter,
    pub(super) cancel: &'a Cancellation,
    /// Gas that all further calls may use.
    pub(super) gas_left: u64,
    /// Bytes that all further calls may return and log.
    pub(super) output_left: usize,
}

/// Runs the calls of one block.
pub(super) struct CallsRun<'r, 'a> {
    pub(super) shared: &'r mut SharedRun<'a>,
    pub(super) environment: &'r Environment,
    pub(super) header: &'r Header,
    /// Gas that the block's own calls may use before they count as other ones.
    pub(super) own_gas_left: u64,
    pub(super) outcome: Outcome,
}

impl CallsRun<'_, '_> {
    /// Runs the next call.
    pub(super) fn call(
        &mut self,
        evm: &mut SimulationEvm<'_, '_>,
        request: &CallRequest,
    ) -> Result<(), CallError> {
        let (gas, is_capped) = self.gas_of(request)?;
        let sender = evm.db_mut().basic(request.from)?.unwrap_or_default();
        let nonce = request.nonce.unwrap_or(sender.nonce);
        if self.shared.simulation.validates {
            check_nonce(request, nonce, sender.nonce, gas)?;
        }
        let has_base_fee = self.header.base_fee_per_gas.is_some();
        let transaction =
            transaction::unsigned(request, nonce, gas, self.shared.chain.id, has_base_fee)?;
        let result = self.transact(evm, request, gas, sender.balance)?;
        if sender.nonce == u64::MAX && request.to.is_some() {
            // As in geth: where nonces are not checked, they begin again.
            overrides::set_nonce(evm.db_mut(), request.from, 0)?;
        }
        let logs = evm.inspector_mut().take_logs();
        let spent = result.gas();
        let (gas_used, gas_needed) = (
            spent.tx_gas_used(),
            spent.total_gas_spent().max(spent.floor_gas()),
        );
        self.shared.gas_left = self.shared.gas_left.saturating_sub(gas_used);
        self.outcome.gas_used += gas_used;
        if let Transaction::Eip4844(blobs) = &transaction {
            let count = blobs.tx().blob_versioned_hashes.len() as u64;
            self.outcome.blob_gas_used += count.saturating_mul(DATA_GAS_PER_BLOB);
        }
        let receipt = alloy_consensus::Receipt {
            status: result.is_success().into(),
            cumulative_gas_used: self.outcome.gas_used,
            logs: result.logs().to_vec(),
        };
        self.outcome
            .receipts
            .push(with_bloom(transaction.tx_type(), receipt));
        self.outcome.transactions.push(transaction);
        let (output, error) = match result {
            ExecutionResult::Success { output, .. } => (output.into_data(), None),
            ExecutionResult::Revert { output, .. } => {
                (Bytes::new(), Some(CallError::Reverted(output)))
            }
            ExecutionResult::Halt { reason, .. } => {
                (Bytes::new(), Some(CallError::halted(&reason)))
            }
        };
        let remark = match &error {
            Some(CallError::Halted(_)) if is_capped => {
                " (gas limit was capped by the RPC server's global gas cap)"
            }
            _ => "",
        };
        let call = SimulatedCall {
            output,
            logs,
            gas_used,
            gas_needed,
            error,
            remark,
        };
        self.take_output(&call)?;
        self.outcome.calls.push(call);
        Ok(())
    }

    /// The gas that a call may use, and whether that is less than it asks for.
    fn gas_of(&self, request: &CallRequest) -> Result<(u64, bool), CallError> {
        let remaining = self.header.gas_limit.saturating_sub(self.outcome.gas_used);
        let wanted = request.gas.unwrap_or(remaining);
        if remaining < wanted {
            let message =
                format!("block gas limit reached: remaining: {remaining}, required: {wanted}");
            return Err(CallError::simulation(
                SimulationErrorKind::BlockGasLimit,
                message,
            ));
        }
        Ok((
            wanted.min(self.shared.gas_left),
            wanted > self.shared.gas_left,
        ))
    }

    /// Runs a call, and keeps what it changed for the next one.
    fn transact(
        &self,
        evm: &mut SimulationEvm<'_, '_>,
        request: &CallRequest,
        gas: u64,
        balance: U256,
    ) -> Result<ExecutionResult, CallError> {
        let is_free = !self.shared.simulation.validates && request.price.is_free();
        evm.ctx_mut().cfg.disable_base_fee = is_free;
        let block = evm.ctx().block.clone();
        let offers_blob_fee = request.max_fee_per_blob_gas.unwrap_or_default() > 0;
        if !self.shared.simulation.validates && !offers_blob_fee && request.blob_hashes.is_some() {
            set_blob_gas_price(&mut evm.ctx_mut().block, 0);
        }
        let access_list = request.access_list.clone();
        let transaction = self.environment.transaction(request, gas, access_list);
        let cost = transaction.max_balance_spending().unwrap_or(U256::MAX);
        let meter = self.shared.gas;
        let result = meter.measure(gas, || evm.transact_raw(transaction));
        evm.ctx_mut().block = block;
        if self.shared.cancel.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        match result {
            Ok(outcome) => {
                evm.db_mut().commit(outcome.state);
                Ok(outcome.result)
            }
            Err(EVMError::Database(error)) => Err(error.into()),
            Err(EVMError::Transaction(error)) => {
                let error = first_reason(error, balance, cost);
                let refused = CallError::refused(&error, request, gas, evm.block());
                Err(CallError::simulation(
                    SimulationErrorKind::of(&error),
                    refused.to_string(),
                ))
            }
            Err(other) => Err(CallError::invalid(other.to_string())),
        }
    }

    fn take_output(&mut self, call: &SimulatedCall) -> Result<(), CallError> {
        let reverted = match &call.error {
            // A reason is a part of the data, and in the message once more: escaped, it may have
            // six bytes for one.
            Some(CallError::Reverted(data)) => {
                data.len() + 3 * revert_reason(data).map_or(0, |reason| reason.len())
            }
            _ => 0,
        };
        let logged: usize = call.logs.iter().map(log_bytes).sum();
        let bytes = call.output.len() + reverted + logged;
        let left = self.shared.output_left.checked_sub(bytes);
        self.shared.output_left = left.ok_or_else(|| {
            let message = format!("more than {OUTPUT_BYTES_MAX} bytes of output and logs");
            CallError::simulation(SimulationErrorKind::TooMuch, message)
        })?;
        Ok(())
    }
}

/// What geth finds first: whether the sender can pay, before whether the gas is enough to begin.
fn first_reason(error: InvalidTransaction, balance: U256, cost: U256) -> InvalidTransaction {
    let is_later = matches!(
        error,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
            | InvalidTransaction::GasFloorMoreThanGasLimit { .. }
            | InvalidTransaction::CreateInitCodeSizeLimit
    );
    match is_later && balance < cost {
        true => InvalidTransaction::LackOfFundForMaxFee {
            fee: Box::new(cost),
            balance: Box::new(balance),
        },
        false => error,
    }
}

/// Bytes that a log counts as: its JSON has about twice as many.
fn log_bytes(traced: &TracedLog) -> usize {
    const WITHOUT_DATA: usize = 300;
    WITHOUT_DATA + traced.log.data.data.len()
}

fn check_nonce(request: &CallRequest, nonce: u64, state: u64, gas: u64) -> Result<(), CallError> {
    let from = request.from;
    let (kind, reason) = if nonce > state {
        let reason = format!("nonce too high: address {from}, tx: {nonce} state: {state}");
        (SimulationErrorKind::NonceTooHigh, reason)
    } else if nonce < state {
        let reason = format!("nonce too low: address {from}, tx: {nonce} state: {state}");
        (SimulationErrorKind::NonceTooLow, reason)
    } else if nonce == u64::MAX {
        let reason = format!("nonce has max value: address {from}, nonce: {nonce}");
        (SimulationErrorKind::Other, reason)
    } else {
        return Ok(());
    };
    Err(CallError::simulation(
        kind,
        format!("err: {reason} (supplied gas {gas})"),
    ))
}

/// A step of a block outside of its calls failed, as it does where its contract is overridden.
pub(super) fn failed_step(error: &dyn Display) -> CallError {
    CallError::invalid(error.to_string())
}
