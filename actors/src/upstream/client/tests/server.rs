//! An upstream of the test's own: HTTP, one scripted answer for each request.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Barrier, Notify},
};

/// What is answered.
pub(in crate::upstream) enum Reply {
    /// This result, as it is written here.
    Result(String),
    /// A JSON-RPC error.
    Error(i64, &'static str),
    /// HTTP: status line, headers and body as they are written here; then the connection is closed.
    Raw(String),
    /// Nothing, for ever.
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

/// What was asked.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct Asked {
    /// The request's line and headers.
    pub(in crate::upstream) head: String,
    pub(in crate::upstream) method: String,
    pub(in crate::upstream) params: Value,
}

/// Makes the answer to a request.
type Answers = Box<dyn Fn(&Asked) -> Reply + Send + Sync>;

#[derive(Default)]
pub(in crate::upstream) struct Script {
    pub(in crate::upstream) replies: Mutex<VecDeque<Reply>>,
    pub(in crate::upstream) asked: Mutex<Vec<Asked>>,
    /// Told of every request.
    pub(in crate::upstream) arrived: Notify,
    /// Makes the answers, where they depend on what is asked.
    pub(in crate::upstream) answers: Option<Answers>,
    /// Waited for before a request is answered.
    pub(in crate::upstream) together: Option<Barrier>,
    under_way: Mutex<(usize, usize)>,
}

impl Script {
    pub(in crate::upstream) fn of(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: Mutex::new(replies.into_iter().collect()),
            ..Self::default()
        }
    }

    pub(in crate::upstream) fn answering(
        answers: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self {
            answers: Some(Box::new(answers)),
            ..Self::default()
        }
    }

    pub(in crate::upstream) fn methods(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.iter().map(|asked| asked.method.clone()).collect()
    }

    /// Requests that were answered at the same time, at most.
    pub(in crate::upstream) fn most_under_way(&self) -> usize {
        self.under_way.lock().1
    }

    /// Serves the script until the test ends; where.
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

    async fn connection(&self, mut stream: TcpStream) {
        while let Some((head, body)) = request(&mut stream).await {
            let body: Value = serde_json::from_slice(&body).unwrap();
            let asked = Asked {
                head,
                method: body["method"].as_str().unwrap().to_owned(),
                params: body["params"].clone(),
            };
            self.asked.lock().push(asked.clone());
            self.arrived.notify_one();
            let id = &body["id"];
            self.begin();
            if let Some(together) = &self.together {
                together.wait().await;
            }
            self.under_way.lock().0 -= 1;
            let reply = match &self.answers {
                Some(answers) => Some(answers(&asked)),
                None => self.replies.lock().pop_front(),
            };
            let answer = match reply {
                Some(Reply::Result(text)) => {
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{text}}}"#)
                }
                Some(Reply::Error(code, message)) => {
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
                        .to_string()
                }
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

    fn begin(&self) {
        let mut under_way = self.under_way.lock();
        under_way.0 += 1;
        under_way.1 = under_way.1.max(under_way.0);
    }
}

/// The next request: its head and its body.
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
