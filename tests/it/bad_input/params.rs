//! Every parameter of every method: the refused values with their messages, and the accepted ones.

use std::collections::BTreeSet;

use nearhead::rpc;

use super::Row;
use crate::harness::{SESSION_METHODS, check};

/// The kind of a parameter; `refused` lists the values that each kind refuses.
#[derive(Clone, Copy)]
enum Kind {
    Address,
    Hash,
    Boolean,
    /// Index of a transaction or uncle.
    Index,
    /// Block parameter of the state methods.
    BlockId,
    /// QUANTITY or tag.
    NumberOrTag,
    /// Slot of eth_getStorageAt.
    Position,
    /// Keys of eth_getProof.
    Keys,
    /// Percentiles of eth_feeHistory.
    Percentiles,
    /// Filter of eth_getLogs: its members are the rows of filter.rs.
    Filter,
    /// Id of a filter.
    FilterId,
    /// Addresses and their slots.
    SlotMap,
    /// A call.
    Call,
    /// Accounts that a call overrides.
    StateOverrides,
    /// What a call overrides of its block.
    BlockOverrides,
    /// Blocks of calls.
    Simulation,
}

/// A method: its parameters, each with a valid value, and how many are required.
struct Method {
    name: &'static str,
    parameters: &'static [(Kind, &'static str)],
    required: usize,
}

const ADDRESS: (Kind, &str) = (
    Kind::Address,
    r#""0x7dcd17433742f4c0ca53122ab541d0ba67fc27df""#,
);
const HASH: (Kind, &str) = (
    Kind::Hash,
    r#""0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7""#,
);
const BOOLEAN: (Kind, &str) = (Kind::Boolean, "false");
const INDEX: (Kind, &str) = (Kind::Index, r#""0x0""#);
const BLOCK_ID: (Kind, &str) = (Kind::BlockId, r#""latest""#);
const NUMBER: (Kind, &str) = (Kind::NumberOrTag, r#""0x36""#);
const POSITION: (Kind, &str) = (Kind::Position, r#""0x0""#);
const KEYS: (Kind, &str) = (Kind::Keys, r#"["0x0"]"#);
const PERCENTILES: (Kind, &str) = (Kind::Percentiles, "[50]");
const FILTER: (Kind, &str) = (Kind::Filter, "{}");
const FILTER_ID: (Kind, &str) = (Kind::FilterId, r#""0x1""#);
const SLOT_MAP: (Kind, &str) = (
    Kind::SlotMap,
    r#"{"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df":["0x0000000000000000000000000000000000000000000000000000000000000000"]}"#,
);

const CALL: (Kind, &str) = (
    Kind::Call,
    r#"{"to":"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df"}"#,
);
const STATE_OVERRIDES: (Kind, &str) = (Kind::StateOverrides, "{}");
const BLOCK_OVERRIDES: (Kind, &str) = (Kind::BlockOverrides, "{}");
const SIMULATION: (Kind, &str) = (Kind::Simulation, r#"{"blockStateCalls":[{}]}"#);

const fn method(
    name: &'static str,
    parameters: &'static [(Kind, &'static str)],
    required: usize,
) -> Method {
    Method {
        name,
        parameters,
        required,
    }
}

/// The seven core methods, then the companion methods.
const METHODS: &[Method] = &[
    method("eth_getStorageAt", &[ADDRESS, POSITION, BLOCK_ID], 2),
    method("eth_getLogs", &[FILTER], 1),
    method("eth_getBlockByHash", &[HASH, BOOLEAN], 2),
    method("eth_getUncleByBlockHashAndIndex", &[HASH, INDEX], 2),
    method(
        "eth_getTransactionByBlockNumberAndIndex",
        &[NUMBER, INDEX],
        2,
    ),
    method("eth_getTransactionReceipt", &[HASH], 1),
    method("eth_getProof", &[ADDRESS, KEYS, BLOCK_ID], 2),
    method("debug_getRawBlock", &[NUMBER], 1),
    method("debug_getRawHeader", &[NUMBER], 1),
    method("debug_getRawReceipts", &[NUMBER], 1),
    method("debug_getRawTransaction", &[HASH], 1),
    method("eth_newFilter", &[FILTER], 1),
    method("eth_newBlockFilter", &[], 0),
    method("eth_getFilterChanges", &[FILTER_ID], 1),
    method("eth_getFilterLogs", &[FILTER_ID], 1),
    method("eth_uninstallFilter", &[FILTER_ID], 1),
    method("eth_baseFee", &[], 0),
    method("eth_blobBaseFee", &[], 0),
    method(
        "eth_call",
        &[CALL, BLOCK_ID, STATE_OVERRIDES, BLOCK_OVERRIDES],
        1,
    ),
    method(
        "eth_estimateGas",
        &[CALL, BLOCK_ID, STATE_OVERRIDES, BLOCK_OVERRIDES],
        1,
    ),
    method(
        "eth_createAccessList",
        &[CALL, BLOCK_ID, STATE_OVERRIDES],
        1,
    ),
    method("eth_simulateV1", &[SIMULATION, BLOCK_ID], 1),
    method("eth_capabilities", &[], 0),
    method("eth_config", &[], 0),
    method("eth_feeHistory", &[INDEX, NUMBER, PERCENTILES], 3),
    method("eth_gasPrice", &[], 0),
    method("eth_maxPriorityFeePerGas", &[], 0),
    method("eth_chainId", &[], 0),
    method("net_version", &[], 0),
    method("eth_blockNumber", &[], 0),
    method("web3_clientVersion", &[], 0),
    method("rpc.discover", &[], 0),
    method("net_listening", &[], 0),
    method("eth_accounts", &[], 0),
    method("eth_syncing", &[], 0),
    method("eth_getBlockByNumber", &[NUMBER, BOOLEAN], 2),
    method("eth_getTransactionByHash", &[HASH], 1),
    method("eth_getTransactionByBlockHashAndIndex", &[HASH, INDEX], 2),
    method("eth_getBlockAccessList", &[BLOCK_ID], 1),
    method("eth_getBlockReceipts", &[BLOCK_ID], 1),
    method("eth_getUncleByBlockNumberAndIndex", &[NUMBER, INDEX], 2),
    method("eth_getUncleCountByBlockHash", &[HASH], 1),
    method("eth_getUncleCountByBlockNumber", &[NUMBER], 1),
    method("eth_getBlockTransactionCountByHash", &[HASH], 1),
    method("eth_getBlockTransactionCountByNumber", &[NUMBER], 1),
    method("eth_getBalance", &[ADDRESS, BLOCK_ID], 1),
    method("eth_getTransactionCount", &[ADDRESS, BLOCK_ID], 1),
    method("eth_getCode", &[ADDRESS, BLOCK_ID], 1),
    method("eth_getStorageValues", &[SLOT_MAP, BLOCK_ID], 1),
];

/// Values that a kind refuses, with reasons; the message is `invalid argument N: <reason>`.
const fn refused(kind: Kind) -> &'static [(&'static str, &'static str)] {
    const STRING: &str = "want a string";
    const ADDRESS: &str = "want an address: 0x and 40 hex digits";
    const HASH: &str = "want a hash: 0x and 64 hex digits";
    const BOOLEAN: &str = "want true or false";
    const PREFIX: &str = "want a quantity: hex with 0x in front";
    const NO_DIGITS: &str = "want a quantity: no digits after 0x";
    const ZEROS: &str = "want a quantity: leading zeros are not allowed";
    const DIGIT: &str = "want a quantity: a digit is not hex";
    const LARGE: &str = "want a quantity of at most 64 bits";
    const BLOCK: &str =
        "want a block number in hex, or latest, safe, finalized, earliest or pending";
    const BLOCK_LARGE: &str = "block number larger than 2^63-1";
    const ARRAY: &str = "want an array";
    const OBJECT: &str = "want an object";
    match kind {
        Kind::Address => &[
            ("null", STRING),
            ("0", STRING),
            ("true", STRING),
            ("{}", STRING),
            (r#"["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df"]"#, STRING),
            (r#""""#, ADDRESS),
            (r#""0x""#, ADDRESS),
            (r#""0x0""#, ADDRESS),
            (r#""7dcd17433742f4c0ca53122ab541d0ba67fc27df""#, ADDRESS),
            (r#""0x7dcd17433742f4c0ca53122ab541d0ba67fc27d""#, ADDRESS),
            (r#""0x7dcd17433742f4c0ca53122ab541d0ba67fc27dff""#, ADDRESS),
            (r#""0x7dcd17433742f4c0ca53122ab541d0ba67fc27df00""#, ADDRESS),
            (r#""0x7dcd17433742f4c0ca53122ab541d0ba67fc27dg""#, ADDRESS),
            (r#""0x0x7dcd17433742f4c0ca53122ab541d0ba67fc27""#, ADDRESS),
            (r#"" 0x7dcd17433742f4c0ca53122ab541d0ba67fc27df""#, ADDRESS),
            (
                r#""0x7dcd17433742f4c0ca53122ab541d0ba67fc27d\u0000""#,
                ADDRESS,
            ),
            (
                r#""\u00e4x7dcd17433742f4c0ca53122ab541d0ba67fc27df""#,
                ADDRESS,
            ),
            (r#""latest""#, ADDRESS),
        ],
        Kind::Hash => &[
            ("null", STRING),
            ("1", STRING),
            ("false", STRING),
            ("{}", STRING),
            ("[]", STRING),
            (r#""""#, HASH),
            (r#""0x""#, HASH),
            (r#""0x36""#, HASH),
            (r#""latest""#, HASH),
            (
                r#""d226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7""#,
                HASH,
            ),
            (
                r#""0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd""#,
                HASH,
            ),
            (
                r#""0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd70""#,
                HASH,
            ),
            (
                r#""0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd700""#,
                HASH,
            ),
            (
                r#""0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcdz""#,
                HASH,
            ),
            (
                r#""0x0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dc""#,
                HASH,
            ),
        ],
        // Any string may be an id: it is unknown then.
        Kind::FilterId => &[
            ("null", STRING),
            ("1", STRING),
            ("true", STRING),
            ("{}", STRING),
            (r#"["0x1"]"#, STRING),
        ],
        Kind::Boolean => &[
            ("null", BOOLEAN),
            ("0", BOOLEAN),
            ("1", BOOLEAN),
            (r#""true""#, BOOLEAN),
            (r#""""#, BOOLEAN),
            ("{}", BOOLEAN),
            ("[]", BOOLEAN),
            ("[true]", BOOLEAN),
        ],
        Kind::Index => &[
            ("null", STRING),
            ("0", STRING),
            ("1.5", STRING),
            ("{}", STRING),
            (r#"["0x0"]"#, STRING),
            (r#""""#, PREFIX),
            (r#""0""#, PREFIX),
            (r#""latest""#, PREFIX),
            (r#""0x""#, NO_DIGITS),
            (r#""0x00""#, ZEROS),
            (r#""0x01""#, ZEROS),
            (r#""0xg""#, DIGIT),
            (r#""0x-1""#, DIGIT),
            (r#""0x1 ""#, DIGIT),
            (r#""0x+1""#, DIGIT),
            (r#"" 0x1""#, PREFIX),
            (r#""-0x1""#, PREFIX),
            (r#""0x10000000000000000""#, LARGE),
            (
                r#""0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff""#,
                LARGE,
            ),
        ],
        Kind::NumberOrTag => &[
            ("null", STRING),
            ("54", STRING),
            ("true", STRING),
            ("[]", STRING),
            (r#"{"blockNumber":"0x1"}"#, STRING),
            (r#""""#, BLOCK),
            (r#""54""#, BLOCK),
            (r#""Latest""#, BLOCK),
            (r#""latest ""#, BLOCK),
            (r#""head""#, BLOCK),
            (r#""null""#, BLOCK),
            (r#""0x""#, NO_DIGITS),
            (r#""0x00""#, ZEROS),
            (r#""0x036""#, ZEROS),
            (r#""0xzz""#, DIGIT),
            (r#""0x8000000000000000""#, BLOCK_LARGE),
            (r#""0xffffffffffffffff""#, BLOCK_LARGE),
            (r#""0x10000000000000000""#, LARGE),
        ],
        Kind::BlockId => &[
            ("54", STRING),
            ("false", STRING),
            ("[]", STRING),
            (r#""""#, BLOCK),
            (r#""newest""#, BLOCK),
            (r#""0x""#, NO_DIGITS),
            (r#""0x01""#, ZEROS),
            (r#""0xx""#, DIGIT),
            (r#""0x8000000000000000""#, BLOCK_LARGE),
            (
                r#""0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd""#,
                LARGE,
            ),
            (
                r#""0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcdx""#,
                HASH,
            ),
            ("{}", "want blockHash or blockNumber"),
            (r#"{"blockHash":null}"#, "want blockHash or blockNumber"),
            (r#"{"blockhash":"0x1"}"#, "want blockHash or blockNumber"),
            (
                r#"{"requireCanonical":true}"#,
                "want blockHash or blockNumber",
            ),
            (
                r#"{"blockHash":"0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7","blockNumber":"0x36"}"#,
                "cannot specify both blockHash and blockNumber, choose one or the other",
            ),
            (r#"{"blockHash":"0x36"}"#, HASH),
            (r#"{"blockHash":1}"#, STRING),
            (r#"{"blockNumber":54}"#, STRING),
            (r#"{"blockNumber":"54"}"#, BLOCK),
            (r#"{"blockNumber":"0x036"}"#, ZEROS),
            (
                r#"{"blockHash":"0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7","requireCanonical":1}"#,
                BOOLEAN,
            ),
            (
                r#"{"blockHash":"0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7","requireCanonical":"yes"}"#,
                BOOLEAN,
            ),
        ],
        Kind::Call => &[
            ("null", OBJECT),
            ("[]", OBJECT),
            (r#""0x""#, OBJECT),
            (r#"{"to":1}"#, STRING),
            (r#"{"to":"0x1"}"#, ADDRESS),
            (r#"{"from":""}"#, ADDRESS),
            (r#"{"gas":21000}"#, STRING),
            (r#"{"gas":"21000"}"#, PREFIX),
            (r#"{"gas":"0x10000000000000000"}"#, LARGE),
            (r#"{"nonce":"0x00"}"#, ZEROS),
            (r#"{"value":"0x"}"#, NO_DIGITS),
            (
                r#"{"value":"0x10000000000000000000000000000000000000000000000000000000000000000"}"#,
                "want a quantity of at most 256 bits",
            ),
            (
                r#"{"maxFeePerGas":"0x100000000000000000000000000000000"}"#,
                "want a quantity of at most 128 bits",
            ),
            (r#"{"input":"00"}"#, "want data: hex with 0x in front"),
            (
                r#"{"data":"0x0"}"#,
                "want data: an even number of hex digits",
            ),
            (
                r#"{"input":"0x0x00"}"#,
                "want data: an even number of hex digits",
            ),
            (r#"{"accessList":{}}"#, ARRAY),
            (r#"{"accessList":[{}]}"#, "want a member address"),
            (
                r#"{"accessList":[{"address":"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df","storageKeys":["0x0"]}]}"#,
                HASH,
            ),
            (r#"{"blobVersionedHashes":["0x0"]}"#, HASH),
            (r#"{"authorizationList":[{}]}"#, "want a member chainId"),
        ],
        Kind::StateOverrides => &[
            ("[]", OBJECT),
            (r#""latest""#, OBJECT),
            (r#"{"0x1":{}}"#, ADDRESS),
            (
                r#"{"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df":null}"#,
                OBJECT,
            ),
            (
                r#"{"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df":{"balance":1}}"#,
                STRING,
            ),
            (
                r#"{"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df":{"state":{"0x0":"0x0"}}}"#,
                HASH,
            ),
        ],
        Kind::BlockOverrides => &[
            ("[]", OBJECT),
            (r#"{"number":1}"#, STRING),
            (r#"{"time":"1"}"#, PREFIX),
            (r#"{"feeRecipient":"0x1"}"#, ADDRESS),
            (r#"{"prevRandao":"0x1"}"#, HASH),
        ],
        Kind::Simulation => &[
            ("null", OBJECT),
            ("[]", OBJECT),
            ("{}", "want a member blockStateCalls"),
            (r#"{"blockStateCalls":{}}"#, ARRAY),
            (r#"{"blockStateCalls":[1]}"#, OBJECT),
            (r#"{"blockStateCalls":[{"calls":{}}]}"#, ARRAY),
            (r#"{"blockStateCalls":[{"calls":[{"to":"0x1"}]}]}"#, ADDRESS),
            (r#"{"blockStateCalls":[{"stateOverrides":[]}]}"#, OBJECT),
            (
                r#"{"blockStateCalls":[{"blockOverrides":{"beaconRoot":"0x1"}}]}"#,
                HASH,
            ),
            (
                r#"{"blockStateCalls":[{"blockOverrides":{"withdrawals":[{}]}}]}"#,
                "want a member index",
            ),
            (r#"{"blockStateCalls":[{}],"validation":1}"#, BOOLEAN),
        ],
        Kind::Percentiles => &[
            ("50", ARRAY),
            (r#""50""#, ARRAY),
            ("{}", ARRAY),
            ("null", ARRAY),
            ("[null]", "want numbers as percentiles"),
            (r#"["50"]"#, "want numbers as percentiles"),
            ("[-0.1]", "want percentiles from 0 to 100"),
            ("[100.1]", "want percentiles from 0 to 100"),
        ],
        Kind::Position => &[
            ("null", STRING),
            ("0", STRING),
            ("{}", STRING),
            (r#"["0x0"]"#, STRING),
        ],
        Kind::Keys => &[
            (r#""0x0""#, ARRAY),
            ("0", ARRAY),
            ("{}", ARRAY),
            ("true", ARRAY),
            ("[0]", STRING),
            ("[null]", STRING),
            (r#"["0x0",[]]"#, STRING),
        ],
        Kind::Filter => &[
            ("null", OBJECT),
            ("1", OBJECT),
            (r#""latest""#, OBJECT),
            ("[]", OBJECT),
            ("[{}]", OBJECT),
            ("true", OBJECT),
        ],
        Kind::SlotMap => &[
            ("null", OBJECT),
            ("1", OBJECT),
            ("[]", OBJECT),
            (r#""0x0""#, OBJECT),
            (r#"{"0x1":["0x0"]}"#, ADDRESS),
            (
                r#"{"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df":"0x0"}"#,
                ARRAY,
            ),
            (
                r#"{"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df":[0]}"#,
                STRING,
            ),
        ],
    }
}

/// Invalid storage keys and the full message, which is the same for every method.
const BAD_KEYS: &[(&str, &str)] = &[
    (
        "0x00000000000000000000000000000000000000000000000000000000000000000",
        "storage key too long (want at most 32 bytes): \
         \"0x00000000000000000000000000000000000000000000000000000000000000000\"",
    ),
    (
        "00000000000000000000000000000000000000000000000000000000000000000",
        "storage key too long (want at most 32 bytes): \
         \"00000000000000000000000000000000000000000000000000000000000000000\"",
    ),
    ("0xasdf", "invalid hex in storage key: \"0xasdf\""),
    ("asdfg", "invalid hex in storage key: \"asdfg\""),
    ("0x0x0", "invalid hex in storage key: \"0x0x0\""),
    ("latest", "invalid hex in storage key: \"latest\""),
    (" 0x1", "invalid hex in storage key: \" 0x1\""),
    ("-1", "invalid hex in storage key: \"-1\""),
];

/// All parameter rows.
pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = METHODS.iter().flat_map(Method::rows).collect();
    rows.extend(bad_keys());
    rows.extend(lenient());
    rows
}

#[test]
fn every_method_has_its_rows() {
    let mut here: BTreeSet<&str> = METHODS.iter().map(|method| method.name).collect();
    here.extend(SESSION_METHODS);
    let served: BTreeSet<&str> = rpc::METHODS.iter().map(|method| method.name).collect();
    check("methods", &here, &served);
}

impl Method {
    /// The parameters as JSON, with one replaced.
    fn with(&self, position: usize, value: &str) -> String {
        let values = self.parameters.iter().enumerate();
        let values: Vec<&str> = values
            .map(|(i, (_, good))| if i == position { value } else { good })
            .collect();
        format!("[{}]", values.join(","))
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let refused =
            |params: &str, message: &str| Row::refused(self.name, params, -32602, message);
        for (position, (kind, _)) in self.parameters.iter().enumerate() {
            for (value, reason) in self::refused(*kind) {
                rows.push(refused(
                    &self.with(position, value),
                    &format!("invalid argument {position}: {reason}"),
                ));
            }
        }
        for missing in 0..self.required {
            let given: Vec<&str> = self.parameters[..missing]
                .iter()
                .map(|(_, good)| *good)
                .collect();
            let message = format!("missing value for required argument {missing}");
            rows.push(refused(&format!("[{}]", given.join(",")), &message));
        }
        if self.required > 0 {
            rows.push(refused("null", "missing value for required argument 0"));
        }
        let most = self.parameters.len();
        let good: Vec<&str> = self.parameters.iter().map(|(_, good)| *good).collect();
        for surplus in [vec!["null"], vec!["\"latest\"", "{}", "[]", "1", "2"]] {
            let params = [&good[..], &surplus[..]].concat().join(",");
            rows.push(refused(
                &format!("[{params}]"),
                &format!("too many arguments, want at most {most}"),
            ));
        }
        rows.push(refused("{}", "non-array args"));
        rows
    }
}

/// Invalid storage keys for both methods that take them; execution-apis prescribes the messages.
fn bad_keys() -> Vec<Row> {
    let address = ADDRESS.1;
    let at = |key: &str| format!(r#"[{address},"{key}","latest"]"#);
    let of = |key: &str| format!(r#"[{address},["0x0","{key}"],"latest"]"#);
    let refused = |method: &str, params: String, message: &str| {
        Row::refused(method, &params, -32602, message)
    };
    let mut rows = Vec::new();
    for (key, message) in BAD_KEYS {
        rows.push(refused("eth_getStorageAt", at(key), message));
        rows.push(refused("eth_getProof", of(key), message));
        // The key is checked before the block.
        rows.push(refused(
            "eth_getStorageAt",
            format!(r#"[{address},"{key}","0x37"]"#),
            message,
        ));
    }
    let keys = |count: usize| format!("[{address},[{}]]", vec![r#""0x1""#; count].join(","));
    rows.push(refused(
        "eth_getProof",
        keys(1025),
        "too many keys: 1025 (want at most 1024)",
    ));
    rows.push(refused(
        "eth_getStorageValues",
        "[{}]".into(),
        "empty request",
    ));
    rows
}

/// Unusual but valid parameters.
fn lenient() -> Vec<Row> {
    const FIRST: &str = r#""0x0000000000000000000000000000000000000000000000000000000000000038""#;
    const ZERO: &str = r#""0x0000000000000000000000000000000000000000000000000000000000000000""#;
    let upper = ADDRESS.1.to_uppercase().replace("0X", "0x");
    let address = ADDRESS.1;
    let head = HASH.1;
    let mut rows: Vec<Row> = [
        r#""""#,
        r#""0x""#,
        r#""0""#,
        r#""00""#,
        r#""0X0""#,
        r#""0x000""#,
        r#""0x0000000000000000000000000000000000000000000000000000000000000000""#,
        r#""0000000000000000000000000000000000000000000000000000000000000000""#,
    ]
    .iter()
    .map(|position| {
        Row::answered(
            "eth_getStorageAt",
            &format!(r#"[{address},{position},"latest"]"#),
            FIRST,
        )
    })
    .collect();
    for block in [
        r#""latest""#.to_owned(),
        r#""pending""#.to_owned(),
        r#""safe""#.to_owned(),
        r#""finalized""#.to_owned(),
        r#""0x36""#.to_owned(),
        r#""0X36""#.to_owned(),
        "null".to_owned(),
        head.to_owned(),
        head.to_uppercase().replace("0X", "0x"),
        format!(r#"{{"blockHash":{head}}}"#),
        format!(r#"{{"blockHash":{head},"requireCanonical":true}}"#),
        format!(r#"{{"blockHash":{head},"requireCanonical":null,"blockNumber":null,"other":1}}"#),
        r#"{"blockNumber":"0x36"}"#.to_owned(),
        r#"{"blockNumber":"latest"}"#.to_owned(),
    ] {
        rows.push(Row::answered(
            "eth_getStorageAt",
            &format!("[{upper},\"0x0\",{block}]"),
            FIRST,
        ));
    }
    rows.push(Row::answered(
        "eth_getStorageAt",
        &format!(r#"[{address},"0x0"]"#),
        FIRST,
    ));
    rows.push(Row::answered(
        "eth_getStorageAt",
        &format!(r#"[{address},"0x0","earliest"]"#),
        ZERO,
    ));
    rows.push(Row::answered(
        "eth_getStorageAt",
        &format!(r#"[{address},"{}"]"#, "f".repeat(64)),
        ZERO,
    ));
    let absent = r#""0x00000000000000000000000000000000000000ff""#;
    rows.push(Row::answered(
        "eth_getStorageAt",
        &format!(r#"[{absent},"0x0"]"#),
        ZERO,
    ));
    for (method, zero) in [
        ("eth_getBalance", r#""0x0""#),
        ("eth_getTransactionCount", r#""0x0""#),
        ("eth_getCode", r#""0x""#),
    ] {
        rows.push(Row::answered(method, &format!("[{absent}]"), zero));
        rows.push(Row::answered(method, &format!("[{absent},null]"), zero));
    }
    let unknown = format!(r#""0x{}""#, "0".repeat(64));
    for id in ["0x1", "0x01", "0x", "", "1", "latest", "0xg", "0x+1", "ä"] {
        let params = format!(r#"["{id}"]"#);
        for method in ["eth_getFilterChanges", "eth_getFilterLogs"] {
            rows.push(Row::refused(method, &params, -32000, "filter not found"));
        }
        rows.push(Row::answered("eth_uninstallFilter", &params, "false"));
    }
    for (method, params) in [
        ("eth_getBlockByHash", format!("[{unknown},true]")),
        ("eth_getTransactionReceipt", format!("[{unknown}]")),
        ("eth_getTransactionByHash", format!("[{unknown}]")),
        (
            "eth_getTransactionByBlockHashAndIndex",
            format!("[{unknown},\"0x0\"]"),
        ),
        (
            "eth_getUncleByBlockHashAndIndex",
            format!("[{unknown},\"0x0\"]"),
        ),
        (
            "eth_getUncleByBlockHashAndIndex",
            format!("[{head},\"0x0\"]"),
        ),
        ("eth_getUncleCountByBlockHash", format!("[{unknown}]")),
        ("eth_getBlockTransactionCountByHash", format!("[{unknown}]")),
        ("eth_getBlockAccessList", format!("[{unknown}]")),
        ("eth_getBlockReceipts", format!("[{unknown}]")),
        ("eth_getBlockByNumber", "[\"0x37\",false]".into()),
        (
            "eth_getBlockByNumber",
            "[\"0x7fffffffffffffff\",false]".into(),
        ),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            "[\"0x36\",\"0xffffffffffffffff\"]".into(),
        ),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            "[\"0x37\",\"0x0\"]".into(),
        ),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            "[\"pending\",\"0x0\"]".into(),
        ),
    ] {
        rows.push(Row::answered(method, &params, "null"));
    }
    let state = |block: &str| format!(r#"[{address},"0x0",{block}]"#);
    for (block, message) in [
        (r#""0x37""#.to_owned(), "header not found"),
        (r#""0x7fffffffffffffff""#.to_owned(), "header not found"),
        (r#"{"blockNumber":"0x37"}"#.to_owned(), "header not found"),
        (unknown.clone(), "header for hash not found"),
        (
            format!(r#"{{"blockHash":{unknown},"requireCanonical":true}}"#),
            "header for hash not found",
        ),
    ] {
        rows.push(Row::refused(
            "eth_getStorageAt",
            &state(&block),
            -32000,
            message,
        ));
        rows.push(Row::refused(
            "eth_getProof",
            &format!("[{address},[],{block}]"),
            -32000,
            message,
        ));
        rows.push(Row::refused(
            "eth_getBalance",
            &format!("[{address},{block}]"),
            -32000,
            message,
        ));
    }
    rows
}
