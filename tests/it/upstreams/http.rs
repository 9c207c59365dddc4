//! HTTP/1.1 between what stands before an upstream and both of its sides: whole messages with any
//! body.

use std::{
    io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use crate::harness::PATIENCE;

/// A request or an answer.
pub(super) struct Message {
    /// The request line or the status line.
    pub(super) start: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// An answer that is made here.
    pub(super) fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let headers = headers
            .iter()
            .chain(&[("content-type", "application/json")]);
        Self {
            start: format!("HTTP/1.1 {status}"),
            headers: headers
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body: body.to_vec(),
        }
    }

    /// Reads a message; `None` if the other side has closed the connection.
    pub(super) fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let start = line(stream)?;
        if start.is_empty() {
            return Ok(None);
        }
        let mut headers = Vec::new();
        loop {
            let line = line(stream)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut message = Self {
            start,
            headers,
            body: Vec::new(),
        };
        if message.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = line(stream)?;
                let size = usize::from_str_radix(&size, 16).map_err(|_| malformed())?;
                message.read_body(stream, size)?;
                line(stream)?;
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = message.header("content-length") {
            let length = length.parse().map_err(|_| malformed())?;
            message.read_body(stream, length)?;
        }
        Ok(Some(message))
    }

    fn read_body(&mut self, stream: &mut impl Read, length: usize) -> io::Result<()> {
        let read = self.body.len();
        self.body.resize(read + length, 0);
        stream.read_exact(&mut self.body[read..])
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }

    /// Removes headers whose features the proxy cannot handle.
    pub(super) fn without(mut self, names: &[&str]) -> Self {
        self.headers
            .retain(|(name, _)| !names.contains(&name.as_str()));
        self
    }

    /// The bytes before the body, with its length, unless the connection is upgraded to another
    /// protocol.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.start);
        for (name, value) in &self.headers {
            if !["content-length", "transfer-encoding"].contains(&name.as_str()) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        if self.header("upgrade").is_none() {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        (head + "\r\n").into_bytes()
    }

    pub(super) fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let mut bytes = self.head();
        bytes.extend(&self.body);
        stream.write_all(&bytes)
    }
}

fn malformed() -> Error {
    Error::from(ErrorKind::InvalidData)
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}

/// A connection to an upstream.
pub(super) fn connect(upstream: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(upstream)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}
