//! What an answer may be: its length, a hash by number, and methods that are missing.

use futures_util::{SinkExt, StreamExt};
use nearhead_chain::remote::ANSWER_BYTES_MAX;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::{accept_async, tungstenite::Message};

use super::{
    server::{RecordedCall, Reply, Script},
    *,
};

#[tokio::test]
async fn a_hash_is_asked_for_by_number() {
    let claim = |number: &str| {
        let text = format!(
            r#"{{"number":"{number}","hash":"{HASH}","parentHash":"{HASH}","timestamp":"0x1"}}"#
        );
        Reply::Result(text)
    };
    let malformed = || CallError::Malformed("".into());
    for (reply, expected) in [
        (claim("0x12c"), Ok(Some(HASH))),
        // It does not have the block yet, or any more.
        (Reply::result("null"), Ok(None)),
        (Reply::Error(-32_001, "no"), Ok(None)),
        // Another block.
        (claim("0x12b"), Err(malformed())),
        (Reply::result("{}"), Err(malformed())),
        (
            Reply::Error(-32_601, "no"),
            Err(CallError::UnsupportedMethod),
        ),
        (
            Reply::http(429, "retry-after: 7\r\n", ""),
            Err(CallError::RateLimited {
                retry_after: Some(Duration::from_secs(7)),
            }),
        ),
    ] {
        let (url, script) = Script::of([reply]).serve().await;
        let found = client(&url, limits()).hash_at(300).await;
        match (&found, &expected) {
            (Err(CallError::Malformed(_)), Err(CallError::Malformed(_))) => {}
            _ => assert_eq!(found, expected),
        }
        let calls = script.calls.lock();
        assert_eq!(calls[0].method, "eth_getBlockByNumber");
        assert_eq!(calls[0].params, json!(["0x12c", false]));
    }
}

/// One call of each kind, and the most bytes of its answer.
async fn calls(upstream: &UpstreamClient) -> Vec<(&'static str, usize, CallError)> {
    let (address, slots) = (Address::ZERO, [U256::from_be_bytes(HASH.0); 3]);
    let mut ends = Vec::new();
    let mut end = |name, bytes_max, error| ends.push((name, bytes_max, error));
    let failed = |found: Result<Box<RawValue>, CallError>| found.unwrap_err();
    end("id", 4 << 10, upstream.chain_id().await.unwrap_err());
    end("sync", 4 << 10, upstream.is_syncing().await.unwrap_err());
    end(
        "head",
        2 << 20,
        upstream.head(Tag::Latest).await.unwrap_err(),
    );
    end("hash", 2 << 20, upstream.hash_at(1).await.unwrap_err());
    end("uncle", 64 << 10, failed(upstream.uncle(HASH, 0).await));
    end("code", 1 << 20, failed(upstream.code(address, HASH).await));
    let proof = upstream.proof(address, &slots, HASH).await;
    end("proof", (64 + 3 * 20) << 10, failed(proof));
    end(
        "block",
        5_000,
        failed(
            upstream
                .block_by_hash(HASH, 5_000)
                .await
                .map(JsonAnswer::into_json),
        ),
    );
    end(
        "block",
        6_000,
        failed(
            upstream
                .block_by_number(1, 6_000)
                .await
                .map(JsonAnswer::into_json),
        ),
    );
    let receipts = upstream.block_receipts(HASH, &[], 7_000).await;
    end("receipts", 7_000, receipts.unwrap_err());
    ends
}

#[tokio::test]
async fn over_http_reading_stops_at_the_bound_of_the_call() {
    // Announced as long, and never sent.
    let endless = |_: &RecordedCall| {
        Reply::Raw("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_owned())
    };
    let (url, _script) = Script::answering(endless).serve().await;
    let limits = CallLimits {
        answer_bytes_max: ANSWER_BYTES_MAX,
        ..limits()
    };
    for (name, limit, error) in calls(&client(&url, limits)).await {
        assert_eq!(error, CallError::TooLarge { limit }, "{name}");
    }
}

#[tokio::test]
async fn over_websocket_an_answer_beyond_the_bound_of_its_call_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    // Answers every call with three megabytes, over one connection.
    let upstream = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = accept_async(stream).await.unwrap();
        let text = "0".repeat(3 << 20);
        let mut answered = 0;
        while let Some(Ok(Message::Text(request))) = socket.next().await {
            let request: Value = serde_json::from_str(&request).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": text});
            socket
                .send(Message::Text(answer.to_string().into()))
                .await
                .unwrap();
            answered += 1;
        }
        answered
    });
    let limits = CallLimits {
        answer_bytes_max: 4 << 20,
        ..limits()
    };
    let ends = {
        let upstream = client(&url, limits);
        calls(&upstream).await
    };
    for (name, limit, error) in &ends {
        assert_eq!(*error, CallError::TooLarge { limit: *limit }, "{name}");
    }
    assert_eq!(upstream.await.unwrap(), ends.len(), "one connection");
}

/// What an upstream lacks is known for each method by itself.
#[tokio::test]
async fn a_missing_method_is_remembered_and_the_others_are_still_called() {
    for missing in ["eth_getProof", "eth_getCode", "eth_getBlockReceipts"] {
        let respond = move |call: &RecordedCall| match call.method == missing {
            true => Reply::Error(-32_601, "no"),
            false => Reply::result("7"),
        };
        let (url, script) = Script::answering(respond).serve().await;
        let upstream = client(&url, limits());
        for _ in 0..2 {
            let _ = upstream.proof(Address::ZERO, &[], HASH).await;
            let _ = upstream.code(Address::ZERO, HASH).await;
            let _ = upstream.block_receipts(HASH, &[HASH], 4_096).await;
        }
        let lacks = [
            ("eth_getProof", OptionalMethod::Proof),
            ("eth_getCode", OptionalMethod::Code),
            ("eth_getBlockReceipts", OptionalMethod::BlockReceipts),
        ];
        for (name, method) in lacks {
            assert_eq!(upstream.lacks(method), name == missing, "{name}");
        }
        let receipts = script.methods();
        let receipts = receipts
            .iter()
            .filter(|name| *name == "eth_getBlockReceipts");
        let expected = if missing == "eth_getBlockReceipts" {
            1
        } else {
            2
        };
        assert_eq!(receipts.count(), expected, "{missing}");
    }
}
