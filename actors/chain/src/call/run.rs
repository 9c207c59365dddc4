//! Runs a call.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use alloy_eips::eip2930::AccessList;
use alloy_evm::{
    Database, Evm,
    eth::{EthEvm, EthEvmBuilder, EthEvmContext},
    precompiles::PrecompilesMap,
};
use alloy_primitives::{Address, Bytes, U256, map::AddressSet};
use revm::{
    DatabaseRef, Inspector,
    context_interface::{
        JournalTr, Transaction as _,
        result::{EVMError, ExecutionResult, InvalidTransaction, ResultAndState},
    },
    database_interface::WrapDatabaseRef,
    inspector::NoOpInspector,
    state::AccountInfo,
};

use super::{
    environment::Environment,
    error::CallError,
    reads::Reads,
    request::{Call, StateOverrides},
    view::{CallState, Place},
    watch::{Watch, watched},
};
use crate::{
    log_search::Cancellation,
    network::{ServedChain, with_net_gas},
};

/// What runs a call on the state after a block.
#[derive(Debug)]
pub struct CallRunner<'a> {
    pub(super) environment: Environment,
    place: Place<'a>,
    pub(super) call: &'a Call,
    reads: Reads,
    gas: &'a GasMeter,
    cancel: &'a Cancellation,
}

/// The gas that runs have used. A run that has not ended counts as all the gas that it may use.
#[derive(Clone, Debug, Default)]
pub struct GasMeter(Arc<AtomicU64>);

impl GasMeter {
    /// The gas that was used.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets what was used beyond this: a run that was given up, and begins again.
    pub fn set_back(&self, used: u64) {
        self.0.store(used, Ordering::Relaxed);
    }

    /// Counts gas.
    pub(super) fn add(&self, gas: u64) {
        // It wraps around after more gas than a process runs in its life.
        self.0.fetch_add(gas, Ordering::Relaxed);
    }

    /// Counts the gas of a run that may use so much: nothing if the run does not begin.
    pub(super) fn measure<E>(
        &self,
        gas: u64,
        run: impl FnOnce() -> Result<ResultAndState, E>,
    ) -> Result<ResultAndState, E> {
        self.add(gas);
        let ended = run();
        let used = ended
            .as_ref()
            .map_or(0, |ended| ended.result.gas().total_gas_spent());
        self.0
            .fetch_sub(gas.saturating_sub(used), Ordering::Relaxed);
        ended
    }
}

/// The context of a call's EVM.
pub(super) type CallContext<'a> = EthEvmContext<WrapDatabaseRef<&'a CallState<'a>>>;

/// A call that was run to its end.
#[derive(Debug)]
pub(super) struct Ran {
    /// The output, or why there is none: [`CallError::Reverted`] or [`CallError::Halted`].
    pub(super) output: Result<Bytes, CallError>,
    /// Gas that it used, without what was given back.
    pub(super) gas_used: u64,
    /// Gas that it used before some was given back.
    pub(super) gas_before_refund: u64,
}

impl<'a> CallRunner<'a> {
    /// A runner of a call at this place, which counts the gas that it uses.
    ///
    /// # Errors
    /// [`CallError::OtherRules`], [`CallError::Amsterdam`].
    pub fn new(
        chain: &ServedChain,
        place: Place<'a>,
        call: &'a Call,
        gas: &'a GasMeter,
        cancel: &'a Cancellation,
    ) -> Result<Self, CallError> {
        Ok(Self {
            environment: Environment::new(chain, place.block, call)?,
            place,
            call,
            reads: Reads::default(),
            gas,
            cancel,
        })
    }

    /// The output of the call (eth_call).
    ///
    /// # Errors
    /// Any [`CallError`].
    pub fn call(&self) -> Result<Bytes, CallError> {
        self.run(self.gas_limit())?.output
    }

    /// The gas that the call may use.
    pub(super) fn gas_limit(&self) -> u64 {
        let gas = self.call.request.gas.unwrap_or(u64::MAX);
        gas.min(self.call.gas_max)
    }

    /// Runs the call with this limit of gas.
    pub(super) fn run(&self, gas: u64) -> Result<Ran, CallError> {
        let access_list = self.call.request.access_list.clone();
        self.run_once(gas, access_list, NoOpInspector, false)
    }

    /// Runs the call under an inspector, with another access list.
    pub(super) fn run_inspected<I>(
        &self,
        gas: u64,
        access_list: AccessList,
        inspector: I,
    ) -> Result<Ran, CallError>
    where
        I: for<'b> Inspector<CallContext<'b>>,
    {
        self.run_once(gas, Some(access_list), inspector, true)
    }

    /// Balance of the sender.
    pub(super) fn balance(&self) -> Result<U256, CallError> {
        Ok(self.account(self.call.request.from)?.balance)
    }

    /// Nonce of the sender.
    pub(super) fn nonce(&self) -> Result<u64, CallError> {
        Ok(self.account(self.call.request.from)?.nonce)
    }

    /// Whether what is called has code.
    pub(super) fn calls_code(&self) -> Result<bool, CallError> {
        match self.call.request.to {
            Some(to) => Ok(!self.account(to)?.is_empty_code_hash()),
            None => Ok(true),
        }
    }

    /// The error if the sender has less than it sends. The EVM finds that itself, but not where
    /// nothing is paid for gas.
    fn check_value(&self, state: &CallState<'_>) -> Result<Option<InvalidTransaction>, CallError> {
        let request = &self.call.request;
        if !self.environment.evm.cfg_env.disable_fee_charge || request.value.is_zero() {
            return Ok(None);
        }
        self.check_funds(state, request.value)
    }

    /// The error if the sender has less than this.
    fn check_funds(
        &self,
        state: &CallState<'_>,
        most: U256,
    ) -> Result<Option<InvalidTransaction>, CallError> {
        let sender = state.basic_ref(self.call.request.from)?;
        let balance = sender.unwrap_or_default().balance;
        Ok(
            (balance < most).then(|| InvalidTransaction::LackOfFundForMaxFee {
                fee: Box::new(most),
                balance: Box::new(balance),
            }),
        )
    }

    fn account(&self, address: Address) -> Result<AccountInfo, CallError> {
        let state = CallState::new(self.place, &self.call.accounts, &self.reads);
        let account = state.basic_ref(address);
        state.check()?;
        Ok(account?.unwrap_or_default())
    }

    fn run_once<I>(
        &self,
        gas: u64,
        access_list: Option<AccessList>,
        inspector: I,
        inspects: bool,
    ) -> Result<Ran, CallError>
    where
        I: for<'b> Inspector<CallContext<'b>>,
    {
        if self.cancel.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        let state = CallState::new(self.place, &self.call.accounts, &self.reads);
        let builder = EthEvmBuilder::new(WrapDatabaseRef(&state), self.environment.evm.clone());
        let mut evm = builder.inspector(inspector).set_inspect(inspects).build();
        if self.environment.meters_net_gas {
            evm = with_net_gas(evm, inspects);
        }
        let mut evm = watched(evm, inspects);
        override_precompiles(&mut evm, &self.call.accounts)?;
        let request = &self.call.request;
        let transaction = self.environment.transaction(request, gas, access_list);
        let most = transaction.max_balance_spending();
        let watch = Watch::new(self.cancel);
        let result = self.gas.measure(gas, || evm.transact_raw(transaction));
        if watch.has_ended_one() {
            return Err(CallError::Cancelled);
        }
        drop(watch);
        let refusal = match (&result, most) {
            // geth looks for the sender's funds first.
            (Err(EVMError::Transaction(error)), Ok(most)) if is_found_after_funds(error) => {
                self.check_funds(&state, most)?
            }
            _ => self.check_value(&state)?,
        };
        // Last: what was read before counts only if all of it was held.
        state.check()?;
        let result = match refusal {
            Some(error) => Err(EVMError::Transaction(error)),
            None => result,
        };
        match result {
            Ok(outcome) => Ok(Ran::of(outcome.result)),
            Err(EVMError::Database(error)) => Err(error.into()),
            Err(EVMError::Transaction(error)) => {
                let block = &self.environment.evm.block_env;
                Err(CallError::refused(&error, &self.call.request, gas, block))
            }
            Err(other) => Err(CallError::invalid(other.to_string())),
        }
    }
}

/// Whether geth finds this only after it has found that the sender can pay.
const fn is_found_after_funds(error: &InvalidTransaction) -> bool {
    matches!(
        error,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
            | InvalidTransaction::GasFloorMoreThanGasLimit { .. }
            | InvalidTransaction::CreateInitCodeSizeLimit
    )
}

/// An account that is overridden is no precompiled contract any more, as in geth. That contract may
/// be at another address instead. An address is warm if that contract would be there.
pub(super) fn override_precompiles<DB: Database, I>(
    evm: &mut EthEvm<DB, I, PrecompilesMap>,
    overrides: &StateOverrides,
) -> Result<(), CallError>
where
    I: Inspector<EthEvmContext<DB>>,
{
    if overrides.is_empty() {
        return Ok(());
    }
    let accounts = || overrides.iter();
    let moved =
        || accounts().filter_map(|(from, account)| Some((*from, account.precompile_moved_to?)));
    let precompiles = evm.precompiles_mut();
    let before: AddressSet = precompiles.addresses().copied().collect();
    for (from, to) in moved() {
        let reason = if !before.contains(&from) {
            format!("account {from} is not a precompile")
        } else if overrides.contains_key(&to) {
            format!("account {to} is already overridden")
        } else {
            continue;
        };
        return Err(CallError::invalid(reason));
    }
    let result = precompiles.move_precompiles(moved());
    result.map_err(|error| CallError::invalid(error.to_string()))?;
    for (address, account) in accounts() {
        let is_moved = account.precompile_moved_to.is_some();
        if !is_moved && before.contains(address) {
            precompiles.apply_precompile(address, |_| None);
        }
    }
    evm.ctx_mut().journaled_state.warm_precompiles(&before);
    Ok(())
}

impl Ran {
    fn of(result: ExecutionResult) -> Self {
        let gas = *result.gas();
        Self {
            output: match result {
                ExecutionResult::Success { output, .. } => Ok(output.into_data()),
                ExecutionResult::Revert { output, .. } => Err(CallError::Reverted(output)),
                ExecutionResult::Halt { reason, .. } => Err(CallError::halted(&reason)),
            },
            gas_used: gas.tx_gas_used(),
            gas_before_refund: gas.total_gas_spent().max(gas.floor_gas()),
        }
    }
}
