//! A raw HTTP/1.1 client.

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use super::{PATIENCE, json, request, wait_until};

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// As sent: compressed if the server compressed it.
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// An HTTP/1.1 connection that sends exactly the bytes that the test writes.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    path: String,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr, path: &str) -> Self {
        Self::on(Self::connect(address).unwrap(), path)
    }

    /// The same as soon as the kernel does not refuse it, as it does while a server is overloaded.
    /// If the server begins to refuse during an attempt, that ends with a reset.
    pub(crate) fn open_when_accepted(address: SocketAddr, path: &str) -> Self {
        use ErrorKind::{ConnectionRefused, ConnectionReset};
        let mut opened = Self::connect(address);
        wait_until("a connection is accepted", || match &opened {
            Err(error) if matches!(error.kind(), ConnectionRefused | ConnectionReset) => {
                opened = Self::connect(address);
                false
            }
            _ => true,
        });
        Self::on(opened.unwrap(), path)
    }

    /// The same as soon as a request is answered on it: then it is its key's. An overloaded server
    /// also ends connections that the kernel has accepted.
    pub(crate) fn open_when_answered(address: SocketAddr, path: &str) -> Self {
        let cheap = request(1, "eth_chainId", &Value::Array(Vec::new())).to_string();
        let mut opened = None;
        wait_until("a connection is answered", || {
            let mut client = Self::open_when_accepted(address, path);
            let post = client.request(&["content-type: application/json"], cheap.as_bytes());
            client.send_until_closed(&post);
            let is_good = |answer: Response| answer.status == 200;
            opened = client.try_receive().is_some_and(is_good).then_some(client);
            opened.is_some()
        });
        opened.unwrap()
    }

    fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Sends requests to this path on this connection.
    pub(crate) fn on(stream: TcpStream, path: &str) -> Self {
        Self {
            stream: BufReader::new(stream),
            path: path.to_owned(),
        }
    }

    /// The socket.
    #[cfg(feature = "all-tests")]
    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends bytes until the server closes the connection, which it may do before the last one.
    pub(crate) fn send_until_closed(&mut self, bytes: &[u8]) {
        use ErrorKind::{BrokenPipe, ConnectionReset};
        match self.stream.get_mut().write_all(bytes) {
            Err(error) if !matches!(error.kind(), BrokenPipe | ConnectionReset) => {
                panic!("{error}")
            }
            _ => {}
        }
    }

    /// A POST of `body` with host, content-length and these header lines.
    pub(crate) fn request(&self, headers: &[&str], body: &[u8]) -> Vec<u8> {
        let mut request = format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n",
            self.path,
            body.len()
        );
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        request
    }

    /// Posts JSON and returns the response.
    #[track_caller]
    pub(crate) fn post(&mut self, body: impl AsRef<[u8]>) -> Response {
        self.begin_post(body.as_ref());
        self.receive()
    }

    /// Posts JSON whose response [`Self::receive`] reads.
    #[track_caller]
    pub(crate) fn begin_post(&mut self, body: &[u8]) {
        let request = self.request(&["content-type: application/json"], body);
        self.send(&request);
    }

    /// The same for a client that has seen this block elsewhere.
    #[track_caller]
    pub(crate) fn begin_post_after(&mut self, min_block: &str, body: &[u8]) {
        let header = format!("x-nearhead-min-block: {min_block}");
        let request = self.request(&["content-type: application/json", &header], body);
        self.send(&request);
    }

    /// Calls a method with id 1 and returns the strictly parsed answer.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let request = request(1, method, params);
        let response = self.post(request.to_string());
        assert_eq!(response.status, 200, "{request}: {response:?}");
        json(&response.body)
    }

    /// Calls a method and returns its result.
    #[track_caller]
    pub(crate) fn result(&mut self, method: &str, params: &Value) -> Value {
        let mut answer = self.call(method, params);
        let result = answer.get_mut("result").map(Value::take);
        result.unwrap_or_else(|| panic!("{method} {params}: {answer}"))
    }

    /// Reads one response.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Response {
        self.try_receive()
            .unwrap_or_else(|| panic!("the server closed the connection instead of answering"))
    }

    /// Reads one response; `None` if the server closed the connection instead.
    #[track_caller]
    pub(crate) fn try_receive(&mut self) -> Option<Response> {
        let status_line = self.line()?;
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not a status line: {status_line}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().expect("headers end with an empty line");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a header has a colon");
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response {
            status,
            headers,
            body: Vec::new(),
        };
        let chunked = response.header("transfer-encoding") == Some("chunked");
        if status < 200 {
            return Some(response);
        }
        if chunked {
            loop {
                let size = self.line().expect("a chunk has a size");
                let size = usize::from_str_radix(&size, 16).expect("a chunk's size is hexadecimal");
                let chunk = self.exactly(size);
                response.body.extend(chunk);
                assert_eq!(
                    self.line().as_deref(),
                    Some(""),
                    "a chunk ends with an empty line"
                );
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = response
            .header("content-length")
            .map(|length| length.parse().unwrap())
        {
            response.body = self.exactly(length);
        }
        Some(response)
    }

    /// Waits until the server closes the connection, and drops the bytes that it still sends.
    #[track_caller]
    #[cfg(feature = "all-tests")]
    pub(crate) fn wait_closed(&mut self) {
        let mut rest = [0; 4096];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
                Err(error) => panic!("the server did not close the connection: {error}"),
            }
        }
    }

    /// Everything up to the end of the connection.
    #[cfg(feature = "all-tests")]
    pub(crate) fn rest(&mut self) -> String {
        let mut text = String::new();
        self.stream.read_to_string(&mut text).unwrap();
        text
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
            Ok(_) => Some(
                String::from_utf8(line)
                    .unwrap()
                    .trim_end_matches(['\r', '\n'])
                    .to_owned(),
            ),
        }
    }

    fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }
}
