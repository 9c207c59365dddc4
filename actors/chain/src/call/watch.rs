//! Ends a run that nobody waits for any more.
//!
//! A run that takes long jumps, calls or creates: code without any of these ends soon. So these
//! instructions look at the cancellation of the run. An instruction gets nothing but the EVM, so
//! the cancellation is in a variable of the thread, which runs one call at a time.

use std::cell::{Cell, RefCell};

use alloy_evm::{Database, EthEvm, precompiles::PrecompilesMap};
use revm::{
    bytecode::opcode,
    interpreter::{
        Host, Instruction, InstructionContext, InstructionExecResult, InstructionResult,
        InterpreterTypes,
        instructions::{contract, gas_table_spec},
    },
};

use crate::log_search::Cancellation;

thread_local! {
    /// The cancellation of the call that runs on this thread.
    static RUNNING: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
    /// Whether an instruction of that call has seen that it is cancelled.
    static WAS_ENDED: Cell<bool> = const { Cell::new(false) };
    /// Looks since it was asked whether the time of the call is over.
    static LOOKS: Cell<u32> = const { Cell::new(0) };
}

/// Looks of which one asks: a clock costs more than the instruction.
const LOOKS_PER_CLOCK: u32 = 64;

/// While this lives, calls that run on this thread end when they are cancelled.
pub(super) struct Watch(());

impl Watch {
    pub(super) fn new(cancel: &Cancellation) -> Self {
        RUNNING.set(Some(cancel.clone()));
        WAS_ENDED.set(false);
        Self(())
    }

    /// Whether a call was ended. One that came to its end by itself has its result, also if it was
    /// cancelled just then.
    #[expect(clippy::unused_self, reason = "it is known while this lives")]
    pub(super) fn has_ended_one(&self) -> bool {
        WAS_ENDED.get()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        RUNNING.set(None);
    }
}

/// Gives an EVM instructions that look. A run that was cancelled ends as if it had no gas: whoever
/// runs it looks again.
pub(super) fn watched<DB: Database, I>(
    evm: EthEvm<DB, I, PrecompilesMap>,
    inspects: bool,
) -> EthEvm<DB, I, PrecompilesMap> {
    let mut evm = evm.into_inner();
    let gas = gas_table_spec(evm.instruction.spec);
    for (code, instruction) in [
        (opcode::JUMPDEST, Instruction::new(jumpdest)),
        (
            opcode::CALL,
            Instruction::new(call::<{ opcode::CALL }, _, _>),
        ),
        (
            opcode::CALLCODE,
            Instruction::new(call::<{ opcode::CALLCODE }, _, _>),
        ),
        (
            opcode::DELEGATECALL,
            Instruction::new(call::<{ opcode::DELEGATECALL }, _, _>),
        ),
        (
            opcode::STATICCALL,
            Instruction::new(call::<{ opcode::STATICCALL }, _, _>),
        ),
        (opcode::CREATE, Instruction::new(create::<false, _, _>)),
        (opcode::CREATE2, Instruction::new(create::<true, _, _>)),
    ] {
        let gas = gas[usize::from(code)];
        evm.instruction.insert_instruction(code, instruction, gas);
    }
    EthEvm::new(evm, inspects)
}

/// Whether the run of this thread goes on.
fn look() -> InstructionExecResult {
    let looks = (LOOKS.get() + 1) % LOOKS_PER_CLOCK;
    LOOKS.set(looks);
    let is_cancelled = RUNNING.with_borrow(|cancel| {
        let cancel = cancel.as_ref();
        cancel.is_some_and(|cancel| {
            if looks == 0 {
                cancel.expire();
            }
            cancel.is_cancelled()
        })
    });
    match is_cancelled {
        true => {
            WAS_ENDED.set(true);
            Err(InstructionResult::OutOfGas)
        }
        false => Ok(()),
    }
}

fn jumpdest<W: InterpreterTypes, H: Host + ?Sized>(
    _: InstructionContext<'_, H, W>,
) -> InstructionExecResult {
    look()
}

fn call<const KIND: u8, W: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, W>,
) -> InstructionExecResult {
    look()?;
    contract::call::<KIND, W, H>(context)
}

fn create<const IS_CREATE2: bool, W: InterpreterTypes, H: Host + ?Sized>(
    context: InstructionContext<'_, H, W>,
) -> InstructionExecResult {
    look()?;
    contract::create::<IS_CREATE2, W, H>(context)
}
