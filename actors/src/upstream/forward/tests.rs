//! Forwarded calls: which upstreams see them, and what clients are answered.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use actix::Addr;
use serde_json::{Value, json};

use super::*;
use crate::{
    admission::FORWARDED_MAX,
    budget::CallBudget,
    messages::{CountPending, ForwardCall, SendTransaction},
    read::{ReadResources, Worker, ask, forward_actor::ForwardActor},
    upstream::client::{
        CallLimits,
        tests::server::{Reply as UpstreamReply, Script},
    },
};

type Respond = fn() -> UpstreamReply;

/// A node that is asked to wait this long is slow, and still answers in time.
const TIMEOUT: Duration = Duration::from_millis(400);

const HASH: B256 = B256::repeat_byte(7);

/// Upstreams that answer every call in one way, and the actor that calls them.
struct Scene {
    scripts: Vec<Arc<Script>>,
    resources: ReadResources,
    actor: Addr<ForwardActor>,
    /// Of the only tenant.
    budget: CallBudget,
}

impl Scene {
    async fn of(upstreams: &[Respond]) -> Self {
        Self::within(TIMEOUT, upstreams).await
    }

    async fn within(timeout: Duration, upstreams: &[Respond]) -> Self {
        let script = |respond: &Respond| {
            let respond = *respond;
            Script::answering(move |_| respond())
        };
        Self::scripted(timeout, upstreams.iter().map(script)).await
    }

    async fn scripted(timeout: Duration, upstreams: impl Iterator<Item = Script>) -> Self {
        Self::calling(FORWARDED_MAX * 2, timeout, upstreams).await
    }

    /// With so many calls to each upstream at a time.
    async fn calling(
        concurrency: usize,
        timeout: Duration,
        upstreams: impl Iterator<Item = Script>,
    ) -> Self {
        let (mut clients, mut scripts) = (Vec::new(), Vec::new());
        for script in upstreams {
            let (url, script) = script.serve().await;
            let limits = CallLimits {
                concurrency,
                timeout,
                answer_bytes_max: 4_096,
            };
            clients.push(UpstreamClient::new(url.parse().unwrap(), limits).unwrap());
            scripts.push(script);
        }
        let standing = Arc::new(Standing::new(clients.len(), 1));
        let forwarder = Forwarder::new(clients, Handle::current(), standing, timeout * 2);
        let resources = ReadResources::start(1, 1 << 20, None)
            .unwrap()
            .with_forwarder(Some(forwarder));
        let actor = Worker::start(&resources).forwarded.unwrap();
        Self {
            scripts,
            resources,
            actor,
            budget: CallBudget::default(),
        }
    }

    /// How many calls each upstream got so far.
    fn calls(&self) -> Vec<usize> {
        let scripts = self.scripts.iter();
        scripts.map(|script| script.methods().len()).collect()
    }

    fn in_use(&self) -> usize {
        self.resources.admission.forwarded.in_use()
    }

    async fn call(&self) -> Reply<NodeAnswer> {
        self.call_for(&self.budget, r#"[{"a" : 1},"b"]"#).await
    }

    async fn call_for(&self, budget: &CallBudget, params: &str) -> Reply<NodeAnswer> {
        let call = ForwardCall {
            budget: budget.clone(),
            method: "txpool_status",
            params: params.into(),
        };
        ask(&self.actor, call).await
    }

    async fn send(&self) -> Reply<Result<(), NodeError>> {
        let send = SendTransaction {
            budget: self.budget.clone(),
            hash: HASH,
            transaction: Bytes::from_static(&[1, 2]),
        };
        ask(&self.actor, send).await
    }
}

/// Waits until this holds, while calls go on.
async fn until(what: &str, mut state: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !state() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        tokio::task::yield_now().await;
    }
}

fn ok() -> UpstreamReply {
    UpstreamReply::result(r#"{"pending":"0x7"}"#)
}

fn refusal() -> UpstreamReply {
    UpstreamReply::Error(-32_000, "nonce too low")
}

fn unsupported() -> UpstreamReply {
    UpstreamReply::Error(-32_601, "no such method")
}

fn limits() -> UpstreamReply {
    UpstreamReply::http(429, "retry-after: 60\r\n", "")
}

fn limits_by_code() -> UpstreamReply {
    UpstreamReply::Error(-32_005, "slow down")
}

fn refuses() -> UpstreamReply {
    UpstreamReply::http(403, "", "no access for key 0123456789abcdef")
}

fn garbage() -> UpstreamReply {
    UpstreamReply::http(200, "", "garbage")
}

fn cut() -> UpstreamReply {
    UpstreamReply::Raw("HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n{".to_owned())
}

fn silent() -> UpstreamReply {
    UpstreamReply::Silence
}

fn too_large() -> UpstreamReply {
    UpstreamReply::Result(format!("\"{}\"", "x".repeat(5_000)))
}

fn too_deep() -> UpstreamReply {
    let depth = FORWARDED_DEPTH_MAX + 1;
    UpstreamReply::Result("[".repeat(depth) + &"]".repeat(depth))
}

/// An error, with the time after which it is over, rounded up to tens of seconds.
fn error_text(error: &QueryError) -> String {
    match error {
        QueryError::Overloaded { retry_after } => {
            format!(
                "overloaded for {}0 s",
                (retry_after.as_secs() + 1).div_ceil(10)
            )
        }
        error => error.to_string(),
    }
}

fn text(reply: &Reply<NodeAnswer>) -> String {
    match reply {
        Ok(NodeAnswer::Result(json)) => String::from_utf8(json.clone()).unwrap(),
        Ok(NodeAnswer::Error(error)) => format!("{} {}", error.code, error.message),
        Ok(NodeAnswer::Unsupported) => "unsupported".to_owned(),
        Err(error) => error_text(error),
    }
}

/// No call that a node may have done is repeated at another node.
#[actix::test]
async fn a_call_is_made_once() {
    let answered = r#"{"pending":"0x7"}"#;
    let refused = "-32000 nonce too low";
    let (unanswered, unavailable) = ("no node answered", "not available");
    let limited = "overloaded for 60 s";
    let cases: [(&[Respond], &str, &[usize]); 18] = [
        (&[ok], answered, &[1]),
        (&[ok, ok], answered, &[1, 0]),
        (&[|| UpstreamReply::result("null")], "null", &[1]),
        (&[refusal, ok], refused, &[1, 0]),
        (&[unsupported, ok], answered, &[1, 1]),
        (&[limits, ok], answered, &[1, 1]),
        (&[limits_by_code, ok], "-32005 slow down", &[1, 0]),
        (&[limits, unsupported, refusal], refused, &[1, 1, 1]),
        (&[unsupported, unsupported], "unsupported", &[1, 1]),
        (&[unsupported, limits], limited, &[1, 1]),
        (&[limits, limits], limited, &[1, 1]),
        (&[refuses, ok], unanswered, &[1, 0]),
        (&[garbage, ok], unanswered, &[1, 0]),
        (&[cut, ok], unanswered, &[1, 0]),
        (&[silent, ok], unanswered, &[1, 0]),
        (&[too_large, ok], unanswered, &[1, 0]),
        (&[too_deep, ok], unanswered, &[1, 0]),
        (&[], unavailable, &[]),
    ];
    for (at, (upstreams, expected, calls)) in cases.into_iter().enumerate() {
        let scene = Scene::of(upstreams).await;
        assert_eq!(text(&scene.call().await), expected, "{at}");
        assert_eq!(scene.calls(), calls, "{at}");
        assert_eq!(scene.in_use(), 0, "{at}");
        if let Some(script) = scene.scripts.first() {
            let call = script.calls.lock()[0].clone();
            assert_eq!(call.method, "txpool_status");
            assert_eq!(call.params, json!([{"a": 1}, "b"]));
        }
    }
}

#[actix::test]
async fn one_that_failed_is_asked_last_and_one_that_limits_is_not() {
    for (first, calls) in [
        (cut as Respond, [1, 2]),
        (limits, [1, 3]),
        // It is the answer to one call, and says nothing about others.
        (limits_by_code, [3, 0]),
    ] {
        let scene = Scene::of(&[first, ok]).await;
        for _ in 0..3 {
            let _ = scene.call().await;
        }
        assert_eq!(scene.calls(), calls);
    }
    // It is asked if there is no other one.
    let scene = Scene::of(&[cut]).await;
    for calls in 1..4 {
        assert_eq!(text(&scene.call().await), "no node answered");
        assert_eq!(scene.calls(), [calls]);
    }
    let scene = Scene::of(&[limits]).await;
    for _ in 0..3 {
        assert_eq!(text(&scene.call().await), "overloaded for 60 s");
    }
    assert_eq!(scene.calls(), [1]);
    // One that is not asked may have the method.
    let scene = Scene::of(&[limits, unsupported]).await;
    for calls in 1..4 {
        assert_eq!(text(&scene.call().await), "overloaded for 60 s");
        assert_eq!(scene.calls(), [1, calls]);
    }
}

/// A transaction goes to every node, and one of them suffices. It is refused only if no node can
/// have taken it.
#[actix::test]
async fn a_transaction_is_taken_if_one_node_takes_it() {
    let taken = "taken";
    let refused = "-32000 nonce too low";
    let (unanswered, unavailable) = ("no node answered", "not available");
    let limited = "overloaded for 60 s";
    let none_supports = "-32601 the method eth_sendRawTransaction does not exist/is not available";
    let took: Respond = || UpstreamReply::Result(format!("\"{HASH}\""));
    let lied: Respond = || UpstreamReply::Result(format!("\"{}\"", B256::ZERO));
    let known: Respond = || UpstreamReply::Error(-32_010, "AlreadyKnown");
    let cases: [(&[Respond], &str); 21] = [
        (&[took], taken),
        (&[lied], taken),
        (&[known], taken),
        (&[refusal], refused),
        (&[refusal, took], taken),
        (&[took, refusal], taken),
        (&[silent, took, refuses], taken),
        (&[silent, refusal], unanswered),
        (&[refuses, refusal], unanswered),
        (&[garbage, refusal, limits], unanswered),
        (&[refusal, refusal], refused),
        (&[limits, refusal, unsupported], refused),
        (&[unsupported], none_supports),
        (&[unsupported, unsupported], none_supports),
        (&[unsupported, limits], limited),
        (&[unsupported, silent], unanswered),
        (&[limits, garbage], unanswered),
        (&[silent, silent], unanswered),
        (&[limits, limits], limited),
        (&[limits, limits_by_code], "-32005 slow down"),
        (&[], unavailable),
    ];
    for (at, (upstreams, expected)) in cases.into_iter().enumerate() {
        let scene = Scene::of(upstreams).await;
        let found = match scene.send().await {
            Ok(Ok(())) => taken.to_owned(),
            Ok(Err(error)) => format!("{} {}", error.code, error.message),
            Err(error) => error_text(&error),
        };
        assert_eq!(found, expected, "{at}");
        until("all calls ended", || scene.in_use() == 0).await;
        for script in &scene.scripts {
            let calls = script.calls.lock();
            assert_eq!(
                (calls.len(), &*calls[0].method),
                (1, "eth_sendRawTransaction")
            );
            assert_eq!(calls[0].params, json!(["0x0102"]), "{at}");
        }
    }
}

/// One that refuses at once does not end the wait for one that takes it later.
#[actix::test]
async fn a_refusal_waits_for_the_others() {
    let mut later = Script::answering(|_| UpstreamReply::Result(format!("\"{HASH}\"")));
    later.together = Some(tokio::sync::Barrier::new(2));
    let scripts = [later, Script::answering(|_| refusal())];
    let scene = Scene::scripted(Duration::from_secs(300), scripts.into_iter()).await;
    let mut send = Box::pin(scene.send());
    let is_answered = tokio::select! {
        _ = &mut send => true,
        () = until("both nodes got it", || scene.calls() == [1, 1]) => false,
    };
    assert!(!is_answered);
    let release = async {
        let together = scene.scripts[0].together.as_ref().unwrap();
        together.wait().await;
    };
    let (answer, ()) = tokio::join!(send, release);
    assert!(matches!(answer, Ok(Ok(()))));
}

/// A connection that ended is replaced, where a second call does no harm.
#[actix::test]
async fn a_transaction_is_sent_again_if_its_connection_ended() {
    for (ended, expected) in [(0, true), (1, true), (2, false)] {
        let replies = (0..ended).map(|_| cut()).chain([ok()]);
        let scripts = [Script::of(replies)].into_iter();
        let scene = Scene::scripted(TIMEOUT, scripts).await;
        assert_eq!(scene.send().await.is_ok(), expected, "{ended}");
        assert_eq!(scene.calls(), [2.min(ended + 1)]);
    }
}

#[actix::test]
async fn the_highest_pending_count_counts() {
    let three: Respond = || UpstreamReply::result("\"0x3\"");
    let five: Respond = || UpstreamReply::result("\"0x5\"");
    let wide: Respond = || UpstreamReply::result("\"0x10000000000000000\"");
    let decimal: Respond = || UpstreamReply::result("[5]");
    let cases: [(&[Respond], Option<u64>); 10] = [
        (&[three], Some(3)),
        (&[three, five], Some(5)),
        (&[five, three], Some(5)),
        (&[silent, three], Some(3)),
        (&[three, silent, five], Some(5)),
        (&[refusal, cut, three], Some(3)),
        (&[wide, three], Some(3)),
        (&[decimal, garbage], None),
        (&[limits, refusal, silent], None),
        (&[], None),
    ];
    for (at, (upstreams, expected)) in cases.into_iter().enumerate() {
        let scene = Scene::of(upstreams).await;
        let count = CountPending {
            budget: CallBudget::default(),
            address: Address::repeat_byte(1),
        };
        assert_eq!(ask(&scene.actor, count).await.unwrap(), expected, "{at}");
        assert_eq!(scene.in_use(), 0, "{at}");
        for script in &scene.scripts {
            let params: HashSet<Value> = {
                let calls = script.calls.lock();
                calls.iter().map(|call| call.params.clone()).collect()
            };
            let address = Address::repeat_byte(1);
            assert_eq!(params, HashSet::from([json!([address, "pending"])]), "{at}");
        }
    }
}

/// A client that leaves ends its calls, but not the transactions that it has sent.
#[actix::test]
async fn what_is_in_progress_is_bounded_and_ends_with_its_client() {
    let scene = Scene::within(Duration::from_secs(300), &[silent]).await;
    let calls = (0..FORWARDED_MAX).map(|_| scene.call());
    let mut waiting = Box::pin(futures_util::future::join_all(calls));
    // A tenant that is alone leaves a quarter.
    let most = FORWARDED_MAX - FORWARDED_MAX / 4;
    tokio::select! {
        _ = &mut waiting => {}
        () = until("the calls are made", || scene.calls()[0] == most) => {}
    }
    assert_eq!(scene.in_use(), most);
    let refused = scene.call().await;
    assert!(
        matches!(refused, Err(QueryError::Overloaded { .. })),
        "{refused:?}"
    );
    drop(waiting);
    until("the calls are given up", || scene.in_use() == 0).await;

    let scene = Scene::of(&[silent, silent]).await;
    let mut send = Box::pin(scene.send());
    tokio::select! {
        _ = &mut send => {}
        () = until("one call is in progress", || scene.in_use() == 1) => {}
    }
    drop(send);
    until("both nodes got it", || scene.calls() == [1, 1]).await;
    until("the calls ended", || scene.in_use() == 0).await;
}

#[actix::test]
async fn a_tenant_does_not_wait_for_all_calls_of_another_one() {
    const FLOOD: usize = 40;
    let script = Script::answering(|_| ok());
    let scene = Scene::calling(1, Duration::from_secs(60), [script].into_iter()).await;
    let other = CallBudget::default();
    let flood = (0..FLOOD).map(|_| scene.call_for(&scene.budget, r#"["flood"]"#));
    let calls = flood.chain([scene.call_for(&other, r#"["other"]"#)]);
    for answer in futures_util::future::join_all(calls).await {
        assert!(matches!(answer, Ok(NodeAnswer::Result(_))), "{answer:?}");
    }
    let calls = scene.scripts[0].calls.lock();
    let place = calls.iter().position(|call| call.params[0] == "other");
    assert!(place.unwrap() < FLOOD / 2, "{place:?}");
}
