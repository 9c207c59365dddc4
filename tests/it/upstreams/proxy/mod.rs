//! A proxy between a client and its upstreams, over HTTP and WebSocket, on plain threads. It passes
//! everything on, and applies the faults that the test sets.
//!
//! | file | what it is |
//! |---|---|
//! | `lie` | one change to an upstream's answers |
//! | `rows` | every possible lie about an answer |
//! | `loss` | packets that are lost |
//! | `state` | the current faults, connections and counts |
//! | `session` | WebSocket; HTTP is in `upstreams::http` |

mod lie;
mod loss;
pub(crate) mod rows;
mod session;
mod state;
#[cfg(test)]
mod tests;

use std::{
    io::{self, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub(crate) use self::lie::{Change, Lie};
use self::{
    loss::Link,
    state::{OpenConnection, State},
};
use super::http::{self, Message};

/// A running proxy. Dropping it closes all connections.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

/// Bytes of a [`Fault::Flood`].
pub(crate) const FLOOD_BYTES: usize = 300 << 20;

/// A fault of the connection or of the answers.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Every answer is delayed by this much.
    Slow(Duration),
    /// The connection is closed in the middle of every answer.
    Cut,
    /// Of the packets in both directions, so many percent are lost each time that they are sent. A
    /// loss is applied when it happens; what was lost before the fault ends is late after it too.
    Loss {
        percent: usize,
        seed: u64,
    },
    /// Connections and requests are accepted and never answered; these connections are closed when
    /// the fault ends.
    Freeze,
    /// Bytes are accepted and nothing is answered. Connections that are open then stay open and
    /// silent when the fault ends; later ones work again.
    BlackHole,
    /// Over HTTP, calls of this method alone are answered with [`FLOOD_BYTES`] of JSON, as far as
    /// the client takes them.
    Flood(&'static str),
    /// Calls of this method are never answered; their HTTP connections are closed when the fault
    /// ends.
    Stall(&'static str),
    Lie(Lie),
    /// This method is refused, or every method.
    Refuse(Option<&'static str>, Refusal),
}

/// How a call is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// -32601: the upstream does not have the method.
    NoMethod,
    /// -32005, the code with which providers limit calls.
    LimitExceeded,
    /// HTTP 429 with Retry-After. A WebSocket session has no such answer: its calls are not
    /// refused.
    TooManyRequests { retry_after_seconds: u64 },
}

impl Refusal {
    fn error(self, method: &str) -> Option<Value> {
        match self {
            Self::NoMethod => {
                let message = format!("the method {method} does not exist/is not available");
                Some(json!({"code": -32601, "message": message}))
            }
            Self::LimitExceeded => Some(json!({"code": -32005, "message": "limit exceeded"})),
            Self::TooManyRequests { .. } => None,
        }
    }
}

impl Proxy {
    /// Starts a proxy to an upstream, or to several that answer in turn.
    pub(crate) fn to(upstreams: &[SocketAddr]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        state.forward_to(upstreams);
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.has_ended() {
                    break;
                }
                let state = Arc::clone(&shared);
                // An error ends the connection, which the other side sees.
                std::thread::spawn(move || serve(&state, stream));
            }
        });
        Self { address, state }
    }

    /// Forwards to other upstreams from now on, such as one that was restarted.
    pub(crate) fn forward_to(&self, upstreams: &[SocketAddr]) {
        self.state.forward_to(upstreams);
    }

    /// Answers calls of this method with this first parameter, in place of the upstream.
    pub(crate) fn answer(&self, method: &str, first: &str, result: Value) {
        self.state.answer(method, first, result);
    }

    /// Sets the faults from now on, and resets the count of [`Self::applied`].
    pub(crate) fn fail(&self, faults: Vec<Fault>) {
        self.state.set(faults);
    }

    /// Clears the faults.
    pub(crate) fn heal(&self) {
        self.state.set(Vec::new());
    }

    /// How often faults were applied since they were set: a test whose lie changed nothing has
    /// shown nothing.
    pub(crate) fn applied(&self) -> usize {
        self.state.applied()
    }

    /// How often a method was called.
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.state.calls(method)
    }

    /// The longest sequence of requests for state of which each was sent after the answer to the
    /// one before: how often a distance is paid for.
    pub(crate) fn round_trips(&self) -> usize {
        self.state.round_trips()
    }

    /// Closes all connections.
    pub(crate) fn disconnect(&self) {
        self.state.disconnect();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.shut_down();
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves a connection to its end.
fn serve(state: &State, client: TcpStream) -> io::Result<()> {
    let Some(open) = state.keep(&client) else {
        return Ok(());
    };
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    let mut upstreams = UpstreamConnections::default();
    while let Some(request) = Message::read(&mut client)? {
        if state.swallows(&open) {
            continue;
        }
        if request.header("upgrade").is_some() {
            return session::serve(state, &open, client, request);
        }
        let calls = state.calls_of(&request.body);
        if !state.wait(Instant::now()) || state.stalls(&calls) {
            break;
        }
        if state.floods(&calls) {
            return flood(client.get_mut());
        }
        let answer = match state.too_many_requests(&calls) {
            Some(seconds) => Some(refused(seconds)),
            None => upstreams.ask(state, request)?,
        };
        let Some(mut answer) = answer else {
            break;
        };
        if let Some(body) = state.falsify(&calls, &answer.body) {
            answer.body = body;
        }
        state.end(calls.iter());
        let client = client.get_mut();
        if state.cuts() {
            client.write_all(&answer.head())?;
            return client.write_all(&answer.body[..answer.body.len() / 2]);
        }
        answer.write(&mut Link::new(state, client))?;
    }
    Ok(())
}

/// The upstream connections of one client connection.
#[derive(Default)]
struct UpstreamConnections<'a>(Vec<(SocketAddr, BufReader<TcpStream>, Option<OpenConnection<'a>>)>);

impl<'a> UpstreamConnections<'a> {
    /// Forwards to the upstream whose turn it is; `None` if it closed the connection instead.
    fn ask(&mut self, state: &'a State, request: Message) -> io::Result<Option<Message>> {
        let upstream = state.next_upstream();
        let at = match self.0.iter().position(|(address, ..)| *address == upstream) {
            Some(at) => at,
            None => {
                let connection = http::connect(upstream)?;
                let open = state.keep(connection.get_ref());
                self.0.push((upstream, connection, open));
                self.0.len() - 1
            }
        };
        let upstream = &mut self.0[at].1;
        // The proxy could not parse a compressed answer.
        request
            .without(&["accept-encoding"])
            .write(&mut Link::new(state, upstream.get_mut()))?;
        Message::read(upstream)
    }
}

/// Answers with JSON whose length is not named before, so that the client has to read it.
fn flood(client: &mut TcpStream) -> io::Result<()> {
    const CHUNK: usize = 1 << 20;
    client.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let chunk =
        |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    client.write_all(&chunk(br#"{"jsonrpc":"2.0","id":1,"result":{"state":["0x"#))?;
    let zeros = chunk(&[b'0'; CHUNK]);
    for _ in 0..FLOOD_BYTES / CHUNK {
        client.write_all(&zeros)?;
    }
    client.write_all(&chunk(br#""]}}"#))?;
    client.write_all(&chunk(b""))
}

fn refused(retry_after_seconds: u64) -> Message {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32005, "message": "too many requests"}});
    let seconds = retry_after_seconds.to_string();
    Message::answer(
        "429 Too Many Requests",
        &[("retry-after", &seconds)],
        error.to_string().as_bytes(),
    )
}
