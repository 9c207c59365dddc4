//! The lie tables are complete: every member of the upstreams' answers about blocks and accounts
//! has a row. The members are read from an upstream's answers, the rows from the lies of the tests
//! in `liar` and `state`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    chain_of_execution_apis, driven_geth,
    driven_geth::DrivenGeth,
    liar::{BLOCKS, answer, rows_of},
    state,
};
use crate::{
    harness::check,
    upstreams::proxy::{Change, Lie, rows::Recorded},
};

/// The kind of object that a method returns; several methods return the same kind.
fn object(method: &str) -> &'static str {
    match method {
        "eth_getBlockByNumber" => "block",
        "eth_getBlockReceipts" | "eth_getTransactionReceipt" => "receipt",
        "eth_getUncleByBlockHashAndIndex" => "ommer",
        "eth_getProof" => "proof",
        "eth_getCode" => "code",
        other => panic!("no object is listed for {other}"),
    }
}

/// Collects the names of a value and of all members in it, without array indexes and with
/// transaction types: `receipt of type "0x2"/logs/topics`.
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

/// The name of the value at this path.
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
fn a_lie_covers_every_member() {
    let (genesis, payloads) = driven_geth::chain("node-fields", 3, 20);
    let mut geth = DrivenGeth::at("node-fields-geth", &genesis, &payloads);
    geth.go_to(payloads.last().unwrap());
    let mut upstream = geth.connect();
    let ommers = chain_of_execution_apis("node-fields-ommers", 3);
    let fixture = state::StateFixture::make("node-fields-state");

    // The members that lies are about.
    let blocks = BLOCKS.map(|number| Recorded::of_block(&mut upstream, number));
    let mut recorded: Vec<Recorded> = blocks.into_iter().flatten().collect();
    recorded.extend(Recorded::of_block(&mut ommers.connect(), 3));
    let rows = rows_of(&recorded).into_iter();
    let mut lies: Vec<Lie> = rows.map(|row| row.lie).collect();
    recorded.extend(fixture.recorded.clone());
    lies.extend(fixture.lies());
    let covered: BTreeSet<String> = lies
        .iter()
        .map(|lie| name_at(answer(lie, &recorded), &lie.path))
        .collect();

    // The members that answers have.
    let blocks = (0..=20).map(|number| Recorded::of_block(&mut upstream, number));
    let stated = blocks.flatten().chain(recorded.iter().cloned());
    let mut names = BTreeSet::new();
    stated.for_each(|answer| visit(object(answer.method).to_owned(), &answer.result, &mut names));
    println!(
        "{} members, {} lies about {}",
        names.len(),
        lies.len(),
        covered.len()
    );
    let missing: Vec<&String> = names.difference(&covered).collect();
    check("without a row", &missing, &Vec::new());
    assert!(names.len() > 150, "{} members", names.len());

    // The changes to items of arrays, and how often other changes occur.
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
