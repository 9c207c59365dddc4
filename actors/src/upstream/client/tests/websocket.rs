use std::future::Future;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

use super::*;

type Socket = WebSocketStream<TcpStream>;

/// Accepts the next connection; `refusal` may refuse its handshake.
async fn accept(
    listener: &TcpListener,
    refusal: impl FnOnce(&Request) -> Option<ErrorResponse> + Unpin,
) -> Option<Socket> {
    let (stream, _) = listener.accept().await.unwrap();
    #[expect(clippy::result_large_err, reason = "the crate's signature")]
    let callback = |request: &Request, response: Response| match refusal(request) {
        Some(refused) => Err(refused),
        None => Ok(response),
    };
    accept_hdr_async(stream, callback).await.ok()
}

/// Reads the next request; `None` if the client has closed the connection.
async fn next_request(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}

async fn send(socket: &mut Socket, message: &Value) {
    let text = message.to_string();
    socket.send(Message::Text(text.into())).await.unwrap();
}

/// Reads a request, answers it with `result`, and returns its method.
async fn answer(socket: &mut Socket, result: Value) -> String {
    let request = next_request(socket).await.unwrap();
    let id = &request["id"];
    send(
        socket,
        &json!({"jsonrpc": "2.0", "id": id, "result": result}),
    )
    .await;
    request["method"].as_str().unwrap().to_owned()
}

async fn announce(socket: &mut Socket, subscription: &str, result: Value) {
    let params = json!({"subscription": subscription, "result": result});
    let message = json!({"jsonrpc": "2.0", "method": "eth_subscription", "params": params});
    send(socket, &message).await;
}

fn head(number: u64) -> Value {
    json!({"number": U64::from(number), "hash": HASH, "parentHash": HASH, "timestamp": "0x1"})
}

/// Runs an upstream and its client side by side.
async fn run_with_client<N, C>(
    upstream: impl FnOnce(TcpListener) -> N,
    client_side: impl FnOnce(UpstreamClient) -> C,
) where
    N: Future<Output = ()> + Send + 'static,
    C: Future<Output = ()>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://user:pass@{}/#X-Key=a", listener.local_addr().unwrap());
    let upstream = tokio::spawn(upstream(listener));
    client_side(client(&url, limits())).await;
    upstream.await.unwrap();
}

#[tokio::test]
async fn calls_share_one_connection_that_is_opened_with_the_headers() {
    run_with_client(
        |listener| async move {
            let refusal = |request: &Request| {
                let header = |name| request.headers().get(name).unwrap().to_str().unwrap();
                assert_eq!(header("authorization"), "Basic dXNlcjpwYXNz");
                assert_eq!(header("x-key"), "a");
                None
            };
            let mut socket = accept(&listener, refusal).await.unwrap();
            // The answers come in another order than the requests.
            let first = next_request(&mut socket).await.unwrap();
            let second = next_request(&mut socket).await.unwrap();
            for request in [second, first] {
                let (id, method) = (&request["id"], request["method"].as_str().unwrap());
                let result = if method == "eth_chainId" {
                    "0x1"
                } else {
                    "0x2"
                };
                send(
                    &mut socket,
                    &json!({"jsonrpc": "2.0", "id": id, "result": result}),
                )
                .await;
            }
        },
        |upstream| async move {
            let (id, number) = tokio::join!(upstream.chain_id(), upstream.block_number());
            assert_eq!((id, number), (Ok(1), Ok(2)));
        },
    )
    .await;
}

#[tokio::test]
async fn heads_are_announced_until_the_connection_ends() {
    run_with_client(
        |listener| async move {
            let mut socket = accept(&listener, |_| None).await.unwrap();
            let method = answer(&mut socket, json!("0xabc")).await;
            assert_eq!(method, "eth_subscribe");
            announce(&mut socket, "0xabc", head(7)).await;
            // Of another subscription.
            announce(&mut socket, "0xdef", head(8)).await;
            announce(&mut socket, "0xabc", head(9)).await;
            announce(&mut socket, "0xabc", json!({"number": "0x1"})).await;
            // Answered only after the client has read all of it.
            answer(&mut socket, json!("0x9")).await;
            drop(socket);
            // The next call opens another connection.
            let mut socket = accept(&listener, |_| None).await.unwrap();
            assert_eq!(answer(&mut socket, json!("0xdef")).await, "eth_subscribe");
            let request = next_request(&mut socket).await.unwrap();
            assert_eq!(request["method"], "eth_unsubscribe");
            assert_eq!(request["params"], json!(["0xdef"]));
        },
        |upstream| async move {
            let mut heads = upstream.subscribe_heads().await.unwrap();
            assert_eq!(heads.next().await.unwrap().number, 7);
            assert_eq!(heads.next().await.unwrap().number, 9);
            assert_eq!(heads.next().await.unwrap_err().label(), "malformed");
            assert_eq!(upstream.block_number().await, Ok(9));
            assert_eq!(heads.next().await.unwrap_err().label(), "connection");
            // The call that meets the closed connection fails; the next one opens a new connection.
            let first = upstream.subscribe_heads().await;
            let heads = match first {
                Ok(heads) => heads,
                Err(error) => {
                    assert_eq!(error.label(), "connection");
                    upstream.subscribe_heads().await.unwrap()
                }
            };
            drop(heads);
        },
    )
    .await;
}

/// Checks that a call fails if the upstream sends this instead of an answer, and that the next call
/// opens a new connection.
async fn check_ends_the_connection(message: Option<Message>) {
    run_with_client(
        |listener| async move {
            let mut socket = accept(&listener, |_| None).await.unwrap();
            next_request(&mut socket).await.unwrap();
            if let Some(message) = message {
                // The client may close the connection before the whole message is sent.
                let _ = socket.send(message).await;
            }
            drop(socket);
            let mut socket = accept(&listener, |_| None).await.unwrap();
            answer(&mut socket, json!("0x5")).await;
        },
        |upstream| async move {
            let error = upstream.block_number().await.unwrap_err();
            assert_eq!(error.label(), "connection", "{error}");
            assert_eq!(upstream.block_number().await, Ok(5));
        },
    )
    .await;
}

#[tokio::test]
async fn a_message_that_is_no_answer_ends_the_connection() {
    check_ends_the_connection(None).await;
    check_ends_the_connection(Some(Message::Text("garbage".into()))).await;
    check_ends_the_connection(Some(Message::Binary(vec![1].into()))).await;
    check_ends_the_connection(Some(Message::Close(None))).await;
    let long = format!(r#"{{"id":0,"result":"0x{}"}}"#, "0".repeat(5_000));
    check_ends_the_connection(Some(Message::Text(long.into()))).await;
}

#[tokio::test]
async fn a_refused_handshake_fails_with_its_status() {
    let refusals = [
        (401, None, CallError::Refused { status: 401 }),
        (
            429,
            Some("3"),
            CallError::RateLimited {
                retry_after: Some(Duration::from_secs(3)),
            },
        ),
    ];
    for (status, retry_after, expected) in refusals {
        run_with_client(
            move |listener| async move {
                let refusal = |_: &Request| {
                    let mut refused = ErrorResponse::new(None);
                    *refused.status_mut() = status.try_into().unwrap();
                    if let Some(seconds) = retry_after {
                        let headers = refused.headers_mut();
                        headers.insert("retry-after", seconds.try_into().unwrap());
                    }
                    Some(refused)
                };
                assert!(accept(&listener, refusal).await.is_none());
            },
            |upstream| async move {
                assert_eq!(upstream.block_number().await, Err(expected));
            },
        )
        .await;
    }
}

#[tokio::test]
async fn a_call_that_times_out_closes_its_connection() {
    run_with_client(
        |listener| async move {
            let mut unanswered = accept(&listener, |_| None).await.unwrap();
            next_request(&mut unanswered).await.unwrap();
            tokio::time::pause();
            // The client closes the connection when no call waits for an answer.
            assert_eq!(next_request(&mut unanswered).await, None);
            tokio::time::resume();
            let mut socket = accept(&listener, |_| None).await.unwrap();
            answer(&mut socket, json!("0x5")).await;
        },
        |upstream| async move {
            let timeout = limits().timeout;
            assert_eq!(
                upstream.block_number().await,
                Err(CallError::Timeout(timeout))
            );
            assert_eq!(upstream.block_number().await, Ok(5));
        },
    )
    .await;
}

/// Lets simulated time pass without waiting.
async fn pass(time: Duration) {
    time::pause();
    time::advance(time).await;
    time::resume();
}

#[tokio::test]
async fn a_late_timeout_leaves_the_new_connection_open() {
    let limits = CallLimits {
        // Shorter than the interval of pings.
        timeout: Duration::from_secs(4),
        ..limits()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = client(&format!("ws://{}", listener.local_addr().unwrap()), limits);
    let call = || {
        let upstream = upstream.clone();
        tokio::spawn(async move { upstream.block_number().await })
    };
    let timed_out = Err(CallError::Timeout(limits.timeout));

    let first = call();
    let mut old = accept(&listener, |_| None).await.unwrap();
    next_request(&mut old).await.unwrap();
    pass(limits.timeout / 2).await;
    let second = call();
    next_request(&mut old).await.unwrap();
    pass(limits.timeout / 2).await;
    assert_eq!(first.await.unwrap(), timed_out);

    let third = call();
    let mut new = accept(&listener, |_| None).await.unwrap();
    let request = next_request(&mut new).await.unwrap();
    pass(limits.timeout / 2).await;
    assert_eq!(second.await.unwrap(), timed_out);

    let fourth = call();
    answer(&mut new, json!("0x4")).await;
    assert_eq!(fourth.await.unwrap(), Ok(4));
    let reply = json!({"jsonrpc": "2.0", "id": request["id"], "result": "0x3"});
    send(&mut new, &reply).await;
    assert_eq!(third.await.unwrap(), Ok(3));
}

/// The third one is not passed on before the verifier has taken one of two.
#[tokio::test]
async fn two_large_answers_are_held_at_a_time() {
    const CALLS: usize = 5;
    run_with_client(
        |listener| async move {
            let mut socket = accept(&listener, |_| None).await.unwrap();
            let mut requests = Vec::new();
            while requests.len() < CALLS {
                requests.push(next_request(&mut socket).await.unwrap());
            }
            let large = "r".repeat(5 << 20);
            for request in requests {
                let id = &request["id"];
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": large});
                send(&mut socket, &answer).await;
            }
        },
        |upstream| async move {
            let limits = CallLimits {
                answer_bytes_max: usize::MAX,
                timeout: Duration::from_secs(60),
                concurrency: CALLS,
            };
            let endpoint = upstream.endpoint().clone();
            let upstream = UpstreamClient::new(endpoint, limits).unwrap();
            let mut calls = JoinSet::new();
            for _ in 0..CALLS {
                let upstream = upstream.clone();
                calls.spawn(async move { upstream.block_by_hash(HASH, usize::MAX).await });
            }
            let mut held = Vec::new();
            for _ in 0..3 {
                while held.len() < 2 {
                    held.push(calls.join_next().await.unwrap().unwrap().unwrap());
                }
                let next = time::timeout(Duration::from_millis(200), calls.join_next());
                assert!(next.await.is_err(), "a third one is held");
                held.pop();
            }
            drop(held);
            while let Some(call) = calls.join_next().await {
                assert!(call.unwrap().is_ok());
            }
        },
    )
    .await;
}
