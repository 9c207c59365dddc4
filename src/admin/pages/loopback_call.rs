use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpSocket,
    time::timeout,
};

use crate::{connections::OwnConnections, tls::OwnClient};

/// Longest answer that is read in bytes. A page with more would be slow.
const ANSWER_BYTES_MAX: usize = 2 << 20;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A call of JSON-RPC through the public listener.
///
/// The service makes it, and not the browser: so it needs no JavaScript, no hole in the policy of
/// what pages may reach, and it works where only the admin listener can be reached, such as through
/// a tunnel. It goes over a socket, so that keys, limits and prices hold as for any client. It has
/// no `Debug`, because it holds secrets.
#[derive(Clone)]
pub(super) struct LoopbackCall {
    /// The public listener's address.
    pub(super) to: SocketAddr,
    /// Where the connection is noted as the service's own.
    pub(super) own: OwnConnections,
    /// Makes TLS connections to it, if it speaks TLS.
    pub(super) tls: Option<OwnClient>,
    pub(super) key: String,
    /// A secret or a token beside the key, or nothing.
    pub(super) beside: String,
    pub(super) body: String,
    /// The line of a header that says for whom the call is made.
    pub(super) visitor: String,
}

/// What the public listener answered.
#[derive(Clone, Debug)]
pub(super) struct LoopbackAnswer {
    pub(super) status: u16,
    /// The header `X-Nearhead-Units`.
    pub(super) units: Option<String>,
    pub(super) body: String,
    /// Whether there is more of it.
    pub(super) is_cut: bool,
    pub(super) took: Duration,
}

impl LoopbackCall {
    /// Makes the call.
    ///
    /// # Errors
    /// The listener cannot be reached, or does not answer in time.
    pub(super) async fn make(&self) -> io::Result<LoopbackAnswer> {
        let began = Instant::now();
        let answer = timeout(PATIENCE, self.exchange()).await;
        let (bytes, is_cut) = answer.map_err(|_| io::ErrorKind::TimedOut)??;
        parse(&bytes, is_cut, began.elapsed()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    async fn exchange(&self) -> io::Result<(Vec<u8>, bool)> {
        let to = reachable(self.to);
        // Bound before it connects: the listener may ask whose it is at once.
        let (socket, any) = match to {
            SocketAddr::V4(_) => (TcpSocket::new_v4()?, (Ipv4Addr::UNSPECIFIED, 0).into()),
            SocketAddr::V6(_) => (TcpSocket::new_v6()?, (Ipv6Addr::UNSPECIFIED, 0).into()),
        };
        socket.bind(any)?;
        let _own = self.own.begin(socket.local_addr()?.port());
        let stream = socket.connect(to).await?;
        match &self.tls {
            Some(tls) => self.exchange_over(tls.connect(stream).await?).await,
            None => self.exchange_over(stream).await,
        }
    }

    async fn exchange_over(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> io::Result<(Vec<u8>, bool)> {
        stream.write_all(self.request()?.as_bytes()).await?;
        let mut bytes = Vec::new();
        let most = ANSWER_BYTES_MAX as u64;
        (&mut stream).take(most).read_to_end(&mut bytes).await?;
        let is_cut = bytes.len() == ANSWER_BYTES_MAX;
        Ok((bytes, is_cut))
    }

    /// In HTTP/1.0, so that the body has no chunks and ends with the connection.
    fn request(&self) -> io::Result<String> {
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_word(&self.key) || !is_word(&self.beside) || self.key.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (path, bearer) = match self.beside.as_str() {
            "" => (String::new(), &self.key),
            beside_key => (format!("/{}", self.key), &beside_key.to_owned()),
        };
        // The key is a segment of the path: what would end it cannot be in a key.
        if path.contains(['?', '#', '%']) || self.key.contains('/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(format!(
            "POST /v3{path} HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {bearer}\r\n\
             user-agent: nearhead-dashboard/{}\r\ncontent-type: application/json\r\n\
             {}\r\ncontent-length: {}\r\n\r\n{}",
            reachable(self.to),
            env!("CARGO_PKG_VERSION"),
            self.visitor,
            self.body.len(),
            self.body,
        ))
    }
}

/// The address at which this machine reaches a listener.
pub(super) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn parse(bytes: &[u8], is_cut: bool, took: Duration) -> Option<LoopbackAnswer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let units = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_units = name.eq_ignore_ascii_case("x-nearhead-units");
        is_units.then(|| value.trim().to_owned())
    });
    Some(LoopbackAnswer {
        status,
        units,
        body: String::from_utf8_lossy(&bytes[end + 4..]).into_owned(),
        is_cut,
        took,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn call(key: &str, beside: &str) -> LoopbackCall {
        LoopbackCall {
            to: "0.0.0.0:8545".parse().unwrap(),
            own: OwnConnections::default(),
            tls: None,
            key: key.to_owned(),
            beside: beside.to_owned(),
            body: "{}".to_owned(),
            visitor: "x-visitor: 192.0.2.1".to_owned(),
        }
    }

    #[test]
    fn a_call_has_its_key_in_a_header() {
        for (key, beside, path, bearer) in [
            ("abc", "", "/v3 ", "Bearer abc\r\n"),
            ("abc", "secret", "/v3/abc ", "Bearer secret\r\n"),
        ] {
            let request = call(key, beside).request().unwrap();
            assert!(
                request.starts_with(&format!("POST {path}HTTP/1.0\r\nhost: 127.0.0.1:8545\r\n"))
            );
            assert!(request.contains(bearer), "{request}");
            assert!(
                request.contains("\r\nx-visitor: 192.0.2.1\r\n"),
                "{request}"
            );
            assert!(
                request.ends_with("content-length: 2\r\n\r\n{}"),
                "{request}"
            );
        }
        for (key, beside) in [
            ("", ""),
            ("a\r\nx: y", ""),
            ("a b", ""),
            ("a", "b\r\nx: y"),
            ("a?b", "secret"),
            ("../health", "secret"),
        ] {
            assert!(call(key, beside).request().is_err(), "{key:?} {beside:?}");
        }
    }

    #[test]
    fn an_answer_is_read() {
        let text = b"HTTP/1.0 200 OK\r\nX-Nearhead-Units: 3\r\ncontent-length: 2\r\n\r\n{}";
        let answer = parse(text, false, Duration::ZERO).unwrap();
        assert_eq!((answer.status, answer.units.as_deref()), (200, Some("3")));
        assert_eq!(answer.body, "{}");
        for text in [
            &b""[..],
            b"HTTP/1.0 200 OK\r\n",
            b"x\r\n\r\n",
            b"HTTP/1.0 x\r\n\r\n",
        ] {
            assert!(parse(text, false, Duration::ZERO).is_none());
        }
    }
}
