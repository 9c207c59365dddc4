//! Compares an upstream's JSON with the JSON that was derived here, member by member.
//!
//! The derived side is the JSON that will be served. The comparison finds every false value that no
//! hash covers: a sender, a price, an index, the address of a contract.

use std::collections::BTreeSet;

use super::{
    fault::{Flaw, MemberError, cut},
    json::Value,
    object_kind::{ObjectKind, UNCOVERED, is_quantity},
};

/// Names of unserved members that are kept: enough to recognize the client.
const IGNORED_MAX: usize = 32;

/// Names of members that an upstream states and that are not served, as `kind.member`; at most 32.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ignored(BTreeSet<String>);

impl Ignored {
    fn add(&mut self, kind: ObjectKind, name: &str) {
        if self.0.len() < IGNORED_MAX {
            self.0.insert(format!("{}.{}", kind.name(), cut(name)));
        }
    }

    pub(super) fn into_names(self) -> Vec<String> {
        self.0.into_iter().collect()
    }
}

/// Whether an upstream's JSON equals the derived JSON byte for byte, with the total difficulty or
/// without it.
///
/// Most clients write what geth writes, and so does nearhead; they only leave out the total
/// difficulty, which no hash covers.
pub(super) fn is_verbatim(kind: ObjectKind, stated: &[u8], derived: &[u8]) -> bool {
    let is_left_out = || {
        around_uncovered(derived)
            .is_some_and(|[before, after]| stated.strip_prefix(before) == Some(after))
    };
    stated == derived || kind.is_uncovered(UNCOVERED) && is_left_out()
}

/// The bytes before and after a block's total difficulty, which is never the last member.
fn around_uncovered(derived: &[u8]) -> Option<[&[u8]; 2]> {
    const NAME: &[u8] = br#","totalDifficulty":"#;
    let begin = derived.windows(NAME.len()).position(|at| at == NAME)?;
    let value = begin + NAME.len();
    let length = derived[value..].iter().position(|byte| *byte == b',')?;
    Some([&derived[..begin], &derived[value + length..]])
}

/// Compares an object, or an array of objects, of one kind.
pub(super) fn compare(
    kind: ObjectKind,
    stated: &Value<'_>,
    derived: &Value<'_>,
    ignored: &mut Ignored,
) -> Result<(), MemberError> {
    compare_member(kind, "", stated, derived, ignored)
}

fn compare_member(
    kind: ObjectKind,
    name: &str,
    stated: &Value<'_>,
    derived: &Value<'_>,
    ignored: &mut Ignored,
) -> Result<(), MemberError> {
    match (stated, derived) {
        (Value::Text(stated), Value::Text(derived)) => {
            let is_same = stated == derived
                || if is_quantity(name) {
                    same_quantity(stated, derived)
                } else {
                    same_data(stated, derived)
                };
            is_same
                .then_some(())
                .ok_or_else(|| MemberError::differs(stated, derived))
        }
        (Value::Array(stated), Value::Array(derived)) => {
            if stated.len() != derived.len() {
                let array = |length| format!("an array of length {length}");
                return Err(MemberError::differs(
                    array(stated.len()),
                    array(derived.len()),
                ));
            }
            for (index, (stated, derived)) in stated.iter().zip(derived).enumerate() {
                compare_member(kind, name, stated, derived, ignored)
                    .map_err(|error| error.in_item(index))?;
            }
            Ok(())
        }
        (Value::Object(stated), Value::Object(derived)) => {
            compare_members(kind, stated, derived, ignored)
        }
        (Value::Bool(stated), Value::Bool(derived)) if stated == derived => Ok(()),
        (Value::Null, Value::Null) => Ok(()),
        (Value::Null, _) => Err(MemberError::new(Flaw::Missing)),
        _ => Err(MemberError::differs(in_words(stated), in_words(derived))),
    }
}

fn compare_members(
    kind: ObjectKind,
    stated: &[(&str, Value<'_>)],
    derived: &[(&str, Value<'_>)],
    ignored: &mut Ignored,
) -> Result<(), MemberError> {
    let mut found = 0;
    for (place, (name, value)) in derived.iter().enumerate() {
        // Most clients write members in the same order.
        let here = stated.get(place).filter(|(here, _)| here == name);
        let member = here.or_else(|| stated.iter().find(|(other, _)| other == name));
        found += usize::from(member.is_some());
        let absent = (*name, Value::Null);
        let (_, member) = member.unwrap_or(&absent);
        let may_be_absent = || *member == Value::Null && kind.may_be_absent(name, derived);
        let is_other_size =
            || kind == ObjectKind::Block && *name == "size" && is_anvil_size(member, derived);
        if !kind.is_uncovered(name) && !may_be_absent() && !is_other_size() {
            compare_member(kind.below(name), name, member, value, ignored)
                .map_err(|error| error.in_member(name))?;
        }
    }
    if found < stated.len() {
        let is_served = |name| derived.iter().any(|(served, _)| served == name);
        for (name, _) in stated.iter().filter(|(name, _)| !is_served(name)) {
            ignored.add(kind, name);
        }
    }
    Ok(())
}

/// Whether a block's size is stated as anvil counts it: without the byte of an empty list of
/// withdrawals.
fn is_anvil_size(stated: &Value<'_>, derived: &[(&str, Value<'_>)]) -> bool {
    let of = |name| derived.iter().find(|(other, _)| *other == name);
    let number = |value: &Value<'_>| match value {
        Value::Text(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        _ => None,
    };
    let has_none = matches!(of("withdrawals"), Some((_, Value::Array(list))) if list.is_empty());
    let size = of("size").and_then(|(_, size)| number(size));
    has_none && number(stated).and_then(|stated| stated.checked_add(1)) == size && size.is_some()
}

/// Whether two quantities are equal: leading zeros and the case of digits do not matter. `derived`
/// is well-formed.
fn same_quantity(stated: &str, derived: &str) -> bool {
    fn value(text: &str) -> Option<&str> {
        let digits = text
            .strip_prefix("0x")
            .filter(|digits| !digits.is_empty())?;
        Some(digits.trim_start_matches('0'))
    }
    match (value(stated), value(derived)) {
        (Some(stated), Some(derived)) => stated.eq_ignore_ascii_case(derived),
        _ => false,
    }
}

/// Whether two texts are the same data: the case of digits does not matter, but that of the prefix
/// does.
fn same_data(stated: &str, derived: &str) -> bool {
    match (stated.strip_prefix("0x"), derived.strip_prefix("0x")) {
        (Some(stated), Some(derived)) => stated.eq_ignore_ascii_case(derived),
        _ => false,
    }
}

fn in_words<'a>(value: &Value<'a>) -> &'a str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number => "a number",
        Value::Text(text) => text,
        Value::Escaped => "text with an escape",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
