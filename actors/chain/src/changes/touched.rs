use alloy_primitives::Address;
use serde::Deserialize;

use super::add_operations;
use crate::{
    block::Block,
    trie::{State, StateChanges},
};

#[derive(Deserialize)]
struct Body {
    transactions: Vec<Parties>,
}

#[derive(Deserialize)]
struct Parties {
    from: Address,
    to: Option<Address>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Effects {
    contract_address: Option<Address>,
    logs: Vec<Emitter>,
}

#[derive(Deserialize)]
struct Emitter {
    address: Address,
}

/// The accounts that a block names: senders, recipients, created contracts, addresses of logs, the
/// block's beneficiary, and those of its operations. A block changes most of them, and few others;
/// of their storage it names nothing.
#[must_use]
pub fn touched(block: &Block, before: &State) -> StateChanges {
    let mut changes = StateChanges::default();
    add_operations(&mut changes, block, before);
    let mut name = |address| {
        let account = changes.accounts.entry(address).or_default();
        account.is_unknown = true;
    };
    name(block.header.beneficiary);
    let (full, receipts) = match block.make_json() {
        Ok(json) => (json.block(true), json.receipts()),
        // A sender cannot be recovered.
        Err(_) => return changes,
    };
    let body: Result<Body, _> = serde_json::from_slice(&full);
    let effects: Result<Vec<Effects>, _> = serde_json::from_slice(&receipts);
    debug_assert!(
        body.is_ok() && effects.is_ok(),
        "a block's JSON is complete"
    );
    for Parties { from, to } in body.into_iter().flat_map(|body| body.transactions) {
        name(from);
        to.into_iter().for_each(&mut name);
    }
    for effect in effects.into_iter().flatten() {
        effect.contract_address.into_iter().for_each(&mut name);
        effect.logs.into_iter().for_each(|log| name(log.address));
    }
    changes
}
