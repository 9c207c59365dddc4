//! The liars' tables are whole: every member of whatever nodes state of blocks and accounts has a
//! row. Members are read off a node's answers, and rows off what the liars' tests tell.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    chain_of_execution_apis, led,
    led::Led,
    liar::{BLOCKS, answer, rows_of},
    state,
};
use crate::{
    harness::check,
    peers::proxy::{Change, Lie, rows::Recorded},
};

/// What a member is a member of: the same object is answered by several methods.
fn object(method: &str) -> &'static str {
    match method {
        "eth_getBlockByNumber" => "block",
        "eth_getBlockReceipts" | "eth_getTransactionReceipt" => "receipt",
        "eth_getUncleByBlockHashAndIndex" => "ommer",
        "eth_getProof" => "proof",
        "eth_getCode" => "code",
        other => panic!("nobody has said what {other} answers"),
    }
}

/// The names of a value and of all members in it, places in arrays left out, types of transactions
/// put in: `receipt of type "0x2"/logs/topics`.
fn visit(name: String, value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let kind = members.get("type");
            let name = kind.map_or_else(|| name.clone(), |kind| format!("{name} of type {kind}"));
            for (member, value) in members {
                visit(format!("{name}/{member}"), value, names);
            }
        }
        Value::Array(items) => {
            for item in items {
                visit(name.clone(), item, names);
            }
            names.insert(name);
        }
        _ => _ = names.insert(name),
    }
}

/// The name of what is at this place.
fn name_at(recorded: &Recorded, path: &str) -> String {
    let mut name = object(recorded.method).to_owned();
    let mut value = &recorded.result;
    for part in path.split('/').skip(1) {
        if let Some(kind) = value.get("type") {
            name = format!("{name} of type {kind}");
        }
        match value.as_array() {
            Some(items) => value = &items[part.parse::<usize>().unwrap()],
            None => {
                name = format!("{name}/{part}");
                value = &value[part];
            }
        }
    }
    name
}

#[test]
fn every_member_has_a_row() {
    let (genesis, payloads) = led::chain("node-fields", 3, 20);
    let mut geth = Led::at("node-fields-geth", &genesis, &payloads);
    geth.go_to(payloads.last().unwrap());
    let mut node = geth.connect();
    let ommers = chain_of_execution_apis("node-fields-ommers", 3);
    let subject = state::Subject::make("node-fields-state");

    // What is lied about.
    let blocks = BLOCKS.map(|number| Recorded::of_block(&mut node, number));
    let mut recorded: Vec<Recorded> = blocks.into_iter().flatten().collect();
    recorded.extend(Recorded::of_block(&mut ommers.connect(), 3));
    let rows = rows_of(&recorded).into_iter();
    let mut lies: Vec<Lie> = rows.map(|row| row.lie).collect();
    recorded.extend(subject.recorded.clone());
    lies.extend(subject.lies());
    let told: BTreeSet<String> = lies
        .iter()
        .map(|lie| name_at(answer(lie, &recorded), &lie.path))
        .collect();

    // What is stated.
    let blocks = (0..=20).map(|number| Recorded::of_block(&mut node, number));
    let stated = blocks.flatten().chain(recorded.iter().cloned());
    let mut names = BTreeSet::new();
    stated.for_each(|one| visit(object(one.method).to_owned(), &one.result, &mut names));
    println!(
        "{} members, {} lies about {}",
        names.len(),
        lies.len(),
        told.len()
    );
    let without: Vec<&String> = names.difference(&told).collect();
    check("without a row", &without, &Vec::new());
    assert!(names.len() > 150, "{} members", names.len());

    // What is changed besides single values.
    let changes = |name: &str, change: Change| {
        let mut lies = lies.iter().filter(|lie| lie.change == change);
        lies.any(|lie| name_at(answer(lie, &recorded), &lie.path) == name)
    };
    for name in [
        "block/transactions",
        "block/withdrawals",
        "receipt",
        "proof/accountProof",
    ] {
        for change in [
            Change::ItemDropped,
            Change::ItemDoubled,
            Change::ItemsSwapped,
        ] {
            assert!(changes(name, change), "{name}: {change:?}");
        }
    }
    for change in [
        Change::Truncated,
        Change::OtherValue,
        Change::Removed,
        Change::Null,
    ] {
        let count = lies.iter().filter(|lie| lie.change == change).count();
        assert!(count >= 10, "{count} of {change:?}");
    }
}
