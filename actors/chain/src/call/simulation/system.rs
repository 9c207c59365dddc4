//! The calls that a block makes by itself, before and after those of transactions.
//!
//! alloy-evm makes them, too, and does not say what gas they take: a block may override what they
//! call.

use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS,
    eip4788::{BEACON_ROOTS_ADDRESS, SYSTEM_ADDRESS},
    eip7002::{WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, WITHDRAWAL_REQUEST_TYPE},
    eip7251::{CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, CONSOLIDATION_REQUEST_TYPE},
    eip7685::Requests,
};
use alloy_evm::{Evm, eth::eip6110};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, Bytes};
use revm::{DatabaseCommit, context_interface::result::ExecutionResult};

use super::{
    calls::{CallsRun, SimulationEvm, failed_step},
    error_kind::SimulationErrorKind,
};
use crate::{block::Receipt, call::error::CallError, network::Rules};

/// Gas of the calls of one block that counts as the block's own. The contracts of the protocol take
/// less; what others take counts as that of calls.
pub(super) const OWN_GAS: u64 = 1_000_000;

impl CallsRun<'_, '_> {
    /// The calls before those of transactions: EIP-4788 and EIP-2935. How they end does not matter.
    pub(super) fn begin(
        &mut self,
        evm: &mut SimulationEvm<'_, '_>,
        rules: &Rules<'_>,
    ) -> Result<(), CallError> {
        let root = self.header.parent_beacon_block_root;
        if let Some(root) = root {
            let result = self.system_call(evm, BEACON_ROOTS_ADDRESS, root.0.into())?;
            evm.inspector_mut().skip_logs(result.logs().len());
        }
        if rules.has(EthereumHardfork::Prague) {
            let parent = self.header.parent_hash;
            let result = self.system_call(evm, HISTORY_STORAGE_ADDRESS, parent.0.into())?;
            evm.inspector_mut().skip_logs(result.logs().len());
        }
        Ok(())
    }

    /// The requests of the block (EIP-7685): deposits (EIP-6110) from logs, withdrawals (EIP-7002)
    /// and consolidations (EIP-7251) from calls. `None` before Prague.
    pub(super) fn requests(
        &mut self,
        evm: &mut SimulationEvm<'_, '_>,
        rules: Rules<'_>,
    ) -> Result<Option<Requests>, CallError> {
        if !rules.has(EthereumHardfork::Prague) {
            return Ok(None);
        }
        let receipts: &[Receipt] = &self.outcome.receipts;
        let deposits = eip6110::parse_deposits_from_receipts(rules, receipts);
        let deposits = deposits.map_err(|error| failed_step(&error))?;
        let withdrawals = self.queue(evm, WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS)?;
        let consolidations = self.queue(evm, CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS)?;
        let mut requests = Requests::default();
        for (kind, data) in [
            (eip6110::DEPOSIT_REQUEST_TYPE, deposits),
            (WITHDRAWAL_REQUEST_TYPE, withdrawals),
            (CONSOLIDATION_REQUEST_TYPE, consolidations),
        ] {
            if !data.is_empty() {
                requests.push_request_with_type(kind, data);
            }
        }
        Ok(Some(requests))
    }

    fn queue(
        &mut self,
        evm: &mut SimulationEvm<'_, '_>,
        contract: Address,
    ) -> Result<Bytes, CallError> {
        match self.system_call(evm, contract, Bytes::new())? {
            ExecutionResult::Success { output, .. } => Ok(output.into_data()),
            _ => Err(failed_step(&format_args!("the call of {contract} failed"))),
        }
    }

    fn system_call(
        &mut self,
        evm: &mut SimulationEvm<'_, '_>,
        contract: Address,
        input: Bytes,
    ) -> Result<ExecutionResult, CallError> {
        if self.shared.cancel.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        let called = evm.transact_system_call(SYSTEM_ADDRESS, contract, input);
        let called = called.map_err(|error| failed_step(&error))?;
        let spent = called.result.gas().total_gas_spent();
        self.shared.gas.add(spent);
        let own = spent.min(self.own_gas_left);
        self.own_gas_left -= own;
        self.shared.gas_left = self
            .shared
            .gas_left
            .checked_sub(spent - own)
            .ok_or_else(|| {
                let message = "the calls of the blocks themselves take too much gas";
                CallError::simulation(SimulationErrorKind::TooMuch, message)
            })?;
        evm.db_mut().commit(called.state);
        Ok(called.result)
    }
}
