//! JSON without repeated keys.

use serde_json::Value;

/// Parses JSON; panics on a repeated key, which serde_json would accept.
#[track_caller]
pub(crate) fn json(bytes: &[u8]) -> Value {
    let Strict(value) = serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(bytes)));
    value
}

/// A JSON value whose objects have no repeated keys.
struct Strict(Value);

impl<'de> serde::Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Strict;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_str<E>(self, v: &str) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_unit<E>(self) -> Result<Strict, E> {
                Ok(Strict(Value::Null))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<Strict, A::Error> {
                let mut items = Vec::new();
                while let Some(Strict(item)) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Strict(items.into()))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Strict, A::Error> {
                let mut members = serde_json::Map::new();
                while let Some((key, Strict(member))) = map.next_entry::<String, _>()? {
                    if members.contains_key(&key) {
                        return Err(serde::de::Error::custom(format!("repeated key {key}")));
                    }
                    members.insert(key, member);
                }
                Ok(Strict(members.into()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
