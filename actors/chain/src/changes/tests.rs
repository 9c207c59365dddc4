#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use alloy_eips::{eip7002, eip7251, eip8282};
use alloy_primitives::{Address, B256, U256, keccak256};
use serde_json::{Value, json};

use super::{AccessList, TraceError, add_operations, traced};
use crate::{
    remote::UpstreamFault,
    test_block::TestBlock,
    trie::{AccountChange, NodeStore, State, StateChanges},
};

const ONE: Address = Address::repeat_byte(1);
const TWO: Address = Address::repeat_byte(2);

fn word(value: u64) -> B256 {
    B256::from(U256::from(value))
}

/// The changes that the traces of a block report, given as `[pre, post]` of each transaction.
fn of(traces: &[[Value; 2]]) -> StateChanges {
    let trace = |[pre, post]: &[Value; 2]| json!({"result": {"pre": pre, "post": post}});
    let json: Vec<Value> = traces.iter().map(trace).collect();
    traced(json!(json).to_string().as_bytes(), traces.len()).unwrap()
}

fn check(traces: &[[Value; 2]], expected: &[(Address, AccountChange)]) {
    let expected = expected.iter().cloned().collect();
    assert_eq!(of(traces).accounts, expected, "{traces:?}");
}

#[test]
fn the_last_value_of_each_key_counts() {
    check(
        &[
            [
                json!({ONE.to_string(): {"balance": "0x5", "nonce": 1}}),
                json!({ONE.to_string(): {"balance": "0x4", "nonce": 2}}),
            ],
            [
                json!({ONE.to_string(): {"balance": "0x4", "nonce": 2}}),
                json!({ONE.to_string(): {"balance": "0x9"}}),
            ],
        ],
        &[(
            ONE,
            AccountChange {
                nonce: Some(2),
                balance: Some(U256::from(9)),
                ..AccountChange::default()
            },
        )],
    );
}

#[test]
fn a_slot_without_a_new_value_is_zero() {
    check(
        &[[
            json!({ONE.to_string(): {"storage": {word(1).to_string(): word(7), word(2).to_string(): word(8)}}}),
            json!({ONE.to_string(): {"storage": {word(2).to_string(): word(9), word(3).to_string(): word(1)}}}),
        ]],
        &[(
            ONE,
            AccountChange {
                storage: [(1, 0), (2, 9), (3, 1)]
                    .map(|(slot, value)| (U256::from(slot), U256::from(value)))
                    .into_iter()
                    .collect(),
                ..AccountChange::default()
            },
        )],
    );
}

#[test]
fn an_account_that_is_deleted_and_made_again_loses_its_storage() {
    let deleted = [
        json!({ONE.to_string(): {"balance": "0x1", "storage": {word(1).to_string(): word(7)}}}),
        json!({}),
    ];
    let cleared = AccountChange {
        is_cleared: true,
        ..AccountChange::default()
    };
    check(std::slice::from_ref(&deleted), &[(ONE, cleared.clone())]);
    let made = [
        json!({}),
        json!({ONE.to_string(): {"nonce": "0x1", "codeHash": word(5), "storage": {word(2).to_string(): word(3)}}}),
    ];
    let again = AccountChange {
        nonce: Some(1),
        code_hash: Some(word(5)),
        storage: [(U256::from(2), U256::from(3))].into_iter().collect(),
        ..cleared
    };
    check(&[deleted, made], &[(ONE, again)]);
}

#[test]
fn the_hash_of_code_is_stated_or_follows_from_the_code() {
    for (account, expected) in [
        (json!({"codeHash": word(5)}), Some(word(5))),
        (json!({"code": "0x6001"}), Some(keccak256([0x60, 1]))),
        (
            json!({"codeHash": word(5), "code": "0x6001"}),
            Some(word(5)),
        ),
        (json!({"codeHash": B256::ZERO, "balance": "0x1"}), None),
    ] {
        let changes = of(&[[json!({}), json!({ONE.to_string(): account})]]);
        assert_eq!(changes.accounts[&ONE].code_hash, expected, "{account}");
    }
}

#[test]
fn keys_count_accounts_and_slots() {
    let changes = of(&[[
        json!({TWO.to_string(): {"storage": {word(1).to_string(): word(1)}}}),
        json!({TWO.to_string(): {}, ONE.to_string(): {"balance": "0x1"}}),
    ]]);
    assert_eq!(changes.keys(), 3);
}

#[test]
fn other_answers_are_refused() {
    let whole = json!([{"result": {"pre": {}, "post": {}}}]);
    for json in [
        json!(null),
        json!({}),
        json!([{"error": "execution timeout"}]),
        json!([{"result": {"pre": {}}}]),
        json!([{"result": {"pre": {"0x1": {}}, "post": {}}}]),
        json!([{"result": {"pre": {}, "post": {ONE.to_string(): {"balance": "many"}}}}]),
        json!([{"result": {"pre": {}, "post": {ONE.to_string(): {"nonce": -1}}}}]),
    ] {
        let refused = traced(json.to_string().as_bytes(), 1);
        assert!(
            matches!(refused, Err(TraceError::Malformed(_))),
            "{json}: {refused:?}"
        );
    }
    let refused = traced(whole.to_string().as_bytes(), 2).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "expected the traces of 2 transactions, found 1"
    );
}

/// Of a queue that is not held, it is only known that a block may have changed it.
#[test]
fn the_queues_of_builders_count_from_amsterdam_on() {
    let before = State::hold(&NodeStore::new(), word(9));
    let queues = [
        eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
        eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
        eip8282::BUILDER_DEPOSIT_CONTRACT_ADDRESS,
        eip8282::BUILDER_EXIT_CONTRACT_ADDRESS,
    ];
    for (has_requests, has_list, expected) in [
        (false, false, [false; 4]),
        (true, false, [true, true, false, false]),
        (true, true, [true; 4]),
    ] {
        let mut block = (*TestBlock::default().genesis()).clone();
        block.header.requests_hash = has_requests.then_some(B256::ZERO);
        block.header.block_access_list_hash = has_list.then_some(B256::ZERO);
        let mut changes = StateChanges::default();
        add_operations(&mut changes, &block, &before);
        let is_asked_for = queues.map(|queue| {
            let change = changes.accounts.get(&queue);
            change.is_some_and(|change| change.is_unknown && change.storage.len() == 4)
        });
        assert_eq!(is_asked_for, expected);
    }
}

/// The RLP of a list is the list, and has the hash of the block's header.
#[test]
fn an_access_list_is_its_rlp() {
    let index = |index: &str, name: &str, value: Value| json!([{"index": index, name: value}]);
    let of_all = json!({
        "address": ONE,
        "storageChanges": [{"key": word(1), "changes": index("0x1", "value", json!(word(2)))}],
        "storageReads": [word(7), word(8)],
        "balanceChanges": index("0x0", "value", json!("0x5")),
        "nonceChanges": index("0x2", "value", json!("0x1")),
        "codeChanges": index("0x100", "code", json!("0x6000")),
    });
    let mut of_none = json!({"address": TWO});
    for name in [
        "storageChanges",
        "storageReads",
        "balanceChanges",
        "nonceChanges",
        "codeChanges",
    ] {
        of_none[name] = json!([]);
    }
    for list in [json!([of_all, of_none]), json!([of_none]), json!([])] {
        let json = list.to_string();
        let hash = match AccessList::verify(json.as_bytes(), B256::ZERO) {
            Err(UpstreamFault::AccessListHash { found, .. }) => found,
            // Of an empty list in RLP.
            Err(UpstreamFault::Absent { .. }) => keccak256([0xc0]),
            other => panic!("{other:?}"),
        };
        let rlp = AccessList::verify(json.as_bytes(), hash).unwrap().rlp();
        assert_eq!(keccak256(&rlp), hash);
        let read = AccessList::of_rlp(&rlp, hash).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&read.json()).unwrap(), list);
        for at in 0..rlp.len() {
            let mut other = rlp.to_vec();
            other[at] ^= 1;
            assert!(AccessList::of_rlp(&other, hash).is_none(), "{at}");
        }
        assert!(AccessList::of_rlp(b"", hash).is_none());
    }
    // A hash does not make a list of what is none.
    assert!(AccessList::of_rlp(b"no list", keccak256(b"no list")).is_none());
}
