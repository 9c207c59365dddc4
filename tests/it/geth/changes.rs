//! Every account and slot that a block changed, and many that it did not, at each block: balance,
//! nonce, code, slots and their proofs.

use std::collections::BTreeSet;

use alloy_primitives::B256;
use serde_json::json;

use super::{
    GethComparison,
    contents::{Contents, number},
};
use crate::upstreams::{Keys, add_changed};

/// Accounts and slots that are compared at each block beside those that it changed.
const IDLE: usize = 1_000;

/// Compares the state after each block of the window, but for the genesis, which changes all.
pub(super) fn compare(both: &mut GethComparison, contents: &Contents) {
    let idle = idle(contents);
    let (mut changed_keys, before) = (0, both.compared);
    let blocks = contents.served().iter();
    for block in blocks.filter(|block| number(&block["number"]) > 0) {
        let mut changed = Keys::new();
        let hash = block["hash"].as_str().unwrap();
        add_changed(&mut both.pair.theirs, hash, &mut changed);
        // The reward of a block with difficulty.
        let miner = block["miner"].as_str().unwrap();
        changed.entry(miner.to_owned()).or_default();
        changed_keys += changed.len() + changed.values().map(|slots| slots.len()).sum::<usize>();
        let state_root: B256 = block["stateRoot"].as_str().unwrap().parse().unwrap();
        // A proof states all there is of an account, but for its code.
        for (address, slots) in idle.iter().chain(&changed) {
            both.compare_proof(json!([address, slots, block["number"]]), state_root);
            both.compare("eth_getCode", json!([address, block["number"]]));
        }
    }
    both.flush();
    let compared = both.compared - before;
    println!(
        "{}: {changed_keys} changed keys, {compared} answers",
        both.chain
    );
    assert!(changed_keys > 500, "{changed_keys} changed keys");
}

/// [`IDLE`] accounts and slots of the chain, or all of them if there are fewer.
fn idle(contents: &Contents) -> Keys {
    let (mut idle, mut left) = (Keys::new(), IDLE);
    for (address, slots) in &contents.slots {
        if left == 0 {
            break;
        }
        let slots: BTreeSet<_> = slots.iter().take(left - 1).cloned().collect();
        left -= 1 + slots.len();
        idle.insert(address.clone(), slots);
    }
    idle
}
