//! Every single change of an honest answer is found: each kind of lie about each member of each
//! kind of object.

#[cfg(feature = "all-tests")]
use std::collections::BTreeMap;
use std::collections::BTreeSet;

use alloy_primitives::{Address, U256};
use serde_json::{Value, json};

#[cfg(feature = "all-tests")]
use super::{super::RequestedBlock, EXECUTION_APIS, ExecutedChain, Statement, served};
use super::{
    super::{verify_code, verify_proof},
    DEV, parsed,
};
#[cfg(feature = "all-tests")]
use crate::block::Block;
use crate::{
    encode::{ProofKey, proof},
    trie::State,
};

/// One step into a JSON value: a member or an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    Member(String),
    Item(usize),
}

pub(super) type Path = Vec<PathStep>;

/// A kind of lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lie {
    /// The last digit differs; true and false are exchanged; null becomes an address.
    OtherEnd,
    /// The first digit differs.
    OtherStart,
    /// One digit is missing.
    Shorter,
    /// Two digits are added.
    Longer,
    /// No digits.
    NoDigits,
    /// The member, or the item, is missing.
    Removed,
    Null,
    Number,
    Text,
    Object,
    List,
    /// The first item is repeated.
    Doubled,
    /// The first and the last item are swapped.
    Swapped,
    /// A null follows the last item.
    Extended,
}

const LIES: [Lie; 14] = [
    Lie::OtherEnd,
    Lie::OtherStart,
    Lie::Shorter,
    Lie::Longer,
    Lie::NoDigits,
    Lie::Removed,
    Lie::Null,
    Lie::Number,
    Lie::Text,
    Lie::Object,
    Lie::List,
    Lie::Doubled,
    Lie::Swapped,
    Lie::Extended,
];

/// Lies that are not found, with the reason. Except for the total difficulty, the served value does
/// not come from the upstream.
///
/// No block of these chains has a failed creation, for which some clients state no contract
/// address; the tests of `compare` cover that.
#[cfg(feature = "all-tests")]
const EXCEPTIONS: &[(&str, &[Lie], &str)] = &[
    (
        "block.totalDifficulty",
        WELL_FORMED,
        "no hash covers it, and it comes from the upstream",
    ),
    (
        "ommer.totalDifficulty",
        &LIES,
        "no hash covers it, and it is not served",
    ),
    (
        "block.size",
        ABSENT,
        "some clients omit it, and it is derived",
    ),
    (
        "ommer.size",
        ABSENT,
        "some clients omit it, and it is derived",
    ),
    ("ommer.uncles", ABSENT, "an ommer has none"),
    (
        "transaction.blockTimestamp",
        ABSENT,
        "few clients have it, and it is derived",
    ),
    (
        "log.blockTimestamp",
        ABSENT,
        "few clients have it, and it is derived",
    ),
    ("typed transaction.v", ABSENT, "yParity has the same value"),
    ("typed transaction.yParity", ABSENT, "v has the same value"),
    ("legacy transaction.chainId", ABSENT, "v includes it"),
];

/// Lies after which the member is absent.
#[cfg(feature = "all-tests")]
const ABSENT: &[Lie] = &[Lie::Removed, Lie::Null];
/// Lies after which the member is still a quantity, or is absent.
#[cfg(feature = "all-tests")]
const WELL_FORMED: &[Lie] = &[
    Lie::OtherEnd,
    Lie::OtherStart,
    Lie::Shorter,
    Lie::Longer,
    Lie::Removed,
    Lie::Null,
];

/// Collects the path to every value below `value`, in order. Of the plain values of an array, such
/// as the nodes of a proof, the first and the last stand for all.
fn paths(value: &Value, path: &Path, found: &mut Vec<Path>) {
    let mut add = |step: PathStep, below: &Value| {
        let mut path = path.clone();
        path.push(step);
        found.push(path.clone());
        paths(below, &path, found);
    };
    match value {
        Value::Object(members) => {
            for (name, below) in members {
                add(PathStep::Member(name.clone()), below);
            }
        }
        Value::Array(items) => {
            let last = items.len().saturating_sub(1);
            for (index, below) in items.iter().enumerate() {
                if below.is_object() || below.is_array() || [0, last].contains(&index) {
                    add(PathStep::Item(index), below);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn at<'v>(value: &'v mut Value, path: &[PathStep]) -> &'v mut Value {
    path.iter().fold(value, |value, step| match step {
        PathStep::Member(name) => &mut value[name],
        PathStep::Item(index) => &mut value[index],
    })
}

/// The value with a lie at this path; `None` if the lie does not apply or changes nothing.
pub(super) fn falsify(lie: Lie, truth: &Value, path: &[PathStep]) -> Option<Value> {
    let mut altered = truth.clone();
    let place = at(&mut altered, path);
    let text = place.as_str().map(str::to_owned);
    let digits = text.as_deref().and_then(|text| text.strip_prefix("0x"));
    let flip = |digit: &str| format!("{:x}", u8::from_str_radix(digit, 16).unwrap() ^ 1);
    match lie {
        Lie::OtherEnd => match (&*place, digits) {
            (Value::Bool(value), _) => *place = json!(!value),
            (Value::Null, _) => *place = json!("0x00000000000000000000000000000000000000aa"),
            (_, Some(digits)) if !digits.is_empty() => {
                let (rest, last) = digits.split_at(digits.len() - 1);
                *place = json!(format!("0x{rest}{}", flip(last)));
            }
            _ => return None,
        },
        Lie::OtherStart => {
            let digits = digits.filter(|digits| digits.len() > 1)?;
            *place = json!(format!("0x{}{}", flip(&digits[..1]), &digits[1..]));
        }
        Lie::Shorter => {
            let digits = digits.filter(|digits| digits.len() > 1)?;
            *place = json!(format!("0x{}", &digits[1..]));
        }
        Lie::Longer => *place = json!(format!("0x11{}", digits?)),
        Lie::NoDigits => {
            digits.filter(|digits| !digits.is_empty())?;
            *place = json!("0x");
        }
        Lie::Null => *place = Value::Null,
        Lie::Number => *place = json!(1),
        Lie::Text => *place = json!("zz"),
        Lie::Object => *place = json!({}),
        Lie::List => *place = json!([]),
        Lie::Removed => {
            let (last, parent) = path.split_last()?;
            match (last, at(&mut altered, parent)) {
                (PathStep::Member(name), Value::Object(members)) => drop(members.remove(name)),
                (PathStep::Item(index), Value::Array(items)) => drop(items.remove(*index)),
                _ => return None,
            }
        }
        Lie::Doubled => {
            let items = place.as_array_mut()?;
            items.insert(0, items.first()?.clone());
        }
        Lie::Swapped => {
            let items = place.as_array_mut()?;
            let last = items.len().checked_sub(1)?;
            items.swap(0, last);
        }
        Lie::Extended => place.as_array_mut()?.push(Value::Null),
    }
    // A null member means the same as an absent one.
    let is_absence = matches!(lie, Lie::Removed | Lie::Null);
    let was_null = *at(&mut truth.clone(), path) == Value::Null;
    (altered != *truth && !(is_absence && was_null)).then_some(altered)
}

/// The kind of the member at a path: the path without indexes, with objects named by their kind.
fn kind(root: &str, answer: &Value, path: &[PathStep]) -> String {
    let mut kind = root.to_owned();
    let mut value = answer;
    for step in path {
        match step {
            PathStep::Member(name) => {
                value = &value[name];
                kind = format!("{kind}.{name}");
            }
            PathStep::Item(index) => {
                value = &value[index];
                kind = match kind.as_str() {
                    "block.transactions" => format!("{} transaction", of_type(value)),
                    "block.withdrawals" => "withdrawal".to_owned(),
                    "receipts" if value["status"] == "0x0" => "failed receipt".to_owned(),
                    "receipts" => format!("{} receipt", of_type(value)),
                    kind if kind.ends_with("receipt.logs") => "log".to_owned(),
                    kind => format!("{kind}[]"),
                };
            }
        }
    }
    kind
}

fn of_type(value: &Value) -> String {
    let creates = if value["to"].is_null() {
        "creating "
    } else {
        ""
    };
    format!("{creates}type {}", value["type"].as_str().unwrap())
}

/// The row of the exceptions that allows this lie about this kind of member.
#[cfg(feature = "all-tests")]
fn exception(kind: &str, lie: Lie) -> Option<&'static str> {
    let name = |kind: &str| {
        let (object, member) = kind.rsplit_once('.').unwrap_or((kind, ""));
        (object.to_owned(), member.to_owned())
    };
    let (object, member) = name(kind);
    let rows = EXCEPTIONS.iter().filter(|(row, lies, _)| {
        let (row_object, row_member) = name(row);
        let is_legacy = object.ends_with("type 0x0 transaction");
        let is_same = match row_object.as_str() {
            "transaction" => object.ends_with(" transaction"),
            "typed transaction" => object.ends_with(" transaction") && !is_legacy,
            "legacy transaction" => is_legacy,
            row_object => object == row_object,
        };
        is_same && row_member == member && lies.contains(&lie)
    });
    let mut rows = rows.map(|(row, ..)| *row);
    rows.next()
}

/// The counts of a run.
#[derive(Default)]
#[cfg(feature = "all-tests")]
struct Tally {
    /// Lies that were found, by kind of member.
    found: BTreeMap<String, usize>,
    /// The reasons of the faults, with their counts.
    reasons: BTreeMap<&'static str, usize>,
    /// The exceptions that occurred.
    exceptions: BTreeSet<&'static str>,
}

#[cfg(feature = "all-tests")]
impl Tally {
    fn lies(&self) -> usize {
        self.found.values().sum()
    }
}

/// Applies every lie to one member of each kind in an answer, except kinds that an earlier answer
/// had.
#[cfg(feature = "all-tests")]
fn lie_about(
    (chain, block): (&ExecutedChain, &Block),
    root: &str,
    truth: &Value,
    with: impl Fn(Vec<u8>) -> Statement,
    tally: &mut Tally,
) {
    let honest = served(block);
    let mut all = Vec::new();
    paths(truth, &Vec::new(), &mut all);
    let known: BTreeSet<_> = tally.found.keys().cloned().collect();
    let mut seen = BTreeSet::new();
    for path in all {
        let kind = kind(root, truth, &path);
        // Each kind once. The items of a list that was empty before are a new kind.
        if known.contains(&kind) || !seen.insert(kind.clone()) {
            continue;
        }
        for lie in LIES {
            let Some(altered) = falsify(lie, truth, &path) else {
                continue;
            };
            let statement = with(altered.to_string().into_bytes());
            match (
                statement.verify(&chain.verifier, RequestedBlock::Hash(block.hash)),
                exception(&kind, lie),
            ) {
                (Err(fault), _) => {
                    *tally.found.entry(kind.clone()).or_default() += 1;
                    *tally.reasons.entry(fault.reason()).or_default() += 1;
                    assert!(fault.to_string().len() < 400, "{fault}");
                }
                (Ok(verified), Some(row)) => {
                    tally.exceptions.insert(row);
                    if row != "block.totalDifficulty" {
                        assert!(served(&verified.block) == honest, "{kind} {lie:?}");
                    }
                }
                (Ok(_), None) => panic!("block {}: {kind}: {lie:?} was accepted", block.number()),
            }
        }
    }
}

#[cfg(feature = "all-tests")]
fn lie_about_block(chain: &ExecutedChain, block: &Block, tally: &mut Tally) {
    let truth = Statement::of(block);
    let at = (chain, block);
    let with_block = |block| Statement {
        block,
        ..truth.clone()
    };
    lie_about(at, "block", &parsed(&truth.block), with_block, tally);
    let with_receipts = |receipts| Statement {
        receipts,
        ..truth.clone()
    };
    lie_about(
        at,
        "receipts",
        &parsed(&truth.receipts),
        with_receipts,
        tally,
    );
    if let Some(first) = truth.ommers.first() {
        let with_ommer = |ommer| {
            let mut altered = truth.clone();
            altered.ommers[0] = ommer;
            altered
        };
        lie_about(at, "ommer", &parsed(first), with_ommer, tally);
    }
}

#[test]
#[cfg(feature = "all-tests")]
fn every_lie_about_a_block_is_found() {
    let mut tally = Tally::default();
    for chain in [&EXECUTION_APIS, &DEV] {
        for block in &chain.blocks {
            lie_about_block(chain, block, &mut tally);
        }
    }
    for kind in [
        "block.hash",
        "block.requestsHash",
        "block.totalDifficulty",
        "block.uncles[]",
        "ommer.stateRoot",
        "withdrawal.amount",
        "type 0x0 transaction.v",
        "creating type 0x0 transaction.to",
        "type 0x1 transaction.accessList[].storageKeys[]",
        "type 0x2 transaction.gasPrice",
        "type 0x3 transaction.blobVersionedHashes[]",
        "type 0x4 transaction.authorizationList[].yParity",
        "type 0x0 receipt.root",
        "creating type 0x0 receipt.contractAddress",
        "failed receipt.status",
        "type 0x3 receipt.blobGasPrice",
        "type 0x4 receipt.effectiveGasPrice",
        "log.logIndex",
        "log.topics[]",
        "log.removed",
    ] {
        assert!(tally.found.contains_key(kind), "no block has a {kind}");
    }
    for (row, ..) in EXCEPTIONS {
        assert!(
            tally.exceptions.contains(row),
            "exception {row} never occurred"
        );
    }
    let (lies, kinds) = (tally.lies(), tally.found.len());
    println!(
        "{lies} lies about {kinds} members were found: {:?}",
        tally.reasons
    );
    assert!(lies > 2_000 && kinds > 200, "{lies} lies, {kinds} kinds");
}

/// Truncated and malformed answers, and answers that should be absent.
#[test]
#[cfg(feature = "all-tests")]
fn every_lie_about_a_whole_answer_is_found() {
    let chain = &EXECUTION_APIS;
    // A block with an ommer, preferably one that has transactions too.
    let with_ommer = chain
        .blocks
        .iter()
        .find(|block| block.json().uncle_count() > 0)
        .unwrap();
    let has_both = |block: &&std::sync::Arc<Block>| {
        block.json().uncle_count() > 0 && block.json().transaction_count() > 0
    };
    let block = chain.blocks.iter().find(has_both).unwrap_or(with_ommer);
    let truth = Statement::of(block);
    let mut lies = 0;
    let mut check = |altered: Statement| {
        let verified = altered.verify(&chain.verifier, RequestedBlock::Hash(block.hash));
        assert!(verified.is_err(), "{altered:?}");
        lies += 1;
    };
    let texts = |truth: &[u8]| -> Vec<Vec<u8>> {
        let cuts = (0..truth.len()).step_by(1 + truth.len() / 60);
        let text = String::from_utf8(truth.to_vec()).unwrap();
        let member = text
            .find("\":")
            .map(|end| &text[text.find('"').unwrap()..end + 1]);
        let twice = member.map(|name| text.replacen('{', &format!("{{{name}:\"0x1\","), 1));
        let escaped = text.replacen("\"hash\"", "\"h\\u0061sh\"", 1);
        let more = [
            "null",
            "{}",
            "[]",
            "1",
            "\"0x\"",
            "[null]",
            &format!("{text}{text}"),
            &format!("[{text}]"),
            &escaped,
        ]
        .map(|text| text.as_bytes().to_vec());
        let more = more.into_iter().chain(twice.map(String::into_bytes));
        let more = more.filter(|altered| altered != truth);
        cuts.map(|end| truth[..end].to_vec()).chain(more).collect()
    };
    for block in texts(&truth.block) {
        check(Statement {
            block,
            ..truth.clone()
        });
    }
    for receipts in texts(&truth.receipts) {
        check(Statement {
            receipts,
            ..truth.clone()
        });
    }
    for ommer in texts(&truth.ommers[0]) {
        let ommers = [vec![ommer], truth.ommers[1..].to_vec()].concat();
        check(Statement {
            ommers,
            ..truth.clone()
        });
    }
    check(Statement {
        ommers: vec![],
        ..truth.clone()
    });
    let ommers = [truth.ommers.clone(), truth.ommers.clone()].concat();
    check(Statement { ommers, ..truth });
    println!("{lies} lies about whole answers were found");
    assert!(lies > 150, "{lies}");
}

#[test]
fn every_lie_about_a_proof_is_found() {
    let mut lies = 0;
    let mut kinds = BTreeSet::new();
    for (state, address, slots) in proofs() {
        let keys = slots.iter().map(|slot| ProofKey::Full(*slot)).collect();
        let honest = proof(&state, address, keys, usize::MAX).unwrap();
        let truth = parsed(&honest.into_bytes());
        let verify = |altered: &Value| {
            verify_proof(altered.to_string().as_bytes(), &state, &address, &slots)
        };
        verify(&truth).unwrap();
        let mut all = Vec::new();
        paths(&truth, &Vec::new(), &mut all);
        for path in all {
            for lie in LIES {
                let Some(altered) = falsify(lie, &truth, &path) else {
                    continue;
                };
                let kind = kind("proof", &truth, &path);
                // Keys are compared by value, so a leading zero may be missing.
                if verify(&altered).is_ok() {
                    assert_eq!(
                        (kind.as_str(), lie),
                        ("proof.storageProof[].key", Lie::Shorter)
                    );
                    continue;
                }
                kinds.insert(kind);
                lies += 1;
            }
        }
    }
    println!(
        "{lies} lies about {} members of proofs were found",
        kinds.len()
    );
    assert!(lies > 500 && kinds.len() == 13, "{lies} lies, {kinds:?}");
}

/// Accounts with and without storage, absent accounts, set and empty slots.
fn proofs() -> Vec<(std::sync::Arc<State>, Address, Vec<U256>)> {
    let state = DEV.blocks[10].state.clone().unwrap();
    let mut addresses = BTreeSet::from([Address::repeat_byte(0xee)]);
    for block in &DEV.blocks {
        for receipt in parsed(&block.json().receipts()).as_array().unwrap() {
            addresses.insert(receipt["from"].as_str().unwrap().parse().unwrap());
            for log in receipt["logs"].as_array().unwrap() {
                addresses.insert(log["address"].as_str().unwrap().parse().unwrap());
            }
        }
    }
    let slots = [0_u64, 1, 2, 99];
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for address in addresses {
        let account = state.account(&address).unwrap();
        let values = slots.map(|slot| state.storage(&address, U256::from(slot)).unwrap());
        let kind = (
            account.map(|account| account.storage_root == alloy_trie::EMPTY_ROOT_HASH),
            values.iter().any(|value| !value.is_zero()),
        );
        if seen.insert(kind) {
            found.push((
                std::sync::Arc::clone(&state),
                address,
                slots.map(U256::from).to_vec(),
            ));
        }
    }
    assert!(found.len() >= 3, "{seen:?}");
    found
}

#[test]
fn every_lie_about_a_code_is_found() {
    let code = [0x60, 0x00, 0x5b];
    let hash = alloy_primitives::keccak256(code);
    let verify = |altered: &str| verify_code(altered.as_bytes(), hash);
    assert_eq!(verify(r#""0x60005b""#).unwrap().as_ref(), code);
    assert_eq!(verify(r#""0x60005B""#).unwrap().as_ref(), code);
    for (altered, reason) in [
        (r#""0x60005c""#, "code_hash"),
        (r#""0x6000""#, "code_hash"),
        (r#""0x60005b00""#, "code_hash"),
        (r#""0x""#, "code_hash"),
        (r#""0x60005""#, "malformed_member"),
        (r#""60005b""#, "malformed_member"),
        (r#"["0x60005b"]"#, "malformed_member"),
        ("1", "malformed_member"),
        ("null", "absent"),
        (r#""0x60005b"#, "malformed"),
        ("", "malformed"),
    ] {
        assert_eq!(verify(altered).unwrap_err().reason(), reason, "{altered}");
    }
}
