//! Executes one block, and makes its header.

use alloy_consensus::{BlockBody, EMPTY_OMMER_ROOT_HASH, Header, proofs};
use alloy_eips::{eip4844::DATA_GAS_PER_BLOB, eip4895::Withdrawals, eip7685::Requests};
use alloy_evm::{
    Evm, EvmEnv,
    block::{BlockExecutionError, SystemCaller, state_changes::post_block_balance_increments},
    eth::{EthEvm, EthEvmBuilder, eip6110},
    precompiles::PrecompilesMap,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, Bytes, U256};
use revm::{
    Database, DatabaseCommit,
    context_interface::{
        Transaction as _,
        block::BlobExcessGasAndPrice,
        result::{EVMError, ExecutionResult, InvalidTransaction},
    },
    database_interface::DatabaseCommitExt,
};

use super::{
    overrides,
    parents::SimulatedState,
    plan::PlannedBlock,
    refusal::SimulationRefusal,
    request::{BlockCalls, Simulation},
    result::{SimulatedBlock, SimulatedCall},
    tracer::{TracedLog, Tracer},
    transaction,
};
use crate::{
    block::{RawBlock, Receipt, Transaction, with_bloom},
    call::{
        environment::Environment,
        error::CallError,
        request::{AccountOverride, CallRequest},
        run::{GasMeter, override_precompiles},
        view::CallState,
        watch::{Watch, watched},
    },
    execute::take_update,
    log_search::Cancellation,
    network::{ChainSpec, HeaderFees, Rules, ServedChain, with_net_gas},
    trie::UnstoredState,
    verify,
};

/// Bytes of what all calls of a simulation return and log.
pub(super) const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// Gas that a tenant is charged for a block without calls: its system calls and its state root take
/// about as long.
const BLOCK_GAS: u64 = 100_000;

/// Runs the blocks of a simulation, one after another.
pub(super) struct BlockRunner<'a> {
    pub(super) simulation: &'a Simulation,
    pub(super) chain: &'a ServedChain,
    pub(super) spec: &'a ChainSpec,
    pub(super) gas: &'a GasMeter,
    pub(super) cancel: &'a Cancellation,
    /// The state before the first block.
    pub(super) state: &'a CallState<'a>,
    /// The state of the blocks so far.
    pub(super) database: SimulatedState<'a>,
    /// Computes the state roots; `None` after one could not be computed.
    pub(super) roots: Option<UnstoredState<'a>>,
    /// The header of the block before, and its hash.
    pub(super) parent: (Header, B256),
    pub(super) is_merged: bool,
    /// Gas that all further calls may use.
    pub(super) gas_left: u64,
    /// Bytes that all further calls may return and log.
    pub(super) output_left: usize,
}

/// What the calls of a block did.
#[derive(Default)]
struct Outcome {
    transactions: Vec<Transaction>,
    receipts: Vec<Receipt>,
    calls: Vec<SimulatedCall>,
    gas_used: u64,
    blob_gas_used: u64,
}

type SimulationEvm<'a, 'b> = EthEvm<&'b mut SimulatedState<'a>, Tracer, PrecompilesMap>;

impl<'a> BlockRunner<'a> {
    /// Executes the next block.
    ///
    /// # Errors
    /// Any [`CallError`] but [`CallError::Reverted`] and [`CallError::Halted`].
    pub(super) fn run(&mut self, planned: &PlannedBlock<'_>) -> Result<SimulatedBlock, CallError> {
        if self.cancel.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        let nothing = BlockCalls::default();
        let asked = planned.asked.unwrap_or(&nothing);
        let spec = self.spec;
        let rules = spec.rules(planned.number, planned.timestamp, self.is_merged);
        if rules.has(EthereumHardfork::Amsterdam) {
            return Err(CallError::OtherRules);
        }
        let mut header = self.begin_header(planned, asked, &rules);
        let environment = self.environment(&header, asked, rules);
        self.gas.add(BLOCK_GAS);
        overrides::apply(&mut self.database, &asked.accounts)?;
        let senders = asked.calls.iter().map(|call| call.from).collect();
        let withdrawals = rules
            .has(EthereumHardfork::Shanghai)
            .then(|| Withdrawals::new(asked.withdrawals.clone()));
        let (outcome, requests) =
            self.execute(&header, &environment, asked, withdrawals.as_ref(), rules)?;
        let body = BlockBody {
            transactions: outcome.transactions,
            ommers: Vec::new(),
            withdrawals,
        };
        header.transactions_root = transaction::root(&body.transactions);
        header.receipts_root = proofs::calculate_receipt_root(&outcome.receipts);
        header.logs_bloom = verify::logs_bloom(&outcome.receipts);
        header.gas_used = outcome.gas_used;
        header.blob_gas_used = rules
            .has(EthereumHardfork::Cancun)
            .then_some(outcome.blob_gas_used);
        header.withdrawals_root = body.calculate_withdrawals_root();
        header.requests_hash = requests.map(|requests| requests.requests_hash());
        header.state_root = self.state_root();
        let hash = header.hash_slow();
        self.parent = (header.clone(), hash);
        let fees = HeaderFees {
            blob_gas_price: rules
                .blob_params()
                .and_then(|params| header.blob_fee(params)),
            ..HeaderFees::default()
        };
        Ok(SimulatedBlock {
            raw: RawBlock { header, body },
            hash,
            senders,
            receipts: outcome.receipts,
            fees,
            calls: outcome.calls,
        })
    }

    /// The header, as far as it is known before the calls.
    fn begin_header(
        &self,
        planned: &PlannedBlock<'_>,
        asked: &BlockCalls,
        rules: &Rules<'_>,
    ) -> Header {
        let (parent, parent_hash) = &self.parent;
        let overrides = &asked.block;
        let base_fee = match self.simulation.validates {
            true => verify::base_fee(rules, parent),
            // A call that offers nothing for gas is no error then.
            false => rules.has(EthereumHardfork::London).then_some(0),
        };
        let difficulty = match self.is_merged {
            true => U256::ZERO,
            false => overrides.difficulty.unwrap_or(parent.difficulty),
        };
        let beacon_root = asked.parent_beacon_block_root.unwrap_or_default();
        Header {
            parent_hash: *parent_hash,
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            number: planned.number,
            timestamp: planned.timestamp,
            beneficiary: overrides.beneficiary.unwrap_or(parent.beneficiary),
            gas_limit: overrides.gas_limit.unwrap_or(parent.gas_limit),
            mix_hash: overrides.prev_randao.unwrap_or_default(),
            difficulty,
            base_fee_per_gas: base_fee.map(|base_fee| overrides.base_fee.unwrap_or(base_fee)),
            excess_blob_gas: verify::excess_blob_gas(rules, parent),
            parent_beacon_block_root: rules.has(EthereumHardfork::Cancun).then_some(beacon_root),
            ..Header::default()
        }
    }

    fn environment(&self, header: &Header, asked: &BlockCalls, rules: Rules<'_>) -> Environment {
        let mut environment = Environment::of_header(self.chain, header, rules);
        if let Some(price) = asked.block.blob_gas_price {
            set_blob_gas_price(&mut environment.evm, price);
        }
        environment
    }

    /// Executes the calls, and what a block does before and after them.
    fn execute(
        &mut self,
        header: &Header,
        environment: &Environment,
        asked: &BlockCalls,
        withdrawals: Option<&Withdrawals>,
        rules: Rules<'_>,
    ) -> Result<(Outcome, Option<Requests>), CallError> {
        let watch = Watch::new(self.cancel);
        let builder = EthEvmBuilder::new(&mut self.database, environment.evm.clone());
        let tracer = Tracer::new(self.simulation.traces_transfers);
        let mut evm = builder.activate_inspector(tracer).build();
        if environment.meters_net_gas {
            evm = with_net_gas(evm, true);
        }
        let mut evm = watched(evm, true);
        override_precompiles(&mut evm, &asked.accounts)?;
        let mut system = SystemCaller::new(rules);
        system
            .apply_pre_execution_changes(header, &mut evm)
            .map_err(failed)?;
        let mut run = CallsRun {
            environment,
            header,
            simulation: self.simulation,
            chain: self.chain,
            gas: self.gas,
            cancel: self.cancel,
            gas_left: &mut self.gas_left,
            output_left: &mut self.output_left,
            outcome: Outcome::default(),
        };
        for request in &asked.calls {
            let ran = run.call(&mut evm, request);
            // After something was missing, the error may be none; what else is missing is found.
            if self.cancel.is_cancelled() || !self.state.is_incomplete() {
                ran?;
            }
        }
        let outcome = run.outcome;
        let mut requests = None;
        if rules.has(EthereumHardfork::Prague) {
            let mut all = Requests::default();
            let deposits = eip6110::parse_deposits_from_receipts(rules, &outcome.receipts);
            let deposits = deposits.map_err(|error| failed(error.into()))?;
            if !deposits.is_empty() {
                all.push_request_with_type(eip6110::DEPOSIT_REQUEST_TYPE, deposits);
            }
            system
                .append_post_execution_changes(&mut evm, &mut all)
                .map_err(failed)?;
            requests = Some(all);
        }
        let withdrawals = withdrawals.map(|withdrawals| withdrawals.as_slice());
        let no_ommers: &[Header] = &[];
        let increments = post_block_balance_increments(rules, evm.block(), no_ommers, withdrawals);
        evm.db_mut().increment_balances(increments)?;
        drop(watch);
        Ok((outcome, requests))
    }

    /// The state root after the block; zero if it cannot be computed.
    fn state_root(&mut self) -> B256 {
        let update = take_update(&mut self.database);
        // What was missing was read as empty: the state is not the true one.
        let roots = self.roots.take().filter(|_| !self.state.is_incomplete());
        let Some(mut roots) = roots else {
            return B256::ZERO;
        };
        match roots.update(&update) {
            Ok(root) => {
                self.roots = Some(roots);
                root
            }
            Err(_) => B256::ZERO,
        }
    }
}

/// Runs the calls of one block.
struct CallsRun<'r> {
    environment: &'r Environment,
    header: &'r Header,
    simulation: &'r Simulation,
    chain: &'r ServedChain,
    gas: &'r GasMeter,
    cancel: &'r Cancellation,
    gas_left: &'r mut u64,
    output_left: &'r mut usize,
    outcome: Outcome,
}

impl CallsRun<'_> {
    fn call(
        &mut self,
        evm: &mut SimulationEvm<'_, '_>,
        request: &CallRequest,
    ) -> Result<(), CallError> {
        let (gas, is_capped) = self.gas_of(request)?;
        let sender = evm.db_mut().basic(request.from)?.unwrap_or_default();
        let nonce = request.nonce.unwrap_or(sender.nonce);
        if self.simulation.validates {
            check_nonce(request, nonce, sender.nonce, gas)?;
        }
        let has_base_fee = self.header.base_fee_per_gas.is_some();
        let transaction = transaction::unsigned(request, nonce, gas, self.chain.id, has_base_fee)?;
        let result = self.transact(evm, request, gas, sender.balance)?;
        if sender.nonce == u64::MAX && request.to.is_some() {
            // As in geth: where nonces are not checked, they begin again.
            let account = AccountOverride {
                nonce: Some(0),
                ..AccountOverride::default()
            };
            overrides::apply(evm.db_mut(), &[(request.from, account)].into())?;
        }
        let logs = evm.inspector_mut().take_logs();
        let spent = result.gas();
        let (gas_used, gas_needed) = (
            spent.tx_gas_used(),
            spent.total_gas_spent().max(spent.floor_gas()),
        );
        self.gas.add(gas_used);
        *self.gas_left = self.gas_left.saturating_sub(gas_used);
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
                SimulationRefusal::BlockGasLimit,
                message,
            ));
        }
        Ok((wanted.min(*self.gas_left), wanted > *self.gas_left))
    }

    /// Runs a call, and keeps what it changed for the next one.
    fn transact(
        &self,
        evm: &mut SimulationEvm<'_, '_>,
        request: &CallRequest,
        gas: u64,
        balance: U256,
    ) -> Result<ExecutionResult, CallError> {
        let is_free = !self.simulation.validates && request.price.is_free();
        evm.ctx_mut().cfg.disable_base_fee = is_free;
        let block = evm.ctx().block.clone();
        let offers_blob_fee = request.max_fee_per_blob_gas.unwrap_or_default() > 0;
        if !self.simulation.validates && !offers_blob_fee && request.blob_hashes.is_some() {
            let blobs = &mut evm.ctx_mut().block.blob_excess_gas_and_price;
            *blobs = blobs.map(|blobs| BlobExcessGasAndPrice {
                blob_gasprice: 0,
                ..blobs
            });
        }
        let access_list = request.access_list.clone();
        let transaction = self.environment.transaction(request, gas, access_list);
        let cost = transaction.max_balance_spending().unwrap_or(U256::MAX);
        let result = evm.transact_raw(transaction);
        evm.ctx_mut().block = block;
        if self.cancel.is_cancelled() {
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
                    SimulationRefusal::of(&error),
                    refused.to_string(),
                ))
            }
            Err(other) => Err(CallError::invalid(other.to_string())),
        }
    }

    fn take_output(&mut self, call: &SimulatedCall) -> Result<(), CallError> {
        let reverted = match &call.error {
            Some(CallError::Reverted(data)) => data.len(),
            _ => 0,
        };
        let logged: usize = call.logs.iter().map(log_bytes).sum();
        let bytes = call.output.len() + reverted + logged;
        let left = self.output_left.checked_sub(bytes);
        *self.output_left = left.ok_or_else(|| {
            let message = format!("more than {OUTPUT_BYTES_MAX} bytes of output and logs");
            CallError::simulation(SimulationRefusal::TooMuch, message)
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
    let (refusal, reason) = if nonce > state {
        let reason = format!("nonce too high: address {from}, tx: {nonce} state: {state}");
        (SimulationRefusal::NonceTooHigh, reason)
    } else if nonce < state {
        let reason = format!("nonce too low: address {from}, tx: {nonce} state: {state}");
        (SimulationRefusal::NonceTooLow, reason)
    } else if nonce == u64::MAX {
        let reason = format!("nonce has max value: address {from}, nonce: {nonce}");
        (SimulationRefusal::Other, reason)
    } else {
        return Ok(());
    };
    Err(CallError::simulation(
        refusal,
        format!("err: {reason} (supplied gas {gas})"),
    ))
}

fn set_blob_gas_price(evm: &mut EvmEnv, price: u128) {
    let blobs = &mut evm.block_env.blob_excess_gas_and_price;
    *blobs = blobs.map(|blobs| BlobExcessGasAndPrice {
        blob_gasprice: price,
        ..blobs
    });
}

/// A step of a block outside of its calls failed, as it does where its contract is overridden.
fn failed(error: BlockExecutionError) -> CallError {
    CallError::invalid(error.to_string())
}
