//! Executes one block, and makes its header.

use alloy_consensus::{BlockBody, EMPTY_OMMER_ROOT_HASH, Header, proofs};
use alloy_eips::{eip4895::Withdrawals, eip7685::Requests};
use alloy_evm::{Evm, block::state_changes::post_block_balance_increments, eth::EthEvmBuilder};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B256, U256};
use revm::database_interface::DatabaseCommitExt;

use super::{
    calls::{CallsRun, Outcome, SharedRun},
    overrides,
    parents::SimulatedState,
    plan::PlannedBlock,
    request::BlockCalls,
    result::SimulatedBlock,
    system::OWN_GAS,
    tracer::Tracer,
    transaction,
};
use crate::{
    block::RawBlock,
    call::{
        environment::{Environment, set_blob_gas_price},
        error::CallError,
        request::StorageOverride,
        run::override_precompiles,
        view::CallState,
        watch::{Watch, watched},
    },
    execute::take_update,
    network::{ChainSpec, HeaderFees, Rules, with_net_gas},
    trie::UnstoredState,
    verify,
};

/// Gas that a tenant is charged for each block besides its calls: for its state root and its JSON.
const BLOCK_GAS: u64 = 50_000;
/// Gas that a tenant is charged for each account and slot that is overridden, and each withdrawal:
/// as much as a contract pays to set a slot again.
const CHANGE_GAS: u64 = 5_000;

/// Runs the blocks of a simulation, one after another.
pub(super) struct BlockRunner<'a> {
    pub(super) shared: SharedRun<'a>,
    pub(super) spec: &'a ChainSpec,
    /// The state before the first block.
    pub(super) state: &'a CallState<'a>,
    /// The state of the blocks so far.
    pub(super) database: SimulatedState<'a>,
    /// Computes the state roots; `None` after one could not be computed.
    pub(super) roots: Option<UnstoredState<'a>>,
    /// The header of the block before, and its hash.
    pub(super) parent: (Header, B256),
    pub(super) is_merged: bool,
}

impl<'a> BlockRunner<'a> {
    /// Executes the next block.
    ///
    /// # Errors
    /// Any [`CallError`] but [`CallError::Reverted`] and [`CallError::Halted`].
    pub(super) fn run(&mut self, planned: &PlannedBlock<'_>) -> Result<SimulatedBlock, CallError> {
        if self.shared.cancel.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        let nothing = BlockCalls::default();
        let asked = planned.asked.unwrap_or(&nothing);
        let spec = self.spec;
        let rules = spec.rules(planned.number, planned.timestamp, self.is_merged);
        let mut header = self.begin_header(planned, asked, &rules);
        let environment = self.environment(&header, asked, rules)?;
        self.shared.gas.add(BLOCK_GAS + CHANGE_GAS * changes(asked));
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
        let base_fee = match self.shared.simulation.validates {
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

    fn environment(
        &self,
        header: &Header,
        asked: &BlockCalls,
        rules: Rules<'_>,
    ) -> Result<Environment, CallError> {
        let mut environment = Environment::of_header(self.shared.chain, header, rules)?;
        if let Some(price) = asked.block.blob_gas_price {
            set_blob_gas_price(&mut environment.evm.block_env, price);
        }
        Ok(environment)
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
        let watch = Watch::new(self.shared.cancel);
        let builder = EthEvmBuilder::new(&mut self.database, environment.evm.clone());
        let tracer = Tracer::new(self.shared.simulation.traces_transfers);
        let mut evm = builder.activate_inspector(tracer).build();
        if environment.meters_net_gas {
            evm = with_net_gas(evm, true);
        }
        let mut evm = watched(evm, true);
        override_precompiles(&mut evm, &asked.accounts)?;
        let mut calls = CallsRun {
            environment,
            header,
            shared: &mut self.shared,
            own_gas_left: OWN_GAS,
            outcome: Outcome::default(),
        };
        calls.begin(&mut evm, &rules)?;
        for request in &asked.calls {
            let called = calls.call(&mut evm, request);
            // If state was missing, the true state may give no error. Go on, to find what else is
            // missing.
            if calls.shared.cancel.is_cancelled() || !self.state.is_incomplete() {
                called?;
            }
        }
        let requests = calls.requests(&mut evm, rules)?;
        let outcome = calls.outcome;
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

/// Accounts and slots that a block overrides, and its withdrawals.
fn changes(asked: &BlockCalls) -> u64 {
    let overridden = asked
        .accounts
        .values()
        .map(|account| match &account.storage {
            StorageOverride::Nothing => 1,
            StorageOverride::Slots(slots) | StorageOverride::Whole(slots) => 1 + slots.len(),
        });
    (overridden.sum::<usize>() + asked.withdrawals.len()) as u64
}
