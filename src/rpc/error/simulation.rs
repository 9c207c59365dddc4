//! The codes of eth_simulateV1.
//!
//! Source: execution-apis, `src/eth/execute.yaml`; which of them a reason has is as in go-ethereum
//! 1.17.4, `internal/ethapi/errors.go`.

use nearhead_chain::call::SimulationRefusal;

pub(super) const fn code(refusal: SimulationRefusal) -> i32 {
    match refusal {
        SimulationRefusal::NonceTooLow => -38010,
        SimulationRefusal::NonceTooHigh => -38011,
        SimulationRefusal::FeeTooLow => -38012,
        SimulationRefusal::IntrinsicGas => -38013,
        SimulationRefusal::InsufficientFunds => -38014,
        SimulationRefusal::BlockGasLimit => -38015,
        SimulationRefusal::BlockNumber => -38020,
        SimulationRefusal::BlockTime => -38021,
        SimulationRefusal::InitcodeTooLong => -38025,
        SimulationRefusal::TooMuch => -38026,
        SimulationRefusal::InvalidParams => -32602,
        SimulationRefusal::Other => -32603,
    }
}
