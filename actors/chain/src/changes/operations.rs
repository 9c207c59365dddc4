use alloy_eips::{
    eip2935::{HISTORY_SERVE_WINDOW, HISTORY_STORAGE_ADDRESS},
    eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    eip8282::{BUILDER_DEPOSIT_CONTRACT_ADDRESS, BUILDER_EXIT_CONTRACT_ADDRESS},
};
use alloy_primitives::{Address, B256, U256};
use serde::Deserialize;

use crate::{
    block::Block,
    trie::{State, StateChanges},
};

/// Blocks whose beacon roots EIP-4788 keeps: the length of its ring.
const BEACON_ROOTS: u64 = 8_191;
/// The slots in which a queue of requests counts (EIP-7002, EIP-7251, EIP-8282): excess, count,
/// head, tail.
const QUEUE_SLOTS: u64 = 4;
/// Wei of a unit of withdrawals (EIP-4895).
const GWEI: u64 = 1_000_000_000;

#[derive(Deserialize)]
struct Body {
    withdrawals: Option<Vec<Withdrawal>>,
}

#[derive(Deserialize)]
struct Withdrawal {
    address: Address,
    /// In Gwei.
    amount: U256,
}

/// Adds what no transaction of a block does: the parent's beacon root (EIP-4788) and hash
/// (EIP-2935), and the withdrawals (EIP-4895). Of what they change, only the keys are known of the
/// queues of requests and of a miner's reward. `before` is the state before the block.
pub fn add_operations(changes: &mut StateChanges, block: &Block, before: &State) {
    let header = &block.header;
    if let Some(root) = header.parent_beacon_block_root {
        let at = header.timestamp % BEACON_ROOTS;
        let time = U256::from(header.timestamp);
        set(changes, BEACON_ROOTS_ADDRESS, at, time);
        set(
            changes,
            BEACON_ROOTS_ADDRESS,
            at + BEACON_ROOTS,
            root.into(),
        );
    }
    if header.requests_hash.is_some() {
        let at = header.number.saturating_sub(1) % HISTORY_SERVE_WINDOW as u64;
        let parent = header.parent_hash.into();
        set(changes, HISTORY_STORAGE_ADDRESS, at, parent);
        let queues = [
            WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
        ];
        // From Amsterdam on.
        let queues_of_builders = [
            BUILDER_DEPOSIT_CONTRACT_ADDRESS,
            BUILDER_EXIT_CONTRACT_ADDRESS,
        ];
        let has_builders = header.block_access_list_hash.is_some();
        let queues_of_builders = queues_of_builders.into_iter().filter(|_| has_builders);
        for queue in queues.into_iter().chain(queues_of_builders) {
            let was_written = changes.accounts.contains_key(&queue);
            if was_written || !is_idle(before, queue) {
                add_queue(changes, queue);
            }
        }
    }
    if !header.difficulty.is_zero() {
        let miner = changes.accounts.entry(header.beneficiary).or_default();
        miner.is_unknown = true;
    }
    for Withdrawal { address, amount } in withdrawals(block) {
        let account = changes.accounts.entry(address).or_default();
        // At most 64 bits of Gwei.
        let wei = amount.wrapping_mul(U256::from(GWEI));
        account.credit = account.credit.wrapping_add(wei);
    }
}

/// Adds a write to a contract that no transaction can write to.
fn set(changes: &mut StateChanges, contract: Address, slot: u64, value: U256) {
    let account = changes.accounts.entry(contract).or_default();
    account.storage.insert(U256::from(slot), value);
}

/// Whether a queue is held, is empty, and has no excess that each block makes smaller.
fn is_idle(before: &State, queue: Address) -> bool {
    let is_zero = |slot| before.peek_storage(&queue, U256::from(slot)) == Ok(U256::ZERO);
    (0..QUEUE_SLOTS).all(is_zero)
}

fn add_queue(changes: &mut StateChanges, queue: Address) {
    let account = changes.accounts.entry(queue).or_default();
    account.is_unknown = true;
    for slot in 0..QUEUE_SLOTS {
        account.storage.entry(U256::from(slot)).or_default();
    }
}

/// The withdrawals of a block, from its own JSON.
fn withdrawals(block: &Block) -> Vec<Withdrawal> {
    if block
        .header
        .withdrawals_root
        .is_none_or(|root| root == B256::ZERO)
    {
        return Vec::new();
    }
    let body: Result<Body, _> =
        serde_json::from_slice(&block.json_without_senders().block_with_hashes());
    debug_assert!(body.is_ok(), "the JSON of a block has its withdrawals");
    body.ok()
        .and_then(|body| body.withdrawals)
        .unwrap_or_default()
}
