//! The load generator of `load-tests/compare-ws`: open sessions that receive notifications, and
//! requests in a closed loop.
//!
//! It reads commands as lines of JSON from stdin and answers each with a line of JSON on stdout.
//! The first error ends the program with a line on stderr. It has one thread, so that it can be
//! pinned to one core. Times are nanoseconds since the Unix epoch, comparable with those of other
//! processes.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead as _, ErrorKind, Read as _, Write as _},
    net::{IpAddr, Shutdown, SocketAddr},
    sync::{
        Arc,
        mpsc::{Receiver, TryRecvError, sync_channel},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use mio::{Events, Interest, Poll, Token, Waker, net::TcpStream};
use serde::Deserialize;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    /// Opens sessions, from these addresses in turn.
    Open {
        server: SocketAddr,
        path: String,
        count: usize,
        from: Vec<IpAddr>,
    },
    /// Sends the texts on the sessions in turn, and waits until all are answered without an error.
    Ask { texts: Vec<String> },
    /// Waits for `count` heads after block `after`, each notified in at least `messages` messages
    /// over all sessions. A head with fewer messages does not count: some sessions were not
    /// subscribed yet.
    Heads {
        after: u64,
        count: usize,
        messages: usize,
        seconds: u64,
    },
    /// Opens separate connections and sends the body on each in a closed loop; every answer must
    /// have `bytes` bytes.
    Request {
        over: Protocol,
        server: SocketAddr,
        path: String,
        body: String,
        bytes: usize,
        connections: usize,
        seconds: f64,
    },
    /// Closes all sessions.
    Close,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Ws,
    Http,
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The first message of the bytes read: its opcode (for an HTTP answer, text), and the start and
/// end of its payload.
struct Message {
    opcode: u8,
    begin: usize,
    end: usize,
}

impl Protocol {
    /// The first message of `bytes`, if it is complete.
    fn message(self, bytes: &[u8]) -> Outcome<Option<Message>> {
        match self {
            Self::Ws => Ok(frame(bytes)),
            Self::Http => http_answer(bytes),
        }
    }

    /// The bytes of a request with this body.
    fn request(self, server: SocketAddr, path: &str, body: &str) -> Vec<u8> {
        match self {
            Self::Ws => masked(TEXT, body.as_bytes()),
            Self::Http => format!(
                "POST {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes(),
        }
    }
}

/// Parses a server's frame, which is neither masked nor fragmented.
fn frame(bytes: &[u8]) -> Option<Message> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (begin, len) = match second {
        126 => (
            4,
            u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)),
        ),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        len => (2, u64::from(len)),
    };
    let end = begin + usize::try_from(len).ok()?;
    let opcode = first & 0x0f;
    (bytes.len() >= end).then_some(Message { opcode, begin, end })
}

fn http_answer(bytes: &[u8]) -> Outcome<Option<Message>> {
    let Some(begin) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..begin])?.to_ascii_lowercase();
    if !head.starts_with("http/1.1 200 ") {
        return Err(head.into());
    }
    let len = head
        .split_once("content-length: ")
        .ok_or("an answer without content-length")?
        .1;
    let len: usize = len.split("\r\n").next().unwrap_or_default().parse()?;
    let (begin, end) = (begin + 4, begin + 4 + len);
    let opcode = TEXT;
    Ok((bytes.len() >= end).then_some(Message { opcode, begin, end }))
}

/// Makes a client's frame, with a mask of zero, which leaves the payload unchanged.
fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode];
    match payload.len() {
        len @ 0..=125 => out.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
    out
}

fn connect(server: SocketAddr, from: Option<IpAddr>) -> Outcome<Socket> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    socket.connect(&server.into())?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

/// Requests a session, and waits for the server's handshake.
fn shake_hands(socket: &mut Socket, server: SocketAddr, path: &str) -> Outcome<()> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    socket.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // Byte by byte, because bytes after the head belong to frames.
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if head.starts_with(b"HTTP/1.1 101 ") {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&head).into())
}

/// One polled connection.
struct Connection {
    stream: TcpStream,
    protocol: Protocol,
    /// The beginning of an incomplete message.
    rest: Vec<u8>,
    /// Requests that are not sent yet, the next one last.
    requests: Vec<String>,
    is_closing: bool,
}

impl Connection {
    /// Makes the socket non-blocking and registers it with `poll`.
    fn new(socket: Socket, protocol: Protocol, poll: &Poll, token: usize) -> Outcome<Self> {
        socket.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(socket.into());
        poll.registry()
            .register(&mut stream, Token(token), Interest::READABLE)?;
        Ok(Self {
            stream,
            protocol,
            rest: Vec::new(),
            requests: Vec::new(),
            is_closing: false,
        })
    }

    /// Reads all available bytes and calls `each` with every message; `false` if the server closed.
    fn read(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(&mut TcpStream, u8, &[u8]) -> Outcome<()>,
    ) -> Outcome<bool> {
        loop {
            let len = match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let mut rest = std::mem::take(&mut self.rest);
            let mut bytes = &buffer[..len];
            if !rest.is_empty() {
                rest.extend_from_slice(bytes);
                bytes = &rest;
            }
            while let Some(message) = self.protocol.message(bytes)? {
                let payload = &bytes[message.begin..message.end];
                each(&mut self.stream, message.opcode, payload)?;
                bytes = &bytes[message.end..];
            }
            self.rest = bytes.to_vec();
            if len < buffer.len() {
                // Nothing is left to read, except perhaps the end; later bytes raise a new event.
                return Ok(true);
            }
        }
    }
}

/// The notifications of one head.
#[derive(Clone, Default)]
struct HeadMessages {
    messages: usize,
    /// The first message.
    text: Vec<u8>,
    first: u128,
    last: u128,
}

/// All sessions, and the notifications that they received.
struct Sessions {
    poll: Poll,
    all: Vec<Connection>,
    open: usize,
    /// Number of requests without an answer.
    unanswered: usize,
    by_number: BTreeMap<u64, HeadMessages>,
    buffer: Vec<u8>,
}

impl Sessions {
    fn open(
        &mut self,
        server: SocketAddr,
        path: &str,
        count: usize,
        from: &[IpAddr],
    ) -> Outcome<()> {
        for _ in 0..count {
            let token = self.all.len();
            let mut socket = connect(server, from.get(token % from.len().max(1)).copied())?;
            shake_hands(&mut socket, server, path)?;
            let session = Connection::new(socket, Protocol::Ws, &self.poll, token)?;
            self.all.push(session);
            self.open += 1;
        }
        Ok(())
    }

    /// Distributes the texts over the sessions; each session sends one at a time.
    fn ask(&mut self, texts: Vec<String>) -> Outcome<()> {
        let count = self.all.len();
        self.unanswered = texts.len();
        for (index, text) in texts.into_iter().enumerate() {
            self.all[index % count].requests.push(text);
        }
        for session in &mut self.all {
            send_next(&mut session.requests, &mut session.stream)?;
        }
        Ok(())
    }

    /// Reads what arrives within `timeout`; returns whether the waker fired.
    fn turn(&mut self, events: &mut Events, timeout: Duration) -> Outcome<bool> {
        if let Err(error) = self.poll.poll(events, Some(timeout))
            && error.kind() != ErrorKind::Interrupted
        {
            return Err(error.into());
        }
        let mut woken = false;
        for event in &*events {
            match self.all.get_mut(event.token().0) {
                None => woken = true,
                Some(_) => self.receive(event.token().0)?,
            }
        }
        Ok(woken)
    }

    fn receive(&mut self, index: usize) -> Outcome<()> {
        let session = &mut self.all[index];
        let mut requests = std::mem::take(&mut session.requests);
        let (unanswered, by_number) = (&mut self.unanswered, &mut self.by_number);
        let (is_closing, mut is_closed) = (session.is_closing, false);
        let is_open = session.read(&mut self.buffer, |stream, opcode, payload| {
            match opcode {
                TEXT | BINARY if payload.get(..80).is_some_and(is_notification) => {
                    let head = by_number.entry(number(payload)?).or_default();
                    let now = now();
                    if head.messages == 0 {
                        head.first = now;
                        head.text = payload.to_vec();
                    }
                    head.messages += 1;
                    head.last = now;
                }
                TEXT => {
                    let answer: Value = serde_json::from_slice(payload)?;
                    if answer["result"].is_null() {
                        return Err(answer.to_string().into());
                    }
                    *unanswered -= 1;
                    send_next(&mut requests, stream)?;
                }
                PING => stream.write_all(&masked(PONG, payload))?,
                CLOSE if is_closing => is_closed = true,
                CLOSE => {
                    return Err(format!(
                        "a session was closed: {:?}",
                        payload.escape_ascii().to_string()
                    )
                    .into());
                }
                _ => {}
            }
            Ok(())
        })?;
        let session = &mut self.all[index];
        session.requests = requests;
        if is_closed {
            self.open -= 1;
            self.poll.registry().deregister(&mut session.stream)?;
            session.stream.shutdown(Shutdown::Both)?;
        } else if !is_open {
            return Err("a session ended without a close".into());
        }
        Ok(())
    }

    fn close(&mut self) -> Outcome<()> {
        for session in &mut self.all {
            session.is_closing = true;
            session
                .stream
                .write_all(&masked(CLOSE, &1000_u16.to_be_bytes()))?;
        }
        Ok(())
    }
}

fn send_next(requests: &mut Vec<String>, stream: &mut TcpStream) -> Outcome<()> {
    match requests.pop() {
        Some(text) => Ok(stream.write_all(&masked(TEXT, text.as_bytes()))?),
        None => Ok(()),
    }
}

fn is_notification(start: &[u8]) -> bool {
    start
        .windows(18)
        .any(|part| part == br#""eth_subscription""#)
}

/// The block of a notification: its first `number` or `blockNumber`.
fn number(payload: &[u8]) -> Outcome<u64> {
    const NAME: &[u8] = br#"umber":"0x"#;
    let at = payload.windows(NAME.len()).position(|part| part == NAME);
    let digits = &payload[at.ok_or("a notification without a number")? + NAME.len()..];
    let end = digits.iter().position(|byte| *byte == b'"').unwrap_or(0);
    Ok(u64::from_str_radix(
        std::str::from_utf8(&digits[..end])?,
        16,
    )?)
}

fn json_of(number: u64, head: &HeadMessages) -> Value {
    json!({
        "number": number, "messages": head.messages, "first": head.first as u64, "last": head.last as u64,
        "bytes": head.text.len(), "text": String::from_utf8_lossy(&head.text),
    })
}

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
}

/// Drives separate connections for `time`; returns the number of answers, the seconds, and the 99th
/// percentile of the latency.
fn drive(
    protocol: Protocol,
    (server, path): (SocketAddr, &str),
    (body, bytes): (&str, usize),
    connections: usize,
    time: Duration,
) -> Outcome<Value> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let mut all = HashMap::new();
    let request = protocol.request(server, path, body);
    for token in 0..connections {
        let mut socket = connect(server, None)?;
        if protocol == Protocol::Ws {
            shake_hands(&mut socket, server, path)?;
        }
        all.insert(token, Connection::new(socket, protocol, &poll, token)?);
    }
    let began = Instant::now();
    let mut sent = vec![began; connections];
    for connection in all.values_mut() {
        connection.stream.write_all(&request)?;
    }
    let mut buffer = vec![0; 1 << 18];
    let mut latencies: Vec<Duration> = Vec::new();
    while !all.is_empty() {
        poll.poll(&mut events, Some(Duration::from_secs(10)))?;
        if events.is_empty() {
            return Err("no answer within 10 s".into());
        }
        for event in &events {
            let token = event.token().0;
            let Some(connection) = all.get_mut(&token) else {
                continue;
            };
            let mut is_done = false;
            let is_open = connection.read(&mut buffer, |stream, opcode, payload| {
                if opcode == PING {
                    return Ok(stream.write_all(&masked(PONG, payload))?);
                }
                if opcode != TEXT || payload.len() != bytes {
                    let text = payload[..payload.len().min(300)].escape_ascii();
                    return Err(format!("{} bytes, not {bytes}: {text}", payload.len()).into());
                }
                let now = Instant::now();
                latencies.push(now - sent[token]);
                sent[token] = now;
                is_done = now - began >= time;
                if !is_done {
                    stream.write_all(&request)?;
                }
                Ok(())
            })?;
            if is_done {
                all.remove(&token);
            } else if !is_open {
                return Err("a connection ended under load".into());
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let p99 = latencies
        .get(latencies.len() * 99 / 100)
        .map_or(0, Duration::as_micros);
    Ok(json!({ "answers": latencies.len(), "seconds": seconds, "p99_us": p99 as u64 }))
}

/// Reads lines of stdin on a thread; each line wakes the poll.
fn commands(waker: Arc<Waker>) -> Receiver<String> {
    let (send, receive) = sync_channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() || waker.wake().is_err() {
                return;
            }
        }
        drop(send);
        // An error means that the poll is gone.
        let _ = waker.wake();
    });
    receive
}

fn main() -> Outcome<()> {
    let poll = Poll::new()?;
    // Held here too, because dropping the waker loses a wake-up that is not polled yet.
    let waker = Arc::new(Waker::new(poll.registry(), Token(usize::MAX))?);
    let commands = commands(Arc::clone(&waker));
    let mut events = Events::with_capacity(4096);
    let mut sessions = Sessions {
        poll,
        all: Vec::new(),
        open: 0,
        unanswered: 0,
        by_number: BTreeMap::new(),
        buffer: vec![0; 1 << 16],
    };
    loop {
        let command = match commands.try_recv() {
            Ok(line) => serde_json::from_str(&line)?,
            Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => {
                sessions.turn(&mut events, Duration::from_secs(3600))?;
                continue;
            }
        };
        println!("{}", run(command, &mut sessions, &mut events)?);
    }
}

fn run(command: Command, sessions: &mut Sessions, events: &mut Events) -> Outcome<Value> {
    // Waiting for heads never sleeps: waking this process would cost the server time that remote
    // clients do not cost it.
    let timeout = match command {
        Command::Heads { .. } => Duration::ZERO,
        _ => Duration::from_secs(1),
    };
    let mut wait = |sessions: &mut Sessions, seconds, is_done: &dyn Fn(&Sessions) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        while !is_done(sessions) {
            if Instant::now() >= deadline {
                let Sessions {
                    open, unanswered, ..
                } = sessions;
                return Err(format!(
                    "not within {seconds} s: {open} open, {unanswered} unanswered"
                ));
            }
            let result = sessions.turn(events, timeout);
            result.map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    match command {
        Command::Open {
            server,
            path,
            count,
            from,
        } => {
            sessions.open(server, &path, count, &from)?;
            Ok(json!({ "open": sessions.open }))
        }
        Command::Ask { texts } => {
            sessions.ask(texts)?;
            wait(sessions, 60, &|sessions| sessions.unanswered == 0)?;
            Ok(json!({ "open": sessions.open }))
        }
        Command::Heads {
            after,
            count,
            messages,
            seconds,
        } => {
            let heads = |sessions: &Sessions| -> Vec<Value> {
                let later = sessions.by_number.range(after + 1..);
                let complete = later.filter(|(_, head)| head.messages >= messages);
                complete
                    .take(count)
                    .map(|(number, head)| json_of(*number, head))
                    .collect()
            };
            wait(sessions, seconds, &|sessions| {
                heads(sessions).len() >= count
            })?;
            Ok(json!({ "heads": heads(sessions) }))
        }
        Command::Request {
            over,
            server,
            path,
            body,
            bytes,
            connections,
            seconds,
        } => {
            let time = Duration::from_secs_f64(seconds);
            drive(over, (server, &path), (&body, bytes), connections, time)
        }
        Command::Close => {
            sessions.close()?;
            wait(sessions, 60, &|sessions| sessions.open == 0)?;
            sessions.all.clear();
            Ok(json!({ "open": 0 }))
        }
    }
}
