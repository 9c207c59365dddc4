//! Calls: made from the transactions of a chain, and varied. Outputs, errors, estimates and access
//! lists are geth's.
//!
//! | chain | calls | with `NEARHEAD_CAMPAIGN=full` |
//! |---|---|---|
//! | of the dev source, from files | 2,400, of which at least 2,000 have to be compared | 20,000 |
//! | the dev chain, followed from geth | 1,800 | 6,000 |
//! | of execution-apis, followed from geth | 600 | 6,000 |
//! | of execution-apis, from files | 300 | 2,000 |
//!
//! Of the calls of each method, a third or two thirds have overrides.

use std::{collections::BTreeMap, time::Instant};

use alloy_primitives::{B256, U256};
use nearhead_chain::campaign;
use serde_json::{Map, Value, json};

use super::{
    DEV, EXECUTION_APIS, FOLLOWED_DEV, FOLLOWED_EXECUTION_APIS, GethComparison,
    contents::{Contents, number, quantity},
    random_address,
};
use crate::{harness::check, rng::Rng};

/// Methods, and how many parameters each has.
const METHODS: [(&str, usize); 3] = [
    ("eth_call", 4),
    ("eth_estimateGas", 4),
    ("eth_createAccessList", 3),
];

/// Calls in one batch: few, because geth closes the connection of a batch that takes half a minute.
const CALLS_AT_ONCE: usize = 5;

/// The share of the calls that has to be compared, the others being given up or told in other
/// words: 2,000 of 2,400.
const COMPARED_MIN: (u64, u64) = (5, 6);

/// Compares random calls: fewer on a followed chain, whose node is asked for the state.
pub(super) fn compare(both: &mut GethComparison, contents: &Contents, rng: &mut Rng) {
    let most = match both.chain {
        DEV => campaign::rounds(2_400, 20_000),
        EXECUTION_APIS => campaign::rounds(300, 2_000),
        // With 600 on the other followed chain: five sixths are 2,000.
        FOLLOWED_DEV => campaign::rounds(1_800, 6_000),
        _ => campaign::rounds(600, 6_000),
    };
    let began = Instant::now();
    let (mut outcomes, mut given_up) = (BTreeMap::<String, u64>::new(), 0);
    let mut overridden = BTreeMap::<(&str, bool), u64>::new();
    for _ in 0..most / CALLS_AT_ONCE as u64 {
        let calls: Vec<_> = (0..CALLS_AT_ONCE).map(|_| random(contents, rng)).collect();
        let requests = calls.iter().map(|(method, params)| (*method, params));
        let answers = both.pair.batch(requests);
        for ((method, params), [ours, theirs]) in calls.iter().zip(answers) {
            let said = theirs["error"]["message"].as_str().unwrap_or_default();
            // It gives up, or crashes: blobs and a time after Cancun make it, before that fork.
            let gives_up = [
                "request timed out",
                "execution aborted",
                "method handler crashed",
            ];
            // So does a busy machine: a loop without end takes seconds to use up all gas.
            let is_late = ours["error"]["code"] == -32005;
            // Who follows a node holds no hash of a block below its window.
            let is_followed = [FOLLOWED_DEV, FOLLOWED_EXECUTION_APIS].contains(&both.chain);
            let our_words = ours["error"]["message"].as_str().unwrap_or_default();
            let lacks_hash = is_followed && our_words.starts_with("hash of block ");
            if is_late || lacks_hash || gives_up.iter().any(|start| said.starts_with(start)) {
                given_up += 1;
                continue;
            }
            // Without gas, revm does not look what the code is.
            let ends_alike = said == "contract creation code storage out of gas"
                || said.starts_with("invalid opcode");
            if ends_alike && our_words.starts_with("gas required exceeds allowance") {
                continue;
            }
            let [ours, theirs] = [ours, theirs].map(comparable);
            let case = format!("{method} {params}");
            check(&case, &ours, &theirs);
            let outcome = theirs["error"]["message"].as_str().unwrap_or("a result");
            let outcome: String = outcome
                .chars()
                .take_while(char::is_ascii_lowercase)
                .collect();
            *outcomes.entry(format!("{method} {outcome}")).or_default() += 1;
            let is_overridden = params.get(2).is_some();
            *overridden.entry((*method, is_overridden)).or_default() += 1;
        }
    }
    let seconds = began.elapsed().as_secs();
    println!(
        "{}: {seconds} s, {given_up} calls given up, {outcomes:?}, overridden: {overridden:?}",
        both.chain
    );
    assert!(given_up <= most / 20, "{given_up} calls given up");
    let compared: u64 = outcomes.values().sum();
    let (of, all) = COMPARED_MIN;
    assert!(compared >= most * of / all, "only {compared} calls");
    for (method, _) in METHODS {
        for is_overridden in [false, true] {
            let count = overridden.get(&(method, is_overridden)).copied();
            assert!(count > Some(most / 20), "{method}, {is_overridden}");
        }
        let results = outcomes.get(&format!("{method} a"));
        assert!(results.is_some_and(|count| *count > most / 10), "{method}");
    }
}

/// An answer without what is said in other words: an opcode that does not exist, how high the stack
/// was, why there was no gas, and the hash of the transaction that geth made of a call.
fn comparable(mut answer: Value) -> Value {
    let text = match answer.pointer("/result/error") {
        Some(_) => answer.pointer_mut("/result/error"),
        None => answer.pointer_mut("/error/message"),
    };
    if let Some(Value::String(text)) = text {
        if text == "contract creation code storage out of gas" {
            *text = "out of gas".to_owned();
        }
        // geth names the transaction that it made of the call.
        if let Some((_, reason)) = text.split_once(" err: ")
            && text.starts_with("failed to apply transaction: 0x")
        {
            *text = format!("failed to apply transaction: {reason}");
        }
        cut_reason(text);
    }
    answer
}

/// Cuts what is said after a reason in other words.
pub(super) fn cut_reason(text: &mut String) {
    for start in ["invalid opcode", "out of gas", "stack"] {
        if text.starts_with(start) {
            *text = start.to_owned();
        }
    }
}

/// A call that a transaction could have been, and its parameters.
pub(super) fn random(contents: &Contents, rng: &mut Rng) -> (&'static str, Value) {
    let (method, most) = *rng.pick(&METHODS);
    // Before Prague, geth does something with access lists, blobs and authorizations in calls,
    // though blocks cannot have them.
    let served = contents.served().iter();
    let served: Vec<&Value> = served
        .filter(|block| block["requestsHash"].is_string())
        .collect();
    let full: Vec<&Value> = served[1..]
        .iter()
        .copied()
        .filter(|block| has_transactions(block))
        .collect();
    let block = *rng.pick(&full);
    let transaction = rng.pick(block["transactions"].as_array().unwrap()).clone();
    let mut call = Map::new();
    for member in ["from", "to", "input", "value", "gas"] {
        call.insert(member.to_owned(), transaction[member].clone());
    }
    pay(&mut call, &transaction, block, method, rng);
    vary(&mut call, &transaction, contents, rng);
    call.retain(|_, value| !value.is_null());
    // geth has no deadline for access lists, and runs each several times.
    if method == "eth_createAccessList" {
        call.entry("gas").or_insert(quantity(2_000_000));
    }
    let before = quantity(number(&block["number"]) - 1);
    let at = match rng.below(4) {
        0 => json!("latest"),
        1 => rng.pick(&served)["number"].clone(),
        2 => json!({"blockHash": block["parentHash"]}),
        _ => before,
    };
    let mut params = vec![Value::Object(call), at];
    // Many senders cannot pay the price of an access list, without which geth fills one in.
    let is_overridden = match method {
        "eth_createAccessList" => !rng.one_in(3),
        _ => rng.one_in(3),
    };
    if is_overridden {
        let from = params[0]["from"].as_str().unwrap().to_owned();
        params.push(accounts(&from, method, contents, rng));
        if most > 3 && rng.one_in(2) {
            params.push(block_overrides(block, method, rng));
        }
    }
    (method, params.into())
}

fn has_transactions(block: &Value) -> bool {
    !block["transactions"].as_array().unwrap().is_empty()
}

/// Offers a price, or none.
fn pay(
    call: &mut Map<String, Value>,
    transaction: &Value,
    block: &Value,
    method: &str,
    rng: &mut Rng,
) {
    let base_fee = number(&block["baseFeePerGas"]);
    match rng.below(5) {
        _ if method == "eth_createAccessList" => {
            call.insert("gasPrice".to_owned(), quantity(2 * base_fee));
        }
        0 => {
            call.insert("gasPrice".to_owned(), transaction["gasPrice"].clone());
        }
        1 => {
            let most = rng.between(base_fee / 2, 4 * base_fee);
            call.insert("maxFeePerGas".to_owned(), quantity(most));
            call.insert(
                "maxPriorityFeePerGas".to_owned(),
                quantity(rng.between(0, most + most / 20)),
            );
        }
        _ => {}
    }
    for member in ["accessList", "authorizationList"] {
        if rng.one_in(2) {
            call.insert(member.to_owned(), transaction[member].clone());
        }
    }
    if rng.one_in(2) && call.get("authorizationList").is_none_or(Value::is_null) {
        for member in ["blobVersionedHashes", "maxFeePerBlobGas"] {
            call.insert(member.to_owned(), transaction[member].clone());
        }
    }
}

/// Changes something, so that it succeeds, fails or reverts in other ways.
fn vary(call: &mut Map<String, Value>, transaction: &Value, contents: &Contents, rng: &mut Rng) {
    match rng.below(4) {
        0 => _ = call.remove("gas"),
        1 => _ = call.insert("gas".to_owned(), quantity(rng.between(20_000, 120_000))),
        _ => {}
    }
    match rng.below(8) {
        0 => {
            let input = transaction["input"].as_str().unwrap();
            let cut = 2 * rng.below(input.len() / 2);
            call.insert("input".to_owned(), json!(input[..2 + cut]));
        }
        1 => {
            let input = alloy_primitives::hex::encode_prefixed(rng.bytes::<36>());
            call.insert("input".to_owned(), json!(input));
        }
        2 if rng.one_in(2) => {
            // The first four never fail: others say why in their own words.
            let precompiled = format!("0x{:040x}", rng.between(1, 4));
            call.insert("to".to_owned(), json!(precompiled));
        }
        2 => _ = call.insert("to".to_owned(), json!(rng.pick(&contents.slots).0)),
        3 => _ = call.insert("from".to_owned(), json!(random_address(rng))),
        4 => _ = call.remove("value"),
        5 => {
            let input = call.remove("input").unwrap_or_default();
            call.insert("data".to_owned(), input);
        }
        6 => _ = call.insert("value".to_owned(), json!("0x1")),
        _ => {}
    }
}

/// Overrides the sender's balance, and other accounts by chance.
fn accounts(from: &str, method: &str, contents: &Contents, rng: &mut Rng) -> Value {
    let mut accounts = Map::new();
    accounts.insert(
        from.to_owned(),
        json!({"balance": "0xffffffffffffffffffffffff"}),
    );
    if method != "eth_createAccessList" && rng.one_in(4) {
        // The code takes the place of a precompiled contract, but for geth's access lists.
        let precompiled = format!("0x{:040x}", rng.between(1, 11));
        accounts.insert(precompiled, json!({"code": "0x60075f5260205ff3"}));
    }
    for _ in 0..rng.below(3) {
        let (address, slots) = rng.pick(&contents.slots);
        let mut word = || json!(B256::from(U256::from(rng.below(1_000))));
        let slot = match slots.is_empty() {
            true => word(),
            false => json!(B256::from(U256::from(3))),
        };
        let slot = slot.as_str().unwrap().to_owned();
        let account = match slots.len() % 4 {
            0 => json!({"nonce": "0x7", "code": "0x60005460005260206000f3"}),
            1 => json!({"stateDiff": {slot: word()}}),
            2 => json!({"state": {slot: word()}}),
            _ => json!({"balance": "0x3e8"}),
        };
        if address != from {
            accounts.insert(address.clone(), account);
        }
    }
    accounts.into()
}

fn block_overrides(block: &Value, method: &str, rng: &mut Rng) -> Value {
    let mut overrides = Map::new();
    let number_of = number(&block["number"]);
    for (name, value) in [
        ("number", quantity(number_of + rng.between(0, 300))),
        ("time", quantity(number(&block["timestamp"]) + 1_000)),
        ("gasLimit", quantity(rng.between(100_000, 90_000_000))),
        ("feeRecipient", json!(random_address(rng))),
        ("prevRandao", json!(B256::from(rng.bytes()))),
        ("baseFeePerGas", quantity(rng.between(0, 2_000_000_000))),
        ("blobBaseFee", quantity(rng.between(1, 1_000))),
    ] {
        // geth estimates too little for a contract that reads the hashes of other blocks then: its
        // own eth_call fails with that gas.
        let is_estimated = method == "eth_estimateGas" && name == "number";
        if rng.one_in(3) && !is_estimated {
            overrides.insert(name.to_owned(), value);
        }
    }
    overrides.into()
}
