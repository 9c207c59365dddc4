use alloy_primitives::hex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
    time,
};

use super::{
    server::{RecordedCall, Reply, Script},
    *,
};

/// Makes one call and answers it; checks the request, and that the answer is passed on verbatim.
async fn check_call<F>(call: impl FnOnce(UpstreamClient) -> F, method: &str, params: Value)
where
    F: Future<Output = Result<Box<RawValue>, CallError>>,
{
    // Order, white space and unknown members stay untouched.
    let answer = r#"{"z": 1,  "a": [null,"\u0041"], "number":"not one"}"#;
    let (url, script) = Script::of([Reply::result(answer)]).serve().await;
    let found = call(client(&url, limits())).await.unwrap();
    assert_eq!(found.get(), answer, "{method}");
    let call = script.calls.lock().pop().unwrap();
    assert_eq!((call.method.as_str(), call.params), (method, params));
}

#[tokio::test]
async fn every_call_passes_its_answer_on_verbatim() {
    let hash = format!("{HASH}");
    let address = Address::repeat_byte(2);
    let account = hex::encode_prefixed(address);
    check_call(
        |upstream| async move {
            upstream
                .block_by_hash(HASH, usize::MAX)
                .await
                .map(JsonAnswer::into_json)
        },
        "eth_getBlockByHash",
        json!([hash, true]),
    )
    .await;
    check_call(
        |upstream| async move {
            upstream
                .block_by_number(300, usize::MAX)
                .await
                .map(JsonAnswer::into_json)
        },
        "eth_getBlockByNumber",
        json!(["0x12c", true]),
    )
    .await;
    check_call(
        |upstream| async move { upstream.uncle(HASH, 1).await },
        "eth_getUncleByBlockHashAndIndex",
        json!([hash, "0x1"]),
    )
    .await;
    check_call(
        |upstream| async move {
            let slots = [U256::from_be_bytes(HASH.0), U256::ZERO];
            upstream.proof(address, &slots, HASH).await
        },
        "eth_getProof",
        json!([account, [hash, format!("{}", B256::ZERO)], hash]),
    )
    .await;
    check_call(
        |upstream| async move { upstream.code(address, HASH).await },
        "eth_getCode",
        json!([account, hash]),
    )
    .await;
    check_call(
        |upstream| async move {
            match upstream.block_receipts(HASH, &[], usize::MAX).await? {
                ReceiptsAnswer::Whole(json) => Ok(json.into_json()),
                ReceiptsAnswer::Single(_) => Err(CallError::NotFound),
            }
        },
        "eth_getBlockReceipts",
        json!([hash]),
    )
    .await;
}

#[tokio::test]
async fn small_answers_are_parsed() {
    let claim =
        format!(r#"{{"number":"0x10","hash":"{HASH}","parentHash":"{HASH}","timestamp":"0x1"}}"#);
    let results = [
        "\"0x539\"",
        "\"0x10\"",
        "false",
        r#"{"startingBlock":"0x0"}"#,
        &claim,
        "null",
    ];
    let (url, script) = Script::of(results.map(Reply::result)).serve().await;
    let upstream = client(&url, limits());
    assert_eq!(upstream.chain_id().await, Ok(1_337));
    assert_eq!(upstream.block_number().await, Ok(16));
    assert_eq!(upstream.is_syncing().await, Ok(false));
    assert_eq!(upstream.is_syncing().await, Ok(true));
    assert_eq!(upstream.head(Tag::Safe).await.unwrap().number, 16);
    assert_eq!(
        upstream.head(Tag::Finalized).await,
        Err(CallError::NotFound)
    );
    let calls = script.calls.lock();
    assert_eq!(calls[4].params, json!(["safe", false]));
    assert_eq!(calls[5].params, json!(["finalized", false]));
}

/// Checks which error a reply leads to.
async fn check_fails(reply: Reply, expected: CallError) {
    let (url, _script) = Script::of([reply]).serve().await;
    let error = client(&url, limits()).block_number().await.unwrap_err();
    match (&error, &expected) {
        // Their texts come from other crates.
        (CallError::Connection(_), CallError::Connection(_)) => {}
        (CallError::Malformed(_), CallError::Malformed(_)) => {}
        _ => assert_eq!(error, expected),
    }
}

#[tokio::test]
async fn every_failure_has_its_kind() {
    let limited = |seconds: Option<u64>| CallError::RateLimited {
        retry_after: seconds.map(Duration::from_secs),
    };
    let rpc = |code, message: &str| CallError::Rpc {
        code,
        message: message.into(),
    };
    let malformed = || CallError::Malformed("".into());
    let cut = || CallError::Connection("".into());
    let error_body = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no"}}"#;
    let long = "x".repeat(5_000);
    let shown_long = long[..200].to_owned();
    let table = [
        (Reply::http(429, "", "slow down"), limited(None)),
        (Reply::http(429, "retry-after: 7\r\n", ""), limited(Some(7))),
        (
            Reply::http(429, "retry-after: 999999\r\n", ""),
            limited(Some(3_600)),
        ),
        (Reply::http(429, "retry-after: soon\r\n", ""), limited(None)),
        // The status decides, not the code in the body.
        (Reply::http(429, "", error_body), limited(None)),
        (Reply::http(503, "retry-after: 2\r\n", ""), limited(Some(2))),
        (Reply::http(503, "", ""), CallError::Refused { status: 503 }),
        (
            Reply::http(401, "", "who are you"),
            CallError::Refused { status: 401 },
        ),
        (
            Reply::http(404, "", &long),
            CallError::Refused { status: 404 },
        ),
        (
            Reply::http(500, "", r#"{"result":1,"id":0}"#),
            CallError::Refused { status: 500 },
        ),
        (
            Reply::http(400, "", error_body),
            CallError::UnsupportedMethod,
        ),
        // A redirect that is followed would leak the operator's headers.
        (
            Reply::http(307, "location: http://127.0.0.1:1/\r\n", ""),
            CallError::Refused { status: 307 },
        ),
        (Reply::Error(-32_005, "limit exceeded"), limited(None)),
        (
            Reply::Error(-32_007, "50/second request limit reached"),
            limited(None),
        ),
        (Reply::Error(429, "compute units"), limited(None)),
        (Reply::Error(-32_601, "no"), CallError::UnsupportedMethod),
        (Reply::Error(-32_004, "no"), CallError::UnsupportedMethod),
        (Reply::Error(-32_001, "no"), CallError::NotFound),
        (
            Reply::Error(-32_000, "header not found"),
            rpc(-32_000, "header not found"),
        ),
        (
            Reply::Error(-32_602, "bad\r\n\u{1b}[31m"),
            rpc(-32_602, "bad   [31m"),
        ),
        (Reply::result("null"), CallError::NotFound),
        (Reply::result("[]"), malformed()),
        (Reply::result("\"0x10000000000000000\""), malformed()),
        (Reply::result("\"0x1"), malformed()),
        (Reply::http(200, "", "garbage"), malformed()),
        (Reply::http(200, "", ""), malformed()),
        (Reply::http(200, "", "\u{fffd}{}"), malformed()),
        (
            Reply::http(200, "", r#"{"jsonrpc":"2.0","id":0}"#),
            malformed(),
        ),
        (
            Reply::http(200, "", r#"[{"id":0,"result":"0x1"}]"#),
            malformed(),
        ),
        (Reply::http(200, "", &"[".repeat(4_000)), malformed()),
        (Reply::Raw("garbage\r\n\r\n".to_owned()), cut()),
        (Reply::Raw(String::new()), cut()),
        (
            Reply::Raw("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"id\":0,\"re".to_owned()),
            cut(),
        ),
        (
            Reply::Raw(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n".to_owned(),
            ),
            cut(),
        ),
        (
            Reply::Result(format!("\"{}\"", "0".repeat(4_096))),
            CallError::TooLarge { limit: 4_096 },
        ),
        // Announced as long, and never sent.
        (
            Reply::Raw("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_owned()),
            CallError::TooLarge { limit: 4_096 },
        ),
        (
            Reply::Raw(format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1388\r\n{long}\r\n0\r\n\r\n"
            )),
            CallError::TooLarge { limit: 4_096 },
        ),
        (
            Reply::http(
                400,
                "",
                &format!(
                    r#"{{"id":0,"error":{{"code":1,"message":"{}"}}}}"#,
                    &long[..3_000]
                ),
            ),
            rpc(1, &shown_long),
        ),
    ];
    for (reply, expected) in table {
        check_fails(reply, expected).await;
    }
}

#[tokio::test]
async fn a_failure_does_not_show_the_url() {
    // A port without a listener, held so that nobody else gets it.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = held.local_addr().unwrap();
    for scheme in ["http", "https", "ws", "wss"] {
        let url = format!("{scheme}://user:secret@{address}/secret?secret#x=secret");
        // A system without certificates has no TLS.
        let Ok(upstream) = UpstreamClient::new(url.parse().unwrap(), limits()) else {
            assert!(scheme.ends_with('s'), "{scheme}");
            continue;
        };
        let error = upstream.block_number().await.unwrap_err();
        assert!(matches!(error, CallError::Connection(_)), "{error}");
        for shown in [format!("{error} {error:?}"), format!("{upstream:?}")] {
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
}

#[tokio::test]
async fn headers_and_authorization_are_sent() {
    let (url, script) = Script::of([Reply::result("\"0x1\"")]).serve().await;
    let url = url.replace("http://", "http://user:pass@");
    let upstream = client(&format!("{url}/path?key=1#X-Key=a%20b"), limits());
    assert_eq!(upstream.chain_id().await, Ok(1));
    let head = script.calls.lock()[0].head.clone();
    for line in [
        "post /path?key=1 http/1.1\r\n",
        "authorization: basic dxnlcjpwyxnz\r\n",
        "x-key: a b\r\n",
        "content-type: application/json\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
    assert!(!head.contains("accept-encoding"), "{head}");
}

#[tokio::test]
async fn a_call_ends_in_time() {
    let (url, script) = Script::of([Reply::Silence]).serve().await;
    let upstream = client(&url, limits());
    let call = tokio::spawn(async move { upstream.block_number().await });
    script.arrived.notified().await;
    time::pause();
    let timeout = limits().timeout;
    assert_eq!(call.await.unwrap(), Err(CallError::Timeout(timeout)));
}

#[tokio::test]
async fn calls_that_time_out_together_replace_their_pool_once() {
    let (url, script) = Script::of([Reply::Silence, Reply::Silence]).serve().await;
    let endpoint = url.parse::<Endpoint>().unwrap();
    let transport = Transport::new(&endpoint, usize::MAX).unwrap();
    let timeout = limits().timeout;
    let call = || transport.call(timeout, usize::MAX, "eth_blockNumber", ());
    let calls = async { tokio::join!(call(), call()) };
    let both_arrive = async {
        while script.calls.lock().len() < 2 {
            script.arrived.notified().await;
        }
        time::pause();
    };
    let ((first, second), ()) = tokio::join!(calls, both_arrive);
    for answer in [first, second] {
        assert_eq!(answer.err(), Some(CallError::Timeout(timeout)));
    }
    let Transport::Http { transport, .. } = transport else {
        panic!("not over HTTP");
    };
    assert_eq!(transport.pool(), 1);
}

#[tokio::test]
async fn a_call_that_never_gets_its_turn_is_busy_and_not_a_timeout() {
    let (url, script) = Script::of([Reply::Silence, Reply::Silence]).serve().await;
    let limits = CallLimits {
        concurrency: 1,
        ..limits()
    };
    let upstream = client(&url, limits);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let upstream = upstream.clone();
            tokio::spawn(async move { upstream.block_number().await })
        })
        .collect();
    script.arrived.notified().await;
    time::pause();
    let mut labels = Vec::new();
    for call in calls {
        labels.push(call.await.unwrap().unwrap_err().label());
    }
    assert_eq!(labels, ["timeout", "timeout", "busy"]);
}

#[tokio::test]
async fn calls_in_progress_are_bounded() {
    let mut script = Script::of((0..8).map(|_| Reply::result("\"0x1\"")));
    // No call is answered before two have arrived, so fewer would wait for ever.
    script.together = Some(tokio::sync::Barrier::new(2));
    let (url, script) = script.serve().await;
    let limits = CallLimits {
        concurrency: 2,
        ..limits()
    };
    let upstream = client(&url, limits);
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let upstream = upstream.clone();
        calls.spawn(async move { upstream.block_number().await });
    }
    assert_eq!(calls.join_all().await, vec![Ok(1); 8]);
    assert_eq!(script.in_progress_max(), 2);
}

#[tokio::test]
async fn without_eth_get_block_receipts_each_receipt_is_fetched_from_then_on() {
    for code in [-32_601, -32_004, -32_602] {
        let first = Reply::Error(code, "no");
        // One call at a time, so that the replies match the requests in order.
        let singles = ["1", "2", "3", "4", "null"].map(Reply::result);
        let replies = std::iter::once(first).chain(singles);
        let (url, script) = Script::of(replies).serve().await;
        let limits = CallLimits {
            concurrency: 1,
            ..limits()
        };
        let upstream = client(&url, limits);
        let hashes = [1, 2, 3].map(B256::repeat_byte);
        let ReceiptsAnswer::Single(found) = upstream
            .block_receipts(HASH, &hashes, usize::MAX)
            .await
            .unwrap()
        else {
            panic!("expected single receipts");
        };
        let found: Vec<_> = found.iter().map(|json| json.get()).collect();
        assert_eq!(found, ["1", "2", "3"]);
        let missing = upstream
            .block_receipts(HASH, &hashes[..2], usize::MAX)
            .await;
        assert_eq!(missing.unwrap_err(), CallError::NotFound);
        let none = upstream
            .block_receipts(HASH, &[], usize::MAX)
            .await
            .unwrap();
        assert!(matches!(none, ReceiptsAnswer::Single(none) if none.is_empty()));
        let methods = script.methods();
        assert_eq!(methods[0], "eth_getBlockReceipts");
        assert!(
            methods[1..]
                .iter()
                .all(|method| method == "eth_getTransactionReceipt")
        );
        assert_eq!(methods.len(), 6);
    }
}

#[tokio::test]
async fn single_receipts_are_fetched_together_and_stay_in_order() {
    let respond = |call: &RecordedCall| match call.method.as_str() {
        "eth_getBlockReceipts" => Reply::Error(-32_601, "no"),
        _ => Reply::Result(call.params[0].to_string()),
    };
    let (url, script) = Script::answering(respond).serve().await;
    let hashes: Vec<_> = (0..8).map(B256::repeat_byte).collect();
    let upstream = client(&url, limits());
    let ReceiptsAnswer::Single(found) = upstream
        .block_receipts(HASH, &hashes, usize::MAX)
        .await
        .unwrap()
    else {
        panic!("expected single receipts");
    };
    let found: Vec<B256> = found
        .iter()
        .map(|json| serde_json::from_str(json.get()).unwrap())
        .collect();
    assert_eq!(found, hashes);
    assert!((2..=limits().concurrency).contains(&script.in_progress_max()));
}

#[tokio::test]
async fn single_receipts_are_no_longer_than_one_answer_may_be() {
    let receipt = |bytes: usize| Reply::result(&format!("\"{}\"", "r".repeat(bytes - 2)));
    for (bytes, fits) in [([400, 300, 300], true), ([400, 300, 301], false)] {
        let first = Reply::Error(-32_601, "no");
        let replies = std::iter::once(first).chain(bytes.map(receipt));
        let (url, _script) = Script::of(replies).serve().await;
        let limits = CallLimits {
            concurrency: 1,
            answer_bytes_max: 1_000,
            ..limits()
        };
        let hashes = [1, 2, 3].map(B256::repeat_byte);
        let found = client(&url, limits)
            .block_receipts(HASH, &hashes, usize::MAX)
            .await;
        match found {
            Ok(ReceiptsAnswer::Single(found)) => assert!(fits && found.len() == 3),
            other => {
                let limit = 1_000;
                assert_eq!(other.unwrap_err(), CallError::TooLarge { limit });
                assert!(!fits);
            }
        }
    }
}

#[tokio::test]
async fn other_errors_of_eth_get_block_receipts_are_not_remembered() {
    let replies = [
        Reply::Error(-32_000, "busy"),
        Reply::http(429, "", ""),
        Reply::result("null"),
        Reply::result("[]"),
    ];
    let (url, script) = Script::of(replies).serve().await;
    let upstream = client(&url, limits());
    let mut labels = Vec::new();
    for _ in 0..3 {
        let answer = upstream.block_receipts(HASH, &[HASH], usize::MAX).await;
        labels.push(answer.unwrap_err().label());
    }
    assert_eq!(labels, ["rpc", "rate_limited", "not_found"]);
    let found = upstream
        .block_receipts(HASH, &[HASH], usize::MAX)
        .await
        .unwrap();
    assert!(matches!(found, ReceiptsAnswer::Whole(json) if json.get() == "[]"));
    let methods = script.methods();
    assert!(
        methods
            .iter()
            .all(|method| method == "eth_getBlockReceipts")
    );
}

#[tokio::test]
async fn http_announces_no_heads() {
    let (url, script) = Script::of([]).serve().await;
    let error = client(&url, limits()).subscribe_heads().await.unwrap_err();
    assert_eq!(error, CallError::UnsupportedMethod);
    assert!(script.methods().is_empty());
}

/// A server of large answers: it sends most of each at once, and the rest once it is released.
/// Chain ids are short.
async fn large_answers(sent: watch::Sender<usize>, released: watch::Receiver<bool>) -> String {
    let http = |result: &str| {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":0,"result":"{result}"}}"#);
        let length = answer.len();
        format!("HTTP/1.1 200 X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{answer}")
    };
    let answers: Arc<[String; 2]> = [http("0x1"), http(&"r".repeat(32 << 20))].into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answers = Arc::clone(&answers);
            let (sent, mut released) = (sent.clone(), released.clone());
            tokio::spawn(async move {
                let mut request = String::new();
                while !request.ends_with('}') {
                    let mut part = [0; 1_024];
                    let length = stream.read(&mut part).await.unwrap();
                    request += std::str::from_utf8(&part[..length]).unwrap();
                }
                if request.contains("eth_chainId") {
                    return stream.write_all(answers[0].as_bytes()).await.unwrap();
                }
                let (most, rest) = answers[1].as_bytes().split_at(24 << 20);
                stream.write_all(most).await.unwrap();
                sent.send_modify(|sent| *sent += 1);
                released.wait_for(|released| *released).await.unwrap();
                stream.write_all(rest).await.unwrap();
            });
        }
    });
    url
}

#[tokio::test]
async fn two_large_answers_are_read_at_a_time() {
    let (sent, mut most_sent) = watch::channel(0);
    let (release, released) = watch::channel(false);
    let url = large_answers(sent, released).await;
    let limits = CallLimits {
        answer_bytes_max: usize::MAX,
        timeout: Duration::from_secs(60),
        concurrency: 4,
    };
    let upstream = client(&url, limits);
    let mut calls = JoinSet::new();
    for _ in 0..3 {
        let upstream = upstream.clone();
        calls.spawn(async move { upstream.block_by_hash(HASH, usize::MAX).await });
    }
    most_sent.wait_for(|sent| *sent >= 2).await.unwrap();
    // While these two are incomplete, others are read, and the third large one is not.
    for _ in 0..100 {
        assert_eq!(upstream.chain_id().await, Ok(1));
    }
    assert_eq!(*most_sent.borrow(), 2);
    release.send_replace(true);
    while let Some(call) = calls.join_next().await {
        assert!(call.unwrap().is_ok());
    }
    assert_eq!(*most_sent.borrow(), 3);
}
