//! Why a call has no result, in geth's words: clients tell errors by them.

use alloy_primitives::{Address, Bytes, U256};
use revm::{
    context::BlockEnv,
    context_interface::result::{HaltReason, InvalidTransaction, OutOfGasError},
    database_interface::bal::EvmDatabaseError,
    primitives::eip3860::MAX_INITCODE_SIZE,
};

use super::{request::CallRequest, revert::revert_reason, simulation::SimulationErrorKind};
use crate::execute::StateError;

/// Accounts and slots that are not held, and were read.
pub type MissingState = Vec<(Address, Vec<U256>)>;

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The contract reverted, with this data.
    #[error("{}", revert_reason(.0).map_or("execution reverted".to_owned(), |reason| format!("execution reverted: {reason}")))]
    Reverted(Bytes),
    /// The EVM ended the call.
    #[error("{0}")]
    Halted(Box<str>),
    /// The call cannot begin with the gas that it has.
    #[error("err: {reason} (supplied gas {gas})")]
    Refused {
        /// Why.
        reason: Box<str>,
        /// Its gas.
        gas: u64,
    },
    /// The call says what is not possible or not supported.
    #[error("{0}")]
    Invalid(Box<str>),
    /// A simulation has no result.
    #[error("{message}")]
    Simulation {
        /// The kind of reason.
        kind: SimulationErrorKind,
        /// The reason.
        message: Box<str>,
    },
    /// The chain's rules are not known here.
    #[error("the chain's rules are not known, calls are not run")]
    OtherRules,
    /// The rules are those of Amsterdam. The EVM here has gas costs of a test network for it, which
    /// were not compared with a node that executes the final ones.
    #[error(
        "calls and eth_config are not supported from Amsterdam on: its gas costs are not verified \
         in this version"
    )]
    Amsterdam,
    /// The state is held in part, and lacks this.
    #[error("state is missing")]
    Missing(MissingState),
    /// The state cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// Nobody waits for the result any more.
    #[error("cancelled")]
    Cancelled,
}

impl From<EvmDatabaseError<StateError>> for CallError {
    fn from(error: EvmDatabaseError<StateError>) -> Self {
        match error {
            EvmDatabaseError::Database(error) => error.into(),
            // There are no block access lists here.
            EvmDatabaseError::Bal(error) => Self::invalid(error.to_string()),
        }
    }
}

impl CallError {
    /// How the call ended, without what the contract said.
    #[must_use]
    pub fn end(&self) -> String {
        match self {
            Self::Reverted(_) => "execution reverted".to_owned(),
            other => other.to_string(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into().into())
    }

    /// A simulation that has no result.
    pub(super) fn simulation(kind: SimulationErrorKind, message: impl Into<String>) -> Self {
        let message = message.into().into();
        Self::Simulation { kind, message }
    }

    /// A call that the EVM refuses to begin.
    pub(super) fn refused(
        error: &InvalidTransaction,
        request: &CallRequest,
        gas: u64,
        block: &BlockEnv,
    ) -> Self {
        let from = request.from;
        let reason = match error {
            InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, .. } => {
                format!("intrinsic gas too low: have {gas}, want {initial_gas}")
            }
            InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, .. } => {
                format!("insufficient gas for floor data gas cost: have {gas}, want {gas_floor}")
            }
            InvalidTransaction::LackOfFundForMaxFee { fee, balance } => format!(
                "insufficient funds for gas * price + value: address {from} have {balance} want {fee}"
            ),
            InvalidTransaction::GasPriceLessThanBasefee => format!(
                "max fee per gas less than block base fee: address {from}, maxFeePerGas: {}, baseFee: {}",
                request.price.most(),
                block.basefee
            ),
            InvalidTransaction::CreateInitCodeSizeLimit => format!(
                "max initcode size exceeded: code size {} limit {MAX_INITCODE_SIZE}",
                request.input.len()
            ),
            InvalidTransaction::EmptyBlobs => "blob transaction missing blob hashes".to_owned(),
            InvalidTransaction::BlobCreateTransaction => {
                "blob transaction of type create".to_owned()
            }
            InvalidTransaction::PriorityFeeGreaterThanMaxFee => format!(
                "max priority fee per gas higher than max fee per gas: address {from}, maxPriorityFeePerGas: {}, maxFeePerGas: {}",
                request.price.tip(),
                request.price.most()
            ),
            InvalidTransaction::BlobGasPriceGreaterThanMax {
                block_blob_gas_price,
                tx_max_fee_per_blob_gas,
            } => format!(
                "max fee per blob gas less than block blob gas fee: address {from} blobGasFeeCap: {tx_max_fee_per_blob_gas}, blobBaseFee: {block_blob_gas_price}"
            ),
            other => other.to_string(),
        };
        let reason = reason.into();
        Self::Refused { reason, gas }
    }

    /// The same error, but for a refusal, which is said in other words.
    pub(super) fn with_words(self, words: impl FnOnce(u64, &str) -> String) -> Self {
        match self {
            Self::Refused { reason, gas } => Self::invalid(words(gas, &reason)),
            other => other,
        }
    }

    /// A call that the EVM ended.
    pub(super) fn halted(reason: &HaltReason) -> Self {
        let message = match reason {
            HaltReason::OutOfGas(OutOfGasError::ReentrancySentry) => {
                "out of gas: not enough gas for reentrancy sentry"
            }
            HaltReason::OutOfGas(OutOfGasError::InvalidOperand) => "gas uint64 overflow",
            HaltReason::OutOfGas(_) => "out of gas",
            HaltReason::OpcodeNotFound | HaltReason::NotActivated => "invalid opcode",
            HaltReason::InvalidFEOpcode => "invalid opcode: INVALID",
            HaltReason::InvalidJump => "invalid jump destination",
            HaltReason::StackOverflow => "stack limit reached 1024 (1023)",
            HaltReason::OutOfOffset => "return data out of bounds",
            HaltReason::CreateCollision => "contract address collision",
            HaltReason::NonceOverflow => "nonce uint64 overflow",
            HaltReason::CreateContractSizeLimit => "max code size exceeded",
            HaltReason::CreateContractStartingWithEF => "invalid code: must not begin with 0xef",
            HaltReason::StateChangeDuringStaticCall => "write protection",
            HaltReason::CallTooDeep => "max call depth exceeded",
            other => return Self::Halted(other.to_string().into()),
        };
        Self::Halted(message.into())
    }

    /// Whether more gas could have helped.
    pub(super) fn is_out_of_gas(&self) -> bool {
        matches!(self, Self::Halted(message) if message.starts_with("out of gas"))
    }
}
