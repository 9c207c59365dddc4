//! Errors that neither a source nor a client can cause on demand: each test sets up the state for
//! one.

use std::{sync::Arc, time::Duration};

use alloy_primitives::B256;
use nearhead::{
    limits::CallLimits,
    rpc::{Answer, RequestSession, RpcError, SubscriptionKind, Via},
};
use nearhead_chain::{
    chain_file::{self, ChainReader},
    encode::EncodeOptions,
    window::Snapshot,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    harness::{check, vectors},
    in_process::{InProcess, now},
};

/// The execution-apis chain up to block 4, of which nothing is settled.
async fn unsettled() -> InProcess {
    let [genesis, chain] =
        ["genesis.json", "chain.rlp"].map(|name| std::fs::read(vectors().join(name)).unwrap());
    let genesis = chain_file::read_genesis(&genesis).unwrap();
    let mut system = InProcess::start(&genesis, EncodeOptions::default());
    let blocks = ChainReader::new(&chain[..]).unwrap().take(4);
    let blocks: Vec<_> = blocks.map(Result::unwrap).collect();
    system.advance(0, &blocks, false).await;
    system
}

/// An error answer to the call with id 1.
fn refused(code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}})
}

/// Calls of every method that takes a block tag.
pub(crate) fn calls_with_tag(tag: &str) -> Vec<(&'static str, Value)> {
    let absent = "0x00000000000000000000000000000000000000ff";
    vec![
        ("eth_getStorageAt", json!([absent, "0x0", tag])),
        ("eth_getProof", json!([absent, [], tag])),
        ("eth_getBalance", json!([absent, tag])),
        ("eth_getTransactionCount", json!([absent, tag])),
        ("eth_getCode", json!([absent, tag])),
        ("eth_call", json!([{"to": absent}, tag])),
        ("eth_estimateGas", json!([{"to": absent}, tag])),
        ("debug_getRawBlock", json!([tag])),
        ("debug_getRawHeader", json!([tag])),
        ("debug_getRawReceipts", json!([tag])),
        ("eth_feeHistory", json!(["0x1", tag, []])),
        ("eth_getBlockByNumber", json!([tag, true])),
        ("eth_getBlockAccessList", json!([tag])),
        ("eth_getBlockReceipts", json!([tag])),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!([tag, "0x0"]),
        ),
        ("eth_getUncleByBlockNumberAndIndex", json!([tag, "0x0"])),
        ("eth_getUncleCountByBlockNumber", json!([tag])),
        ("eth_getBlockTransactionCountByNumber", json!([tag])),
        ("eth_getLogs", json!([{"fromBlock": tag}])),
        ("eth_getLogs", json!([{"fromBlock": "0x1", "toBlock": tag}])),
    ]
}

#[actix::test]
async fn safe_and_finalized_may_be_unknown() {
    let system = unsettled().await;
    for tag in ["safe", "finalized"] {
        for (method, params) in calls_with_tag(tag) {
            let answer = system.call(method, &params).await;
            let expected = refused(-39001, "Unknown block");
            check(&format!("{method} {params}"), &answer, &expected);
        }
    }
}

#[actix::test]
async fn a_query_that_takes_too_long_times_out() {
    let mut system = unsettled().await;
    let timed_out = refused(-32005, "query timeout exceeded");
    for filter in [json!({}), json!({"fromBlock": "0x0", "toBlock": "latest"})] {
        let params = json!([filter]);
        system.dispatcher.logs_deadline = Duration::ZERO;
        check(
            "at once",
            &system.call("eth_getLogs", &params).await,
            &timed_out,
        );
        system.dispatcher.logs_deadline = Duration::from_secs(3600);
        let answer = system.call("eth_getLogs", &params).await;
        assert!(answer["result"].is_array(), "{answer}");
    }
}

/// Its thread is free again: otherwise, the next call would wait for ever.
#[actix::test]
async fn a_call_that_takes_too_long_times_out_and_ends() {
    let mut system = unsettled().await;
    let contract = "0x00000000000000000000000000000000000c0de5";
    // A loop, with more gas than it could use in years.
    let endless = json!([{"to": contract}, "latest", {contract: {"code": "0x5b600056"}}]);
    for (method, timeout) in [
        ("eth_call", Duration::from_millis(50)),
        ("eth_estimateGas", Duration::from_millis(50)),
        ("eth_createAccessList", Duration::ZERO),
    ] {
        system.dispatcher.calls = CallLimits {
            gas_max: u64::MAX >> 1,
            timeout,
        };
        let endless = match method {
            "eth_estimateGas" => json!([
                {"to": contract, "gas": "0x7fffffffffffffff"},
                "latest",
                endless[2]
            ]),
            _ => endless.clone(),
        };
        let answer = system.call(method, &endless).await;
        check(method, &answer, &refused(-32005, "query timeout exceeded"));
    }
    system.dispatcher.calls.timeout = Duration::from_secs(3_600);
    let answer = system.call("eth_call", &json!([{"to": contract}])).await;
    check("the next call", &answer["result"], &json!("0x"));
}

/// A session whose every call panics.
struct Panicking;

impl RequestSession for Panicking {
    fn subscribe(
        &self,
        _: SubscriptionKind,
        _: Option<B256>,
        _: &Arc<Snapshot>,
    ) -> Result<String, RpcError> {
        panic!("on purpose")
    }

    fn unsubscribe(&self, _: &str) -> bool {
        panic!("on purpose")
    }

    fn large_answer(&self) -> Arc<Semaphore> {
        panic!("on purpose")
    }

    fn batch_held_max(&self) -> usize {
        panic!("on purpose")
    }

    fn uncharged_buffer(&self) -> usize {
        panic!("on purpose")
    }
}

/// The first body panics in a method's handler, the second in the dispatcher's own code.
#[actix::test]
async fn a_panic_is_answered_and_counted() {
    let system = unsettled().await;
    let dispatcher = &system.dispatcher;
    let bodies = [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#,
            "1",
        ),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}]"#,
            "null",
        ),
    ];
    for (panics, (body, id)) in (1..).zip(bodies) {
        let answer = dispatcher
            .answer(
                &system.key,
                body.as_bytes(),
                now(),
                Via::session(&Panicking),
            )
            .await;
        let expected = Answer::error(id, &RpcError::Internal);
        check(
            body,
            &answer.json.unwrap().into_bytes(),
            &expected.json.unwrap().into_bytes(),
        );
        assert_eq!(
            dispatcher.worker.resources().admission.panics().total(),
            panics
        );
    }
    let served = system.call("eth_chainId", &json!([])).await;
    assert!(served["result"].is_string(), "{served}");
}

/// A panic in the dispatcher or in an actor is answered with this error.
#[actix::test]
async fn an_internal_error_hides_its_cause_and_panics_are_counted() {
    let answer = Answer::error("1", &RpcError::Internal).json.unwrap();
    let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}"#;
    check(
        "answer",
        &answer.into_bytes(),
        &expected.as_bytes().to_vec(),
    );
    let system = unsettled().await;
    let dispatcher = &system.dispatcher;
    let reads = dispatcher.worker.resources();
    for total in ["nearhead_panics_total 0\n", "nearhead_panics_total 1\n"] {
        let metrics = dispatcher
            .metrics
            .render(&dispatcher.readiness, reads)
            .unwrap();
        assert!(metrics.contains(total), "no {total} in {metrics}");
        reads.admission.panics().count();
    }
}
