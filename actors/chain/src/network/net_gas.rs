//! Net gas metering for SSTORE (EIP-1283), which Constantinople added and Petersburg removed.
//!
//! revm has only Petersburg. Istanbul's metering (EIP-2200) differs in its costs and in the stipend
//! that it requires, so its formulas work with the older costs.

use alloy_evm::{Database, EthEvm, precompiles::PrecompilesMap};
use revm::{
    bytecode::opcode::SSTORE,
    context_interface::cfg::gas_params::GasId,
    interpreter::{
        Host, Instruction, InstructionContext, InstructionExecResult, InstructionResult,
        InterpreterTypes, instructions::host::sstore_with_gas_accounting,
    },
};

/// Gas of an SSTORE that changes nothing, or changes a slot that the transaction changed before.
const NO_CHANGE_GAS: u64 = 200;
/// Gas of the first change of a slot from zero.
const SET_GAS: u64 = 20_000;
/// Gas of the first change of a slot from another value.
const RESET_GAS: u64 = 5_000;

/// Gives an EVM of Petersburg the SSTORE of Constantinople.
pub(crate) fn with_net_gas<DB: Database, I>(
    evm: EthEvm<DB, I, PrecompilesMap>,
    inspects: bool,
) -> EthEvm<DB, I, PrecompilesMap> {
    let mut evm = evm.into_inner();
    evm.ctx.cfg.gas_params.override_gas([
        (GasId::sstore_static(), NO_CHANGE_GAS),
        (
            GasId::sstore_set_without_load_cost(),
            SET_GAS - NO_CHANGE_GAS,
        ),
        (
            GasId::sstore_reset_without_cold_load_cost(),
            RESET_GAS - NO_CHANGE_GAS,
        ),
        (GasId::sstore_set_refund(), SET_GAS - NO_CHANGE_GAS),
        (GasId::sstore_reset_refund(), RESET_GAS - NO_CHANGE_GAS),
    ]);
    evm.instruction
        .insert_instruction(SSTORE, Instruction::new(sstore), 0);
    EthEvm::new(evm, inspects)
}

fn sstore<W: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, W>,
) -> InstructionExecResult {
    sstore_with_gas_accounting(context, |context, _, slot| {
        let params = context.host.gas_params();
        let gas = params.sstore_dynamic_gas(true, &slot.data, false);
        let refund = params.sstore_refund(true, &slot.data);
        if !context.interpreter.gas.record_regular_cost(gas) {
            return Err(InstructionResult::OutOfGas);
        }
        context.interpreter.gas.record_refund(refund);
        Ok(())
    })
}
