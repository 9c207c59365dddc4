//! Text that a client sends: bodies, parameters, filters.

use std::fmt::LowerHex;

use alloy_primitives::{Address, B256, U256};
use nearhead::rpc::{
    Answer, RpcError,
    envelope::{Call, Envelope, Malformed},
    log_query::{LogBlocks, LogQuery},
    params::{self, Params},
};
use nearhead_chain::{
    encode::ProofKey,
    log_search::LogFilter,
    window::{BlockId, BlockNumberOrTag, BlockTag},
};
use serde_json::{Map, Value, json, value::RawValue};

/// The envelope parser agrees with serde_json.
///
/// serde_json refuses more: deep nesting, numbers out of range, unpaired surrogates.
pub fn envelope(input: &[u8]) {
    let value: Option<Value> = serde_json::from_slice(input).ok();
    match Envelope::parse(input) {
        Ok(Envelope::Single(call)) => check_call(call, value.as_ref()),
        Ok(Envelope::Batch(items)) => {
            if let Some(value) = &value {
                assert_eq!(value.as_array().map(Vec::len), Some(items.len()));
            }
            for (index, item) in items.into_iter().enumerate() {
                check_call(Call::parse(item), value.as_ref().map(|value| &value[index]));
            }
        }
        Ok(Envelope::OversizedBatch(id)) => check_answer(id, &RpcError::BatchTooLarge),
        Err(RpcError::EmptyBatch) => assert_eq!(value, Some(Value::Array(Vec::new()))),
        Err(error) => {
            assert_eq!(error, RpcError::Parse);
            assert_eq!(value, None);
        }
    }
}

fn check_call(call: Result<Call<'_>, Malformed<'_>>, value: Option<&Value>) {
    match call {
        Ok(call) => {
            if let Some(object) = value.map(|value| value.as_object().unwrap()) {
                assert_eq!(object["jsonrpc"], "2.0");
                assert_eq!(object["method"], *call.method);
                assert_eq!(object.get("id"), call.id.map(parsed).as_ref());
                let params = call.params.map(|params| parsed(params.get()));
                assert_eq!(object.get("params"), params.as_ref());
            }
            if let Some(id) = call.id {
                check_answer(id, &RpcError::method_not_found(&call.method));
            }
        }
        Err(malformed) => {
            check_answer(malformed.id, &malformed.error);
            if let Some(id) = value.and_then(|value| value.get("id")) {
                let echoed = id.is_number() || id.is_string();
                assert_eq!(
                    parsed(malformed.id),
                    if echoed { id.clone() } else { Value::Null }
                );
            }
        }
    }
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

/// The answer is valid JSON with the id as the client wrote it: a number, a string or null.
fn check_answer(id: &str, error: &RpcError) {
    assert!(!id.starts_with(['{', '[', 't', 'f']), "{id}");
    let answer = Answer::error(id, error).json.unwrap().into_bytes();
    let members: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_slice(&answer).unwrap();
    assert_eq!(members["id"].get(), id);
    assert_eq!(members["jsonrpc"].get(), r#""2.0""#);
    let error = parsed(members["error"].get());
    assert!(
        error["code"].is_i64() && error["message"].is_string(),
        "{error}"
    );
    assert!(
        error["code"] != -32602 || error.get("data").is_none(),
        "{error}"
    );
}

/// The parameters are the items of the array, and each decoder of a value agrees with a plain one
/// here.
pub fn params(input: &[u8]) {
    let Some(raw) = raw(input) else { return };
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        assert_eq!(Params::new(Some(raw)).is_ok(), raw.get() == "null");
        return;
    };
    for read in 0..=4 {
        check_items(raw, &items, read);
    }
    for item in items {
        check_decoders(item);
    }
}

fn raw(input: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(input).ok()
}

fn check_items(raw: &RawValue, items: &[&RawValue], read: usize) {
    let mut params = Params::new(Some(raw)).unwrap();
    for index in 0..read {
        let found = params.required(|item| Ok(item.get()));
        match items.get(index) {
            Some(item) => assert_eq!(found, Ok(item.get())),
            None => assert_eq!(found, Err(RpcError::MissingArgument { index })),
        }
    }
    let expected = match items.len() {
        given if given > read => Err(RpcError::TooManyArguments { most: read }),
        _ => Ok(()),
    };
    assert_eq!(params.finish(), expected);
}

fn check_decoders(raw: &RawValue) {
    let text = serde_json::from_str::<String>(raw.get()).ok();
    // The text in lower case, prefix included.
    let lower = text.as_deref().map(str::to_ascii_lowercase);
    let lower = lower.as_deref();
    let digits = lower.and_then(|text| text.strip_prefix("0x"));
    let number = digits.and_then(quantity_of);
    assert_eq!(params::quantity(raw).ok(), number);
    let is_hex_of = |bytes: usize| digits.is_some_and(|d| d.len() == 2 * bytes && is_hex(d));
    let address = params::address(raw)
        .ok()
        .map(|address| format!("{address:#x}"));
    assert_eq!(address.as_deref(), lower.filter(|_| is_hex_of(20)));
    let hash = params::hash(raw).ok().map(|hash| format!("{hash:#x}"));
    assert_eq!(hash.as_deref(), lower.filter(|_| is_hex_of(32)));
    let boolean = params::boolean(raw).ok();
    assert_eq!(boolean, serde_json::from_str(raw.get()).ok());
    let number = number.filter(|number| *number < 1 << 63);
    let found = match params::block_number_or_tag(raw) {
        Ok(BlockNumberOrTag::Number(number)) => Some(number),
        Ok(BlockNumberOrTag::Tag(_)) | Err(_) => None,
    };
    assert_eq!(found, number);
    check_block_id(raw, number, hash.as_deref());
    if let Some(text) = &text {
        check_storage_key(text);
    }
}

fn is_hex(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The number of which `digits` is the shortest hexadecimal form.
fn quantity_of(digits: &str) -> Option<u64> {
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{number:x}") == digits).then_some(number)
}

fn check_block_id(raw: &RawValue, number: Option<u64>, hash: Option<&str>) {
    match params::block_id(raw) {
        Ok(BlockId::Number(BlockNumberOrTag::Tag(_))) => {}
        Ok(BlockId::Number(BlockNumberOrTag::Number(found))) => match number {
            Some(number) => assert_eq!(found, number),
            None => assert!(raw.get().starts_with('{')),
        },
        Ok(BlockId::Hash { hash: found, .. }) => match hash {
            Some(hash) => assert_eq!(format!("{found:#x}"), hash),
            None => assert!(raw.get().starts_with('{')),
        },
        Err(_) => assert_eq!((number, hash), (None, None)),
    }
}

fn check_storage_key(text: &str) {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    let expected = (digits.len() <= 64 && is_hex(digits)).then(|| {
        let number =
            U256::from_str_radix(if digits.is_empty() { "0" } else { digits }, 16).unwrap();
        let is_32_bytes = digits.len().div_ceil(2) == 32;
        if is_32_bytes {
            ProofKey::Full(number)
        } else {
            ProofKey::Short(number)
        }
    });
    match params::storage_key(text) {
        Ok(key) => assert_eq!(Some(key), expected),
        Err(error) => {
            assert_eq!(expected, None);
            check_answer("1", &error);
        }
    }
}

/// The filter parser agrees with serde_json, and a filter survives encoding and decoding.
pub fn log_filter(input: &[u8]) {
    let Some(raw) = raw(input) else { return };
    let Ok(query) = LogQuery::read(raw) else {
        return;
    };
    let again = serde_json::value::to_raw_value(&encoded(&query)).unwrap();
    assert_eq!(LogQuery::read(&again).as_ref(), Ok(&query));
    if let Ok(Value::Object(object)) = serde_json::from_str(raw.get()) {
        check_query(&query, &object);
    }
}

/// The query as a filter object.
fn encoded(query: &LogQuery) -> Value {
    let addresses: Vec<Value> = query.filter.addresses.iter().map(hex).collect();
    let position = |any: &Vec<B256>| any.iter().map(hex).collect::<Vec<Value>>();
    let topics: Vec<_> = query.filter.topics.iter().map(position).collect();
    let mut object = json!({"address": addresses, "topics": topics});
    match query.blocks {
        LogBlocks::Hash(hash) => object["blockHash"] = hex(hash),
        LogBlocks::Range { from, to } => {
            object["fromBlock"] = number_or_tag(from);
            object["toBlock"] = number_or_tag(to);
        }
    }
    object
}

fn hex(value: impl LowerHex) -> Value {
    json!(format!("{value:#x}"))
}

fn number_or_tag(at: BlockNumberOrTag) -> Value {
    match at {
        BlockNumberOrTag::Number(number) => hex(number),
        BlockNumberOrTag::Tag(BlockTag::Latest) => json!("latest"),
        BlockNumberOrTag::Tag(BlockTag::Pending) => json!("pending"),
        BlockNumberOrTag::Tag(BlockTag::Earliest) => json!("earliest"),
        BlockNumberOrTag::Tag(BlockTag::Safe) => json!("safe"),
        BlockNumberOrTag::Tag(BlockTag::Finalized) => json!("finalized"),
    }
}

fn check_query(query: &LogQuery, object: &Map<String, Value>) {
    let member = |name| object.get(name).filter(|value| !value.is_null());
    let filter = LogFilter {
        addresses: member("address").map(addresses).unwrap_or_default(),
        topics: member("topics").map(topics).unwrap_or_default(),
    };
    assert_eq!(query.filter, filter);
    let lower = |value: &Value| json!(value.as_str().unwrap().to_ascii_lowercase());
    match query.blocks {
        LogBlocks::Hash(hash) => {
            assert_eq!(member("blockHash").map(lower), Some(hex(hash)));
            assert_eq!((member("fromBlock"), member("toBlock")), (None, None));
        }
        LogBlocks::Range { from, to } => {
            assert_eq!(member("blockHash"), None);
            for (name, at) in [("fromBlock", from), ("toBlock", to)] {
                let expected = member(name).map_or(json!("latest"), lower);
                assert_eq!(number_or_tag(at), expected);
            }
        }
    }
}

fn addresses(value: &Value) -> Vec<Address> {
    let one = |value: &Value| {
        value
            .as_str()
            .unwrap()
            .to_ascii_lowercase()
            .parse()
            .unwrap()
    };
    value
        .as_array()
        .map_or_else(|| vec![one(value)], |list| list.iter().map(one).collect())
}

fn topics(value: &Value) -> Vec<Vec<B256>> {
    let one = |value: &Value| {
        value
            .as_str()
            .unwrap()
            .to_ascii_lowercase()
            .parse()
            .unwrap()
    };
    let position = |value: &Value| match value {
        Value::Null => Vec::new(),
        Value::Array(any) if any.iter().any(Value::is_null) => Vec::new(),
        Value::Array(any) => any.iter().map(one).collect(),
        topic => vec![one(topic)],
    };
    let positions = value.as_array().unwrap();
    assert!(positions.len() <= 4);
    positions.iter().map(position).collect()
}
