//! Parses a body into requests, before any method looks at it: single, batch, notification, id.

use std::{borrow::Cow, fmt, ops::ControlFlow};

use nearhead_fleet::min_block::MinBlock;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::RpcError;
use crate::limits::BATCH_ITEMS_MAX;

/// A parsed body. Everything in it borrows from the body.
#[derive(Debug)]
pub enum Envelope<'a> {
    /// One request.
    Single(Result<Call<'a>, Malformed<'a>>),
    /// Several requests, unparsed: each is parsed when its turn comes, and may fail alone.
    Batch(Vec<&'a RawValue>),
    /// A batch of more than `BATCH_ITEMS_MAX` items; the id of the first item that has one.
    OversizedBatch(&'a str),
}

/// A request, or a notification if it has no id.
#[derive(Debug)]
pub struct Call<'a> {
    /// The id as the client wrote it, byte for byte.
    pub id: Option<&'a str>,
    /// The method's name.
    pub method: Cow<'a, str>,
    /// The parameters, unparsed.
    pub params: Option<&'a RawValue>,
    /// The block that the client has seen, if it names one.
    pub min_block: Option<MinBlock>,
}

/// Valid JSON that is not a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed<'a> {
    /// The id to answer with.
    pub id: &'a str,
    /// What is wrong.
    pub error: RpcError,
}

/// The id of an answer to a request without a usable id.
pub(crate) const NULL_ID: &str = "null";

impl Envelope<'_> {
    /// How many requests it has; of an oversized batch, as many as a batch may have.
    pub(super) fn requests(&self) -> u32 {
        let requests = match self {
            Self::Single(_) => 1,
            Self::Batch(items) => items.len(),
            Self::OversizedBatch(_) => BATCH_ITEMS_MAX,
        };
        u32::try_from(requests).unwrap_or(u32::MAX)
    }
}

impl<'a> Envelope<'a> {
    /// The id to answer with if it is refused as a whole.
    pub(super) fn id(&self) -> &'a str {
        match self {
            Self::Single(Ok(call)) => call.id.unwrap_or(NULL_ID),
            Self::Single(Err(malformed)) => malformed.id,
            Self::Batch(_) | Self::OversizedBatch(_) => NULL_ID,
        }
    }

    /// Parses a body.
    ///
    /// Nested values are skipped without recursion, so that deep nesting cannot overflow the stack.
    ///
    /// # Errors
    /// The body is not one JSON value in UTF-8, or an empty batch.
    pub fn parse(body: &'a [u8]) -> Result<Self, RpcError> {
        let text = std::str::from_utf8(body).map_err(|_| RpcError::Parse)?;
        match text.trim_ascii_start().as_bytes().first() {
            Some(b'[') => Self::parse_batch(text),
            Some(b'{') => parse_members(text).map(|members| Self::Single(members.into_call())),
            _ => match serde_json::from_str::<&RawValue>(text) {
                Ok(_) => Ok(Self::Single(Err(Malformed::without_id()))),
                Err(_) => Err(RpcError::Parse),
            },
        }
    }

    fn parse_batch(text: &'a str) -> Result<Self, RpcError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let items = deserializer
            .deserialize_seq(ItemsVisitor)
            .and_then(|items| deserializer.end().map(|()| items))
            .map_err(|_| RpcError::Parse)?;
        match items {
            ControlFlow::Continue(items) if items.is_empty() => Err(RpcError::EmptyBatch),
            ControlFlow::Continue(items) => Ok(Self::Batch(items)),
            ControlFlow::Break(items) => {
                let first_id = items
                    .into_iter()
                    .find_map(|item| Call::parse(item).ok()?.id);
                Ok(Self::OversizedBatch(first_id.unwrap_or(NULL_ID)))
            }
        }
    }
}

impl<'a> Call<'a> {
    /// Parses one item of a batch.
    ///
    /// # Errors
    /// The item is not a request.
    pub fn parse(item: &'a RawValue) -> Result<Self, Malformed<'a>> {
        let text = item.get();
        if !text.starts_with('{') {
            return Err(Malformed::without_id());
        }
        // Parsing the batch has shown that the item is valid JSON.
        parse_members(text)
            .map_err(|_| Malformed::without_id())?
            .into_call()
    }
}

impl Malformed<'_> {
    const fn without_id() -> Self {
        Self {
            id: NULL_ID,
            error: RpcError::InvalidRequest,
        }
    }
}

/// The members of a request object, unparsed. The last of several equal members counts, as for geth
/// and JavaScript; unknown members are ignored.
#[derive(Debug, Default)]
struct Members<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    min_block: Option<&'a RawValue>,
}

impl<'a> Members<'a> {
    fn into_call(self) -> Result<Call<'a>, Malformed<'a>> {
        let id = self.id.map(RawValue::get);
        if id.is_some_and(|id| id.starts_with(['{', '[', 't', 'f'])) {
            return Err(Malformed::without_id());
        }
        let is_version_2 = self
            .jsonrpc
            .and_then(string)
            .is_some_and(|version| version == "2.0");
        let malformed = |error| Malformed {
            id: id.unwrap_or(NULL_ID),
            error,
        };
        let method = self.method.and_then(string).filter(|_| is_version_2);
        let method = method.ok_or_else(|| malformed(RpcError::InvalidRequest))?;
        let min_block = self.min_block.map(min_block).transpose();
        Ok(Call {
            id,
            method,
            params: self.params,
            min_block: min_block.map_err(malformed)?.flatten(),
        })
    }
}

/// The block that a member names; `None` for null, as if the member were missing.
fn min_block(raw: &RawValue) -> Result<Option<MinBlock>, RpcError> {
    let text = match raw.get() {
        "null" => return Ok(None),
        // A number, unless it is not accepted.
        text if !text.starts_with('"') => Some(Cow::Borrowed(text)),
        _ => string(raw),
    };
    let block = text.and_then(|text| MinBlock::parse(&text).ok());
    block.map(Some).ok_or(RpcError::InvalidMinBlock)
}

/// The text of a JSON string, borrowed if nothing in it is escaped; `None` for any other value.
pub(crate) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let quoted = raw.get();
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        // Fails on a lone surrogate, which no Rust string can hold.
        serde_json::from_str(quoted).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

fn parse_members(text: &str) -> Result<Members<'_>, RpcError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer
        .deserialize_map(MembersVisitor)
        .and_then(|members| deserializer.end().map(|()| members))
        .map_err(|_| RpcError::Parse)
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members::default();
        while let Some(Member(name)) = map.next_key()? {
            let value = map.next_value::<&RawValue>()?;
            match name {
                MemberName::Jsonrpc => members.jsonrpc = Some(value),
                MemberName::Id => members.id = Some(value),
                MemberName::Method => members.method = Some(value),
                MemberName::Params => members.params = Some(value),
                MemberName::MinBlock => members.min_block = Some(value),
                MemberName::Other => {}
            }
        }
        Ok(members)
    }
}

pub(super) enum MemberName {
    Jsonrpc,
    Id,
    Method,
    Params,
    MinBlock,
    Other,
}

pub(super) struct Member(pub(super) MemberName);

impl<'de> serde::Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(Self(MemberName::Other))
    }
}

impl Visitor<'_> for Member {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self, E> {
        Ok(Self(match name {
            "jsonrpc" => MemberName::Jsonrpc,
            "id" => MemberName::Id,
            "method" => MemberName::Method,
            "params" => MemberName::Params,
            "minBlock" => MemberName::MinBlock,
            _ => MemberName::Other,
        }))
    }
}

/// Collects the items of an array; breaks with the first [`BATCH_ITEMS_MAX`] if there are more.
struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = ControlFlow<Vec<&'de RawValue>, Vec<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items: Vec<&RawValue> = Vec::new();
        while let Some(item) = seq.next_element()? {
            if items.len() == BATCH_ITEMS_MAX {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(ControlFlow::Break(items));
            }
            items.push(item);
        }
        Ok(ControlFlow::Continue(items))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A parsed body in words: `method id params`, `id: error`, or `[` items `]`.
    fn describe(body: &[u8]) -> String {
        let call = |call: Result<Call<'_>, Malformed<'_>>| match call {
            Ok(call) => format!(
                "{} {} {}",
                call.method,
                call.id.unwrap_or("-"),
                call.params.map_or("-", RawValue::get)
            ),
            Err(malformed) => format!("{}: {}", malformed.id, malformed.error.message()),
        };
        match Envelope::parse(body) {
            Ok(Envelope::Single(single)) => call(single),
            Ok(Envelope::Batch(items)) => {
                let items: Vec<_> = items
                    .into_iter()
                    .map(|item| call(Call::parse(item)))
                    .collect();
                format!("[{}]", items.join("; "))
            }
            Ok(Envelope::OversizedBatch(id)) => format!("{id}: batch too large"),
            Err(error) => error.message().into_owned(),
        }
    }

    #[track_caller]
    fn check(body: impl AsRef<[u8]>, expected: &str) {
        let body = body.as_ref();
        assert_eq!(
            describe(body),
            expected,
            "{}",
            String::from_utf8_lossy(body)
        );
    }

    #[test]
    fn single() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1, 2]}"#,
            "m 1 [1, 2]",
        );
        check(
            r#" { "params" : null , "method":"m","id": "a\u0041" ,"jsonrpc":"2.0"} "#,
            r#"m "a\u0041" null"#,
        );
        check(r#"{"jsonrpc":"2.0","method":"m"}"#, "m - -");
        check(r#"{"jsonrpc":"2.0","method":"m","id":null}"#, "m null -");
        check(
            r#"{"jsonrpc":"2.0","method":"m","id":-1.50e+07}"#,
            "m -1.50e+07 -",
        );
        check(
            r#"{"jsonrpc":"2.0","method":"m","id":123456789012345678901234567890}"#,
            "m 123456789012345678901234567890 -",
        );
        check(
            r#"{"\u006asonrpc":"\u0032.0","meth\u006fd":"\u006d","id":""}"#,
            r#"m "" -"#,
        );
        check(
            r#"{"jsonrpc":"2.0","method":"a","method":"b","id":1,"id":2,"x":{"id":3}}"#,
            "b 2 -",
        );
    }

    #[test]
    fn malformed() {
        for (id, echoed) in [("1", "1"), ("null", "null"), (r#""x""#, r#""x""#)] {
            check(
                format!(r#"{{"id":{id},"method":"m"}}"#),
                &format!("{echoed}: invalid request"),
            );
            check(
                format!(r#"{{"jsonrpc":"1.0","id":{id},"method":"m"}}"#),
                &format!("{echoed}: invalid request"),
            );
            check(
                format!(r#"{{"jsonrpc":2.0,"id":{id},"method":"m"}}"#),
                &format!("{echoed}: invalid request"),
            );
            check(
                format!(r#"{{"jsonrpc":null,"id":{id},"method":"m"}}"#),
                &format!("{echoed}: invalid request"),
            );
            check(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":1}}"#),
                &format!("{echoed}: invalid request"),
            );
            check(
                format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
                &format!("{echoed}: invalid request"),
            );
        }
        for id in ["{}", "[]", "[1]", r#"{"a":1}"#, "true", "false"] {
            check(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#),
                "null: invalid request",
            );
        }
        for body in ["{}", "1", "null", r#""text""#, "true", r#"{"method":"m"}"#] {
            check(body, "null: invalid request");
        }
    }

    #[test]
    fn min_block() {
        let hash = format!("0x{}", "ab".repeat(32));
        let of = |member: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":"7",{member},"method":"m"}}"#);
            match Envelope::parse(body.as_bytes()).unwrap() {
                Envelope::Single(Ok(call)) => Ok(call.min_block),
                Envelope::Single(Err(malformed)) => Err((malformed.id.to_owned(), malformed.error)),
                other => panic!("{other:?}"),
            }
        };
        let invalid = Err((r#""7""#.to_owned(), RpcError::InvalidMinBlock));
        let number = Ok(Some(MinBlock::Number(26)));
        for (member, want) in [
            (r#""minBlock":26"#, number.clone()),
            (r#""minBlock":"26""#, number.clone()),
            (r#""minBlock":"0x1a""#, number.clone()),
            (r#""min\u0042lock":"2\u0036""#, number),
            (
                &format!(r#""minBlock":"{hash}""#),
                Ok(MinBlock::parse(&hash).ok()),
            ),
            (
                &format!(r#""minBlock":"26, {hash}""#),
                Ok(MinBlock::parse(&format!("26, {hash}")).ok()),
            ),
            (r#""minBlock":null"#, Ok(None)),
            (r#""minblock":26"#, Ok(None)),
            (r#""minBlock":"""#, invalid.clone()),
            (r#""minBlock":"latest""#, invalid.clone()),
            (r#""minBlock":-1"#, invalid.clone()),
            (r#""minBlock":1.0"#, invalid.clone()),
            (r#""minBlock":1e3"#, invalid.clone()),
            (r#""minBlock":true"#, invalid.clone()),
            (r#""minBlock":{"number":26}"#, invalid.clone()),
            (r#""minBlock":[26]"#, invalid.clone()),
            (r#""minBlock":"\ud800""#, invalid),
        ] {
            assert_eq!(of(member), want, "{member}");
        }
        // Of several members, the last one counts.
        assert_eq!(of(r#""minBlock":"x","minBlock":null"#), Ok(None));
    }

    #[test]
    fn not_json() {
        for body in [
            "",
            " ",
            "{",
            "[",
            "}",
            "]",
            "nul",
            "{\"a\":1}x",
            "{}{}",
            "[]]",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "'a'",
            "\u{feff}{}",
            "{\"a\":01}",
            "{\"a\":.5}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\\x\"}",
            "[1]1",
            "NaN",
            "{\"a\"}",
        ] {
            check(body, "parse error");
        }
        check(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
            "parse error",
        );
        check(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"x\":\"\xc3\"}",
            "parse error",
        );
    }

    #[test]
    fn batch() {
        check("[]", "empty batch");
        check(" [ ] ", "empty batch");
        check(
            "[1, [], {}]",
            "[null: invalid request; null: invalid request; null: invalid request]",
        );
        check(
            r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},{"id":3}]"#,
            "[a 1 -; b - -; 3: invalid request]",
        );
        let of = |count: usize, first: &str| {
            format!(
                "[{first}{}]",
                r#",{"jsonrpc":"2.0","id":2,"method":"m"}"#.repeat(count - 1)
            )
        };
        let first = r#"{"jsonrpc":"2.0","id":"one","method":"m"}"#;
        assert!(describe(of(BATCH_ITEMS_MAX, first).as_bytes()).starts_with("[m \"one\" -; m 2 -"));
        check(of(BATCH_ITEMS_MAX + 1, first), "\"one\": batch too large");
        check(of(BATCH_ITEMS_MAX + 1, "{}"), "2: batch too large");
        check(
            format!("[{}1]", "1,".repeat(BATCH_ITEMS_MAX)),
            "null: batch too large",
        );
        check(of(BATCH_ITEMS_MAX + 1, first) + "]", "parse error");
    }

    #[test]
    fn nesting_costs_no_stack() {
        let depth = 2_000_000;
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = if open == "[" { "" } else { "1" };
            let bomb = open.repeat(depth) + inner + &close.repeat(depth);
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{bomb}}}"#);
            assert!(describe(body.as_bytes()).starts_with("m 1 "));
            check(open.repeat(depth), "parse error");
        }
        let bomb = "[".repeat(depth) + &"]".repeat(depth);
        check(bomb, "[null: invalid request]");
    }
}
