//! Executes a block, or builds one, with alloy-evm.

use std::{cell::OnceCell, sync::Arc};

use alloy_consensus::{BlockBody, Header, proofs, transaction::Recovered};
use alloy_eips::{
    Typed2718,
    eip4895::{Withdrawal, Withdrawals},
    eip7685::Requests,
};
use alloy_evm::{
    Evm,
    block::{
        BlockExecutionError, BlockExecutor, BlockValidationError, InternalBlockExecutionError,
    },
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bloom, Bytes};
use revm::database::State as EvmState;

use super::{
    dao_fork,
    state::{ParentState, StateError, take_update},
};
use crate::{
    block::{Block, RawBlock, Receipt, Transaction},
    network::{ChainSpec, Rules, execution},
    trie::{Changes, State, TrieError},
    verify,
};

/// The result of executing a block. Its state is not stored until `Self::commit`.
#[derive(Debug)]
pub struct Executed {
    /// Receipts in order.
    pub(crate) receipts: Vec<Receipt>,
    /// Gas used by the block.
    pub(crate) gas_used: u64,
    /// Blob gas used by the block.
    pub(crate) blob_gas_used: u64,
    /// Execution requests (EIP-7685); empty before Prague.
    pub requests: Requests,
    /// The state that `changes` apply to: the parent's, or, before Byzantium, that after the last
    /// transaction.
    base: Arc<State>,
    changes: Changes,
}

impl Executed {
    /// The state root after the block.
    #[must_use]
    pub(crate) fn state_root(&self) -> B256 {
        self.changes.root()
    }

    /// Bloom over the logs of all receipts.
    #[must_use]
    pub(crate) fn logs_bloom(&self) -> Bloom {
        verify::logs_bloom(&self.receipts)
    }

    /// Stores the state and returns a handle to it.
    #[must_use]
    pub(crate) fn commit(self) -> Arc<State> {
        self.base.commit(self.changes)
    }
}

/// Why a block could not be executed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The parent's state is no longer held.
    #[error("state of parent block {number} is not held")]
    NoParentState {
        /// The parent's number.
        number: u64,
    },
    /// The numbers of senders and transactions differ.
    #[error("{transactions} transactions have {senders} senders")]
    Senders {
        /// Number of transactions.
        transactions: usize,
        /// Number of senders.
        senders: usize,
    },
    /// A transaction is invalid at its position: nonce, balance, fees, gas, type, blobs.
    #[error("transaction {index} {hash} is invalid: {message}")]
    Transaction {
        /// Position in the block.
        index: usize,
        /// Its hash.
        hash: B256,
        /// The EVM's message.
        message: String,
    },
    /// A system call or another step of the block outside of its transactions failed.
    #[error("block step failed: {message}")]
    Block {
        /// The EVM's message.
        message: String,
    },
    /// The state could not be read or updated; the block may be valid.
    #[error(transparent)]
    State(#[from] StateError),
    /// The executor failed otherwise; the block may be valid.
    #[error("executor failed: {message}")]
    Internal {
        /// The executor's message.
        message: String,
    },
    /// Blocks can be made only after the merge.
    #[error("block {number} is before the merge and cannot be made here")]
    BeforeMerge {
        /// The block's number.
        number: u64,
    },
}

impl From<TrieError> for ExecuteError {
    fn from(error: TrieError) -> Self {
        Self::State(error.into())
    }
}

impl ExecuteError {
    fn transaction(index: usize, hash: B256, error: BlockExecutionError) -> Self {
        let message = match error {
            BlockExecutionError::Internal(error) => return error.into(),
            BlockExecutionError::Validation(BlockValidationError::InvalidTx { error, .. }) => {
                error.to_string()
            }
            BlockExecutionError::Validation(other) => other.to_string(),
        };
        Self::Transaction {
            index,
            hash,
            message,
        }
    }
}

impl From<BlockExecutionError> for ExecuteError {
    fn from(error: BlockExecutionError) -> Self {
        match error {
            BlockExecutionError::Internal(error) => error.into(),
            BlockExecutionError::Validation(error) => Self::Block {
                message: error.to_string(),
            },
        }
    }
}

impl From<InternalBlockExecutionError> for ExecuteError {
    fn from(error: InternalBlockExecutionError) -> Self {
        Self::Internal {
            message: error.to_string(),
        }
    }
}

/// The producer's choices for a block; everything else follows from the parent and from execution.
///
/// Only for blocks after the merge: there is no ommer, no difficulty and no seal to choose.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockTemplate {
    /// Seconds since 1970; above the parent's.
    pub(crate) timestamp: u64,
    /// Recipient of the tips.
    pub(crate) beneficiary: Address,
    /// Gas limit; within 1/1024 of the parent's.
    pub(crate) gas_limit: u64,
    /// PREVRANDAO (EIP-4399).
    pub(crate) prev_randao: B256,
    /// At most 32 bytes.
    pub(crate) extra_data: Bytes,
    /// Withdrawals; from Shanghai on.
    pub(crate) withdrawals: Vec<Withdrawal>,
    /// Parent beacon block root (EIP-4788); from Cancun on.
    pub(crate) parent_beacon_block_root: B256,
    /// Transactions in order, each one valid where it stands.
    pub(crate) transactions: Vec<Recovered<Transaction>>,
}

/// Executes `raw` on top of `parent`.
///
/// `raw` must have passed `verify::check_header`, `verify::check_body` and `verify::check_ommers`.
/// Its header is compared with the outcome by `verify::check_outcome`, not here.
///
/// # Errors
/// An [`ExecuteError`] if a transaction cannot be included or the parent's state cannot be read.
pub fn execute(
    spec: &ChainSpec,
    parent: &Block,
    raw: &RawBlock,
    senders: &[Address],
) -> Result<Executed, ExecuteError> {
    let merged = spec.merged_after(parent.header.difficulty, parent.total_difficulty);
    let rules = spec.rules(raw.header.number, raw.header.timestamp, merged);
    run(rules, parent, &raw.header, &raw.body, senders)
}

/// Makes the block that `template` describes on top of `parent`: executes it and fills in the whole
/// header.
///
/// [`crate::import::Importer::import_executed`] makes a [`Block`] from the result without executing
/// it again.
///
/// # Errors
/// An [`ExecuteError`] as from [`execute`], or if the chain has not merged at `parent`.
pub(crate) fn build_block(
    spec: &ChainSpec,
    parent: &Block,
    template: BlockTemplate,
) -> Result<(RawBlock, Executed), ExecuteError> {
    let number = parent.number() + 1;
    let merged = spec.merged_after(parent.header.difficulty, parent.total_difficulty);
    if !merged {
        return Err(ExecuteError::BeforeMerge { number });
    }
    let rules = spec.rules(number, template.timestamp, merged);
    let shanghai = rules.has(EthereumHardfork::Shanghai);
    let cancun = rules.has(EthereumHardfork::Cancun);
    let (transactions, senders): (Vec<_>, Vec<_>) = template
        .transactions
        .into_iter()
        .map(Recovered::into_parts)
        .unzip();
    let body = BlockBody {
        transactions,
        ommers: Vec::new(),
        withdrawals: shanghai.then(|| Withdrawals::new(template.withdrawals)),
    };
    let mut header = Header {
        parent_hash: parent.hash,
        beneficiary: template.beneficiary,
        transactions_root: proofs::calculate_transaction_root(&body.transactions),
        number,
        gas_limit: template.gas_limit,
        timestamp: template.timestamp,
        extra_data: template.extra_data,
        mix_hash: template.prev_randao,
        base_fee_per_gas: verify::base_fee(&rules, &parent.header),
        withdrawals_root: body.calculate_withdrawals_root(),
        excess_blob_gas: verify::excess_blob_gas(&rules, &parent.header),
        parent_beacon_block_root: cancun.then_some(template.parent_beacon_block_root),
        ..Header::default()
    };
    let executed = run(rules, parent, &header, &body, &senders)?;
    header.state_root = executed.state_root();
    header.receipts_root = proofs::calculate_receipt_root(&executed.receipts);
    header.logs_bloom = executed.logs_bloom();
    header.gas_used = executed.gas_used;
    header.blob_gas_used = cancun.then_some(executed.blob_gas_used);
    header.requests_hash = rules
        .has(EthereumHardfork::Prague)
        .then(|| executed.requests.requests_hash());
    Ok((RawBlock { header, body }, executed))
}

/// Executes a block; an error of the state replaces the executor's own error.
fn run(
    rules: Rules<'_>,
    parent: &Block,
    header: &Header,
    body: &BlockBody<Transaction>,
    senders: &[Address],
) -> Result<Executed, ExecuteError> {
    let state_error = OnceCell::new();
    let outcome = run_recording(&state_error, rules, parent, header, body, senders);
    state_error
        .into_inner()
        .map_or(outcome, |error| Err(error.into()))
}

fn run_recording(
    state_error: &OnceCell<StateError>,
    rules: Rules<'_>,
    parent: &Block,
    header: &Header,
    body: &BlockBody<Transaction>,
    senders: &[Address],
) -> Result<Executed, ExecuteError> {
    let base = parent.state.as_ref().ok_or(ExecuteError::NoParentState {
        number: parent.number(),
    })?;
    if body.transactions.len() != senders.len() {
        return Err(ExecuteError::Senders {
            transactions: body.transactions.len(),
            senders: senders.len(),
        });
    }
    let database = EvmState::builder()
        .with_database_ref(ParentState {
            state: base,
            parent,
            state_error,
        })
        .with_bundle_update()
        .build();
    let mut executor = execution::executor(rules, header, body, database);
    let roots_in_receipts = !rules.has(EthereumHardfork::Byzantium);
    let mut base = Arc::clone(base);

    if rules.is_dao_fork() {
        dao_fork::move_balances(executor.evm.db_mut()).map_err(BlockExecutionError::other)?;
    }
    executor.apply_pre_execution_changes()?;
    for (index, (transaction, sender)) in body.transactions.iter().zip(senders).enumerate() {
        let hash = *transaction.tx_hash();
        let env = transaction
            .tx_env(*sender)
            .ok_or_else(|| ExecuteError::Transaction {
                index,
                hash,
                message: format!("type {:#x} is not executed here", transaction.ty()),
            })?;
        executor
            .execute_transaction((env, Recovered::new_unchecked(transaction, *sender)))
            .map_err(|error| ExecuteError::transaction(index, hash, error))?;
        if roots_in_receipts {
            // One update of the trie per transaction; the states in between are freed with their
            // handles.
            let changes = base.update(&take_update(executor.evm.db_mut()))?;
            base = base.commit(changes);
            if let Some(receipt) = executor.receipts.last_mut() {
                receipt.set_post_state(base.root());
            }
        }
    }
    let (evm, result) = executor.finish()?;
    let (mut database, _) = evm.finish();
    let changes = base.update(&take_update(&mut database))?;
    Ok(Executed {
        receipts: result.receipts,
        gas_used: result.gas_used,
        blob_gas_used: result.blob_gas_used,
        requests: result.requests,
        base,
        changes,
    })
}
