use nearhead_chain::remote::UpstreamFault;
use serde_json::{Value, json};

use super::{super::fetch::StateFetchError, *};
use crate::{
    read::ask,
    upstream::{
        follow::Event,
        health::{CallClass, Fault, Verdict},
    },
};

/// The honest answer, except for a change to that of `eth_getProof`.
fn changed(call: &RecordedCall, change: impl FnOnce(&mut Value)) -> UpstreamReply {
    let text = match honest(call) {
        UpstreamReply::Result(text) if call.method == "eth_getProof" => text,
        other => return other,
    };
    let mut value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    UpstreamReply::Result(value.to_string())
}

/// Checks that an upstream that answers like this is reported, and that the next upstream's answer
/// is served.
async fn check_report(respond: Respond, expected: Verdict) {
    let mut scene = Scene::of(&[respond, honest]).await;
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 2)).await;
    assert_eq!(value.unwrap(), stored(3, 2));
    let found = ask(&scene.worker.proofs, scene.read_code(3)).await;
    assert_eq!(found.unwrap(), code(3));
    let report = scene.fault_reports.try_recv().unwrap();
    assert_eq!((report.upstream, report.verdict), (0, expected));
    assert!(
        report.error.starts_with("state of block 0 (0x"),
        "{}",
        report.error
    );
    assert!(scene.calls(1) > 0);
    scene.wait_until_idle().await;
}

#[actix::test]
async fn a_liar_is_reported_and_the_next_upstream_is_asked() {
    let lies: [Respond; 12] = [
        |call| {
            changed(call, |proof| {
                proof["storageProof"][0]["value"] = json!("0x7")
            })
        },
        |call| changed(call, |proof| proof["balance"] = json!("0x7")),
        |call| changed(call, |proof| proof["nonce"] = json!("0x7")),
        |call| {
            changed(call, |proof| {
                proof["codeHash"] = proof["storageHash"].take()
            })
        },
        |call| {
            changed(call, |proof| {
                proof["storageHash"] = proof["codeHash"].clone()
            })
        },
        |call| changed(call, |proof| proof["address"] = json!(Address::ZERO)),
        |call| changed(call, |proof| proof["accountProof"][0] = json!("0xc0")),
        |call| changed(call, |proof| proof["accountProof"][1] = json!("0x")),
        |call| changed(call, |proof| proof["accountProof"] = json!([])),
        |call| changed(call, |proof| proof["storageProof"] = json!([])),
        |call| changed(call, |proof| proof["storageProof"][0]["proof"] = json!([])),
        |call| match call.method.as_str() {
            "eth_getCode" => UpstreamReply::result("\"0x6001\""),
            _ => honest(call),
        },
    ];
    for lie in lies {
        check_report(lie, Verdict::Fault(Fault::BadProof)).await;
    }
}

#[actix::test]
async fn a_failed_call_is_reported() {
    let refused = Verdict::Fault(Fault::Refused);
    check_report(|_| UpstreamReply::http(403, "", ""), refused).await;
    let limited = Verdict::Limited(Some(Duration::from_secs(7)));
    check_report(
        |_| UpstreamReply::http(429, "retry-after: 7\r\n", ""),
        limited,
    )
    .await;
    let connection = Verdict::Fault(Fault::Connection);
    check_report(|_| UpstreamReply::Raw(String::new()), connection).await;
    let malformed = Verdict::Fault(Fault::Malformed);
    check_report(|_| UpstreamReply::http(200, "", "garbage"), malformed).await;
}

#[actix::test]
async fn an_upstream_that_pruned_the_block_is_skipped_without_a_report() {
    let pruned: [Respond; 3] = [
        |_| UpstreamReply::Error(-32_000, "missing trie node"),
        |_| UpstreamReply::Error(-32_602, "invalid argument 2"),
        |_| UpstreamReply::result("null"),
    ];
    for respond in pruned {
        let mut scene = Scene::of(&[respond, honest]).await;
        for slot in 0..2 {
            let value = ask(&scene.worker.proofs, scene.read_storage(3, slot)).await;
            assert_eq!(value.unwrap(), stored(3, slot));
        }
        // It is asked again, since it may have later state.
        assert_eq!((scene.calls(0), scene.calls(1)), (2, 2));
        assert!(scene.fault_reports.try_recv().is_err());
        assert_eq!(scene.counts(), ([0, 2], [2, 0, 2]));
    }
}

#[actix::test]
#[expect(clippy::panic, reason = "a defect of a check")]
async fn a_check_that_panics_is_counted() {
    let scene = Scene::of(&[]).await;
    let check = || -> Result<(), UpstreamFault> { panic!("on purpose") };
    let checked = scene.source.shared.check(check).await;
    assert!(matches!(checked, Err(StateFetchError::Unchecked(_))));
    assert_eq!(scene.resources.admission.panics().total(), 1);
}

/// Checks the error of a read that no upstream can serve, and the number of calls for two reads.
async fn check_fails(upstreams: &[Respond], expected: &QueryError, calls: usize) {
    let scene = Scene::of(upstreams).await;
    for slot in 0..2 {
        let refused = ask(&scene.worker.proofs, scene.read_storage(3, slot)).await;
        assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
    }
    let made: usize = (0..upstreams.len())
        .map(|upstream| scene.calls(upstream))
        .sum();
    assert_eq!(made, calls);
    scene.wait_until_idle().await;
}

#[actix::test]
async fn a_read_fails_if_no_upstream_has_the_state() {
    let unsupported: Respond = |_| UpstreamReply::Error(-32_601, "no");
    let pruned: Respond = |_| UpstreamReply::Error(-32_000, "missing trie node");
    let limited: Respond = |_| UpstreamReply::http(429, "", "");
    let liar: Respond = |call| changed(call, |proof| proof["balance"] = json!("0x7"));
    let unavailable = QueryError::StateUnavailable;
    check_fails(&[], &unavailable, 0).await;
    // The unsupported method is remembered.
    check_fails(&[unsupported, unsupported], &unavailable, 2).await;
    check_fails(&[unsupported, pruned], &unavailable, 3).await;
    check_fails(&[liar, pruned], &unavailable, 4).await;
    // A limited upstream may serve it later.
    check_fails(&[limited, pruned], &QueryError::Unavailable, 4).await;
}

#[actix::test]
async fn the_upstream_of_the_newest_head_is_asked_first() {
    let scene = Scene::of(&[honest, honest, honest]).await;
    for (slot, preferred, calls) in [(0, 2, [0, 0, 1]), (1, 1, [0, 1, 1]), (2, 0, [1, 1, 1])] {
        scene.record(&Event::Preferred(preferred));
        let value = ask(&scene.worker.proofs, scene.read_storage(0, slot)).await;
        assert_eq!(value.unwrap(), stored(0, slot));
        assert_eq!([0, 1, 2].map(|upstream| scene.calls(upstream)), calls);
    }
}

fn failed(upstream: usize, class: CallClass, reason: Option<&'static str>) -> Event {
    Event::Failed {
        upstream,
        class,
        reason,
        wait: Duration::from_secs(3_600),
    }
}

#[actix::test]
async fn an_upstream_that_limits_calls_for_state_is_not_asked() {
    let scene = Scene::of(&[honest, honest]).await;
    for (upstream, calls) in [(0, [0, 1]), (1, [0, 1])] {
        scene.record(&failed(upstream, CallClass::State, None));
        let value = ask(&scene.worker.proofs, scene.read_storage(0, 1)).await;
        assert_eq!(value.unwrap(), stored(0, 1), "fetched once, then resident");
        assert_eq!([0, 1].map(|upstream| scene.calls(upstream)), calls);
    }
    let refused = ask(&scene.worker.proofs, scene.read_storage(3, 1)).await;
    let error = refused.unwrap_err();
    let QueryError::Overloaded { retry_after } = error else {
        panic!("{error:?}");
    };
    let hour = Duration::from_secs(3_600);
    assert!(
        retry_after <= hour && retry_after > hour / 2,
        "{retry_after:?}"
    );
    assert_eq!([0, 1].map(|upstream| scene.calls(upstream)), [0, 1]);
    // A fault does not keep the only other upstream from being asked.
    scene.record(&failed(1, CallClass::State, Some("timeout")));
    let value = ask(&scene.worker.proofs, scene.read_storage(3, 1)).await;
    assert_eq!(value.unwrap(), stored(3, 1));
    assert_eq!([0, 1].map(|upstream| scene.calls(upstream)), [0, 2]);
}

/// A refusal of calls for heads or blocks says nothing about state.
#[actix::test]
async fn an_upstream_that_limits_other_calls_is_asked_after_the_others() {
    for class in [CallClass::Heads, CallClass::Blocks] {
        let scene = Scene::of(&[honest, honest]).await;
        scene.record(&failed(0, class, None));
        let value = ask(&scene.worker.proofs, scene.read_storage(0, 1)).await;
        assert_eq!(value.unwrap(), stored(0, 1));
        assert_eq!([0, 1].map(|upstream| scene.calls(upstream)), [0, 1]);
        scene.record(&failed(1, CallClass::State, None));
        let value = ask(&scene.worker.proofs, scene.read_storage(3, 1)).await;
        assert_eq!(value.unwrap(), stored(3, 1), "{class:?}");
        assert_eq!([0, 1].map(|upstream| scene.calls(upstream)), [1, 1]);
    }
}

/// Each of two upstreams lacks another method: together they give everything.
#[actix::test]
async fn an_upstream_without_a_method_is_asked_for_the_rest() {
    let no_code: Respond = |call| match call.method.as_str() {
        "eth_getCode" => UpstreamReply::Error(-32_601, "no"),
        _ => honest(call),
    };
    let no_proofs: Respond = |call| match call.method.as_str() {
        "eth_getProof" => UpstreamReply::Error(-32_601, "no"),
        _ => honest(call),
    };
    let scene = Scene::of(&[no_code, no_proofs]).await;
    for account in [3, 6, 9] {
        let found = ask(&scene.worker.proofs, scene.read_code(account)).await;
        assert_eq!(found.unwrap(), code(account));
    }
    // The first proves every account. It is asked for code once, and the second only for code: an
    // account is held by the time that its code is asked for.
    let count = |upstream: usize, method: &str| {
        let methods = scene.upstreams[upstream].methods();
        methods.iter().filter(|name| *name == method).count()
    };
    assert_eq!([0, 1].map(|at| count(at, "eth_getProof")), [3, 0]);
    assert_eq!([0, 1].map(|at| count(at, "eth_getCode")), [1, 3]);
}

#[actix::test]
async fn fault_reports_that_do_not_fit_the_channel_are_dropped() {
    let liar: Respond = |call| changed(call, |proof| proof["balance"] = json!("0x7"));
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
