//! Tables of inputs and their parsed values.
#![allow(clippy::unwrap_used)]

use alloy_primitives::address;

use super::*;

const HASH: &str = "0x00000000000000000000000000000000000000000000000000000000deadbeef";

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).unwrap()
}

#[track_caller]
fn check<T: fmt::Debug>(read: impl Fn(&RawValue) -> Result<T, ParamError>, rows: &[(&str, &str)]) {
    for (json, expected) in rows {
        let found = match read(raw(json)) {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("! {error}"),
        };
        assert_eq!(found, *expected, "{json}");
    }
}

#[test]
fn arguments_are_read_in_order_and_counted() {
    let read = |params: Option<&str>, required: usize, optional: usize| {
        let mut params = Params::new(params.map(raw))?;
        let mut read = Vec::new();
        for _ in 0..required {
            read.push(params.required(quantity)?);
        }
        for _ in 0..optional {
            read.push(params.optional(99, quantity)?);
        }
        params.finish().map(|()| read)
    };
    for (params, required, optional, expected) in [
        (None, 0, 0, "[]"),
        (Some("null"), 0, 1, "[99]"),
        (Some("[]"), 0, 0, "[]"),
        (Some("[]"), 1, 0, "missing value for required argument 0"),
        (None, 1, 0, "missing value for required argument 0"),
        (Some(r#"["0x1"]"#), 1, 1, "[1, 99]"),
        (Some(r#"["0x1",null]"#), 1, 1, "[1, 99]"),
        (Some(r#"["0x1","0x2"]"#), 1, 1, "[1, 2]"),
        (
            Some(r#"["0x1"]"#),
            2,
            0,
            "missing value for required argument 1",
        ),
        (
            Some(r#"["0x1",null]"#),
            2,
            0,
            "invalid argument 1: want a string",
        ),
        (
            Some(r#"["0x1","0x2"]"#),
            1,
            0,
            "too many arguments, want at most 1",
        ),
        (Some("[null]"), 0, 0, "too many arguments, want at most 0"),
        (
            Some("[1,2,3,4,5,6,7,8]"),
            0,
            0,
            "too many arguments, want at most 0",
        ),
        (
            Some(r#"[1,"0x2"]"#),
            1,
            0,
            "invalid argument 0: want a string",
        ),
        (Some("{}"), 0, 0, "non-array args"),
        (Some(r#"{"a":1}"#), 1, 0, "non-array args"),
        (Some("1"), 0, 0, "non-array args"),
        (Some(r#""text""#), 0, 0, "non-array args"),
        (Some("false"), 0, 0, "non-array args"),
    ] {
        let found = match read(params, required, optional) {
            Ok(read) => format!("{read:?}"),
            Err(error) => error.message().into_owned(),
        };
        assert_eq!(found, expected, "{params:?}");
    }
}

#[test]
fn quantities() {
    check(
        quantity,
        &[
            (r#""0x0""#, "0"),
            (r#""0X1f""#, "31"),
            (r#""0xAbC""#, "2748"),
            (r#""0xffffffffffffffff""#, "18446744073709551615"),
            (r#""\u0030x1""#, "1"),
            (
                r#""0x10000000000000000""#,
                "! want a quantity of at most 64 bits",
            ),
            (r#""0x""#, "! want a quantity: no digits after 0x"),
            (
                r#""0x00""#,
                "! want a quantity: leading zeros are not allowed",
            ),
            (
                r#""0x01""#,
                "! want a quantity: leading zeros are not allowed",
            ),
            (r#""0x+1""#, "! want a quantity: a digit is not hex"),
            (r#""0xg""#, "! want a quantity: a digit is not hex"),
            (r#""0x1 ""#, "! want a quantity: a digit is not hex"),
            (r#""1""#, "! want a quantity: hex with 0x in front"),
            (r#""""#, "! want a quantity: hex with 0x in front"),
            ("1", "! want a string"),
            ("null", "! want a string"),
            ("[]", "! want a string"),
        ],
    );
}

#[test]
fn block_numbers_and_tags() {
    let wrong = "! want a block number in hex, or latest, safe, finalized, earliest or pending";
    check(
        block_number_or_tag,
        &[
            (r#""latest""#, "Tag(Latest)"),
            (r#""pending""#, "Tag(Pending)"),
            (r#""earliest""#, "Tag(Earliest)"),
            (r#""safe""#, "Tag(Safe)"),
            (r#""finalized""#, "Tag(Finalized)"),
            (r#""0x7fffffffffffffff""#, "Number(9223372036854775807)"),
            (
                r#""0x8000000000000000""#,
                "! block number larger than 2^63-1",
            ),
            (r#""Latest""#, wrong),
            (r#"" latest""#, wrong),
            (r#""""#, wrong),
            (r#""12""#, wrong),
            ("12", "! want a string"),
            ("null", "! want a string"),
        ],
    );
}

#[test]
fn addresses_and_hashes() {
    let wanted = "! want an address: 0x and 40 hex digits";
    let good = format!("\"{}\"", "0X00000000000000000000000000000000DeaDbeef");
    assert_eq!(
        address(raw(&good)),
        Ok(address!("0x00000000000000000000000000000000deadbeef"))
    );
    check(
        address,
        &[
            (r#""0x00000000000000000000000000000000deadbee""#, wanted),
            (r#""0x00000000000000000000000000000000deadbeef0""#, wanted),
            (r#""0x00000000000000000000000000000000deadbe""#, wanted),
            (r#""00000000000000000000000000000000deadbeef""#, wanted),
            (r#""0x0x000000000000000000000000000000deadbeef""#, wanted),
            (r#""0x0x00000000000000000000000000000000deadbeef""#, wanted),
            (r#""0x00000000000000000000000000000000deadbeeg""#, wanted),
            (r#""""#, wanted),
            (r#""0x""#, wanted),
            ("null", "! want a string"),
            ("0", "! want a string"),
        ],
    );
    let wanted = "! want a hash: 0x and 64 hex digits";
    check(
        hash,
        &[
            (&format!("\"{HASH}\""), HASH),
            (&format!("\"{}\"", HASH.to_uppercase()), HASH),
            (&format!("\"{}\"", &HASH[2..]), wanted),
            (&format!("\"{HASH}00\""), wanted),
            (&format!("\"{}\"", &HASH[..65]), wanted),
            ("null", "! want a string"),
        ],
    );
}

#[test]
fn booleans() {
    let wanted = "! want true or false";
    check(
        boolean,
        &[
            ("true", "true"),
            ("false", "false"),
            ("null", wanted),
            ("0", wanted),
            (r#""true""#, wanted),
            ("{}", wanted),
        ],
    );
}

#[test]
fn block_ids() {
    let by_hash = |require| format!("Hash {{ hash: {HASH}, require_canonical: {require} }}");
    let (any, canonical) = (by_hash(false), by_hash(true));
    let both = "! cannot specify both blockHash and blockNumber, choose one or the other";
    let of_hash = |more: &str| format!(r#"{{"blockHash":"{HASH}"{more}}}"#);
    check(
        block_id,
        &[
            (r#""latest""#, "Number(Tag(Latest))"),
            (r#""0x10""#, "Number(Number(16))"),
            (&format!("\"{HASH}\""), &any),
            (&of_hash(""), &any),
            (&of_hash(r#","requireCanonical":false"#), &any),
            (&of_hash(r#","requireCanonical":null"#), &any),
            (&of_hash(r#","requireCanonical":true"#), &canonical),
            (&of_hash(r#","blockNumber":null,"other":[{}]"#), &any),
            (
                &of_hash(r#","requireCanonical":"true""#),
                "! want true or false",
            ),
            (&of_hash(r#","blockNumber":"0x1""#), both),
            (r#"{"blockNumber":"0x1"}"#, "Number(Number(1))"),
            (
                r#"{"blockNumber":"safe","requireCanonical":true}"#,
                "Number(Tag(Safe))",
            ),
            (r#"{"blockNumber":1}"#, "! want a string"),
            (
                r#"{"blockHash":"0x1"}"#,
                "! want a hash: 0x and 64 hex digits",
            ),
            ("{}", "! want blockHash or blockNumber"),
            (r#"{"blockHash":null}"#, "! want blockHash or blockNumber"),
            (
                r#"{"requireCanonical":true}"#,
                "! want blockHash or blockNumber",
            ),
            (
                &format!("\"{}gg\"", &HASH[..64]),
                "! want a hash: 0x and 64 hex digits",
            ),
            ("1", "! want a string"),
            ("[]", "! want a string"),
            ("true", "! want a string"),
        ],
    );
}

#[test]
fn storage_keys() {
    let full = "0".repeat(64);
    let odd = "f".repeat(63);
    for (text, expected) in [
        ("", "Short(0)".to_owned()),
        ("0x", "Short(0)".to_owned()),
        ("0x0", "Short(0)".to_owned()),
        ("0x00", "Short(0)".to_owned()),
        ("1f", "Short(31)".to_owned()),
        ("0X1F", "Short(31)".to_owned()),
        ("0x0001", "Short(1)".to_owned()),
        (&full, "Full(0)".to_owned()),
        (&format!("0x{full}"), "Full(0)".to_owned()),
        (&odd, format!("Full({})", U256::MAX >> 4)),
        (
            &format!("0{full}"),
            format!("storage key too long (want at most 32 bytes): \"0{full}\""),
        ),
        (
            "0xasdf",
            "invalid hex in storage key: \"0xasdf\"".to_owned(),
        ),
        ("0x0x1", "invalid hex in storage key: \"0x0x1\"".to_owned()),
        ("é\"", "invalid hex in storage key: \"é\\\"\"".to_owned()),
        (" 1", "invalid hex in storage key: \" 1\"".to_owned()),
    ] {
        let found = match storage_key(text) {
            Ok(key) => format!("{key:?}"),
            Err(error) => error.message().into_owned(),
        };
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn members_ignores_other_names() {
    let read =
        |json| members(raw(json), ["a", "b"]).map(|found| found.map(|raw| raw.map(RawValue::get)));
    assert_eq!(read(r#"{"a":1,"c":[[]],"b":null}"#), Ok([Some("1"), None]));
    assert_eq!(
        read(r#"{"a":1,"a":2,"\u0062":3}"#),
        Ok([Some("2"), Some("3")])
    );
    assert_eq!(read(r#"{"\ud800":1,"a":2}"#), Ok([Some("2"), None]));
    assert_eq!(read("{}"), Ok([None, None]));
    assert!(read("[]").is_err());
    assert!(read("null").is_err());
}
