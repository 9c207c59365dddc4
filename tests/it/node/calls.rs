//! Calls of contracts whose state a node has: how often it is asked, and what its lies cost.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use alloy_primitives::{Address, B256, U256, hex, keccak256};
use serde_json::{Value, json};

use super::{follow_with, http, ws};
use crate::{
    harness::{Server, check, json as parse, request, scratch, wait_until},
    upstreams::{
        Genesis, Geth,
        proxy::{Change, Fault, Lie, Proxy, Refusal},
    },
};

/// Tokens that one call reads.
const TOKENS: u64 = 100;
/// The slot of each that has a balance.
const HOLDER: u64 = 77;
/// Calls all tokens, and returns the sum of their balances.
const MULTICALL: Address = Address::repeat_byte(0xca);
/// Reads the slot that the input names, then the one that it names, and so on: each has to be
/// fetched before the next one is known.
const CHAIN: Address = Address::repeat_byte(0xcb);
/// Slots of this chain.
const CHAIN_SLOTS: u64 = 70;
/// Times that a call fetches what it lacks: its contract the first time, then a slot each.
const FETCHES_MAX: u64 = 64;

/// Round trips of the call of all tokens over a session, which has no batches: each proof and each
/// code is a request, of which 16 are in progress at a time. 26 on a quiet machine.
const SESSION_ROUND_TRIPS: usize = 32;
/// Why a call that lacks more is refused.
const REFUSAL: &str = "the call lacked state after 64 fetches, the most for one call: ask again, \
                       or for less";

/// The token with this number: a proxy, whose slot 0 names its implementation.
fn token(number: u64) -> Address {
    Address::from_word(keccak256(number.to_be_bytes()))
}

/// The slot at this place of the chain; the last one is empty.
fn chain_slot(at: u64) -> B256 {
    keccak256(format!("chain {at}"))
}

/// Returns the slot that the input names.
const IMPLEMENTATION: [u8; 8] = hex!("5f35545f5260205f");

/// A geth in dev mode with the tokens in its genesis, and the genesis file.
fn geth(name: &str) -> (Geth, PathBuf) {
    let folder = scratch(name);
    let mut genesis = Genesis::of_dev_mode(&folder);
    // Passes its input on (DELEGATECALL) to the address in slot 0.
    let proxy = "0x365f5f375f5f365f5f545af43d5f5f3e3d5ff3";
    let mut multicall = String::from("0x5f355f525f");
    for number in 0..TOKENS {
        let (address, at) = (
            token(number),
            Address::with_last_byte(0x80 + number as u8 % 10),
        );
        let implementation = format!("0x{}f3", hex::encode(IMPLEMENTATION));
        let word = |value: U256| B256::from(value).to_string();
        let storage = json!({
            word(U256::ZERO): at.into_word(),
            word(U256::from(HOLDER)): word(U256::from(number + 1)),
        });
        let token = json!({"balance": "0x0", "code": proxy, "storage": storage});
        genesis.add(address, token);
        genesis.add(at, json!({"balance": "0x1", "code": implementation}));
        // STATICCALL with 32 bytes, and the sum of what was returned so far.
        multicall += &format!("6020602060205f73{address:x}5afa5060205101");
    }
    multicall += "5f5260205ff3";
    genesis.add(MULTICALL, json!({"balance": "0x0", "code": multicall}));
    let storage = (0..CHAIN_SLOTS - 1).map(|at| (chain_slot(at), json!(chain_slot(at + 1))));
    let storage: serde_json::Map<_, _> = storage
        .map(|(slot, next)| (slot.to_string(), next))
        .collect();
    let code = "0x5f355b54806002575f5260205ff3";
    genesis.add(
        CHAIN,
        json!({"balance": "0x0", "code": code, "storage": storage}),
    );
    let file = genesis.write(&folder);
    let geth = Geth::dev_at_genesis(&folder.join("geth"), &file, 1);
    let mut connection = geth.connect();
    wait_until("a block", || {
        connection.result("eth_blockNumber", &json!([])) != "0x0"
    });
    (geth, file)
}

fn follow(proxy: &Proxy, genesis: &Path) -> Server {
    follow_url(&http(proxy.address), genesis)
}

fn follow_url(url: &str, genesis: &Path) -> Server {
    // The state after its first block is read, not current.
    let options = [
        "--genesis",
        genesis.to_str().unwrap(),
        "--state-follow",
        "off",
        // Many round trips of a busy machine.
        "--call-timeout",
        "60s",
    ];
    follow_with(&[url.to_owned()], &options)
}

/// The call of all tokens at the head, and its result.
fn call() -> (Value, Value) {
    let input = B256::from(U256::from(HOLDER));
    let sum = B256::from(U256::from(TOKENS * (TOKENS + 1) / 2));
    let call = json!({"to": MULTICALL, "input": input});
    (json!([call, "latest"]), json!(sum))
}

/// The same call of a contract that only the overrides have, with another balance of a token.
fn overriding_call(geth: &Geth) -> (Value, Value) {
    let at = Address::repeat_byte(0xcc);
    let code = geth
        .connect()
        .result("eth_getCode", &json!([MULTICALL, "latest"]));
    let word = |value: u64| B256::from(U256::from(value)).to_string();
    let overrides = json!({
        at.to_string(): {"code": code, "nonce": "0x1"},
        token(0).to_string(): {"stateDiff": {word(HOLDER): word(1_001)}},
    });
    let sum = word(TOKENS * (TOKENS + 1) / 2 + 1_000);
    let call = json!({"to": at, "input": word(HOLDER)});
    (json!([call, "latest", overrides]), json!(sum))
}

#[test]
fn a_multicall_that_was_never_asked_takes_few_round_trips() {
    let (geth, genesis) = geth("node-calls");
    let proxy = Proxy::to(&[geth.address]);
    let (plain, overriding) = (call(), overriding_call(&geth));
    for (params, sum) in [&plain, &overriding] {
        check("geth", &geth.connect().result("eth_call", params), sum);
    }
    // So far that requests of one round are in progress together, however busy this machine is.
    let far = |millis| Fault::Slow(Duration::from_millis(millis));
    let without_hint = || Fault::Refuse(Some("eth_createAccessList"), Refusal::NoMethod);
    let [http, ws] = [http(proxy.address), ws(proxy.address)];
    for (name, (params, sum), url, faults, most) in [
        ("a node that is far away", &plain, &http, vec![far(300)], 4),
        (
            "overrides of accounts",
            &overriding,
            &http,
            vec![far(300)],
            4,
        ),
        (
            "one that gives no hint",
            &plain,
            &http,
            vec![far(300), without_hint()],
            6,
        ),
        (
            "a session, without batches",
            &plain,
            &ws,
            vec![far(100)],
            SESSION_ROUND_TRIPS,
        ),
    ] {
        proxy.heal();
        let server = follow_url(url, &genesis);
        proxy.fail(faults);
        let mut ours = server.connect();
        let head = ours.result("eth_blockNumber", &json!([]));
        let mut params = params.clone();
        params[1] = head;
        let before = proxy.round_trips();
        check(name, &ours.result("eth_call", &params), sum);
        let round_trips = proxy.round_trips() - before;
        println!("{name}: {round_trips} round trips");
        assert!(round_trips <= most, "{name}: {round_trips} round trips");
        // Then it is held.
        check(name, &ours.result("eth_call", &params), sum);
        check(name, &(proxy.round_trips() - before), &round_trips);
    }
}

/// A call that reads a chain of slots fetches so many and no more.
#[test]
fn a_call_that_lacks_state_again_and_again_is_refused() {
    let (geth, genesis) = geth("node-calls-chain");
    let proxy = Proxy::to(&[geth.address]);
    let server = follow(&proxy, &genesis);
    let mut ours = server.connect();
    let head = ours.result("eth_blockNumber", &json!([]));
    let call = json!([{"to": CHAIN, "input": chain_slot(0)}, head]);
    let empty = json!(B256::ZERO);
    check("geth", &geth.connect().result("eth_call", &call), &empty);
    let refused = json!({"code": -32000, "message": REFUSAL});
    check(
        "all slots",
        &ours.call("eth_call", &call)["error"],
        &refused,
    );
    // The first one is for the contract and the sender.
    let proofs = || proxy.calls("eth_getProof") as u64;
    check("proofs", &proofs(), &(1 + FETCHES_MAX));
    // What it fetched is held: the same call gets further.
    check("again", &ours.result("eth_call", &call), &empty);
    // That the last slot is empty may show in the proof of another one.
    let all = 2 + CHAIN_SLOTS;
    assert!((all - 1..=all).contains(&proofs()), "{} proofs", proofs());
}

/// What a node says when it is asked for what a call lacks, and whether the call has an answer all
/// the same.
fn lies() -> Vec<(&'static str, Fault, bool)> {
    let lie = |method: &'static str, path: &str, change| {
        let methods: &'static [&'static str] = match method {
            "proof" => &["eth_getProof"],
            "code" => &["eth_getCode"],
            _ => &["eth_createAccessList"],
        };
        Fault::Lie(Lie::about(methods, path, change))
    };
    let list = "/accessList";
    let refuse = |method| Fault::Refuse(Some(method), Refusal::LimitExceeded);
    let invented = (0..1_100_u64).map(|number| {
        let slots = [B256::from(U256::from(number))];
        json!({"address": token(1_000_000 + number), "storageKeys": slots})
    });
    let invented: &'static str = invented.collect::<Value>().to_string().leak();
    let strange = r#"[{"address": "0x00000000000000000000000000000000000000ab", "storageKeys": ["0x0000000000000000000000000000000000000000000000000000000000000009"]}]"#;
    vec![
        ("no list", lie("hint", "", Change::Null), true),
        (
            "an empty list",
            lie("hint", list, Change::Becomes("[]")),
            true,
        ),
        (
            "another list",
            lie("hint", list, Change::Becomes(strange)),
            true,
        ),
        ("a part", lie("hint", list, Change::ItemDropped), true),
        ("twice", lie("hint", list, Change::ItemDoubled), true),
        (
            "a list of another type",
            lie("hint", list, Change::WrongType),
            true,
        ),
        (
            "invented accounts",
            lie("hint", list, Change::Becomes(invented)),
            true,
        ),
        (
            "a hint that is refused",
            refuse("eth_createAccessList"),
            true,
        ),
        (
            "a hint that never comes",
            Fault::Stall("eth_createAccessList"),
            true,
        ),
        ("proofs that are refused", refuse("eth_getProof"), false),
        ("another code", lie("code", "", Change::OtherValue), false),
        ("no code", lie("code", "", Change::Becomes("\"0x\"")), false),
        (
            "a code cut short",
            lie("code", "", Change::Truncated),
            false,
        ),
        (
            "another nonce",
            lie("proof", "/nonce", Change::OtherValue),
            false,
        ),
        (
            "a proof cut short",
            lie("proof", "/accountProof", Change::ItemDropped),
            false,
        ),
        (
            "no slots",
            lie("proof", "/storageProof", Change::Becomes("[]")),
            false,
        ),
        (
            "another value",
            lie("proof", "/storageProof/0/value", Change::OtherValue),
            false,
        ),
    ]
}

/// A call has its true result, or an error.
#[test]
fn lies_about_what_a_call_reads_change_no_result() {
    let (geth, genesis) = geth("node-calls-liar");
    let proxy = Proxy::to(&[geth.address]);
    let (params, sum) = call();
    for (name, fault, is_answered) in lies() {
        proxy.heal();
        let server = follow(&proxy, &genesis);
        let mut ours = server.connect();
        proxy.fail(vec![fault]);
        let text = request(1, "eth_call", &params).to_string();
        let answer = parse(&ours.post(&text).body);
        assert!(proxy.applied() > 0, "{name}: nothing was changed");
        match is_answered {
            true => check(name, &answer["result"], &sum),
            false => assert!(answer["error"]["code"].is_number(), "{name}: {answer}"),
        }
        proxy.heal();
        // After a fault, the node is not asked for a moment.
        wait_until(name, || {
            let answer = parse(&ours.post(&text).body);
            assert!(
                answer["result"].is_null() || answer["result"] == sum,
                "{name}: {answer}"
            );
            answer["result"] == sum
        });
    }
}
