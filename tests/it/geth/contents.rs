//! The contents of a chain according to geth, from which the tests make requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::RangeInclusive,
    path::Path,
};

use serde_json::{Value, json};

pub(super) use crate::upstreams::quantity as number;

use crate::harness::{self, Connection};

/// The contents of a chain.
pub(super) struct Contents {
    /// The blocks whose state is compared: first to last.
    pub(super) window: RangeInclusive<u64>,
    /// Full blocks from genesis to head.
    pub(super) blocks: Vec<Value>,
    /// Accounts and their slots, at any block.
    pub(super) slots: Vec<(String, Vec<String>)>,
}

impl Contents {
    /// Asks geth for everything; the accounts of the genesis come from its file.
    pub(super) fn of(geth: &mut Connection, genesis: &Path) -> Self {
        let head = number(&geth.result("eth_blockNumber", &json!([])));
        let block = |n| geth.result("eth_getBlockByNumber", &json!([quantity(n), true]));
        let blocks: Vec<Value> = (0..=head).map(block).collect();
        let window = head.saturating_sub(127)..=head;
        let mut slots = Slots::new();
        let genesis = harness::json(&fs::read(genesis).unwrap());
        add(&mut slots, &genesis["alloc"]);
        // The state at several blocks: a slot that was cleared since is found in an earlier one.
        for n in window.clone().step_by(16).chain([head]) {
            let mut start = "0x".to_owned();
            loop {
                let range = json!([quantity(n), start, 256, true, false, false]);
                let range = geth.result("debug_accountRange", &range);
                add(&mut slots, &range["accounts"]);
                match range.get("next").and_then(Value::as_str) {
                    Some(next) => start = next.to_owned(),
                    None => break,
                }
            }
        }
        let slots = slots
            .into_iter()
            .map(|(address, keys)| (address, keys.into_iter().collect()));
        Self {
            window,
            blocks,
            slots: slots.collect(),
        }
    }

    /// The blocks of the window.
    pub(super) fn served(&self) -> &[Value] {
        &self.blocks[usize::try_from(*self.window.start()).unwrap()..]
    }
}

type Slots = BTreeMap<String, BTreeSet<String>>;

/// Adds accounts in the form of genesis.json, which geth's dumps share.
fn add(slots: &mut Slots, accounts: &Value) {
    for (address, account) in accounts.as_object().unwrap() {
        let address = format!("0x{}", address.trim_start_matches("0x").to_lowercase());
        let keys = account
            .get("storage")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        slots
            .entry(address)
            .or_default()
            .extend(keys.map(|(key, _)| key.clone()));
    }
}

pub(super) fn quantity(number: u64) -> Value {
    format!("{number:#x}").into()
}
