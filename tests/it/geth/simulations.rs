//! Simulated blocks of calls: made from the transactions of a chain, and varied. Results and errors
//! are geth's.

use std::collections::BTreeMap;

use nearhead_chain::campaign;
use serde_json::{Map, Value, json};

use super::{
    DEV, FOLLOWED_DEV, FOLLOWED_EXECUTION_APIS, GethComparison, calls,
    contents::{Contents, number, quantity},
    random_address,
};
use crate::{harness::check, rng::Rng};

const METHOD: &str = "eth_simulateV1";

/// Compares random simulations. Where the state is held in part, roots may be unknown, so what the
/// calls do counts alone.
pub(super) fn compare(both: &mut GethComparison, contents: &Contents, rng: &mut Rng) {
    let most = match both.chain {
        DEV => campaign::rounds(400, 4_000),
        _ => campaign::rounds(60, 600),
    };
    let is_followed = [FOLLOWED_DEV, FOLLOWED_EXECUTION_APIS].contains(&both.chain);
    let mut outcomes = BTreeMap::<String, u64>::new();
    let (mut calls, mut failed) = (0, 0);
    for _ in 0..most {
        let params = random(contents, rng);
        let [ours, theirs] = both.pair.batch([(METHOD, &params)]).remove(0);
        let said = theirs["error"]["message"].as_str().unwrap_or_default();
        if said.starts_with("request timed out") || said.starts_with("execution aborted") {
            continue;
        }
        let [ours, theirs] = [ours, theirs].map(|answer| comparable(answer, is_followed));
        let place = first_difference(&ours, &theirs).unwrap_or_default();
        let at = |answer: &Value| answer.pointer(&place).cloned();
        check(&format!("{params} at {place}"), &at(&ours), &at(&theirs));
        for block in theirs["result"].as_array().into_iter().flatten() {
            let statuses = block["calls"].as_array().unwrap().iter();
            calls += statuses.len();
            failed += statuses.filter(|call| call["status"] == "0x0").count();
        }
        let outcome = theirs["error"]["code"].to_string();
        *outcomes.entry(outcome).or_default() += 1;
    }
    println!(
        "{}: {calls} simulated calls, {failed} failed, {outcomes:?}",
        both.chain
    );
    let results = outcomes.get("null");
    assert!(
        results.is_some_and(|count| *count > most / 5),
        "{outcomes:?}"
    );
    assert!(failed > 0 && calls > failed);
}

/// Members that follow from others, or from the block's hash: another one that differs says more.
const FOLLOWING: [&str; 5] = ["blockHash", "calls", "hash", "parentHash", "transactions"];

/// Pointer to the first place where two answers differ.
fn first_difference(ours: &Value, theirs: &Value) -> Option<String> {
    let inside = |name: &str, ours: Option<&Value>, theirs: Option<&Value>| match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            first_difference(ours, theirs).map(|place| format!("/{name}{place}"))
        }
        (None, None) => None,
        _ => Some(format!("/{name}")),
    };
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let mut names: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
            names.sort_by_key(|name| FOLLOWING.contains(&name.as_str()));
            let mut names = names.into_iter();
            names.find_map(|name| inside(name, ours.get(name), theirs.get(name)))
        }
        (Value::Array(ours), Value::Array(theirs)) => (0..ours.len().max(theirs.len()))
            .find_map(|index| inside(&index.to_string(), ours.get(index), theirs.get(index))),
        _ => (ours != theirs).then(String::new),
    }
}

/// An answer without what is said in other words.
fn comparable(mut answer: Value, is_followed: bool) -> Value {
    if let Some(Value::String(text)) = answer.pointer_mut("/error/message") {
        cut(text);
    }
    for block in answer["result"].as_array_mut().into_iter().flatten() {
        for call in block["calls"].as_array_mut().unwrap() {
            if let Some(Value::String(text)) = call.pointer_mut("/error/message") {
                cut(text);
            }
            for log in call["logs"].as_array_mut().unwrap() {
                if is_followed {
                    log["blockHash"].take();
                }
            }
        }
        for transaction in block["transactions"].as_array_mut().unwrap() {
            // geth derives a chain id from a signature that is not there.
            if transaction["type"] == "0x0" {
                transaction.as_object_mut().unwrap().remove("chainId");
            }
            if is_followed && transaction.is_object() {
                transaction["blockHash"].take();
            }
        }
        if is_followed {
            for member in ["hash", "parentHash", "stateRoot"] {
                block[member].take();
            }
        }
    }
    answer
}

/// Reasons are told apart by their first words.
fn cut(text: &mut String) {
    if text.starts_with("contract creation code storage out of gas") {
        *text = "out of gas".to_owned();
    }
    // The contract of deposits logs what is none.
    if ["failed to parse deposit", "failed to decode deposit"]
        .iter()
        .any(|start| text.starts_with(start))
    {
        *text = "no deposit".to_owned();
    }
    calls::cut_reason(text);
}

fn random(contents: &Contents, rng: &mut Rng) -> Value {
    let (_, first) = calls::random(contents, rng);
    let at = first[1].clone();
    let mut blocks = Vec::new();
    for _ in 0..rng.between(1, 4) {
        let mut block = Map::new();
        let mut list = Vec::new();
        for _ in 0..rng.below(4) {
            let (_, params) = calls::random(contents, rng);
            list.push(params[0].clone());
            if rng.one_in(3) && params[2].is_object() {
                block.insert("stateOverrides".to_owned(), params[2].clone());
            }
        }
        block.insert("calls".to_owned(), list.into());
        if rng.one_in(3) {
            block.insert("blockOverrides".to_owned(), overrides(contents, rng));
        }
        blocks.push(block);
    }
    let payload = json!({
        "blockStateCalls": blocks,
        "traceTransfers": rng.one_in(2),
        "validation": rng.one_in(4),
        "returnFullTransactions": rng.one_in(2),
    });
    json!([payload, at])
}

fn overrides(contents: &Contents, rng: &mut Rng) -> Value {
    let head = contents.served().last().unwrap();
    let mut overrides = Map::new();
    for (name, value) in [
        (
            "number",
            quantity(number(&head["number"]) + rng.between(1, 20)),
        ),
        (
            "time",
            quantity(number(&head["timestamp"]) + rng.between(1, 1_000)),
        ),
        ("gasLimit", quantity(rng.between(100_000, 90_000_000))),
        ("feeRecipient", json!(random_address(rng))),
        ("baseFeePerGas", quantity(rng.between(0, 2_000_000_000))),
        ("blobBaseFee", quantity(rng.between(1, 1_000))),
        (
            "withdrawals",
            json!([{
                "index": "0x1",
                "validatorIndex": "0x2",
                "address": random_address(rng),
                "amount": quantity(rng.between(0, 1_000)),
            }]),
        ),
    ] {
        if rng.one_in(4) {
            overrides.insert(name.to_owned(), value);
        }
    }
    overrides.into()
}
