//! A proxy between a client and its nodes, over HTTP and WebSocket, on plain threads: it passes
//! everything on, but for the faults that the test sets while it runs.
//!
//! | file | what it is |
//! |---|---|
//! | `lie` | one thing that is changed in what a node answers |
//! | `rows` | every lie that could be told of an answer |
//! | `state` | what the proxy does now, and what it has seen |
//! | `http`, `session` | what it passes on |

mod http;
mod lie;
pub(crate) mod rows;
mod session;
mod state;
#[cfg(test)]
mod tests;

use std::{
    io::{self, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};

pub(crate) use self::lie::{Change, Lie};
use self::{
    http::Message,
    state::{Kept, State},
};

/// A running proxy; it closes all connections when it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Every answer comes so much later.
    Slow(Duration),
    /// The connection is closed in the middle of every answer.
    Cut,
    /// Connections and requests are taken, and never answered; when the fault is over, these
    /// connections are closed.
    Freeze,
    Lie(Lie),
    /// A method is refused, or every one.
    Refuse(Option<&'static str>, Refusal),
}

/// How.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// -32601: the node does not have the method.
    NoMethod,
    /// -32005, as providers say that too much was asked.
    LimitExceeded,
    /// HTTP 429 with Retry-After. A session has no such answer, and is refused nothing.
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
    /// A proxy to a node, or to several that are asked in turns.
    pub(crate) fn to(nodes: &[SocketAddr]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        state.ask(nodes);
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.is_over() {
                    break;
                }
                let state = Arc::clone(&shared);
                // An error is the end of a connection, which the other side sees.
                std::thread::spawn(move || serve(&state, stream));
            }
        });
        Self { address, state }
    }

    /// Asks other nodes from now on: one that was started again, for one.
    pub(crate) fn ask(&self, nodes: &[SocketAddr]) {
        self.state.ask(nodes);
    }

    /// Sets what goes wrong from now on, and counts from zero how often it does.
    pub(crate) fn fail(&self, faults: Vec<Fault>) {
        self.state.set(faults);
    }

    /// Nothing goes wrong from now on.
    pub(crate) fn heal(&self) {
        self.state.set(Vec::new());
    }

    /// How often faults were really made since they were set: a test whose lie changed nothing has
    /// shown nothing.
    pub(crate) fn applied(&self) -> usize {
        self.state.applied()
    }

    /// How often a method was called.
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.state.calls(method)
    }

    /// Closes all connections.
    pub(crate) fn disconnect(&self) {
        self.state.disconnect();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.end();
        // Whoever waits for connections sees that there are no more.
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves a connection to its end.
fn serve(state: &State, client: TcpStream) -> io::Result<()> {
    let _kept = state.keep(&client);
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    let mut nodes = Nodes::default();
    while let Some(request) = Message::read(&mut client)? {
        if request.header("upgrade").is_some() {
            return session::serve(state, client, request);
        }
        let calls = state.calls_of(&request.body);
        if !state.wait() {
            break;
        }
        let answer = match state.too_many_requests(&calls) {
            Some(seconds) => Some(refused(seconds)),
            None => nodes.ask(state, request)?,
        };
        let Some(mut answer) = answer else {
            break;
        };
        if let Some(body) = state.falsify(&calls, &answer.body) {
            answer.body = body;
        }
        let client = client.get_mut();
        if state.cuts() {
            client.write_all(&answer.head())?;
            return client.write_all(&answer.body[..answer.body.len() / 2]);
        }
        answer.write(client)?;
    }
    Ok(())
}

/// The connections to nodes that one client's connection has brought about.
#[derive(Default)]
struct Nodes<'a>(Vec<(SocketAddr, BufReader<TcpStream>, Option<Kept<'a>>)>);

impl<'a> Nodes<'a> {
    /// Has the node whose turn it is answer; `None` where it closed instead.
    fn ask(&mut self, state: &'a State, request: Message) -> io::Result<Option<Message>> {
        let node = state.next_node();
        let at = match self.0.iter().position(|(address, ..)| *address == node) {
            Some(at) => at,
            None => {
                let connection = http::connect(node)?;
                let kept = state.keep(connection.get_ref());
                self.0.push((node, connection, kept));
                self.0.len() - 1
            }
        };
        let node = &mut self.0[at].1;
        // A compressed answer could not be read.
        request
            .without(&["accept-encoding"])
            .write(node.get_mut())?;
        Message::read(node)
    }
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
