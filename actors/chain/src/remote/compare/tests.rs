#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::{
    super::{fault::AnswerKind, json::parse},
    *,
};

/// Checks the error, empty if there is none, and the names of ignored members.
fn check(kind: ObjectKind, stated: &str, derived: &str, want: &str, names: &[&str]) {
    let [stated, derived] =
        [stated, derived].map(|json| parse(AnswerKind::Block, json.as_bytes()).unwrap());
    let mut ignored = Ignored::default();
    let found = compare(kind, &stated, &derived, &mut ignored);
    let found = found.map_err(|error| error.of(AnswerKind::Block).to_string());
    assert_eq!(found.err().unwrap_or_default(), want);
    assert_eq!(ignored.into_names(), names);
}

#[test]
fn a_verbatim_answer_may_omit_the_total_difficulty() {
    let derived = br#"{"timestamp":"0x1","totalDifficulty":null,"uncles":[]}"#;
    for (stated, want) in [
        (
            r#"{"timestamp":"0x1","totalDifficulty":null,"uncles":[]}"#,
            true,
        ),
        (r#"{"timestamp":"0x1","uncles":[]}"#, true),
        // Each of these is compared member by member.
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
        // A receipt has no such member, so it may omit nothing.
        let is_same = stated.as_bytes() == derived;
        let found = is_verbatim(ObjectKind::Receipt, stated.as_bytes(), derived);
        assert_eq!(found, is_same, "{stated}");
    }
    assert!(is_verbatim(ObjectKind::Receipt, b"[]", b"[]"));
    assert!(!is_verbatim(ObjectKind::Receipt, b"[]", b"{}"));
}

#[test]
fn a_size_may_omit_an_empty_list_of_withdrawals() {
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
fn members_are_compared_by_value() {
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
        "block: uncles is an array of length 2, expected an array of length 1",
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
fn ignored_members_are_listed() {
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
fn only_derivable_members_may_be_absent() {
    let check_absent = |kind, derived, want| check(kind, "{}", derived, want, &[]);
    check_absent(
        ObjectKind::Block,
        r#"{"size":"0x1","totalDifficulty":"0x1"}"#,
        "",
    );
    check_absent(ObjectKind::Log, r#"{"blockTimestamp":"0x1"}"#, "");
    for (derived, want) in [
        (r#"{"type":"0x1","yParity":"0x1"}"#, ""),
        (r#"{"type":"0x1","v":"0x1"}"#, ""),
        (
            r#"{"type":"0x1","chainId":"0x1"}"#,
            "block: chainId is missing",
        ),
    ] {
        check(
            ObjectKind::Transaction,
            r#"{"type":"0x1"}"#,
            derived,
            want,
            &[],
        );
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
    check_absent(ObjectKind::Receipt, r#"{"contractAddress":"0x1"}"#, want);
}
