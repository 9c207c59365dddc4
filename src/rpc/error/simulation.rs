//! The codes of eth_simulateV1.
//!
//! Source: execution-apis, `src/eth/execute.yaml`; which of them a reason has is as in go-ethereum
//! 1.17.4, `internal/ethapi/errors.go`.

use nearhead_chain::call::SimulationErrorKind;

pub(super) const fn code(kind: SimulationErrorKind) -> i32 {
    match kind {
        SimulationErrorKind::NonceTooLow => -38010,
        SimulationErrorKind::NonceTooHigh => -38011,
        SimulationErrorKind::FeeTooLow => -38012,
        SimulationErrorKind::IntrinsicGas => -38013,
        SimulationErrorKind::InsufficientFunds => -38014,
        SimulationErrorKind::BlockGasLimit => -38015,
        SimulationErrorKind::BlockNumber => -38020,
        SimulationErrorKind::BlockTime => -38021,
        SimulationErrorKind::InitcodeTooLong => -38025,
        SimulationErrorKind::TooMuch => -38026,
        SimulationErrorKind::InvalidParams => -32602,
        SimulationErrorKind::Other => -32603,
    }
}
