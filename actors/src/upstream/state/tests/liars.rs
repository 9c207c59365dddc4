//! Traces that lie: none is a fault, and none makes an answer false.

use serde_json::{Value, json};

use super::{
    merges::{CONTRACT_HELD, merge, telling, trace},
    *,
};
use crate::upstream::state::merge_counts::{ChangesFrom, MergeEnd};

fn changed(call: &RecordedCall, change: impl FnOnce(&mut Value)) -> UpstreamReply {
    let mut trace = trace();
    change(&mut trace[0]["result"]);
    telling(call, &trace)
}

fn slots(account: &mut Value) -> &mut serde_json::Map<String, Value> {
    account["storage"].as_object_mut().unwrap()
}

fn word(value: u64) -> String {
    B256::from(U256::from(value)).to_string()
}

fn name(number: u64) -> String {
    address(number).to_string()
}

/// Accounts of which a trace says the truth, so that all but the lie can be computed.
const HELD: [(u64, &[u64]); 4] = [CONTRACT_HELD, (4, &[]), (7, &[]), (ACCOUNTS, &[])];

/// What is wrong, and how the merge ends: what was reported is proven, what was not is fetched when
/// it is read.
const LIES: [(&str, Respond, MergeEnd); 10] = [
    (
        "the value of a slot",
        |call| {
            changed(call, |trace| {
                let of_slots = slots(&mut trace["post"][name(3)]);
                _ = of_slots.insert(word(1), json!(word(78)));
            })
        },
        MergeEnd::Part,
    ),
    (
        "a slot that did not change",
        |call| {
            changed(call, |trace| {
                let of_slots = slots(&mut trace["post"][name(3)]);
                _ = of_slots.insert(word(5), json!(word(1)));
            })
        },
        MergeEnd::Part,
    ),
    (
        "a nonce",
        |call| {
            changed(call, |trace| {
                trace["post"][name(4)]["nonce"] = json!(9);
            })
        },
        MergeEnd::Whole,
    ),
    (
        "a balance",
        |call| {
            changed(call, |trace| {
                trace["post"][name(4)]["balance"] = json!("0x9");
            })
        },
        MergeEnd::Whole,
    ),
    (
        "the hash of a code",
        |call| {
            changed(call, |trace| {
                trace["post"][name(3)]["codeHash"] = json!(word(9));
            })
        },
        MergeEnd::Whole,
    ),
    (
        "a slot left out that was deleted",
        |call| {
            changed(call, |trace| {
                _ = slots(&mut trace["pre"][name(3)]).remove(&word(2));
            })
        },
        MergeEnd::Part,
    ),
    (
        "a deletion of an account",
        |call| {
            changed(call, |trace| {
                trace["pre"][name(7)] = json!({"balance": "0x7", "nonce": 1});
            })
        },
        MergeEnd::Whole,
    ),
    (
        "a deletion of an account that changed",
        |call| {
            changed(call, |trace| {
                _ = trace["post"].as_object_mut().unwrap().remove(&name(4));
            })
        },
        MergeEnd::Whole,
    ),
    (
        "a deletion of a contract that changed",
        |call| {
            changed(call, |trace| {
                _ = trace["post"].as_object_mut().unwrap().remove(&name(3));
            })
        },
        MergeEnd::Part,
    ),
    (
        "the changes of another block",
        |call| {
            changed(call, |trace| {
                *trace = json!({
                    "pre": {name(10): {"balance": "0xa", "nonce": 1}},
                    "post": {name(10): {"balance": "0x99"}},
                });
            })
        },
        MergeEnd::Part,
    ),
];

#[actix::test]
async fn a_lie_of_any_kind_makes_no_answer_false() {
    for (name, respond, end) in LIES {
        let mut merged = merge(StateFollow::Auto, &[respond], &HELD).await;
        assert_eq!(merged.end, (ChangesFrom::Tracer, end), "{name}");
        merged.check_true(name);
    }
}
