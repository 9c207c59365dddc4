//! Ends a run that nobody waits for any more.
//!
//! Code that runs for long jumps: what has no loop ends soon. So a run looks at its cancellation at
//! each destination of a jump. An instruction of the EVM has no place for a value of ours; a thread
//! runs one call at a time, and keeps it.

use std::cell::RefCell;

use alloy_evm::{Database, EthEvm, precompiles::PrecompilesMap};
use revm::{
    bytecode::opcode::JUMPDEST,
    interpreter::{
        Host, Instruction, InstructionContext, InstructionExecResult, InstructionResult,
        InterpreterTypes,
    },
};

use crate::log_search::Cancellation;

/// Gas of a JUMPDEST.
const JUMPDEST_GAS: u16 = 1;

thread_local! {
    /// The cancellation of the call that runs on this thread.
    static RUNNING: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
}

/// While this lives, calls that run on this thread end when they are cancelled.
pub(super) struct Watch(());

impl Watch {
    pub(super) fn new(cancel: &Cancellation) -> Self {
        RUNNING.set(Some(cancel.clone()));
        Self(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        RUNNING.set(None);
    }
}

/// Gives an EVM the JUMPDEST that looks. A run that was cancelled ends as if it had no gas: whoever
/// runs it looks again.
pub(super) fn watched<DB: Database, I>(
    evm: EthEvm<DB, I, PrecompilesMap>,
    inspects: bool,
) -> EthEvm<DB, I, PrecompilesMap> {
    let mut evm = evm.into_inner();
    let jumpdest = Instruction::new(jumpdest);
    evm.instruction
        .insert_instruction(JUMPDEST, jumpdest, JUMPDEST_GAS);
    EthEvm::new(evm, inspects)
}

fn jumpdest<W: InterpreterTypes, H: Host + ?Sized>(
    _: InstructionContext<'_, H, W>,
) -> InstructionExecResult {
    let is_cancelled = RUNNING.with_borrow(|cancel| {
        let cancel = cancel.as_ref();
        cancel.is_some_and(Cancellation::is_cancelled)
    });
    match is_cancelled {
        true => Err(InstructionResult::OutOfGas),
        false => Ok(()),
    }
}
