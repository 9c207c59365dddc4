//! A bounded parser of an upstream's JSON; values borrow from the answer.

use std::fmt::Display;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::fault::{AnswerKind, UpstreamFault, malformed};

/// Most bytes of an answer: the receipts of a block of 100 million gas with nothing but empty
/// logs, of 375 gas and some 480 bytes of JSON each.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Most values of an answer: those of the same logs. Parsed, this many values take some 160 MB,
/// however short their text.
const VALUES_MAX: usize = 4_000_000;
/// Most members of an object: a block has 32, with those that only some clients state. Each name is
/// compared with all others.
const MEMBERS_MAX: usize = 64;

/// One JSON value over the bytes that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// Its value is not kept: quantities are text.
    Number,
    Text(&'a str),
    /// Text with an escape; hex has none.
    Escaped,
    Array(Vec<Self>),
    Object(Vec<(&'a str, Self)>),
}

/// Parses an answer.
pub(crate) fn parse(answer: AnswerKind, json: &[u8]) -> Result<Value<'_>, UpstreamFault> {
    if json.len() > ANSWER_BYTES_MAX {
        let (max, found) = (ANSWER_BYTES_MAX, json.len());
        return Err(UpstreamFault::TooLarge { answer, max, found });
    }
    let mut unfinished = Unfinished {
        left: VALUES_MAX,
        items: Vec::new(),
        members: Vec::new(),
    };
    let malformed = |error: &dyn Display| malformed(answer, error);
    // UTF-8 is checked once for the whole answer, not for each text.
    let json = str::from_utf8(json).map_err(|error| malformed(&error))?;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let value = Seed(&mut unfinished)
        .deserialize(&mut deserializer)
        .map_err(|error| malformed(&error))?;
    deserializer.end().map_err(|error| malformed(&error))?;
    match value {
        Value::Null => Err(UpstreamFault::Absent { answer }),
        value => Ok(value),
    }
}

/// The items and members of arrays and objects that have not ended, inner ones last. Each array or
/// object is moved to an allocation of its exact size at its end.
struct Unfinished<'de> {
    /// Values that are still allowed, of [`VALUES_MAX`].
    left: usize,
    items: Vec<Value<'de>>,
    members: Vec<(&'de str, Value<'de>)>,
}

/// Deserializes one value.
struct Seed<'u, 'de>(&'u mut Unfinished<'de>);

impl<'de> DeserializeSeed<'de> for Seed<'_, 'de> {
    type Value = Value<'de>;

    fn deserialize<D: de::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value<'de>, D::Error> {
        let left = self.0.left.checked_sub(1);
        self.0.left = left.ok_or_else(|| de::Error::custom("too many values"))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, 'de> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value<'de>, E> {
        Ok(Value::Number)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value<'de>, E> {
        Ok(Value::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value<'de>, E> {
        Ok(Value::Number)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(text))
    }

    fn visit_str<E>(self, _: &str) -> Result<Value<'de>, E> {
        Ok(Value::Escaped)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let Self(unfinished) = self;
        let begin = unfinished.items.len();
        while let Some(item) = access.next_element_seed(Seed(unfinished))? {
            unfinished.items.push(item);
        }
        Ok(Value::Array(unfinished.items.split_off(begin)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value<'de>, A::Error> {
        let Self(unfinished) = self;
        let begin = unfinished.members.len();
        // A name with an escape cannot be borrowed, and is refused: it could repeat another name.
        while let Some(name) = access.next_key::<&str>()? {
            let members = &unfinished.members[begin..];
            if members.iter().any(|(before, _)| *before == name) {
                return Err(de::Error::custom("a member occurs twice"));
            }
            if members.len() == MEMBERS_MAX {
                return Err(de::Error::custom("too many members"));
            }
            let value = access.next_value_seed(Seed(unfinished))?;
            unfinished.members.push((name, value));
        }
        Ok(Value::Object(unfinished.members.split_off(begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<Value<'_>, &str>) {
        let found = parse(AnswerKind::Block, json.as_bytes());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => {
                assert!(found.to_string().contains(expected), "{json}: {found}");
            }
            (found, expected) => panic!("{json}: {found:?}, want {expected:?}"),
        }
    }

    #[test]
    fn malformed_json_is_refused() {
        check(r#""0x1""#, Ok(Value::Text("0x1")));
        check(r#"["a\u0062", 1, -1, 1.5]"#, {
            let number = Value::Number;
            Ok(Value::Array(vec![
                Value::Escaped,
                number.clone(),
                number.clone(),
                number,
            ]))
        });
        check(
            r#" {"a":true,"b":[null]} "#,
            Ok(Value::Object(vec![
                ("a", Value::Bool(true)),
                ("b", Value::Array(vec![Value::Null])),
            ])),
        );
        check("null", Err("is null"));
        let deep = "[".repeat(1_000);
        let many = format!(
            "{{{}}}",
            (0..65)
                .map(|n| format!("\"{n}\":0"))
                .collect::<Vec<_>>()
                .join(",")
        );
        for (json, error) in [
            ("", "EOF"),
            (r#"{"a":1"#, "EOF"),
            (r#"{"a":"0x"#, "EOF"),
            ("{} {}", "trailing"),
            (r#"{"a":1,"a":1}"#, "occurs twice"),
            (r#"{"a":{"b":1,"b":2}}"#, "occurs twice"),
            (r#"{"\u0061":1}"#, "borrowed string"),
            ("1e999", "out of range"),
            (&deep, "recursion limit"),
            (&many, "too many members"),
        ] {
            check(json, Err(error));
        }
    }

    #[test]
    fn answers_are_bounded() {
        let bytes = vec![b' '; ANSWER_BYTES_MAX + 1];
        assert!(matches!(
            parse(AnswerKind::Block, &bytes),
            Err(UpstreamFault::TooLarge { .. })
        ));
        let values = format!("[{}0]", "0,".repeat(VALUES_MAX));
        check(&values, Err("too many values"));
    }
}
