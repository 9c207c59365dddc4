//! A scripted upstream: answers are prepared, or made from each request.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Barrier, Notify},
    task,
};
use tokio_tungstenite::{accept_async, tungstenite::Message};

/// How often the server yields before an answer, so that concurrent requests arrive meanwhile.
const YIELDS: usize = 100;

/// The end of the head of a call that is an item of a batch.
pub(in crate::upstream) const IN_A_BATCH: &str = "in a batch";

/// The answer to one request.
pub(in crate::upstream) enum Reply {
    /// This result, verbatim.
    Result(String),
    /// A JSON-RPC error.
    Error(i64, &'static str),
    /// A whole HTTP response, verbatim; then the connection is closed.
    Raw(String),
    /// No answer, ever.
    Silence,
}

impl Reply {
    pub(in crate::upstream) fn result(text: &str) -> Self {
        Self::Result(text.to_owned())
    }

    pub(in crate::upstream) fn http(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::Raw(format!(
            "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ))
    }
}

/// A call that the script received.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct RecordedCall {
    /// The request line and the headers, in lower case.
    pub(in crate::upstream) head: String,
    pub(in crate::upstream) method: String,
    pub(in crate::upstream) params: Value,
}

/// Makes the answer to a call.
type Responder = Box<dyn Fn(&RecordedCall) -> Reply + Send + Sync>;

#[derive(Default)]
pub(in crate::upstream) struct Script {
    pub(in crate::upstream) replies: Mutex<VecDeque<Reply>>,
    pub(in crate::upstream) calls: Mutex<Vec<RecordedCall>>,
    /// The items of batches, which are not in `calls`.
    pub(in crate::upstream) batched: Mutex<Vec<RecordedCall>>,
    /// Notified of every request.
    pub(in crate::upstream) arrived: Notify,
    /// Makes the answers if they depend on the calls; replaces `replies`.
    pub(in crate::upstream) responder: Option<Responder>,
    /// Reached by this many requests before any of them is answered.
    pub(in crate::upstream) together: Option<Barrier>,
    /// Requests in progress: now, and at most.
    in_progress: Mutex<(usize, usize)>,
}

/// A request in progress.
struct InProgress<'a>(&'a Script);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.in_progress.lock().0 -= 1;
    }
}

impl Script {
    pub(in crate::upstream) fn of(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: Mutex::new(replies.into_iter().collect()),
            ..Self::default()
        }
    }

    pub(in crate::upstream) fn answering(
        responder: impl Fn(&RecordedCall) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self {
            responder: Some(Box::new(responder)),
            ..Self::default()
        }
    }

    pub(in crate::upstream) fn methods(&self) -> Vec<String> {
        let calls = self.calls.lock();
        calls.iter().map(|call| call.method.clone()).collect()
    }

    /// The largest number of requests that were in progress at the same time.
    pub(in crate::upstream) fn in_progress_max(&self) -> usize {
        self.in_progress.lock().1
    }

    /// Serves the script until the test ends, and returns its URL.
    pub(in crate::upstream) async fn serve(self) -> (String, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(self);
        let shared = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&shared);
                tokio::spawn(async move { script.connection(stream).await });
            }
        });
        (url, script)
    }

    /// Serves the script over WebSocket until the test ends, and returns its URL. Answers are made
    /// by the responder.
    pub(in crate::upstream) async fn serve_ws(self) -> (String, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let script = Arc::new(self);
        let shared = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&shared);
                tokio::spawn(async move { script.web_socket(stream).await });
            }
        });
        (url, script)
    }

    /// Answers one call after another; `None` if the client has gone.
    async fn web_socket(&self, stream: TcpStream) -> Option<()> {
        let mut socket = accept_async(stream).await.ok()?;
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else {
                continue;
            };
            let body: Value = serde_json::from_str(&text).unwrap();
            let call = RecordedCall {
                head: String::new(),
                method: body["method"].as_str().unwrap().to_owned(),
                params: body["params"].clone(),
            };
            self.calls.lock().push(call.clone());
            let answer = match self.responder.as_ref()?(&call) {
                Reply::Result(text) => result(&body["id"], &text),
                Reply::Error(code, message) => error(&body["id"], code, message),
                Reply::Raw(text) => text,
                Reply::Silence => continue,
            };
            socket.send(Message::Text(answer.into())).await.ok()?;
        }
        Some(())
    }

    async fn connection(&self, mut stream: TcpStream) {
        while let Some((head, body)) = request(&mut stream).await {
            let body: Value = serde_json::from_slice(&body).unwrap();
            if let Value::Array(items) = &body {
                let answer = match self.batch(&head, items) {
                    // Nothing at all: the connection is closed.
                    Some(Reply::Raw(answer)) if answer.is_empty() => return,
                    Some(Reply::Raw(answer)) => answer,
                    Some(_) => std::future::pending().await,
                    None => return,
                };
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
                continue;
            }
            let call = RecordedCall {
                head,
                method: body["method"].as_str().unwrap().to_owned(),
                params: body["params"].clone(),
            };
            let turn = {
                let mut calls = self.calls.lock();
                calls.push(call.clone());
                calls.len()
            };
            self.arrived.notify_one();
            let id = &body["id"];
            // Until its answer is written.
            let _in_progress = self.begin();
            if let Some(together) = &self.together {
                together.wait().await;
            }
            // Every other answer is overtaken by the next.
            for _ in 0..YIELDS * (1 + turn % 2) {
                task::yield_now().await;
            }
            let reply = match &self.responder {
                Some(responder) => Some(responder(&call)),
                None => self.replies.lock().pop_front(),
            };
            let answer = match reply {
                Some(Reply::Result(text)) => result(id, &text),
                Some(Reply::Error(code, message)) => error(id, code, message),
                Some(Reply::Raw(text)) => {
                    let _ = stream.write_all(text.as_bytes()).await;
                    return;
                }
                Some(Reply::Silence) => std::future::pending().await,
                None => return,
            };
            let Reply::Raw(answer) = Reply::http(200, "", &answer) else {
                return;
            };
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// The response to a batch: one answer for each item, by the responder. A raw answer to the
    /// first item is the whole response. Silence about an item is silence about all.
    fn batch(&self, head: &str, items: &[Value]) -> Option<Reply> {
        let mut answers = Vec::new();
        for item in items {
            let call = RecordedCall {
                head: format!("{head}{IN_A_BATCH}"),
                method: item["method"].as_str().unwrap().to_owned(),
                params: item["params"].clone(),
            };
            self.batched.lock().push(call.clone());
            let (id, respond) = (&item["id"], self.responder.as_ref()?);
            answers.push(match respond(&call) {
                Reply::Result(text) => result(id, &text),
                Reply::Error(code, message) => error(id, code, message),
                whole => return Some(whole),
            });
        }
        let answers = format!("[{}]", answers.join(","));
        Some(Reply::http(200, "", &answers))
    }

    fn begin(&self) -> InProgress<'_> {
        let mut in_progress = self.in_progress.lock();
        in_progress.0 += 1;
        in_progress.1 = in_progress.1.max(in_progress.0);
        InProgress(self)
    }
}

fn result(id: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn error(id: &Value, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

/// Reads the next request: its head and its body.
async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let body = read.split_off(end);
    let head = String::from_utf8(read).unwrap().to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().parse().unwrap();
    let mut body = body;
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some((head, body))
}
