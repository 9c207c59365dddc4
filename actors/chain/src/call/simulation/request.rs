//! The blocks of a simulation.

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::B256;

use crate::call::request::{BlockOverrides, CallRequest, StateOverrides};

/// Blocks to simulate.
///
/// Source: execution-apis, `EthSimulatePayload`.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// The blocks, in ascending order. Between two of them, and below the first, may be gaps.
    pub blocks: Vec<BlockCalls>,
    /// Whether transfers of ether are logged, too: as those of a token (ERC-7528).
    pub traces_transfers: bool,
    /// Whether nonces and base fees are checked, as those of transactions are.
    pub validates: bool,
    /// Whether the blocks have their transactions, and not only the hashes.
    pub full_transactions: bool,
    /// The most gas that all calls may use.
    pub gas_max: u64,
}

/// A block to simulate.
#[derive(Clone, Debug, Default)]
pub struct BlockCalls {
    /// Its calls, in order.
    pub calls: Vec<CallRequest>,
    /// Accounts that are not as the block before left them, also for later blocks.
    pub accounts: StateOverrides,
    /// Members of the block's header.
    pub block: BlockOverrides,
    /// Root of the parent's beacon block (EIP-4788); from Cancun on.
    pub parent_beacon_block_root: Option<B256>,
    /// Withdrawals (EIP-4895); from Shanghai on.
    pub withdrawals: Vec<Withdrawal>,
}
