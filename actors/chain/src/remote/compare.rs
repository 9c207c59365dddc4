//! What a node states, member by member, against what was derived here.
//!
//! The derived side is the JSON that will be served, so whatever follows from what the hashes cover
//! is found here where a node says otherwise: a sender, a price, an index, the address of a
//! contract.

use std::collections::BTreeSet;

use super::{
    fault::{Flaw, MemberError, cut},
    json::Value,
};

/// Names that are kept of members that are not served: enough to say which client it is.
const IGNORED_MAX: usize = 32;

/// Members that hold a number: equal by value. All other text is data.
const QUANTITIES: [&str; 33] = [
    "amount",
    "baseFeePerGas",
    "blobGasPrice",
    "blobGasUsed",
    "blockNumber",
    "blockTimestamp",
    "chainId",
    "cumulativeGasUsed",
    "difficulty",
    "effectiveGasPrice",
    "excessBlobGas",
    "gas",
    "gasLimit",
    "gasPrice",
    "gasUsed",
    "index",
    "logIndex",
    "maxFeePerBlobGas",
    "maxFeePerGas",
    "maxPriorityFeePerGas",
    "nonce",
    "number",
    "r",
    "s",
    "size",
    "status",
    "timestamp",
    "transactionIndex",
    "type",
    "v",
    "validatorIndex",
    "value",
    "yParity",
];

/// The member of a block and of an ommer that no hash covers.
const UNCOVERED: &str = "totalDifficulty";

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Block,
    Ommer,
    Transaction,
    Withdrawal,
    Receipt,
    Log,
    /// An item of an access list, an authorization.
    Part,
}

impl ObjectKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Ommer => "ommer",
            Self::Transaction => "transaction",
            Self::Withdrawal => "withdrawal",
            Self::Receipt => "receipt",
            Self::Log => "log",
            Self::Part => "part",
        }
    }

    /// What the objects in a member of this kind are.
    fn below(self, name: &str) -> Self {
        match (self, name) {
            (Self::Block, "transactions") => Self::Transaction,
            (Self::Block, "withdrawals") => Self::Withdrawal,
            (Self::Receipt, "logs") => Self::Log,
            _ => Self::Part,
        }
    }

    /// Whether nothing covers the member: it is taken from the node as it is, or not served at all.
    fn is_uncovered(self, name: &str) -> bool {
        matches!(self, Self::Block | Self::Ommer) && name == UNCOVERED
    }

    /// Whether some nodes leave the member out, or null, with good reason. What is served in its
    /// place is derived.
    fn may_be_absent(self, name: &str, derived: &[(&str, Value<'_>)]) -> bool {
        let is = |member: &str, text: &str| {
            let found = derived.iter().find(|(name, _)| *name == member);
            found.is_some_and(|(_, value)| *value == Value::Text(text))
        };
        match (self, name) {
            (Self::Block | Self::Ommer, "size")
            // An ommer has none, so an answer need not say so.
            | (Self::Ommer, "uncles")
            | (Self::Transaction | Self::Log, "blockTimestamp") => true,
            // One says what the other says: a transaction without both could not be read.
            (Self::Transaction, "v" | "yParity") => !is("type", "0x0"),
            // v says it.
            (Self::Transaction, "chainId") => is("type", "0x0"),
            // Some say that a creation that failed created nothing.
            (Self::Receipt, "contractAddress") => is("status", "0x0"),
            _ => false,
        }
    }
}

/// Names of members that a node states and that are not served, as `kind.member`; 32 of them at
/// most.
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

/// Whether what a node states is what will be served, byte for byte. Most nodes write as geth does,
/// and so do we, but that they leave out what nothing covers.
pub(super) fn is_verbatim(kind: ObjectKind, stated: &[u8], derived: &[u8]) -> bool {
    let is_left_out = || {
        around_uncovered(derived)
            .is_some_and(|[before, after]| stated.strip_prefix(before) == Some(after))
    };
    stated == derived || kind.is_uncovered(UNCOVERED) && is_left_out()
}

/// What is written before and after a block's total difficulty, which is never its last member.
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
                || if QUANTITIES.binary_search(&name).is_ok() {
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
                let items = |count| format!("of {count} items");
                return Err(MemberError::differs(
                    items(stated.len()),
                    items(derived.len()),
                ));
            }
            for (index, (stated, derived)) in stated.iter().zip(derived).enumerate() {
                compare_member(kind, name, stated, derived, ignored)
                    .map_err(|why| why.in_item(index))?;
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
        // Most nodes write members in one order.
        let here = stated.get(place).filter(|(here, _)| here == name);
        let member = here.or_else(|| stated.iter().find(|(other, _)| other == name));
        found += usize::from(member.is_some());
        let absent = (*name, Value::Null);
        let (_, member) = member.unwrap_or(&absent);
        let may_be_absent = || *member == Value::Null && kind.may_be_absent(name, derived);
        let is_other_count =
            || kind == ObjectKind::Block && *name == "size" && counts_less(member, derived);
        if !kind.is_uncovered(name) && !may_be_absent() && !is_other_count() {
            compare_member(kind.below(name), name, member, value, ignored)
                .map_err(|why| why.in_member(name))?;
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
fn counts_less(stated: &Value<'_>, derived: &[(&str, Value<'_>)]) -> bool {
    let of = |name| derived.iter().find(|(other, _)| *other == name);
    let number = |value: &Value<'_>| match value {
        Value::Text(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        _ => None,
    };
    let has_none = matches!(of("withdrawals"), Some((_, Value::Array(list))) if list.is_empty());
    let size = of("size").and_then(|(_, size)| number(size));
    has_none && number(stated).and_then(|stated| stated.checked_add(1)) == size && size.is_some()
}

/// By value: leading zeros and the case of digits do not count. `derived` is well-formed.
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

/// The case of digits does not count, that of the prefix does.
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
#[expect(clippy::unwrap_used, reason = "tests are made to fail")]
mod tests {
    use super::{
        super::{fault::AnswerKind, json::parse},
        *,
    };

    /// What is wrong, empty where nothing is, and what is ignored.
    fn check(kind: ObjectKind, stated: &str, derived: &str, want: &str, names: &[&str]) {
        let [stated, derived] =
            [stated, derived].map(|json| parse(AnswerKind::Block, json.as_bytes()).unwrap());
        let mut ignored = Ignored::default();
        let found = compare(kind, &stated, &derived, &mut ignored);
        let found = found.map_err(|why| why.of(AnswerKind::Block).to_string());
        assert_eq!(found.err().unwrap_or_default(), want);
        assert_eq!(ignored.into_names(), names);
    }

    #[test]
    fn quantities_are_in_order() {
        assert!(QUANTITIES.is_sorted(), "they are searched by halves");
    }

    #[test]
    fn what_nothing_covers_may_be_left_out_of_what_is_verbatim() {
        let derived = br#"{"timestamp":"0x1","totalDifficulty":null,"uncles":[]}"#;
        for (stated, want) in [
            (
                r#"{"timestamp":"0x1","totalDifficulty":null,"uncles":[]}"#,
                true,
            ),
            (r#"{"timestamp":"0x1","uncles":[]}"#, true),
            // Each is taken apart.
            (
                r#"{"timestamp":"0x1","totalDifficulty":"0x2","uncles":[]}"#,
                false,
            ),
            (r#"{"timestamp":"0x2","uncles":[]}"#, false),
            (r#"{"timestamp":"0x1","uncles":[]} "#, false),
            (r#"{"timestamp":"0x1"}"#, false),
            (r#"{"uncles":[]}"#, false),
            ("", false),
        ] {
            for kind in [ObjectKind::Block, ObjectKind::Ommer] {
                let found = is_verbatim(kind, stated.as_bytes(), derived);
                assert_eq!(found, want, "{stated}");
            }
            // A receipt has no such member: nothing may be left out of it.
            let is_same = stated.as_bytes() == derived;
            let found = is_verbatim(ObjectKind::Receipt, stated.as_bytes(), derived);
            assert_eq!(found, is_same, "{stated}");
        }
        assert!(is_verbatim(ObjectKind::Receipt, b"[]", b"[]"));
        assert!(!is_verbatim(ObjectKind::Receipt, b"[]", b"{}"));
    }

    #[test]
    fn a_size_may_leave_out_an_empty_list_of_withdrawals() {
        let derived = |list| format!(r#"{{"size":"0x268","withdrawals":[{list}]}}"#);
        let stated = |size, list| format!(r#"{{"size":"{size}","withdrawals":[{list}]}}"#);
        for (size, list, want) in [
            ("0x268", "", ""),
            ("0x267", "", ""),
            ("0x266", "", "block: size is 0x266, expected 0x268"),
            ("0x269", "", "block: size is 0x269, expected 0x268"),
            ("0x267", "{}", "block: size is 0x267, expected 0x268"),
        ] {
            check(
                ObjectKind::Block,
                &stated(size, list),
                &derived(list),
                want,
                &[],
            );
        }
    }

    #[test]
    fn members_are_compared_by_what_they_hold() {
        let block = |stated, derived, want| check(ObjectKind::Block, stated, derived, want, &[]);
        block(r#"{"number":"0x0A"}"#, r#"{"number":"0xa"}"#, "");
        block(r#"{"number":"0x000"}"#, r#"{"number":"0x0"}"#, "");
        block(
            r#"{"number":"0x"}"#,
            r#"{"number":"0x0"}"#,
            "block: number is 0x, expected 0x0",
        );
        block(
            r#"{"number":"0xb"}"#,
            r#"{"number":"0xa"}"#,
            "block: number is 0xb, expected 0xa",
        );
        block(
            r#"{"number":10}"#,
            r#"{"number":"0xa"}"#,
            "block: number is a number, expected 0xa",
        );
        block(r#"{"hash":"0xAB"}"#, r#"{"hash":"0xab"}"#, "");
        block(
            r#"{"hash":"0x0ab"}"#,
            r#"{"hash":"0xab"}"#,
            "block: hash is 0x0ab, expected 0xab",
        );
        block(
            r#"{"hash":"ab"}"#,
            r#"{"hash":"0xab"}"#,
            "block: hash is ab, expected 0xab",
        );
        block("{}", r#"{"hash":"0xab"}"#, "block: hash is missing");
        block(
            r#"{"hash":null}"#,
            r#"{"hash":"0xab"}"#,
            "block: hash is missing",
        );
        block(
            r#"{"uncles":["0x1","0x2"]}"#,
            r#"{"uncles":["0x1"]}"#,
            "block: uncles is of 2 items, expected of 1 items",
        );
        block(
            r#"{"transactions":[{"v":"0x1","to":"0x1"}]}"#,
            r#"{"transactions":[{"to":null,"v":"0x1"}]}"#,
            "block: transactions[0].to is 0x1, expected null",
        );
        block(
            r#"{"transactions":[{}]}"#,
            r#"{"transactions":[{"to":null}]}"#,
            "",
        );
        check(
            ObjectKind::Log,
            r#"{"removed":true}"#,
            r#"{"removed":false}"#,
            "block: removed is true, expected false",
            &[],
        );
    }

    #[test]
    fn what_is_not_served_is_named() {
        check(
            ObjectKind::Receipt,
            r#"[{"l1Fee":"0x1","logs":[{"x":1}]},{"l1Fee":null,"logs":[{}]}]"#,
            r#"[{"logs":[{}]},{"logs":[{}]}]"#,
            "",
            &["log.x", "receipt.l1Fee"],
        );
        let many: Vec<_> = (0..50).map(|n| format!("\"{n}\":0")).collect();
        let stated = format!("{{{}}}", many.join(","));
        let mut ignored = Ignored::default();
        let stated = parse(AnswerKind::Block, stated.as_bytes()).unwrap();
        compare(
            ObjectKind::Block,
            &stated,
            &Value::Object(vec![]),
            &mut ignored,
        )
        .unwrap();
        assert_eq!(ignored.into_names().len(), IGNORED_MAX);
    }

    #[test]
    fn what_may_be_absent_is_absent_with_a_reason() {
        let gone = |kind, derived, want| check(kind, "{}", derived, want, &[]);
        gone(
            ObjectKind::Block,
            r#"{"size":"0x1","totalDifficulty":"0x1"}"#,
            "",
        );
        gone(ObjectKind::Log, r#"{"blockTimestamp":"0x1"}"#, "");
        for (derived, want) in [
            (r#"{"yParity":"0x1"}"#, ""),
            (r#"{"v":"0x1"}"#, ""),
            (r#"{"chainId":"0x1"}"#, "block: chainId is missing"),
        ] {
            gone(ObjectKind::Transaction, derived, want);
        }
        let legacy = |derived, want| {
            check(
                ObjectKind::Transaction,
                r#"{"type":"0x0"}"#,
                derived,
                want,
                &[],
            );
        };
        legacy(r#"{"type":"0x0","v":"0x1b"}"#, "block: v is missing");
        legacy(r#"{"type":"0x0","chainId":"0x1"}"#, "");
        let receipt = |derived, want| {
            check(
                ObjectKind::Receipt,
                r#"{"status":"0x0"}"#,
                derived,
                want,
                &[],
            );
        };
        receipt(r#"{"status":"0x0","contractAddress":"0x1"}"#, "");
        let want = "block: contractAddress is missing";
        gone(ObjectKind::Receipt, r#"{"contractAddress":"0x1"}"#, want);
    }
}
