//! Why a simulation has no result.

use revm::context_interface::result::InvalidTransaction;

/// Why a simulation has no result. Each kind has a code of its own.
///
/// Source: execution-apis, `eth_simulateV1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulationErrorKind {
    /// A call's nonce is below that of its sender.
    NonceTooLow,
    /// A call's nonce is above that of its sender.
    NonceTooHigh,
    /// A call pays less than the base fee.
    FeeTooLow,
    /// A call has not the gas that it costs to begin.
    IntrinsicGas,
    /// A sender cannot pay.
    InsufficientFunds,
    /// A block has less gas left than a call may use.
    BlockGasLimit,
    /// A block's number is not above the one before.
    BlockNumber,
    /// A block's time is not above the one before.
    BlockTime,
    /// The code that makes a contract is too long.
    InitcodeTooLong,
    /// There are more blocks or calls than are allowed, or they return too much.
    TooMuch,
    /// A member of the request is not possible.
    InvalidParams,
    /// Another rule is broken.
    Other,
}

impl SimulationErrorKind {
    /// The kind of an error of the EVM.
    pub(super) const fn of(error: &InvalidTransaction) -> Self {
        match error {
            InvalidTransaction::GasPriceLessThanBasefee => Self::FeeTooLow,
            InvalidTransaction::CallGasCostMoreThanGasLimit { .. } => Self::IntrinsicGas,
            InvalidTransaction::LackOfFundForMaxFee { .. } => Self::InsufficientFunds,
            InvalidTransaction::CreateInitCodeSizeLimit => Self::InitcodeTooLong,
            InvalidTransaction::PriorityFeeGreaterThanMaxFee => Self::InvalidParams,
            _ => Self::Other,
        }
    }
}
