//! The state and the hashes below the block that is simulated.

use std::cell::RefCell;

use alloy_primitives::{Address, B256, U256};
use revm::{
    DatabaseRef, bytecode::Bytecode, database::State as EvmState,
    database_interface::WrapDatabaseRef, state::AccountInfo,
};

use crate::{block::Block, call::view::CallState, execute::StateError};

/// The state of the blocks that are simulated, over the state of the one that they follow.
pub(super) type SimulatedState<'a> = EvmState<WrapDatabaseRef<&'a Parents<'a>>>;

/// The state before the first simulated block, and the hashes of all blocks below the one that is
/// simulated.
#[derive(Debug)]
pub(super) struct Parents<'a> {
    state: &'a CallState<'a>,
    /// Number and hash of the block that the first simulated one follows.
    base: (u64, B256),
    /// Hashes of the simulated blocks so far.
    simulated: RefCell<Vec<B256>>,
}

impl<'a> Parents<'a> {
    /// Only the block before the first simulated one.
    pub(super) fn new(state: &'a CallState<'a>, base: &Block) -> Self {
        Self {
            state,
            base: (base.number(), base.hash),
            simulated: RefCell::default(),
        }
    }

    /// Adds the block that was simulated.
    pub(super) fn push(&self, hash: B256) {
        self.simulated.borrow_mut().push(hash);
    }
}

impl DatabaseRef for Parents<'_> {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        self.state.basic_ref(address)
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.state.code_by_hash_ref(hash)
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        self.state.storage_ref(address, slot)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        let (base, hash) = self.base;
        match number.checked_sub(base) {
            None => self.state.block_hash_ref(number),
            Some(0) => Ok(hash),
            Some(above) => {
                let simulated = self.simulated.borrow();
                let index = usize::try_from(above - 1).unwrap_or(usize::MAX);
                Ok(simulated.get(index).copied().unwrap_or_default())
            }
        }
    }
}
