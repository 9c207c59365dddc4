//! The edges of the window: a chain of 200 blocks, of which 73 (0x49) to 200 (0xc8) are served.

use std::{path::PathBuf, sync::OnceLock};

use alloy_primitives::B256;
use serde_json::{Value, json};

use crate::harness::{Connection, Process, Server, check, nearhead, scratch};

/// Blocks of the exported chain.
pub(crate) const BLOCKS: u64 = 200;

/// A dev chain as files: genesis.json and chain.rlp, made by `nearhead export` once for all tests.
pub(crate) fn exported_chain() -> &'static (PathBuf, PathBuf) {
    static FILES: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    let blocks = BLOCKS.to_string();
    FILES.get_or_init(|| export("exported-chain", &["--blocks", &blocks, "--seed", "7"]))
}

/// Makes genesis.json and chain.rlp in a folder with this name, by `nearhead export` with these
/// additional arguments.
pub(crate) fn export(name: &str, arguments: &[&str]) -> (PathBuf, PathBuf) {
    let folder = scratch(&format!("{name}-files"));
    let (genesis, chain) = (folder.join("genesis.json"), folder.join("chain.rlp"));
    let mut command = nearhead(["export"]);
    command.arg("--genesis").arg(&genesis);
    command.arg("--chain").arg(&chain);
    let (status, text) = Process::start(command.args(arguments)).wait();
    assert!(status.success(), "nearhead export: {text}");
    (genesis, chain)
}

fn serve() -> Server {
    let (genesis, chain) = exported_chain();
    Server::files(genesis, chain, &[])
}

/// An address that the chain does not know.
const ABSENT: &str = "0x00000000000000000000000000000000000000ff";

/// State methods and their parameters before the block.
fn state_methods() -> [(&'static str, Vec<Value>); 6] {
    let absent = json!(ABSENT);
    [
        ("eth_getStorageAt", vec![absent.clone(), json!("0x0")]),
        ("eth_getProof", vec![absent.clone(), json!([])]),
        ("eth_getBalance", vec![absent.clone()]),
        ("eth_getTransactionCount", vec![absent.clone()]),
        ("eth_getCode", vec![absent]),
        (
            "eth_getStorageValues",
            vec![json!({ ABSENT: [B256::ZERO] })],
        ),
    ]
}

/// Asserts that a call is refused with this code and message, without data.
#[track_caller]
fn check_refused(
    connection: &mut Connection,
    method: &str,
    params: &Value,
    code: i32,
    message: &str,
) {
    let expected = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}});
    check(
        &format!("{method} {params}"),
        &connection.call(method, params),
        &expected,
    );
}

/// Asserts that two calls have the same result, which is not null.
#[track_caller]
fn check_same(connection: &mut Connection, call: (&str, Value), equal: (&str, Value)) {
    let result = connection.result(call.0, &call.1);
    assert!(!result.is_null(), "{call:?}: null");
    check(
        &format!("{call:?} as {equal:?}"),
        &result,
        &connection.result(equal.0, &equal.1),
    );
}

#[test]
fn state_is_readable_only_inside_the_window() {
    let server = serve();
    let mut connection = server.connect();
    let unknown = json!(format!("0x{}", "7".repeat(64)));
    let genesis = connection.result("eth_getBlockByNumber", &json!(["0x0", false]))["hash"].clone();
    let before =
        connection.result("eth_getBlockByNumber", &json!(["0x49", false]))["parentHash"].clone();
    let historical = |block| format!("historical state not available: block {block}, oldest 73");
    for (method, params) in state_methods() {
        let with = |block: Value| Value::from([&params[..], &[block]].concat());
        for (block, message) in [
            (json!("0xc9"), "header not found".to_owned()),
            (json!("0x7fffffffffffffff"), "header not found".to_owned()),
            (
                json!({"blockNumber": "0xc9"}),
                "header not found".to_owned(),
            ),
            (json!("0x48"), historical(72)),
            (json!("0x0"), historical(0)),
            (json!({"blockNumber": "0x48"}), historical(72)),
            (genesis.clone(), historical(0)),
            (unknown.clone(), "header for hash not found".to_owned()),
            (before.clone(), "header for hash not found".to_owned()),
            (
                json!({"blockHash": before, "requireCanonical": true}),
                "header for hash not found".to_owned(),
            ),
        ] {
            check_refused(&mut connection, method, &with(block), -32000, &message);
        }
        check_same(
            &mut connection,
            (method, with(json!("earliest"))),
            (method, with(json!("0x49"))),
        );
        for tag in ["latest", "pending", "safe", "finalized"] {
            check_same(
                &mut connection,
                (method, with(json!(tag))),
                (method, with(json!("0xc8"))),
            );
        }
    }
}

#[test]
fn blocks_are_readable_inside_the_window_and_the_genesis_always() {
    let server = serve();
    let mut connection = server.connect();
    let by_number = |number: &str| ("eth_getBlockByNumber", json!([number, true]));
    check_same(&mut connection, by_number("earliest"), by_number("0x49"));
    for tag in ["latest", "safe", "finalized"] {
        check_same(&mut connection, by_number(tag), by_number("0xc8"));
    }
    let genesis = connection.result("eth_getBlockByNumber", &json!(["0x0", true]));
    check("genesis", &genesis["number"], &json!("0x0"));
    check_same(
        &mut connection,
        by_number("0x0"),
        ("eth_getBlockByHash", json!([genesis["hash"], true])),
    );

    let before =
        connection.result("eth_getBlockByNumber", &json!(["0x49", false]))["parentHash"].clone();
    let null = |method: &str, params: Value, connection: &mut Connection| {
        check(
            &format!("{method} {params}"),
            &connection.result(method, &params),
            &Value::Null,
        );
    };
    null("eth_getBlockByHash", json!([before, true]), &mut connection);
    null(
        "eth_getUncleByBlockHashAndIndex",
        json!([before, "0x0"]),
        &mut connection,
    );
    null("eth_getBlockReceipts", json!([before]), &mut connection);
    null(
        "eth_getBlockByNumber",
        json!(["0xc9", true]),
        &mut connection,
    );
    for (method, rest) in [
        ("eth_getTransactionByBlockNumberAndIndex", json!("0x0")),
        ("eth_getUncleByBlockNumberAndIndex", json!("0x0")),
        ("eth_getBlockByNumber", json!(false)),
    ] {
        check_refused(
            &mut connection,
            method,
            &json!(["0x48", rest]),
            4444,
            "pruned history unavailable",
        );
    }
    for method in [
        "eth_getUncleCountByBlockNumber",
        "eth_getBlockTransactionCountByNumber",
        "eth_getBlockReceipts",
    ] {
        check_refused(
            &mut connection,
            method,
            &json!(["0x48"]),
            4444,
            "pruned history unavailable",
        );
    }
    for number in ["0xc9", "pending"] {
        null(
            "eth_getTransactionByBlockNumberAndIndex",
            json!([number, "0x0"]),
            &mut connection,
        );
    }
    check_same(
        &mut connection,
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!(["earliest", "0x0"]),
        ),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!(["0x49", "0x0"]),
        ),
    );
}

#[test]
fn logs_are_searched_only_inside_the_window() {
    let server = serve();
    let mut connection = server.connect();
    let before =
        connection.result("eth_getBlockByNumber", &json!(["0x49", false]))["parentHash"].clone();
    let pruned = (4444, "pruned history unavailable");
    let range = (-32602, "invalid block range params");
    for (filter, (code, message)) in [
        (json!({"fromBlock": "0x48"}), pruned),
        (json!({"fromBlock": "0x0", "toBlock": "0x48"}), pruned),
        (json!({"fromBlock": "0x48", "toBlock": "0xc9"}), pruned),
        (json!({"fromBlock": "0x0", "toBlock": "finalized"}), pruned),
        (json!({"fromBlock": "0x10", "toBlock": "0xf"}), range),
        (json!({"fromBlock": "0x49", "toBlock": "0x48"}), range),
        (json!({"fromBlock": "earliest", "toBlock": "0x48"}), range),
        (json!({"blockHash": before}), (-32000, "unknown block")),
    ] {
        check_refused(
            &mut connection,
            "eth_getLogs",
            &json!([filter]),
            code,
            message,
        );
    }
    let logs = |filter: Value| ("eth_getLogs", json!([filter]));
    let whole = logs(json!({"fromBlock": "0x49", "toBlock": "0xc8"}));
    check_same(
        &mut connection,
        logs(json!({"fromBlock": "earliest"})),
        whole.clone(),
    );
    check_same(
        &mut connection,
        logs(json!({"fromBlock": "earliest", "toBlock": "pending"})),
        whole,
    );
    check_same(
        &mut connection,
        logs(json!({})),
        logs(json!({"fromBlock": "0xc8", "toBlock": "0xc8"})),
    );
}

/// The bound of 10,000 results: the range that the error names is answered, and one block more is
/// refused.
#[test]
fn too_many_logs_name_the_range_that_fits() {
    let server = Server::start(&["--profile", "adversarial", "--block-time", "0s"]);
    let mut connection = server.connect();
    let answer = connection.call("eth_getLogs", &json!([{"fromBlock": "earliest"}]));
    let error = &answer["error"];
    check("code", &error["code"], &json!(-32005));
    check(
        "message",
        &error["message"],
        &json!("query returned more than 10000 results"),
    );
    check("limit", &error["data"]["limit"], &json!(10_000));
    let (from, to) = (&error["data"]["from"], &error["data"]["to"]);
    let fits = connection.result("eth_getLogs", &json!([{"fromBlock": from, "toBlock": to}]));
    assert!(fits.as_array().unwrap().len() <= 10_000);
    let next = u64::from_str_radix(to.as_str().unwrap().trim_start_matches("0x"), 16).unwrap() + 1;
    let next = format!("{next:#x}");
    let beyond = connection.call(
        "eth_getLogs",
        &json!([{"fromBlock": from, "toBlock": next}]),
    );
    check("one block more", &beyond["error"], error);
    // One block alone has too many logs: no range fits.
    let alone = connection.call(
        "eth_getLogs",
        &json!([{"fromBlock": next, "toBlock": next}]),
    );
    check(
        "a block alone",
        &alone["error"]["data"],
        &json!({"from": next, "to": null, "limit": 10_000}),
    );
    let block = connection.result("eth_getBlockByNumber", &json!([next, false]));
    let by_hash = connection.call("eth_getLogs", &json!([{"blockHash": block["hash"]}]));
    check(
        "the bound by hash is the same",
        &by_hash["error"],
        &alone["error"],
    );
}
