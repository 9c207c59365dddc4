//! Code, held as the EVM runs it: with its jump destinations, so that no run looks for them again.

use alloy_primitives::Bytes;
use revm::bytecode::Bytecode;

/// Code as the EVM runs it.
pub(crate) fn bytecode(code: Bytes) -> Bytecode {
    // Code deployed before London (EIP-3541) may begin like a delegation (EIP-7702) without being
    // one.
    Bytecode::new_raw_checked(code.clone()).unwrap_or_else(|_| Bytecode::new_legacy(code))
}

/// Memory of a code without its bytes and jump destinations: counts, hash, pointers, and the
/// allocator's overhead.
const CODE_BYTES: usize = 160;

/// Bytes that a code takes in memory: itself, and a bit for each of its bytes.
pub(super) fn bytes_of_code(code: &Bytecode) -> usize {
    let jumps = code.legacy_jump_table();
    CODE_BYTES + code.bytes_ref().len() + jumps.map_or(0, |jumps| jumps.as_slice().len())
}
