//! A WebSocket client at frame level: it sends exactly the bytes that a test writes.

use std::{
    io::{BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Instant,
};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::harness::{self, PATIENCE};

pub(super) const TEXT: u8 = 1;
#[cfg(feature = "all-tests")]
pub(super) const BINARY: u8 = 2;
pub(super) const CONTINUATION: u8 = 0;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;

/// A received frame, or the end of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A frame that is a whole message or a control frame.
    Frame(u8, Vec<u8>),
    /// The connection ended.
    End,
}

/// The other side has closed the connection.
#[derive(Debug)]
pub(super) struct ConnectionEnded;

pub(crate) struct Client {
    pub(super) stream: BufReader<TcpStream>,
    /// Notifications that arrived before an awaited answer.
    pub(super) pending: Vec<Value>,
}

/// The request line and the headers of a handshake.
pub(crate) fn handshake(path: &str, headers: &[&str]) -> String {
    let mut head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n");
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head + "\r\n"
}

pub(crate) const HEADERS: &[&str] = &[
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
];

/// Connects, with a receive buffer of `receive_bytes` if given.
pub(crate) fn connect(address: SocketAddr, receive_bytes: Option<usize>) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

impl Client {
    /// Opens a session; panics if it is refused.
    pub(crate) fn open(address: SocketAddr, path: &str) -> Self {
        Self::on(connect(address, None), path)
    }

    /// Opens a session with these further headers in its handshake.
    pub(crate) fn open_with(address: SocketAddr, path: &str, headers: &[&str]) -> Self {
        Self::on_with(connect(address, None), path, &[HEADERS, headers].concat())
    }

    /// Opens a session on this connection.
    pub(crate) fn on(stream: TcpStream, path: &str) -> Self {
        Self::on_with(stream, path, HEADERS)
    }

    fn on_with(stream: TcpStream, path: &str, headers: &[&str]) -> Self {
        Self::shake_hands(stream, path, headers).unwrap()
    }

    /// Opens a session on this connection; `None` if the connection ends before it is open.
    #[cfg(feature = "all-tests")]
    pub(crate) fn try_on(stream: TcpStream, path: &str) -> Option<Self> {
        Self::shake_hands(stream, path, HEADERS).ok()
    }

    /// Panics if the session is refused.
    fn shake_hands(stream: TcpStream, path: &str, headers: &[&str]) -> std::io::Result<Self> {
        let mut client = Self {
            stream: BufReader::new(stream),
            pending: Vec::new(),
        };
        client.send_bytes(handshake(path, headers).as_bytes());
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        // Key and answer are the example of RFC 6455 §1.3.
        let accept = "sec-websocket-accept: s3ppLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert!(
            head.to_lowercase().contains(&accept.to_lowercase()),
            "{head}"
        );
        Ok(client)
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        match self.stream.get_mut().write_all(bytes) {
            // The server may send a close frame and hang up before it has read everything.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                ) => {}
            result => result.unwrap(),
        }
    }

    /// Sends a masked frame with this first byte.
    pub(super) fn send(&mut self, first: u8, payload: &[u8]) {
        self.send_bytes(&frame(first, payload));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.send(0x80 | TEXT, text.as_bytes());
    }

    /// The next frame.
    pub(super) fn receive(&mut self) -> Received {
        match self.try_receive() {
            Ok((opcode, payload)) => Received::Frame(opcode, payload),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                Received::End
            }
            Err(error) => panic!("no frame: {error}"),
        }
    }

    fn try_receive(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head)?;
        assert_eq!(
            head[0] & 0xf0,
            0x80,
            "an unfragmented frame without reserved bits"
        );
        assert_eq!(head[1] & 0x80, 0, "servers do not mask");
        let len = match head[1] {
            126 => {
                let mut len = [0; 2];
                self.stream.read_exact(&mut len)?;
                u64::from(u16::from_be_bytes(len))
            }
            127 => {
                let mut len = [0; 8];
                self.stream.read_exact(&mut len)?;
                u64::from_be_bytes(len)
            }
            len => u64::from(len),
        };
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        self.stream.read_exact(&mut payload)?;
        Ok((head[0] & 0x0f, payload))
    }

    /// The next message as JSON; answers pings.
    #[track_caller]
    pub(super) fn message(&mut self) -> Value {
        self.message_or_end()
            .unwrap_or_else(|other| panic!("not a message: {other:?}"))
    }

    /// The next message as JSON, or what comes instead; answers pings.
    #[track_caller]
    fn message_or_end(&mut self) -> Result<Value, Received> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Pings do not extend the wait.
            assert!(Instant::now() < deadline, "no message arrived");
            match self.receive() {
                Received::Frame(TEXT, payload) => return Ok(harness::json(&payload)),
                Received::Frame(PING, payload) => self.send(0x80 | PONG, &payload),
                other => return Err(other),
            }
        }
    }

    /// The next answer; queues notifications that arrive before it.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Value {
        self.answer_or_end()
            .unwrap_or_else(|other| panic!("not an answer: {other:?}"))
    }

    /// The next answer; `None` if the session ends before.
    #[cfg(feature = "all-tests")]
    #[track_caller]
    pub(crate) fn try_answer(&mut self) -> Option<Value> {
        self.answer_or_end().ok()
    }

    #[track_caller]
    fn answer_or_end(&mut self) -> Result<Value, Received> {
        loop {
            let message = self.message_or_end()?;
            if message.get("method").is_none() {
                return Ok(message);
            }
            self.pending.push(message);
        }
    }

    /// Calls a method and returns its answer.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let request =
            serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.text(&request.to_string());
        self.answer()
    }

    /// The `params` of the next notification.
    #[track_caller]
    pub(crate) fn notification(&mut self) -> Value {
        self.next_notification()
            .unwrap_or_else(|other| panic!("not a notification: {other:?}"))
    }

    /// The `params` of the next notification, or the code with which the session ends; `None` if it
    /// is cut off.
    #[cfg(feature = "all-tests")]
    #[track_caller]
    pub(crate) fn notification_or_end(&mut self) -> Result<Value, Option<u16>> {
        self.next_notification().map_err(|other| match other {
            Received::Frame(CLOSE, payload) => {
                let code = payload
                    .first_chunk()
                    .map_or(1005, |code| u16::from_be_bytes(*code));
                Some(code)
            }
            Received::End => None,
            other => panic!("not a notification: {other:?}"),
        })
    }

    #[track_caller]
    fn next_notification(&mut self) -> Result<Value, Received> {
        let message = if self.pending.is_empty() {
            self.message_or_end()?
        } else {
            self.pending.remove(0)
        };
        assert_eq!(message["method"], "eth_subscription", "{message}");
        Ok(message["params"].clone())
    }

    /// Reads up to the close frame; returns its code and reason.
    #[track_caller]
    pub(crate) fn close_code(&mut self) -> (u16, String) {
        loop {
            match self.receive() {
                Received::Frame(CLOSE, payload) if payload.len() >= 2 => {
                    let reason = String::from_utf8(payload[2..].to_vec()).unwrap();
                    return (u16::from_be_bytes([payload[0], payload[1]]), reason);
                }
                Received::Frame(CLOSE, _) => return (1005, String::new()),
                Received::Frame(..) => {}
                Received::End => panic!("the connection ended without a close frame"),
            }
        }
    }

    /// Sends what the socket accepts without blocking; returns the number of bytes sent.
    pub(super) fn try_send(&mut self, bytes: &[u8]) -> Result<usize, ConnectionEnded> {
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        let result = loop {
            match stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(sent),
                Err(_) => break Err(ConnectionEnded),
            }
            if sent == bytes.len() {
                break Ok(sent);
            }
        };
        stream.set_nonblocking(false).unwrap();
        result
    }

    /// Reads the header of a message over 65,535 bytes; returns its length.
    #[cfg(feature = "all-tests")]
    pub(super) fn begin_text(&mut self) -> usize {
        let mut header = [0; 10];
        self.stream.read_exact(&mut header).unwrap();
        assert_eq!(header[..2], [0x80 | TEXT, 127], "a large message");
        u64::from_be_bytes(header[2..].try_into().unwrap()) as usize
    }

    /// Reads one byte from the socket; `false` at the end of the connection.
    pub(super) fn read_byte(&mut self) -> bool {
        matches!(self.stream.get_mut().read(&mut [0]), Ok(1))
    }

    /// Reads until the connection ends.
    #[cfg(feature = "all-tests")]
    pub(crate) fn wait_end(&mut self) {
        while self.receive() != Received::End {}
    }
}

/// A masked frame with this first byte, as a client sends it.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut out = vec![first];
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
    out.extend_from_slice(&MASK);
    let masked = payload.iter().zip(MASK.iter().cycle());
    out.extend(masked.map(|(byte, mask)| byte ^ mask));
    out
}
