//! One change to an upstream's answers.

use serde_json::{Value, json};

/// A value in an answer, and its change.
#[derive(Clone, Debug)]
pub(crate) struct Lie {
    /// Methods whose results are changed; `eth_subscription` stands for notifications.
    pub(crate) methods: &'static [&'static str],
    /// If set, only results with this value at this path are changed: one block of many.
    pub(crate) only: Option<(String, Value)>,
    /// The path in the result: a JSON pointer (RFC 6901).
    pub(crate) path: String,
    pub(crate) change: Change,
}

/// The change of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// Another value of the same shape. An empty array gets an item; null becomes an address, the
    /// only kind of value that can be null.
    OtherValue,
    /// The member is absent.
    Removed,
    Null,
    /// A JSON type that is never valid there.
    WrongType,
    /// The text ends early.
    Truncated,
    /// This JSON, which no change of the value would make.
    Becomes(&'static str),
    /// The array's last item is dropped.
    ItemDropped,
    /// The array's last item is repeated.
    ItemDoubled,
    /// The array's last item is swapped with the first one that differs from it.
    ItemsSwapped,
}

impl Change {
    /// The changes that derive from the value; all but [`Self::Becomes`].
    pub(super) const ALL: [Self; 8] = [
        Self::OtherValue,
        Self::Removed,
        Self::Null,
        Self::WrongType,
        Self::Truncated,
        Self::ItemDropped,
        Self::ItemDoubled,
        Self::ItemsSwapped,
    ];

    /// Whether items of an array are changed, and not the value as a whole.
    pub(super) const fn is_of_items(self) -> bool {
        matches!(
            self,
            Self::ItemDropped | Self::ItemDoubled | Self::ItemsSwapped
        )
    }
}

impl Lie {
    /// A change at this path in every result of these methods.
    pub(crate) fn about(methods: &'static [&'static str], path: &str, change: Change) -> Self {
        Self {
            methods,
            only: None,
            path: path.to_owned(),
            change,
        }
    }

    /// Applies the lie to the result of a call; returns whether it changed the result.
    pub(super) fn apply(&self, method: &str, result: &mut Value) -> bool {
        let matches = self.methods.contains(&method)
            && self
                .only
                .as_ref()
                .is_none_or(|(path, value)| result.pointer(path) == Some(value));
        matches && self.change_in(result)
    }

    /// Whether the lie would change this result.
    pub(super) fn changes(&self, result: &Value) -> bool {
        match self.change {
            Change::Removed => self.parent().is_some_and(|(parent, name)| {
                let members = result.pointer(parent).and_then(Value::as_object);
                members.is_some_and(|members| members.contains_key(name))
            }),
            change => result
                .pointer(&self.path)
                .is_some_and(|value| changed(value, change).is_some_and(|other| other != *value)),
        }
    }

    fn change_in(&self, result: &mut Value) -> bool {
        if !self.changes(result) {
            return false;
        }
        if let (Change::Removed, Some((parent, name))) = (self.change, self.parent()) {
            let parent = result.pointer_mut(parent).and_then(Value::as_object_mut);
            parent.unwrap().remove(name);
        } else {
            let value = result.pointer_mut(&self.path).unwrap();
            *value = changed(value, self.change).unwrap();
        }
        true
    }

    /// The path of the parent, and the member's name in it.
    fn parent(&self) -> Option<(&str, &str)> {
        self.path.rsplit_once('/')
    }
}

/// The value after the change; `None` if it cannot be changed in this way.
fn changed(value: &Value, change: Change) -> Option<Value> {
    match change {
        Change::OtherValue => Some(other(value)),
        Change::Removed => None,
        Change::Becomes(text) => Some(crate::harness::json(text.as_bytes())),
        Change::Null => Some(Value::Null),
        Change::WrongType => Some(match value {
            Value::Object(_) => json!("0x1"),
            _ => json!({"0x1": []}),
        }),
        Change::Truncated => {
            let text = value.as_str()?;
            // Cuts whole bytes if there are enough, so that the rest still parses as hex.
            let cut = if text.len() >= 6 { 2 } else { 1 };
            Some(text.get(..text.len() - cut)?.into())
        }
        Change::ItemDropped | Change::ItemDoubled | Change::ItemsSwapped => {
            let mut items = value.as_array()?.clone();
            let last = items.len().checked_sub(1)?;
            match change {
                Change::ItemDropped => _ = items.pop(),
                Change::ItemDoubled => items.push(items[last].clone()),
                _ => {
                    let another = items.iter().position(|item| *item != items[last])?;
                    items.swap(another, last);
                }
            }
            Some(items.into())
        }
    }
}

/// Another value of the same shape.
fn other(value: &Value) -> Value {
    match value {
        Value::Null => json!("0x00000000000000000000000000000000000000ff"),
        Value::Bool(value) => json!(!value),
        Value::Number(number) => json!(number.as_u64().map_or(0, |number| number + 1)),
        Value::String(text) => {
            // The last digit: a QUANTITY stays one, and a hash a hash.
            let digit = text.chars().last().and_then(|last| last.to_digit(16));
            match digit.filter(|_| text.len() > 2) {
                Some(digit) => format!("{}{:x}", &text[..text.len() - 1], digit ^ 1).into(),
                None => format!("{text}00").into(),
            }
        }
        Value::Array(items) => match items.split_first() {
            None => json!([alloy_primitives::B256::ZERO]),
            Some((first, rest)) => [other(first)].iter().chain(rest).cloned().collect(),
        },
        Value::Object(members) => {
            let mut members = members.clone();
            if let Some((_, first)) = members.iter_mut().next() {
                *first = other(first);
            }
            members.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::check;

    #[test]
    fn each_change_does_what_its_name_says() {
        let block = json!({"hash": "0xab", "number": "0x0", "input": "0x", "to": null, "sizes": ["0x1", "0x1", "0x2"], "log": {"removed": false}, "none": []});
        for (path, change, expected) in [
            ("/hash", Change::OtherValue, Some(json!("0xaa"))),
            ("/number", Change::OtherValue, Some(json!("0x1"))),
            ("/input", Change::OtherValue, Some(json!("0x00"))),
            (
                "/to",
                Change::OtherValue,
                Some(json!("0x00000000000000000000000000000000000000ff")),
            ),
            ("/to", Change::Null, None),
            ("/log/removed", Change::OtherValue, Some(json!(true))),
            ("/log/removed", Change::Removed, Some(Value::Null)),
            ("/log", Change::WrongType, Some(json!("0x1"))),
            ("/hash", Change::Truncated, Some(json!("0xa"))),
            ("/hash", Change::ItemDropped, None),
            ("/nothing", Change::Null, None),
            ("/sizes", Change::ItemDropped, Some(json!(["0x1", "0x1"]))),
            (
                "/sizes",
                Change::ItemDoubled,
                Some(json!(["0x1", "0x1", "0x2", "0x2"])),
            ),
            (
                "/sizes",
                Change::ItemsSwapped,
                Some(json!(["0x2", "0x1", "0x1"])),
            ),
            ("/sizes/1", Change::OtherValue, Some(json!("0x0"))),
            ("/none", Change::ItemDropped, None),
            (
                "/sizes/2",
                Change::Becomes(r#"{"a":[1]}"#),
                Some(json!({"a": [1]})),
            ),
        ] {
            let lie = Lie {
                methods: &["eth_getBlockByHash"],
                only: Some(("/hash".into(), json!("0xab"))),
                path: path.to_owned(),
                change,
            };
            let mut changed_block = block.clone();
            let case = format!("{lie:?}");
            check(
                &case,
                &lie.apply("eth_getBlockByHash", &mut changed_block),
                &expected.is_some(),
            );
            match expected {
                Some(expected) => check(
                    &case,
                    changed_block.pointer(path).unwrap_or(&Value::Null),
                    &expected,
                ),
                None => check(&case, &changed_block, &block),
            }
            check(
                "another method",
                &lie.apply("eth_call", &mut block.clone()),
                &false,
            );
            let mut another = json!({"hash": "0xcd"});
            check(
                "another block",
                &lie.apply("eth_getBlockByHash", &mut another),
                &false,
            );
        }
    }
}
