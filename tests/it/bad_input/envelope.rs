//! The JSON-RPC envelope: single calls, batches, requests without an id, ids.

use super::{Row, error};

const CHAIN_ID: &str = r#""0xc72dd9d5e883e""#;

/// The answer to eth_chainId with this id.
fn chain_id(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{CHAIN_ID}}}"#)
}

/// A call of eth_chainId with this id.
fn call_chain_id(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_chainId"}}"#)
}

/// Text that is not exactly one JSON value.
const NOT_JSON: &[&str] = &[
    "",
    " ",
    "\n",
    "x",
    "{",
    "}",
    "[",
    "]",
    "nul",
    "'single'",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"} {}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}\u{0}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\",}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\",\"params\":[1,]}",
    "{\"jsonrpc\":\"2.0\",\"id\":1 \"method\":\"eth_chainId\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"eth_chainId\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":+1,\"method\":\"eth_chainId\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":.5,\"method\":\"eth_chainId\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":0x1,\"method\":\"eth_chainId\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"eth_chainId\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"a\nb\",\"method\":\"eth_chainId\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"\\x\",\"method\":\"eth_chainId\"}",
    "{jsonrpc:\"2.0\",id:1,method:\"eth_chainId\"}",
    "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}",
    "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}",
    "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"},]",
    "[]]",
    "<xml/>",
];

/// JSON that is neither an object nor an array.
const SCALARS: &[&str] = &["1", "-1.5", "true", "null", "\"eth_chainId\""];

/// Ids that the answer echoes byte for byte.
const IDS: &[&str] = &[
    "0",
    "-1",
    "1.0",
    "1.50",
    "1e3",
    "1E+3",
    "-0",
    "9007199254740993",
    "123456789012345678901234567890",
    "null",
    "\"\"",
    "\"a\"",
    "\"\\u0041\"",
    "\"\\\"\\\\\"",
    "\"\u{e4}\u{1f600}\"",
    "\"1\"",
];

/// Ids that are not allowed.
const BAD_IDS: &[&str] = &["{}", "[]", "[1]", "{\"id\":1}", "true", "false"];

/// Objects that are not requests, each with the id of its answer.
const INVALID: &[(&str, &str)] = &[
    (r"{}", "null"),
    (r#"{"jsonrpc":"2.0"}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":1}"#, "1"),
    (r#"{"id":1,"method":"eth_chainId"}"#, "1"),
    (r#"{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}"#, "1"),
    (
        r#"{"jsonrpc":"2","id":"x","method":"eth_chainId"}"#,
        "\"x\"",
    ),
    (r#"{"jsonrpc":2.0,"id":1,"method":"eth_chainId"}"#, "1"),
    (r#"{"jsonrpc":2,"id":1,"method":"eth_chainId"}"#, "1"),
    (r#"{"jsonrpc":null,"id":1,"method":"eth_chainId"}"#, "1"),
    (r#"{"jsonrpc":"","id":1,"method":"eth_chainId"}"#, "1"),
    (r#"{"jsonrpc":["2.0"],"id":1,"method":"eth_chainId"}"#, "1"),
    (r#"{"JSONRPC":"2.0","id":1,"method":"eth_chainId"}"#, "1"),
    (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, "1"),
    (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, "1"),
    (r#"{"jsonrpc":"2.0","id":1,"method":["eth_chainId"]}"#, "1"),
    (r#"{"jsonrpc":"2.0","id":1,"method":{}}"#, "1"),
    (r#"{"jsonrpc":"2.0","id":1,"params":[]}"#, "1"),
    (r#"{"method":"eth_chainId"}"#, "null"),
    (r#"{"jsonrpc":"1.0","method":"eth_chainId"}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#, "1"),
];

/// Names of methods that do not exist.
const UNKNOWN: &[&str] = &[
    "",
    "eth",
    "eth_",
    "eth_chainid",
    "ETH_CHAINID",
    " eth_chainId",
    "eth_chainId ",
    "eth_coinbase",
    "eth_sendRawTransaction",
    "eth_newPendingTransactionFilter",
    "eth_getLogs\u{0}",
    "debug_traceBlock",
    "rpc.describe",
    "\u{e4}",
];

/// Params that are not an array; absent and null are allowed.
const NON_ARRAYS: &[&str] = &[
    "{}",
    r#"{"address":"0x0"}"#,
    "1",
    "\"0x1\"",
    "true",
    "false",
];

/// Requests without an id: valid or not, they get no answer.
const WITHOUT_ID: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#,
    r#"{"jsonrpc":"2.0","method":"eth_chainId","params":[]}"#,
    r#"{"jsonrpc":"2.0","method":"no_such_method"}"#,
    r#"{"jsonrpc":"2.0","method":"eth_getLogs","params":[1,2,3]}"#,
    r#"{"jsonrpc":"2.0","method":"eth_chainId","params":{}}"#,
    r#"[{"jsonrpc":"2.0","method":"eth_chainId"}]"#,
    r#"[{"jsonrpc":"2.0","method":"eth_chainId"},{"jsonrpc":"2.0","method":"no_such_method"}]"#,
];

/// All envelope rows.
pub(super) fn rows() -> Vec<Row> {
    let parse_error = error("null", -32700, "parse error");
    let invalid = |id: &str| error(id, -32600, "invalid request");
    let mut rows = Vec::new();
    rows.extend(NOT_JSON.iter().map(|text| Row::exact(*text, &*parse_error)));
    rows.extend(
        SCALARS
            .iter()
            .map(|text| Row::exact(*text, invalid("null"))),
    );
    rows.extend(
        IDS.iter()
            .map(|id| Row::exact(call_chain_id(id), chain_id(id))),
    );
    rows.extend(
        BAD_IDS
            .iter()
            .map(|id| Row::exact(call_chain_id(id), invalid("null"))),
    );
    rows.extend(
        INVALID
            .iter()
            .map(|(request, id)| Row::exact(*request, invalid(id))),
    );
    rows.extend(UNKNOWN.iter().map(|method| unknown(method)));
    rows.extend(
        NON_ARRAYS
            .iter()
            .map(|params| Row::refused("eth_chainId", params, -32602, "non-array args")),
    );
    rows.extend(WITHOUT_ID.iter().map(|request| Row::exact(*request, "")));
    rows.extend(lenient());
    rows.extend(batches());
    rows.extend(depth_bombs());
    rows
}

fn unknown(method: &str) -> Row {
    let name = serde_json::Value::from(method);
    let message = format!("the method {method} does not exist/is not available");
    Row::exact(
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":{name}}}"#),
        error("1", -32601, &message),
    )
}

/// Unusual but valid requests.
fn lenient() -> [Row; 7] {
    [
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[ ]}"#,
        r#"{"method":"eth_chainId","params":[],"id":1,"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","extra":{"a":[1]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth\u005fchainId"}"#,
        "\r\n\t {\"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"eth_chainId\" } \r\n",
        r#"{"\u006asonrpc":"2.\u0030","id":1,"method":"eth_chainId"}"#,
    ]
    .map(|request| Row::exact(request, chain_id("1")))
}

/// Batches: answered in order, each item checked on its own.
fn batches() -> Vec<Row> {
    let invalid = error("null", -32600, "invalid request");
    let too_large = |id: &str| format!("[{}]", error(id, -32600, "batch too large"));
    let many = |count: usize| vec![call_chain_id("7"); count].join(",");
    let without_id = r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#;
    vec![
        Row::exact("[]", error("null", -32600, "empty batch")),
        Row::exact(" [ ] ", error("null", -32600, "empty batch")),
        Row::exact("[1]", format!("[{invalid}]")),
        Row::exact(
            "[1,null,\"x\",[],{}]",
            format!("[{}]", [&*invalid; 5].join(",")),
        ),
        Row::exact(
            format!("[[{}]]", call_chain_id("1")),
            format!("[{invalid}]"),
        ),
        Row::exact(
            format!("[{}]", call_chain_id("1")),
            format!("[{}]", chain_id("1")),
        ),
        Row::exact(
            format!(
                "[{},{without_id},{},3]",
                call_chain_id("\"b\""),
                call_chain_id("1.0")
            ),
            format!("[{},{},{invalid}]", chain_id("\"b\""), chain_id("1.0")),
        ),
        Row::exact(
            format!(
                r#"[{{"jsonrpc":"2.0","id":5,"method":"nope"}},{}]"#,
                call_chain_id("5")
            ),
            format!(
                "[{},{}]",
                error(
                    "5",
                    -32601,
                    "the method nope does not exist/is not available"
                ),
                chain_id("5")
            ),
        ),
        Row::exact(
            format!("[{}]", many(1000)),
            format!("[{}]", vec![chain_id("7"); 1000].join(",")),
        ),
        Row::exact(format!("[{}]", many(1001)), too_large("7")),
        Row::exact(
            format!("[{},{}]", call_chain_id("\"first\""), many(1000)),
            too_large("\"first\""),
        ),
        Row::exact(format!("[{without_id},{}]", many(1000)), too_large("7")),
        Row::exact(
            format!("[{}]", vec![without_id; 1001].join(",")),
            too_large("null"),
        ),
        Row::exact(
            format!("[{}]", vec!["1"; 1001].join(",")),
            too_large("null"),
        ),
        Row::exact(
            format!("[{}]", vec!["1"; 2_000_000].join(",")),
            too_large("null"),
        ),
    ]
}

/// Nesting that would overflow the stack of a recursive parser: the server skips it at any depth.
fn depth_bombs() -> Vec<Row> {
    let parse_error = error("null", -32700, "parse error");
    let invalid = error("null", -32600, "invalid request");
    let surplus = error("1", -32602, "too many arguments, want at most 0");
    let depth = 1_000_000;
    let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(depth / 2), "}".repeat(depth / 2));
    let in_params = |params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":{params}}}"#)
    };
    let extra_member =
        |value: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"eth_chainId","x":{value}}}"#);
    vec![
        Row::exact("[".repeat(depth), &*parse_error),
        Row::exact(r#"{"a":"#.repeat(depth), &*parse_error),
        Row::exact(in_params(&"[".repeat(depth)), &*parse_error),
        Row::exact(format!("{nested}]"), &*parse_error),
        Row::exact(&*nested, format!("[{invalid}]")),
        Row::exact(&*objects, &*invalid),
        Row::exact(call_chain_id(&nested), &*invalid),
        Row::exact(in_params(&nested), &*surplus),
        Row::exact(in_params(&format!("[{objects}]")), &*surplus),
        Row::exact(in_params(&objects), error("1", -32602, "non-array args")),
        Row::exact(extra_member(&nested), chain_id("1")),
        Row::exact(format!("[{}]", in_params(&nested)), format!("[{surplus}]")),
    ]
}
