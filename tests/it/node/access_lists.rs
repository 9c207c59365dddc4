//! Access lists of blocks (EIP-7928): served as geth makes them, and false ones are no answer.

use std::collections::BTreeMap;

use alloy_consensus::TxEip1559;
use alloy_primitives::{B256, Bytes, TxKind, U256, hex, keccak256};
use serde_json::{Value, json};

use super::{
    follow_with,
    held_state::{HeldState, REPORTS_MERGES},
    http, refuted, wait_head, ws,
};
use crate::{
    harness::{Server, check, request, scratch, wait_until},
    upstreams::{
        Genesis, Keys, ListingGeth, Wallet, add_changed,
        proxy::{Change, Fault, Lie, Refusal},
    },
};

pub(crate) const METHOD: &str = "eth_getBlockAccessList";

/// A chain with access lists from its second block on, and an account that is rich there.
pub(crate) struct Chain {
    pub(crate) geth: ListingGeth,
    rich: Wallet,
    pub(crate) chain_id: u64,
    nonce: u64,
    /// Number, hash and list of each block.
    pub(crate) blocks: Vec<(u64, B256, Option<Value>)>,
}

impl Chain {
    pub(crate) fn start(name: &str) -> Self {
        let folder = scratch(name);
        let rich = Wallet::of(keccak256("rich"));
        let mut genesis = Genesis::of_dev_mode(&folder);
        genesis.add_rich(rich.address);
        let mut chain = Self {
            chain_id: genesis.chain_id(),
            geth: ListingGeth::at_genesis(&folder, genesis),
            rich,
            nonce: 0,
            blocks: Vec::new(),
        };
        chain.extend(2);
        chain
    }

    /// Makes a block of so many transactions: every second one makes a contract that writes two
    /// slots, the others send ether to new accounts.
    pub(crate) fn extend(&mut self, transactions: u64) -> (u64, B256) {
        let transactions: Vec<Bytes> = (0..transactions).map(|_| self.transaction()).collect();
        let (hash, list) = self.geth.make_block(&transactions);
        let number = self.blocks.len() as u64 + 1;
        self.blocks.push((number, hash, list));
        (number, hash)
    }

    fn transaction(&mut self) -> Bytes {
        let nonce = self.nonce;
        self.nonce += 1;
        let (to, input) = match nonce % 2 {
            0 => (
                TxKind::Create,
                Bytes::from(hex!("60016002556003600455600a6000f3")),
            ),
            _ => (
                TxKind::Call(Wallet::of_dev_chain(9, nonce).address),
                Bytes::new(),
            ),
        };
        self.rich.sign(TxEip1559 {
            chain_id: self.chain_id,
            nonce,
            gas_limit: 1_000_000,
            max_fee_per_gas: 10_000_000_000,
            max_priority_fee_per_gas: 1,
            to,
            value: U256::from(nonce),
            input,
            ..TxEip1559::default()
        })
    }

    pub(crate) fn head(&self) -> (u64, B256) {
        let (number, hash, _) = self.blocks.last().unwrap();
        (*number, *hash)
    }

    /// Compares all lists with geth's, by number and by hash.
    pub(crate) fn check_served(&self, server: &Server) {
        let mut ours = server.connect();
        for (number, hash, list) in &self.blocks {
            for at in [
                json!(format!("{number:#x}")),
                json!(hash),
                json!({"blockHash": hash}),
            ] {
                let answer = ours.call(METHOD, &json!([at]));
                match list {
                    Some(list) => check(&at.to_string(), &answer["result"], list),
                    None => check(&at.to_string(), &answer["error"]["code"], &json!(-32001)),
                }
            }
        }
        let (_, _, latest) = self.blocks.last().unwrap();
        let served = ours.result(METHOD, &json!(["latest"]));
        check("latest", &Some(served), latest);
        for at in ["pending", "0xffff"] {
            check(at, &ours.result(METHOD, &json!([at])), &Value::Null);
        }
    }
}

#[test]
fn lists_are_served_as_geth_makes_them() {
    let mut chain = Chain::start("access-lists-served");
    for transactions in [0, 1, 5, 10] {
        chain.extend(transactions);
    }
    let without_list = chain.blocks.iter().filter(|(_, _, list)| list.is_none());
    check("blocks before Amsterdam", &without_list.count(), &1);
    let proxy = chain.geth.proxy.address;
    let lists = chain.blocks.len() - 1;
    for (url, mode) in [
        (http(proxy), "off"),
        (ws(proxy), "off"),
        (http(proxy), "auto"),
    ] {
        let server = follow_with(&[url], &["--state-follow", mode]);
        wait_head(&server, chain.head());
        let before = chain.geth.proxy.calls(METHOD);
        chain.check_served(&server);
        // Each is asked for once.
        let asked = chain.geth.proxy.calls(METHOD) - before;
        check("asked", &asked, &lists);
        check("faults", &refuted(&server, 0), &BTreeMap::new());
    }
}

/// What a node says of a list, and whether that is a fault.
fn lies() -> Vec<(&'static str, Fault, bool)> {
    let lie = |path, change| Fault::Lie(Lie::about(&[METHOD], path, change));
    vec![
        ("a flipped bit", lie("/0/address", Change::OtherValue), true),
        ("an account left out", lie("", Change::ItemDropped), true),
        ("an account twice", lie("", Change::ItemDoubled), true),
        ("another order", lie("", Change::ItemsSwapped), true),
        ("an empty list", lie("", Change::Becomes("[]")), false),
        ("no list", lie("", Change::WrongType), false),
        ("null", lie("", Change::Null), false),
        (
            "no method",
            Fault::Refuse(Some(METHOD), Refusal::NoMethod),
            false,
        ),
    ]
}

/// Nodes with false lists, or none: every answer is true, the head goes on, and a fault is counted
/// where it is one.
#[test]
fn false_lists_cost_a_trace_and_no_answer() {
    let mut chain = Chain::start("access-lists-liar");
    let url = ws(chain.geth.proxy.address);
    for (name, fault, is_fault) in lies() {
        // One of its own for each lie: the waits after faults double.
        let server = follow_with(std::slice::from_ref(&url), &REPORTS_MERGES);
        wait_head(&server, chain.head());
        let mut held = HeldState::of(server, chain.geth.connect());
        // Nothing is merged until somebody reads state.
        let address = format!("{:#x}", chain.rich.address);
        held.compare(&Keys::from([(address, [].into())]));
        chain.geth.proxy.fail(vec![fault]);
        let (number, hash) = chain.extend(3);
        wait_head(&held.server, (number, hash));
        let fault_count = || refuted(&held.server, 0).into_values().sum::<u64>();
        wait_until(name, || {
            chain.geth.proxy.applied() > 0 && (!is_fault || fault_count() > 0)
        });
        chain.geth.proxy.heal();
        let hash = hash.to_string();
        held.wait_merged(&hash);
        let mut keys = Keys::new();
        add_changed(&mut held.pair.theirs, &hash, &mut keys);
        // After a fault, reads that miss are refused for a moment.
        for address in keys.keys() {
            let call = request(1, "eth_getBalance", &json!([address, "latest"])).to_string();
            wait_until(name, || held.pair.ours.post(&call).status == 200);
        }
        held.compare(&keys);
        let faults = refuted(&held.server, 0);
        check(name, &!faults.is_empty(), &is_fault);
        // A merge is counted after it is logged.
        let merges =
            |words: &[&str]| held.counted(&[&["nearhead_state_merges_total"], words].concat());
        wait_until(name, || merges(&["tracer"]) > 0);
        check(name, &merges(&["tracer", "whole"]), &1);
        // Who has no list, or a false one, is not asked for it again.
        let answer = held.pair.ours.call(METHOD, &json!([hash]));
        match name {
            "an empty list" | "null" => {
                let (_, _, list) = chain.blocks.last().unwrap();
                check(name, &answer["result"], list.as_ref().unwrap());
            }
            _ => check(name, &answer["error"]["code"], &json!(4444)),
        }
    }
}
