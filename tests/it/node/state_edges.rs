//! What changes an account in unusual ways, each in a block of its own: after the merge, every key
//! is geth's, and none that changed is asked of it. A tracer says what changed, or an access list.

use std::{cell::Cell, collections::BTreeMap, path::Path};

use alloy_consensus::{TxEip1559, TxEip7702, TxLegacy};
use alloy_eips::{
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, eip7702::Authorization,
};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, hex, keccak256};
use serde_json::{Value, json};

use super::{
    follow_with,
    held_state::{HeldState, REPORTS_MERGES},
    http, refuted, wait_head,
};
use crate::{
    harness::{Connection, check, json as parse, request, scratch, wait_until},
    upstreams::{
        Genesis, Geth, Keys, ListingGeth, WITHDRAWAL_RECIPIENT, Wallet, add_changed, quantity,
    },
};

/// An account without anything, which the genesis has nevertheless.
const EMPTY: Address = address!("00000000000000000000000000000000000000e0");

/// Gas that is enough for each of the transactions.
const GAS: u64 = 3_000_000;
/// What is paid for gas, in wei.
const PRICE: u128 = 10_000_000_000;

/// What makes a block of each transaction.
enum Miner {
    /// A geth in dev mode; it runs until this is dropped.
    Tracing { _geth: Geth },
    /// One on a chain with access lists.
    Listing(Box<ListingGeth>),
}

/// A geth, and nearhead behind it.
struct Scene {
    miner: Miner,
    held: HeldState,
    rich: Wallet,
    nonce: Cell<u64>,
    chain_id: u64,
}

/// Code that makes a contract with this code.
fn deploying(code: &[u8]) -> Bytes {
    let length = u8::try_from(code.len()).unwrap();
    let copy = [0x60, length, 0x80, 0x60, 0x0b, 0x60, 0, 0x39, 0x60, 0, 0xf3];
    [&copy, code].concat().into()
}

fn word(value: u64) -> [u8; 32] {
    U256::from(value).to_be_bytes()
}

impl Miner {
    /// Makes a block of a transaction, and returns its receipt.
    fn mine(&mut self, theirs: &mut Connection, raw: &Bytes) -> Value {
        match self {
            Self::Tracing { .. } => _ = theirs.result("eth_sendRawTransaction", &json!([raw])),
            Self::Listing(geth) => _ = geth.make_block(std::slice::from_ref(raw)),
        }
        receipt(theirs, keccak256(raw))
    }
}

/// The receipt of a transaction, once it is mined.
fn receipt(theirs: &mut Connection, hash: B256) -> Value {
    let mut receipt = Value::Null;
    let call = request(1, "eth_getTransactionReceipt", &json!([hash])).to_string();
    wait_until("the transaction is mined", || {
        receipt = parse(&theirs.post(&call).body)["result"].take();
        receipt.is_object()
    });
    receipt
}

impl Scene {
    /// Nearhead follows a geth in dev mode.
    fn tracing() -> Self {
        Self::start("state-edges-tracing", |folder, genesis| {
            let file = genesis.write(folder);
            let geth = Geth::dev_at_genesis(&folder.join("geth"), &file, 0);
            (
                geth.connect(),
                http(geth.address),
                Miner::Tracing { _geth: geth },
            )
        })
    }

    /// Nearhead follows a chain whose blocks have access lists, the first one excepted.
    fn listing() -> Self {
        Self::start("state-edges-listing", |folder, genesis| {
            let geth = ListingGeth::at_genesis(folder, genesis);
            let url = http(geth.proxy.address);
            (geth.connect(), url, Miner::Listing(Box::new(geth)))
        })
    }

    fn start(
        name: &str,
        miner: impl FnOnce(&Path, Genesis) -> (Connection, String, Miner),
    ) -> Self {
        let folder = scratch(name);
        let rich = Wallet::of(keccak256("rich"));
        let mut genesis = Genesis::of_dev_mode(&folder);
        genesis.add_rich(rich.address);
        genesis.add(EMPTY, json!({"balance": "0x0"}));
        let (mut theirs, url, mut miner) = miner(&folder, genesis);
        let chain_id = quantity(&theirs.result("eth_chainId", &json!([])));
        let first = TxLegacy {
            chain_id: Some(chain_id),
            gas_price: PRICE,
            gas_limit: GAS,
            to: TxKind::Call(Address::repeat_byte(0x11)),
            value: U256::from(1),
            ..TxLegacy::default()
        };
        // Without a block, geth says that it is syncing.
        miner.mine(&mut theirs, &rich.sign(first));
        let server = follow_with(&[url], &REPORTS_MERGES);
        let mut scene = Self {
            held: HeldState::of(server, theirs),
            miner,
            rich,
            nonce: Cell::new(1),
            chain_id,
        };
        // Nothing is merged before state is read.
        let keys = Keys::from([(format!("{:#x}", Address::repeat_byte(0x11)), [].into())]);
        scene.held.compare(&keys);
        scene
    }

    fn call_of(&self, to: TxKind, value: u64, input: Bytes) -> TxEip1559 {
        TxEip1559 {
            chain_id: self.chain_id,
            nonce: self.nonce.replace(self.nonce.get() + 1),
            gas_limit: GAS,
            max_fee_per_gas: PRICE,
            max_priority_fee_per_gas: 1,
            to,
            value: U256::from(value),
            input,
            ..TxEip1559::default()
        }
    }

    /// Has a transaction mined; returns its receipt.
    fn send(&mut self, to: TxKind, value: u64, input: Bytes) -> Value {
        let raw = self.rich.sign(self.call_of(to, value, input));
        self.send_raw(&raw)
    }

    fn send_raw(&mut self, raw: &Bytes) -> Value {
        self.miner.mine(&mut self.held.pair.theirs, raw)
    }

    /// Makes a block that has a withdrawal to [`WITHDRAWAL_RECIPIENT`] and no transaction; returns
    /// its number and hash as a receipt has them.
    fn withdraw(&mut self, index: u64) -> Value {
        let theirs = &mut self.held.pair.theirs;
        match &mut self.miner {
            Miner::Tracing { .. } => {
                let withdrawal = json!({
                    "index": format!("{index:#x}"),
                    "validatorIndex": "0x7",
                    "address": WITHDRAWAL_RECIPIENT,
                    "amount": "0x5",
                });
                theirs.result("dev_addWithdrawal", &json!([withdrawal]));
            }
            Miner::Listing(geth) => _ = geth.make_block(&[]),
        }
        let mut receipt = Value::Null;
        wait_until("a block with the withdrawal", || {
            let block = theirs.result("eth_getBlockByNumber", &json!(["latest", false]));
            receipt = json!({"blockNumber": block["number"], "blockHash": block["hash"]});
            let has_none = block["transactions"] == json!([]);
            let paid = &block["withdrawals"][0];
            let is_it = matches!(self.miner, Miner::Listing(_))
                || paid["index"] == json!(format!("{index:#x}"));
            has_none && is_it && paid["address"] == json!(WITHDRAWAL_RECIPIENT)
        });
        receipt
    }

    /// The address of the next contract that the wallet makes.
    fn next_contract(&self) -> Address {
        self.rich.address.create(self.nonce.get())
    }

    fn deploy(&mut self, code: &[u8]) -> Address {
        let contract = self.next_contract();
        let receipt = self.send(TxKind::Create, 0, deploying(code));
        check("deployed", &receipt["status"], &json!("0x1"));
        self.check_block("a new contract", &receipt, &[]);
        contract
    }

    /// Compares what the block of this receipt changed, and these accounts and slots; returns what
    /// it changed.
    fn check_block(&mut self, case: &str, receipt: &Value, more: &[(Address, &[u64])]) -> Keys {
        let hash = receipt["blockHash"].as_str().unwrap().to_owned();
        let number = quantity(&receipt["blockNumber"]);
        wait_head(&self.held.server, (number, hash.parse().unwrap()));
        self.held.wait_merged(&hash);
        let mut keys = Keys::new();
        add_changed(&mut self.held.pair.theirs, &hash, &mut keys);
        assert!(keys.len() > 2, "{case}: {keys:?}");
        let before = self.held.missed();
        self.held.compare(&keys);
        check(case, &(self.held.missed() - before), &0);
        self.held.compare_codes(&keys);
        let slot = |slot: &u64| format!("{:#066x}", U256::from(*slot));
        let more = more
            .iter()
            .map(|(address, slots)| (format!("{address:#x}"), slots.iter().map(slot).collect()));
        self.held.compare(&more.collect());
        keys
    }
}

#[test]
fn unusual_changes_are_merged_as_geth_traces_them() {
    check_unusual_changes(Scene::tracing(), "tracer");
}

#[test]
fn unusual_changes_are_merged_as_access_lists_have_them() {
    check_unusual_changes(Scene::listing(), "access_list");
}

fn check_unusual_changes(mut scene: Scene, source: &str) {
    let call = TxKind::Call;
    // SSTORE of the second word of the input at the slot that the first one is.
    let store = scene.deploy(&hex!("60203560003555"));
    // SELFDESTRUCT in favour of who calls.
    let killer = scene.deploy(&hex!("33ff"));
    // CREATE with the input as initcode, and with all ether that is sent.
    let factory = scene.deploy(&hex!("36600060003736600034f0"));
    let reverter = {
        let call_killer = hex!("6000600060006000600173");
        let code = [&call_killer[..], killer.as_slice(), &hex!("5af160006000fd")].concat();
        scene.deploy(&code)
    };
    let made_by_factory = |nonce| factory.create(nonce);
    let set = |slot: u64, value: u64| Bytes::from([word(slot), word(value)].concat());
    let killed_at_once = Bytes::from(hex!("600160015533ff"));

    let receipt = scene.send(call(factory), 3, killed_at_once.clone());
    check("status", &receipt["status"], &json!("0x1"));
    let created = made_by_factory(1);
    scene.check_block("made and destructed at once", &receipt, &[(created, &[1])]);

    let receipt = scene.send(call(made_by_factory(2)), 5, Bytes::new());
    scene.check_block("sent before it is made", &receipt, &[]);
    let receipt = scene.send(call(factory), 3, killed_at_once);
    let created = made_by_factory(2);
    scene.check_block(
        "sent before, destructed at once",
        &receipt,
        &[(created, &[1])],
    );

    let prefunded = scene.rich.address.create(scene.nonce.get() + 1);
    let receipt = scene.send(call(prefunded), 7, Bytes::new());
    scene.check_block("sent to where a contract will be", &receipt, &[]);
    let made = scene.deploy(&hex!("60203560003555"));
    assert_eq!(made, prefunded);
    let receipt = scene.send(call(made), 0, set(4, 4));
    scene.check_block(
        "a contract that had ether before",
        &receipt,
        &[(made, &[4, 5])],
    );

    let receipt = scene.send(call(killer), 9, Bytes::new());
    scene.check_block("destructed later: it stays", &receipt, &[(killer, &[])]);
    let receipt = scene.send(call(reverter), 2, Bytes::new());
    check("status", &receipt["status"], &json!("0x0"));
    let both: [(Address, &[u64]); 2] = [(killer, &[]), (reverter, &[])];
    scene.check_block("destructed and reverted", &receipt, &both);

    let receipt = scene.send(call(EMPTY), 0, Bytes::new());
    scene.check_block(
        "an empty account that is touched",
        &receipt,
        &[(EMPTY, &[])],
    );

    let leaver = Wallet::of(keccak256("leaver"));
    let funds = 21_000 * u64::try_from(PRICE).unwrap() + 1;
    let receipt = scene.send(call(leaver.address), funds, Bytes::new());
    scene.check_block("a new account", &receipt, &[]);
    let raw = leaver.sign(TxLegacy {
        chain_id: Some(scene.chain_id),
        gas_price: PRICE,
        gas_limit: 21_000,
        to: call(Address::repeat_byte(0x11)),
        value: U256::from(1),
        ..TxLegacy::default()
    });
    let receipt = scene.send_raw(&raw);
    scene.check_block("an account that sends all it has", &receipt, &[]);

    // Slots that are set and deleted, so that branches come and go.
    for slot in 0..12 {
        let receipt = scene.send(call(store), 0, set(slot, slot + 1));
        scene.check_block("a slot is set", &receipt, &[(store, &[slot, slot + 1])]);
    }
    for slot in (0..12).rev() {
        let receipt = scene.send(call(store), 0, set(slot, 0));
        scene.check_block("a slot is deleted", &receipt, &[(store, &[slot, 0])]);
    }

    // A delegation is set, used, and cleared (EIP-7702).
    let authority = Wallet::of(keccak256("authority"));
    for (nonce, (case, target)) in [("set", store), ("cleared", Address::ZERO)]
        .into_iter()
        .enumerate()
    {
        let authorization = authority.authorize(Authorization {
            chain_id: U256::from(scene.chain_id),
            address: target,
            nonce: nonce as u64,
        });
        let plain = scene.call_of(call(authority.address), 0, set(2, 9 + nonce as u64));
        let raw = scene.rich.sign(TxEip7702 {
            chain_id: plain.chain_id,
            nonce: plain.nonce,
            gas_limit: GAS,
            max_fee_per_gas: PRICE,
            max_priority_fee_per_gas: 1,
            to: authority.address,
            input: plain.input,
            authorization_list: vec![authorization],
            ..TxEip7702::default()
        });
        let receipt = scene.send_raw(&raw);
        check("type", &receipt["type"], &json!("0x4"));
        scene.check_block(case, &receipt, &[(authority.address, &[2, 3])]);
    }

    // Withdrawals (EIP-4895): in the chain of a tracing geth to an account that is not there, then
    // to one that is.
    for index in [1, 2] {
        let receipt = scene.withdraw(index);
        let keys = scene.check_block("a withdrawal", &receipt, &[(WITHDRAWAL_RECIPIENT, &[])]);
        let recipient = format!("{WITHDRAWAL_RECIPIENT:#x}");
        assert!(keys.contains_key(&recipient), "{keys:?}");
    }

    // Requests for withdrawals and consolidations (EIP-7002, EIP-7251), whose queues change again
    // in the system calls of the same and of later blocks.
    for (queue, length) in [
        (WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, 56),
        (CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, 96),
    ] {
        let request: Vec<u8> = (1..=length).collect();
        let receipt = scene.send(call(queue), 1, request.into());
        check("status", &receipt["status"], &json!("0x1"));
        scene.check_block("a request", &receipt, &[(queue, &[0, 1, 2, 3, 4, 5, 6, 7])]);
        let receipt = scene.send(call(store), 0, set(1, 1));
        scene.check_block("after it", &receipt, &[(queue, &[0, 1, 2, 3])]);
    }

    check("faults", &refuted(&scene.held.server, 0), &BTreeMap::new());
    let merged = |words: &[&str]| {
        let words = [&["nearhead_state_merges_total"], words].concat();
        scene.held.counted(&words)
    };
    check("whole merges", &merged(&["whole"]), &merged(&[]));
    let source = format!("source=\"{source}\"");
    assert!(merged(&[&source, "whole"]) > 40);
}
