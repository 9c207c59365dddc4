//! What is read out of replies. Anything may be in them: others write into the store, and a server
//! may be none of Redis.

use alloy_primitives::Bytes;
use nearhead_fleet::position::Position;
use redis::Value;

use super::error::printable;

/// The name of an entry's only field.
const FIELD: &[u8] = b"e";

type Entries = Vec<(Position, Bytes)>;

/// What was wanted instead of this reply.
fn instead_of(wanted: &str, found: &Value) -> Box<str> {
    let found = match found {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a string",
        Value::Array(_) => "a list",
        _ => "something else",
    };
    format!("{found} instead of {wanted}").into()
}

/// A string.
pub(super) fn text(value: Value) -> Result<String, Box<str>> {
    match value {
        Value::BulkString(bytes) => {
            String::from_utf8(bytes).map_err(|_| "a string that is not UTF-8".into())
        }
        Value::SimpleString(text) => Ok(text),
        Value::Okay => Ok("OK".to_owned()),
        other => Err(instead_of("a string", &other)),
    }
}

/// A list.
fn list(value: Value) -> Result<Vec<Value>, Box<str>> {
    match value {
        Value::Array(values) => Ok(values),
        other => Err(instead_of("a list", &other)),
    }
}

/// A list of strings. One of more bytes than that is empty.
pub(super) fn strings(value: Value, bytes_max: usize) -> Result<Vec<Bytes>, Box<str>> {
    let strings = list(value)?.into_iter().map(|value| match value {
        Value::BulkString(bytes) if bytes.len() <= bytes_max => Ok(bytes.into()),
        Value::BulkString(_) => Ok(Bytes::new()),
        other => Err(instead_of("a string", &other)),
    });
    strings.collect()
}

/// A list of so many numbers.
pub(super) fn numbers(value: Value, count: usize) -> Result<Vec<i64>, Box<str>> {
    let values = list(value)?;
    if values.len() != count {
        return Err(format!("{} numbers instead of {count}", values.len()).into());
    }
    let numbers = values.into_iter().map(|value| match value {
        Value::Int(number) => Ok(number),
        other => Err(instead_of("a number", &other)),
    });
    numbers.collect()
}

/// A number, and two strings.
pub(super) fn number_and_strings(value: Value) -> Result<(i64, [Bytes; 2]), Box<str>> {
    match <[Value; 3]>::try_from(list(value)?) {
        Ok(
            [
                Value::Int(number),
                Value::BulkString(one),
                Value::BulkString(other),
            ],
        ) => Ok((number, [one.into(), other.into()])),
        _ => Err("a list instead of a number and two strings".into()),
    }
}

/// A list with two elements.
fn pair(value: Value) -> Result<(Value, Value), Box<str>> {
    let values: Result<[Value; 2], _> = list(value)?.try_into();
    let [first, second] = values.map_err(|values| {
        format!("a list of {} instead of a pair", values.len()).into_boxed_str()
    })?;
    Ok((first, second))
}

/// The answer of a script: a word and a number.
pub(super) fn word_and_number(value: Value) -> Result<(String, i64), Box<str>> {
    let (word, number) = pair(value)?;
    let Value::Int(number) = number else {
        return Err(instead_of("a number", &number));
    };
    Ok((text(word)?, number))
}

/// The answer of a script: a word and two numbers.
pub(super) fn word_and_numbers(value: Value) -> Result<(String, [i64; 2]), Box<str>> {
    match <[Value; 3]>::try_from(list(value)?) {
        Ok([word, Value::Int(one), Value::Int(other)]) => Ok((text(word)?, [one, other])),
        _ => Err("a list instead of a word and two numbers".into()),
    }
}

fn position(value: Value) -> Result<Position, Box<str>> {
    let id = text(value)?;
    Position::parse(&id).ok_or_else(|| format!("{:?} instead of an id", printable(&id)).into())
}

/// The entry with these fields; empty if it is none of a fleet.
fn content(fields: Value, bytes_max: usize) -> Bytes {
    let Value::Array(fields) = fields else {
        return Bytes::new();
    };
    let fields: Result<[Value; 2], _> = fields.try_into();
    match fields {
        Ok([Value::BulkString(name), Value::BulkString(bytes)])
            if name == FIELD && bytes.len() <= bytes_max =>
        {
            bytes.into()
        }
        _ => Bytes::new(),
    }
}

/// The entries of the answer of `XREAD` for one stream.
pub(super) fn streams(value: Value, bytes_max: usize) -> Result<Entries, Box<str>> {
    let streams: Result<[Value; 1], _> = list(value)?.try_into();
    let [stream] = streams
        .map_err(|streams| format!("{} streams instead of one", streams.len()).into_boxed_str())?;
    let (_, entries) = pair(stream)?;
    let entries = list(entries)?.into_iter().map(|entry| {
        let (id, fields) = pair(entry)?;
        Ok((position(id)?, content(fields, bytes_max)))
    });
    entries.collect()
}

/// The entry of the answer of [`READ`](nearhead_fleet::scripts::READ), if there is one.
pub(super) fn entry(value: Value) -> Result<Entries, Box<str>> {
    let values = list(value)?;
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let (id, bytes) = pair(Value::Array(values))?;
    match bytes {
        Value::BulkString(bytes) => Ok(vec![(position(id)?, bytes.into())]),
        other => Err(instead_of("an entry", &other)),
    }
}

/// The items of the answer of [`GET_ITEMS`](nearhead_fleet::scripts::GET_ITEMS).
pub(super) fn items(value: Value, count: usize) -> Result<Vec<Option<Bytes>>, Box<str>> {
    let values = list(value)?;
    if values.len() != count {
        return Err(format!("{} items instead of {count}", values.len()).into());
    }
    let items = values.into_iter().map(|value| match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        _ => None,
    });
    Ok(items.collect())
}

/// What `BZPOPMAX` has taken, if anything.
pub(super) fn popped(value: Value) -> Result<Option<Bytes>, Box<str>> {
    if value == Value::Nil {
        return Ok(None);
    }
    match <[Value; 3]>::try_from(list(value)?) {
        Ok([_, Value::BulkString(bytes), _]) => Ok(Some(bytes.into())),
        _ => Err("a list instead of what was taken".into()),
    }
}

/// Whether the answer of `ROLE` is that of a master.
pub(super) fn is_master(value: &Value) -> bool {
    let Value::Array(values) = value else {
        return false;
    };
    match values.first() {
        Some(Value::BulkString(role)) => role == b"master",
        Some(Value::SimpleString(role)) => role == "master",
        _ => false,
    }
}

/// The address that a sentinel names; `None` if it knows no such master.
pub(super) fn address(value: Value) -> Result<Option<(String, u16)>, Box<str>> {
    if value == Value::Nil {
        return Ok(None);
    }
    let (host, port) = pair(value)?;
    let (host, port) = (text(host)?, text(port)?);
    let port = port
        .parse()
        .map_err(|_| format!("{:?} instead of a port", printable(&port)).into_boxed_str())?;
    Ok(Some((host, port)))
}
