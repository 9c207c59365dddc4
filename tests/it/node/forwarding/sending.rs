//! Transactions that are sent through nearhead to an anvil and to a geth.

use alloy_consensus::{TxEip2930, TxEip4844, TxEip7702, TxLegacy};
use alloy_eips::eip7702::Authorization;
use alloy_primitives::{Address, Bytes, TxKind, U256, keccak256};
use serde_json::{Value, json};

use super::{SEND, SENDS, anvil, call, forwarded, is_marked, pending, transfer};
use crate::{
    conformance::vectors_of,
    harness::{Connection, Server, check, json as parse, request, scratch, wait_until},
    node::{chain_of_execution_apis, follow_with, http, wait_head, ws},
    upstreams::{Geth, Wallet, proxy::Proxy, quantity},
    websocket::client::Client,
};

/// The vectors hold where a pool is behind: each transaction is taken, and is in geth's pool then.
#[test]
fn vectors_hold_before_a_geth_with_a_pool() {
    let geth = chain_of_execution_apis("node-forwarding-vectors", 54);
    let server = follow_with(&[http(geth.address)], &SENDS);
    let (mut ours, mut theirs) = (server.connect(), geth.connect());
    let vectors = vectors_of(SEND);
    check("vectors", &vectors.len(), &5);
    for (request, expected) in vectors {
        // A second time it is known already, which is success too.
        for _ in 0..2 {
            let response = ours.post(request.to_string());
            check("answer", &parse(&response.body), &expected);
            check("marked", &is_marked(&response), &true);
        }
        let answer = theirs.call("eth_getTransactionByHash", &json!([expected["result"]]));
        check(
            "in the pool",
            &answer["result"]["hash"],
            &expected["result"],
        );
    }
    check("counted", &forwarded(&server, SEND, "answered"), &10);
}

/// Two transactions in a row, the second with the nonce that is pending after the first.
fn send_two(server: &Server, wallet: &Wallet, chain_id: u64) -> [Value; 2] {
    let mut ours = server.connect();
    let count = |ours: &mut Connection| {
        let (_, answer, is_marked) =
            call(ours, "eth_getTransactionCount", &pending(wallet.address));
        check("marked", &is_marked, &true);
        quantity(&answer["result"])
    };
    let first = count(&mut ours);
    [0, 1].map(|sent| {
        let nonce = count(&mut ours);
        check("pending", &nonce, &(first + sent));
        let raw = transfer(wallet, chain_id, nonce);
        let expected = json!({"jsonrpc": "2.0", "id": 1, "result": keccak256(&raw)});
        let (status, answer, is_marked) = call(&mut ours, SEND, &json!([raw]));
        check(
            "sent",
            &(status, &answer, is_marked),
            &(200, &expected, true),
        );
        check("nonce", &count(&mut ours), &(nonce + 1));
        // Until it is mined, other counts are those of blocks.
        let (_, answer, is_marked) = call(
            &mut ours,
            "eth_getTransactionCount",
            &json!([wallet.address]),
        );
        assert!(!is_marked && answer["result"].is_string(), "{answer}");
        expected["result"].clone()
    })
}

fn check_mined(server: &Server, hashes: &[Value]) {
    let mut ours = server.connect();
    for hash in hashes {
        wait_until("the receipt", || {
            let receipt = ours.call("eth_getTransactionReceipt", &json!([hash]));
            receipt["result"]["status"] == "0x1"
        });
    }
}

#[test]
fn two_transactions_in_a_row_are_mined_by_an_anvil_and_read_back() {
    let (mut anvil, wallet) = anvil();
    for url in [http, ws] {
        let server = follow_with(&[url(anvil.address)], &SENDS);
        let hashes = send_two(&server, &wallet, 77);
        let mut ours = server.connect();
        let latest = ours.result(
            "eth_getTransactionCount",
            &json!([wallet.address, "latest"]),
        );
        let nonce = quantity(&latest);
        let raw = transfer(&wallet, 77, nonce);
        check("the first one", &json!(keccak256(&raw)), &hashes[0]);
        // It waits: a second time it is known already.
        let again = ours.result(SEND, &json!([raw]));
        check("again", &again, &hashes[0]);
        anvil.mine(1);
        wait_head(&server, anvil.head());
        check_mined(&server, &hashes);
        // It is in a block: the node says that its nonce is too low, and nothing rests on that.
        let (_, again, is_marked) = call(&mut ours, SEND, &json!([raw]));
        check(
            "mined",
            &(&again["result"], is_marked),
            &(&hashes[0], false),
        );
        check("refused", &forwarded(&server, SEND, "refused"), &1);
    }
}

#[test]
fn two_transactions_in_a_row_are_mined_by_a_geth_and_read_back() {
    let geth = Geth::dev(&scratch("node-forwarding-geth"), 1);
    let mut theirs = geth.connect();
    let wallet = Wallet::of(crate::upstreams::FIRST_KEY);
    let rich = theirs.result("eth_accounts", &json!([]))[0].clone();
    let gift = json!([{"from": rich, "to": wallet.address, "value": "0xde0b6b3a7640000"}]);
    theirs.result("eth_sendTransaction", &gift);
    wait_until("the gift", || {
        theirs.result("eth_getBalance", &json!([wallet.address, "latest"])) != "0x0"
    });
    let head = super::super::head(&mut theirs);
    let server = follow_with(&[ws(geth.address)], &SENDS);
    let mut ours = server.connect();
    wait_until("the gift is served", || {
        super::super::head(&mut ours).0 >= head.0
    });
    let hashes = send_two(&server, &wallet, 1_337);
    check_mined(&server, &hashes);
}

/// A session has no header, and the same answers.
#[test]
fn transactions_are_sent_over_sessions_and_in_batches() {
    let (mut anvil, wallet) = anvil();
    let server = follow_with(&[http(anvil.address)], &SENDS);
    let mut session = Client::open(server.address, &format!("/ws/v3/{}", crate::harness::KEY));
    let raw = transfer(&wallet, 77, 0);
    let answer = session.call(SEND, &json!([raw]));
    check("session", &answer["result"], &json!(keccak256(&raw)));
    let answer = session.call("eth_getTransactionCount", &pending(wallet.address));
    check("pending", &answer["result"], &json!("0x1"));

    let mut ours = server.connect();
    let count = request(1, "eth_getTransactionCount", &pending(wallet.address));
    let send = request(2, SEND, &json!([transfer(&wallet, 77, 1)]));
    let plain = request(3, "eth_chainId", &json!([]));
    for (batch, expected) in [
        (vec![&plain], false),
        (vec![&plain, &count], true),
        (vec![&count, &send, &plain], true),
        (vec![&send, &plain], true),
    ] {
        let response = ours.post(json!(batch).to_string());
        check("marked", &is_marked(&response), &expected);
        let answers = parse(&response.body);
        let results = answers.as_array().unwrap().iter();
        assert!(
            results.clone().all(|answer| answer["result"].is_string()),
            "{answers}"
        );
    }
    for (request, units) in [(&count, "10"), (&send, "10"), (&plain, "1")] {
        let response = ours.post(request.to_string());
        check("units", &response.header("x-nearhead-units"), &Some(units));
    }
    let origin = ours.request(
        &[
            "content-type: application/json",
            "origin: https://app.example",
        ],
        count.to_string().as_bytes(),
    );
    ours.send(&origin);
    let response = ours.receive();
    let exposed = response.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("x-nearhead-verified"), "{exposed}");
    // Without an id it is sent all the same, and not answered.
    let silent = json!({"jsonrpc": "2.0", "method": SEND, "params": [transfer(&wallet, 77, 2)]});
    let response = ours.post(silent.to_string());
    check("no id", &(response.status, response.body.len()), &(200, 0));
    anvil.mine(1);
    wait_head(&server, anvil.head());
    let count = ours.result(
        "eth_getTransactionCount",
        &json!([wallet.address, "latest"]),
    );
    check("mined", &count, &json!("0x3"));
}

/// Transactions that no node takes, each with whether geth has the same words for it.
fn invalid(wallet: &Wallet, chain_id: u64) -> Vec<(&'static str, Bytes, bool)> {
    let to = TxKind::Call(Address::repeat_byte(0x77));
    let legacy = |chain_id, input: usize| {
        wallet.sign(TxLegacy {
            chain_id,
            gas_price: 100_000_000_000,
            gas_limit: 10_000_000,
            to,
            input: vec![0; input].into(),
            ..TxLegacy::default()
        })
    };
    let valid = transfer(wallet, chain_id, 0);
    let with_blobs = wallet.sign(TxEip4844 {
        chain_id,
        gas_limit: 21_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        max_fee_per_blob_gas: 100_000_000_000,
        blob_versioned_hashes: vec![crate::upstreams::EMPTY_BLOB],
        ..TxEip4844::default()
    });
    let mut other_commitment = with_blobs.to_vec();
    let at = other_commitment
        .windows(50)
        .position(|bytes| bytes[..3] == [0xf1, 0xb0, 0xc0])
        .expect("the list of one commitment");
    other_commitment[at + 10] ^= 1;
    let authorization = wallet.authorize(Authorization {
        chain_id: U256::from(chain_id),
        address: Address::repeat_byte(2),
        nonce: 1,
    });
    let delegating = wallet.sign(TxEip7702 {
        chain_id: chain_id + 1,
        gas_limit: 100_000,
        max_fee_per_gas: 100_000_000_000,
        authorization_list: vec![authorization],
        ..TxEip7702::default()
    });
    let mut no_signature = valid.to_vec();
    // s becomes larger than half of the group's order.
    let at = no_signature.len() - 32;
    no_signature[at] = 0xf0;
    vec![
        ("nothing", Bytes::new(), true),
        ("a type", vec![2].into(), true),
        ("an unknown type", vec![5, 0xc0].into(), true),
        ("garbage", vec![0xff; 60].into(), false),
        ("a list", vec![0xc0].into(), false),
        ("cut", valid[..valid.len() - 1].to_vec().into(), false),
        ("bytes after it", [&valid[..], &[0]].concat().into(), false),
        ("another chain", transfer(wallet, chain_id + 1, 0), true),
        ("another chain, legacy", legacy(Some(chain_id + 1), 0), true),
        (
            "another chain, access list",
            wallet.sign(TxEip2930 {
                chain_id: chain_id + 1,
                gas_price: 100_000_000_000,
                gas_limit: 21_000,
                to,
                ..TxEip2930::default()
            }),
            true,
        ),
        ("another chain, delegation", delegating, true),
        ("no chain", legacy(None, 0), true),
        ("no signature", no_signature.into(), true),
        ("too large", legacy(Some(chain_id), 131_072), true),
        ("another commitment", other_commitment.into(), true),
    ]
}

/// The node sees none of them, and the errors are geth's.
#[test]
fn what_no_node_takes_is_refused_here_in_geths_words() {
    let geth = chain_of_execution_apis("node-forwarding-invalid", 54);
    let proxy = Proxy::to(&[geth.address]);
    let server = follow_with(&[http(proxy.address)], &SENDS);
    let (mut ours, mut theirs) = (server.connect(), geth.connect());
    let chain_id = quantity(&theirs.result("eth_chainId", &json!([])));
    let wallet = Wallet::of(crate::upstreams::FIRST_KEY);
    for (case, raw, is_same) in invalid(&wallet, chain_id) {
        let (_, found, is_marked) = call(&mut ours, SEND, &json!([raw]));
        let expected = theirs.call(SEND, &json!([raw]));
        check(case, &found["error"]["code"], &expected["error"]["code"]);
        if is_same {
            check(case, &found, &expected);
        }
        check(case, &is_marked, &false);
    }
    // Not data at all, and the largest body.
    for (params, code) in [
        (json!([]), -32_602),
        (json!([7]), -32_602),
        (json!(["0x0"]), -32_602),
        (json!(["f86c"]), -32_602),
        (json!(["0x00", 1]), -32_602),
        (json!([format!("0x{}", "00".repeat(2_000_000))]), -32_000),
    ] {
        let (_, found, _) = call(&mut ours, SEND, &params);
        check("code", &found["error"]["code"], &json!(code));
    }
    check("calls", &proxy.calls(SEND), &0);
    for outcome in ["answered", "refused", "unanswered", "not_admitted"] {
        check(outcome, &forwarded(&server, SEND, outcome), &0);
    }
}

#[test]
fn nothing_is_sent_without_the_option() {
    let (anvil, wallet) = anvil();
    let proxy = Proxy::to(&[anvil.address]);
    let server = follow_with(&[http(proxy.address)], &["--forward", "txpool_status"]);
    let mut ours = server.connect();
    let raw = transfer(&wallet, 77, 0);
    let (_, answer, _) = call(&mut ours, SEND, &json!([raw]));
    check("unknown", &answer["error"]["code"], &json!(-32_601));
    let (_, answer, is_marked) = call(
        &mut ours,
        "eth_getTransactionCount",
        &pending(wallet.address),
    );
    check(
        "ours",
        &(&answer["result"], is_marked),
        &(&json!("0x0"), false),
    );
    let document = ours.result("rpc.discover", &json!([]));
    assert!(!document.to_string().contains(SEND));
    let count = proxy.calls("eth_getTransactionCount");
    check("calls", &(proxy.calls(SEND), count), &(0, 0));

    let server = follow_with(&[http(anvil.address)], &SENDS);
    let document = server.connect().result("rpc.discover", &json!([]));
    assert!(document.to_string().contains(SEND));
}
