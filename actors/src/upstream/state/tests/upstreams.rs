use serde_json::{Value, json};

use super::*;
use crate::{
    read::ask,
    upstream::{
        follow::Event,
        health::{Fault, Switch, SwitchReason, Verdict},
    },
};

/// The honest answer; that to eth_getProof is changed.
fn changed(asked: &Asked, change: impl FnOnce(&mut Value)) -> UpstreamReply {
    let text = match honest(asked) {
        UpstreamReply::Result(text) if asked.method == "eth_getProof" => text,
        other => return other,
    };
    let mut value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    UpstreamReply::Result(value.to_string())
}

/// Checks that an upstream which answers so is complained of, and that the next one's answer is
/// served.
async fn check_complaint(answers: Answers, expected: Verdict) {
    let mut scene = Scene::of(&[answers, honest]).await;
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 2)).await;
    assert_eq!(value.unwrap(), stored(3, 2));
    let found = ask(&scene.worker.proofs, scene.read_code(3)).await;
    assert_eq!(found.unwrap(), code(3));
    let complaint = scene.fault_reports.try_recv().unwrap();
    assert_eq!((complaint.upstream, complaint.verdict), (0, expected));
    assert!(
        complaint.error.starts_with("state of block 0 (0x"),
        "{}",
        complaint.error
    );
    assert!(scene.calls(1) > 0);
    scene.is_idle().await;
}

#[actix::test]
async fn a_liar_is_reported_and_the_next_upstream_is_asked() {
    let lies: [Answers; 12] = [
        |asked| {
            changed(asked, |proof| {
                proof["storageProof"][0]["value"] = json!("0x7")
            })
        },
        |asked| changed(asked, |proof| proof["balance"] = json!("0x7")),
        |asked| changed(asked, |proof| proof["nonce"] = json!("0x7")),
        |asked| {
            changed(asked, |proof| {
                proof["codeHash"] = proof["storageHash"].take()
            })
        },
        |asked| {
            changed(asked, |proof| {
                proof["storageHash"] = proof["codeHash"].clone()
            })
        },
        |asked| changed(asked, |proof| proof["address"] = json!(Address::ZERO)),
        |asked| changed(asked, |proof| proof["accountProof"][0] = json!("0xc0")),
        |asked| changed(asked, |proof| proof["accountProof"][1] = json!("0x")),
        |asked| changed(asked, |proof| proof["accountProof"] = json!([])),
        |asked| changed(asked, |proof| proof["storageProof"] = json!([])),
        |asked| changed(asked, |proof| proof["storageProof"][0]["proof"] = json!([])),
        |asked| match asked.method.as_str() {
            "eth_getCode" => UpstreamReply::result("\"0x6001\""),
            _ => honest(asked),
        },
    ];
    for lie in lies {
        check_complaint(lie, Verdict::Fault(Fault::BadProof)).await;
    }
}

#[actix::test]
async fn a_failed_call_is_reported() {
    let refused = Verdict::Fault(Fault::Refused);
    check_complaint(|_| UpstreamReply::http(403, "", ""), refused).await;
    let limited = Verdict::Limited(Some(Duration::from_secs(7)));
    check_complaint(
        |_| UpstreamReply::http(429, "retry-after: 7\r\n", ""),
        limited,
    )
    .await;
    let connection = Verdict::Fault(Fault::Connection);
    check_complaint(|_| UpstreamReply::Raw(String::new()), connection).await;
    let malformed = Verdict::Fault(Fault::Malformed);
    check_complaint(|_| UpstreamReply::http(200, "", "garbage"), malformed).await;
}

#[actix::test]
async fn an_upstream_that_pruned_the_block_is_skipped_without_a_report() {
    let forgetful: [Answers; 3] = [
        |_| UpstreamReply::Error(-32_000, "missing trie node"),
        |_| UpstreamReply::Error(-32_602, "invalid argument 2"),
        |_| UpstreamReply::result("null"),
    ];
    for answers in forgetful {
        let mut scene = Scene::of(&[answers, honest]).await;
        for slot in 0..2 {
            let value = ask(&scene.worker.proofs, scene.read_storage(3, slot)).await;
            assert_eq!(value.unwrap(), stored(3, slot));
        }
        // It may know the next one.
        assert_eq!((scene.calls(0), scene.calls(1)), (2, 2));
        assert!(scene.fault_reports.try_recv().is_err());
        assert_eq!(scene.counts(), ([0, 2], [2, 0, 2]));
    }
}

/// Checks what a read is told if no upstream gives what it needs, and how often they are asked for
/// two reads.
async fn check_none(upstreams: &[Answers], expected: &QueryError, calls: usize) {
    let scene = Scene::of(upstreams).await;
    for slot in 0..2 {
        let refused = ask(&scene.worker.proofs, scene.read_storage(3, slot)).await;
        assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
    }
    let made: usize = (0..upstreams.len())
        .map(|upstream| scene.calls(upstream))
        .sum();
    assert_eq!(made, calls);
    scene.is_idle().await;
}

#[actix::test]
async fn a_read_fails_if_no_upstream_has_the_state() {
    let without: Answers = |_| UpstreamReply::Error(-32_601, "no");
    let pruned: Answers = |_| UpstreamReply::Error(-32_000, "missing trie node");
    let limited: Answers = |_| UpstreamReply::http(429, "", "");
    let liar: Answers = |asked| changed(asked, |proof| proof["balance"] = json!("0x7"));
    let unavailable = QueryError::StateUnavailable;
    check_none(&[], &unavailable, 0).await;
    // That it does not have the method is remembered.
    check_none(&[without, without], &unavailable, 2).await;
    check_none(&[without, pruned], &unavailable, 3).await;
    check_none(&[liar, pruned], &unavailable, 4).await;
    // It may have it later.
    check_none(&[limited, pruned], &QueryError::Unavailable, 4).await;
}

#[actix::test]
async fn the_followed_upstream_is_asked_first() {
    let scene = Scene::of(&[honest, honest, honest]).await;
    for (slot, to, calls) in [
        (0, Some(2), [0, 0, 1]),
        (1, Some(1), [0, 1, 1]),
        (2, None, [1, 1, 1]),
    ] {
        scene.note(&Event::Switched(Switch {
            from: None,
            to,
            reason: SwitchReason::First,
        }));
        let value = ask(&scene.worker.proofs, scene.read_storage(0, slot)).await;
        assert_eq!(value.unwrap(), stored(0, slot));
        assert_eq!([0, 1, 2].map(|upstream| scene.calls(upstream)), calls);
    }
}

/// As long as it asked for: by whatever it answered it, to state or to blocks.
#[actix::test]
async fn a_limited_upstream_is_not_asked_for_state() {
    let scene = Scene::of(&[honest, honest]).await;
    let limited = |upstream| Event::Failed {
        upstream,
        reason: None,
        wait: Duration::from_secs(3_600),
    };
    for (upstream, calls) in [(0, [0, 1]), (1, [0, 1])] {
        scene.note(&limited(upstream));
        let value = ask(&scene.worker.proofs, scene.read_storage(0, 1)).await;
        assert_eq!(value.unwrap(), stored(0, 1), "held, once it was fetched");
        assert_eq!([0, 1].map(|upstream| scene.calls(upstream)), calls);
    }
    let refused = ask(&scene.worker.proofs, scene.read_storage(3, 1)).await;
    let unavailable = QueryError::Unavailable.to_string();
    assert_eq!(refused.unwrap_err().to_string(), unavailable);
    assert_eq!([0, 1].map(|upstream| scene.calls(upstream)), [0, 1]);
    // What was wrong is no reason not to ask, if there is nobody else.
    scene.note(&Event::Failed {
        upstream: 1,
        reason: Some("timeout"),
        wait: Duration::from_secs(3_600),
    });
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 1)).await;
    assert_eq!(value.unwrap(), stored(3, 1));
    assert_eq!([0, 1].map(|upstream| scene.calls(upstream)), [0, 2]);
}

#[actix::test]
async fn complaints_that_nobody_reads_are_dropped() {
    let liar: Answers = |asked| changed(asked, |proof| proof["balance"] = json!("0x7"));
    let mut scene = Scene::of(&[liar, honest]).await;
    for slot in 0..10 {
        let value = ask(&scene.worker.proofs, scene.read_storage(0, slot)).await;
        assert_eq!(value.unwrap(), stored(0, slot));
    }
    let mut read = 0;
    while scene.fault_reports.try_recv().is_ok() {
        read += 1;
    }
    assert_eq!(read, 4);
}
