//! How deep a JSON text is nested.

/// The most arrays and objects that are open at a time in a text that is known to be JSON.
#[must_use]
pub fn nesting(json: &[u8]) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b']' | b'}' => open = open.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    deepest
}

/// Skips the rest of a string.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => _ = bytes.next(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The same, of a value that is parsed.
    fn of_value(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(of_value).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(of_value).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            r#"["\\\[\]{}a]*"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 40, 4, |inner| {
            let items = prop::collection::vec(inner.clone(), 0..4);
            let name = r#"["\\\[\]{}a]*"#;
            let members = prop::collection::vec((name, inner), 0..4);
            prop_oneof![
                items.prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn text_that_is_no_json_does_no_harm() {
        for (text, expected) in [
            (&b""[..], 0),
            (b"]]]", 0),
            (b"]][[", 2),
            (b"\"[[", 0),
            (b"\"\\", 0),
            (b"[\"\\\"[\"]", 1),
        ] {
            assert_eq!(nesting(text), expected, "{text:?}");
        }
        assert_eq!(nesting(&vec![b'['; 1 << 20]), 1 << 20);
    }

    proptest! {
        #[test]
        fn nesting_is_that_of_the_value(value in values()) {
            let expected = of_value(&value);
            prop_assert_eq!(nesting(value.to_string().as_bytes()), expected);
            let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
            prop_assert_eq!(nesting(pretty.as_bytes()), expected);
        }
    }
}
