//! The filter of eth_getLogs and eth_newFilter: every member, and the order of the checks.

use super::Row;

const ADDRESS: &str = "want an address: 0x and 40 hex digits";
const HASH: &str = "want a hash: 0x and 64 hex digits";
const STRING: &str = "want a string";
const BLOCK: &str = "want a block number in hex, or latest, safe, finalized, earliest or pending";

/// Malformed filters, each with a reason; the message is `invalid argument 0: <reason>`.
const MALFORMED: &[(&str, &str)] = &[
    (r#"{"address":1}"#, STRING),
    (r#"{"address":{}}"#, STRING),
    (r#"{"address":true}"#, STRING),
    (r#"{"address":""}"#, ADDRESS),
    (r#"{"address":"0x7dcd"}"#, ADDRESS),
    (
        r#"{"address":"7dcd17433742f4c0ca53122ab541d0ba67fc27df"}"#,
        ADDRESS,
    ),
    (r#"{"address":[null]}"#, STRING),
    (
        r#"{"address":["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df",null]}"#,
        STRING,
    ),
    (r#"{"address":[1]}"#, STRING),
    (
        r#"{"address":[["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df"]]}"#,
        STRING,
    ),
    (
        r#"{"address":["0x7dcd17433742f4c0ca53122ab541d0ba67fc27dg"]}"#,
        ADDRESS,
    ),
    (r#"{"topics":1}"#, "want an array"),
    (r#"{"topics":"0x00"}"#, "want an array"),
    (r#"{"topics":{}}"#, "want an array"),
    (r#"{"topics":true}"#, "want an array"),
    (r#"{"topics":[1]}"#, STRING),
    (r#"{"topics":[{}]}"#, STRING),
    (r#"{"topics":[true]}"#, STRING),
    (r#"{"topics":["0x00"]}"#, HASH),
    (r#"{"topics":[""]}"#, HASH),
    (
        r#"{"topics":["00000000000000000000000000000000000000000000000000000000656d6974"]}"#,
        HASH,
    ),
    (
        r#"{"topics":["0x00000000000000000000000000000000000000000000000000000000656d697g"]}"#,
        HASH,
    ),
    (r#"{"topics":[["0x01"]]}"#, HASH),
    (r#"{"topics":[[1]]}"#, STRING),
    (
        r#"{"topics":[[["0x00000000000000000000000000000000000000000000000000000000656d6974"]]]}"#,
        STRING,
    ),
    (r#"{"topics":[null,["0x01"]]}"#, HASH),
    (r#"{"fromBlock":1}"#, STRING),
    (r#"{"fromBlock":{}}"#, STRING),
    (r#"{"fromBlock":[]}"#, STRING),
    (r#"{"fromBlock":""}"#, BLOCK),
    (r#"{"fromBlock":"1"}"#, BLOCK),
    (
        r#"{"fromBlock":"0x"}"#,
        "want a quantity: no digits after 0x",
    ),
    (
        r#"{"fromBlock":"0x01"}"#,
        "want a quantity: leading zeros are not allowed",
    ),
    (
        r#"{"fromBlock":"0x8000000000000000"}"#,
        "block number larger than 2^63-1",
    ),
    (
        r#"{"fromBlock":"0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7"}"#,
        "want a quantity of at most 64 bits",
    ),
    (r#"{"toBlock":54}"#, STRING),
    (r#"{"toBlock":"newest"}"#, BLOCK),
    (
        r#"{"toBlock":"0xg"}"#,
        "want a quantity: a digit is not hex",
    ),
    (r#"{"toBlock":false}"#, STRING),
    (r#"{"blockHash":1}"#, STRING),
    (r#"{"blockHash":"0x36"}"#, HASH),
    (r#"{"blockHash":""}"#, HASH),
    (r#"{"blockHash":"latest"}"#, HASH),
    (r#"{"blockHash":[]}"#, STRING),
];

const BOTH: &str = "invalid argument 0: cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other";
const RANGE: &str = "invalid block range params";
const BEYOND: &str = "block range extends beyond current head block";

const PENDING: &str = "pending logs are not supported";

/// Well-formed filters that are refused: code and full message.
const REFUSED: &[(&str, i32, &str)] = &[
    (r#"{"blockHash":"HEAD","fromBlock":"0x1"}"#, -32602, BOTH),
    (r#"{"blockHash":"HEAD","toBlock":"0x1"}"#, -32602, BOTH),
    (
        r#"{"blockHash":"HEAD","fromBlock":"latest","toBlock":"latest"}"#,
        -32602,
        BOTH,
    ),
    (
        r#"{"blockHash":"NONE","fromBlock":"0x5","toBlock":"0x1"}"#,
        -32602,
        BOTH,
    ),
    (r#"{"fromBlock":"0x2","toBlock":"0x1"}"#, -32602, RANGE),
    (r#"{"fromBlock":"0x39","toBlock":"0x38"}"#, -32602, RANGE),
    (r#"{"fromBlock":"latest","toBlock":"0x35"}"#, -32602, RANGE),
    (
        r#"{"fromBlock":"latest","toBlock":"earliest"}"#,
        -32602,
        RANGE,
    ),
    (r#"{"fromBlock":"safe","toBlock":"0x0"}"#, -32602, RANGE),
    (r#"{"toBlock":"0x35"}"#, -32602, RANGE),
    (r#"{"fromBlock":"0x37"}"#, -32602, RANGE),
    (r#"{"fromBlock":"0x37","toBlock":"latest"}"#, -32602, RANGE),
    (r#"{"fromBlock":"0x37","toBlock":"pending"}"#, -32602, RANGE),
    (r#"{"fromBlock":"0x37","toBlock":"0x38"}"#, -32602, BEYOND),
    (r#"{"fromBlock":"0x0","toBlock":"0x37"}"#, -32602, BEYOND),
    (
        r#"{"fromBlock":"latest","toBlock":"0x7fffffffffffffff"}"#,
        -32602,
        BEYOND,
    ),
    (r#"{"toBlock":"0x37"}"#, -32602, BEYOND),
    (r#"{"blockHash":"NONE"}"#, -32000, "unknown block"),
    (
        r#"{"blockHash":"NONE","fromBlock":null,"toBlock":null}"#,
        -32000,
        "unknown block",
    ),
];

/// Well-formed filters that eth_newFilter refuses, with the message.
const REFUSED_AS_NEW: &[(&str, &str)] = &[
    (r#"{"blockHash":"HEAD","fromBlock":"0x1"}"#, BOTH),
    (r#"{"fromBlock":"0x2","toBlock":"0x1"}"#, RANGE),
    (r#"{"fromBlock":"latest","toBlock":"0x100"}"#, RANGE),
    (r#"{"fromBlock":"safe","toBlock":"0x100"}"#, RANGE),
    (r#"{"fromBlock":"latest","toBlock":"earliest"}"#, RANGE),
    (r#"{"fromBlock":"0x0","toBlock":"finalized"}"#, RANGE),
    (r#"{"fromBlock":"0x0","toBlock":"safe"}"#, RANGE),
    (r#"{"toBlock":"0x100"}"#, RANGE),
    (r#"{"fromBlock":"pending"}"#, PENDING),
    (r#"{"toBlock":"pending"}"#, PENDING),
    (r#"{"fromBlock":"pending","toBlock":"pending"}"#, PENDING),
    (r#"{"fromBlock":"0x0","toBlock":"pending"}"#, PENDING),
];

/// Filters that match no log.
const EMPTY: &[&str] = &[
    r#"{"address":"NOBODY"}"#,
    r#"{"address":["NOBODY"],"topics":null}"#,
    r#"{"address":["NOBODY","NOBODY"],"topics":[]}"#,
    r#"{"fromBlock":"pending"}"#,
    r#"{"fromBlock":"pending","toBlock":"pending"}"#,
    r#"{"fromBlock":"earliest","toBlock":"latest","address":"NOBODY"}"#,
    r#"{"fromBlock":"0x0","toBlock":"0x36","address":"NOBODY","unknown":{"a":[1]},"limit":5}"#,
    r#"{"fromBlock":"0x0","toBlock":"pending","address":"NOBODY"}"#,
    r#"{"fromBlock":"0x0","toBlock":"finalized","address":"NOBODY"}"#,
    r#"{"fromBlock":"0x0","topics":["NONE"]}"#,
    r#"{"fromBlock":"0x0","topics":[null,null,null,["NONE"]]}"#,
    r#"{"fromBlock":"0x0","topics":[null,[],null,null]}"#,
    r#"{"fromBlock":"0x0","topics":[[null,"NONE"],null,["NONE",null],[]]}"#,
    r#"{"blockHash":"HEAD","address":"NOBODY"}"#,
    r#"{"blockHash":"HEAD","fromBlock":null,"topics":["NONE"]}"#,
];

/// Replaces the placeholders HEAD, NONE and NOBODY in a filter.
fn filled(filter: &str) -> String {
    let names = [
        (
            "HEAD",
            "0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7",
        ),
        (
            "NONE",
            "0x0000000000000000000000000000000000000000000000000000000000000001",
        ),
        ("NOBODY", "0x00000000000000000000000000000000000000ff"),
    ];
    names
        .iter()
        .fold(format!("[{filter}]"), |filter, (name, value)| {
            filter.replace(name, value)
        })
}

/// All filter rows.
pub(super) fn rows() -> Vec<Row> {
    let refused = |filter: &str, code, message: &str| {
        Row::refused("eth_getLogs", &filled(filter), code, message)
    };
    let malformed = MALFORMED
        .iter()
        .map(|(f, reason)| refused(f, -32602, &format!("invalid argument 0: {reason}")));
    let mut rows: Vec<Row> = malformed.collect();
    rows.extend(
        REFUSED
            .iter()
            .map(|(filter, code, message)| refused(filter, *code, message)),
    );
    rows.extend(
        EMPTY
            .iter()
            .map(|filter| Row::answered("eth_getLogs", &filled(filter), "[]")),
    );
    rows.extend(bounds());
    rows.extend(new_filters());
    rows
}

/// What eth_newFilter refuses.
fn new_filters() -> Vec<Row> {
    let refused = |filter: &str, message: &str| {
        Row::refused("eth_newFilter", &filled(filter), -32602, message)
    };
    let mut rows: Vec<Row> = MALFORMED
        .iter()
        .map(|(filter, reason)| refused(filter, &format!("invalid argument 0: {reason}")))
        .collect();
    let ranges = REFUSED_AS_NEW.iter();
    rows.extend(ranges.map(|(filter, message)| refused(filter, message)));
    let many = vec![r#""NOBODY""#; 5_001].join(",");
    rows.push(refused(
        &format!(r#"{{"address":[{many}]}}"#),
        "query exceeds 5000 parameters",
    ));
    rows.push(refused(
        &format!(r#"{{"address":[{many}],"toBlock":"0x1"}}"#),
        RANGE,
    ));
    rows.push(refused(
        r#"{"topics":[null,null,null,null,null]}"#,
        "invalid argument 0: too many topics (want at most 4)",
    ));
    rows
}

/// The limits on topic positions, and on addresses and topics together.
fn bounds() -> Vec<Row> {
    let many =
        |value: &str, count: usize| format!("[{}]", vec![format!("{value:?}"); count].join(","));
    let topics =
        |positions: usize| format!(r#"{{"topics":[{}]}}"#, vec!["null"; positions].join(","));
    let both = |addresses: usize, first: usize, last: usize| {
        let (a, f, l) = (
            many("NOBODY", addresses),
            many("NONE", first),
            many("NONE", last),
        );
        format!(r#"{{"address":{a},"topics":[{f},null,null,{l}]}}"#)
    };
    let too_many_topics = "invalid argument 0: too many topics (want at most 4)";
    let too_many = "query exceeds 5000 parameters";
    let refused =
        |filter: &str, message: &str| Row::refused("eth_getLogs", &filled(filter), -32602, message);
    vec![
        refused(&topics(5), too_many_topics),
        refused(&topics(1000), too_many_topics),
        Row::answered("eth_getLogs", &filled(&both(5000, 0, 0)), "[]"),
        Row::answered("eth_getLogs", &filled(&both(1000, 2000, 2000)), "[]"),
        refused(&both(5001, 0, 0), too_many),
        refused(&both(1001, 2000, 2000), too_many),
        refused(&both(0, 0, 5001), too_many),
        // The range is checked first.
        refused(
            &both(5001, 0, 0).replacen('{', r#"{"toBlock":"0x37","#, 1),
            BEYOND,
        ),
        refused(
            &both(5001, 0, 0).replacen('{', r#"{"toBlock":"0x1","#, 1),
            RANGE,
        ),
        // The first failed check decides the message.
        refused(
            &both(5001, 0, 0).replacen('{', r#"{"blockHash":"HEAD","fromBlock":"0x1","#, 1),
            BOTH,
        ),
    ]
}
