//! A proxy of HTTP and WebSocket that gives each request to the next process.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// How many processes get a request that the one before has left without an answer.
#[cfg(feature = "all-tests")]
const TRIES_MAX: usize = 4;

/// The header of an answer that names the process that gave it.
#[cfg(feature = "all-tests")]
pub(crate) const ANSWERED_BY: &str = "x-answered-by";

/// A proxy before several processes, until the test process ends.
pub(crate) struct RoundRobin {
    pub(crate) address: SocketAddr,
    #[cfg(feature = "all-tests")]
    shared: Arc<Shared>,
}

struct Shared {
    processes: Mutex<Vec<SocketAddr>>,
    /// Processes that get a request, at most.
    tries: usize,
    /// Requests that no process has answered with 200.
    failed: AtomicUsize,
}

impl RoundRobin {
    /// Each request goes to one process: what that one does not answer has failed.
    pub(crate) fn of(processes: &[SocketAddr]) -> Self {
        Self::start(processes, 1)
    }

    /// A request goes to the next process if the one before takes no connection, or ends it before
    /// its answer is complete. `deploy/haproxy.cfg` does so unless an answer has begun; clients
    /// that do not try again by themselves need the rest.
    #[cfg(feature = "all-tests")]
    pub(crate) fn redispatching(processes: &[SocketAddr]) -> Self {
        Self::start(processes, TRIES_MAX)
    }

    fn start(processes: &[SocketAddr], tries: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            processes: Mutex::new(processes.to_vec()),
            tries,
            failed: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&accepting);
                // A client or a process that ends its connection ends this one.
                thread::spawn(move || relay(client, &shared));
            }
        });
        Self {
            address,
            #[cfg(feature = "all-tests")]
            shared,
        }
    }

    /// Gives requests to this process too.
    #[cfg(feature = "all-tests")]
    pub(crate) fn add(&self, process: SocketAddr) {
        self.shared.lock().push(process);
    }

    /// Gives no more requests to this process.
    #[cfg(feature = "all-tests")]
    pub(crate) fn remove(&self, process: SocketAddr) {
        self.shared.lock().retain(|one| *one != process);
    }

    /// Requests that were not answered with 200, besides those for sessions.
    #[cfg(feature = "all-tests")]
    pub(crate) fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> io::Result<SocketAddr> {
        let mut processes = self.lock();
        let next = *processes.first().ok_or(io::ErrorKind::NotConnected)?;
        processes.rotate_left(1);
        Ok(next)
    }

    /// Sends a request to the next process, and to others if that one does not answer.
    fn send(&self, request: &Request) -> io::Result<(TcpStream, Vec<u8>)> {
        let attempt = || request.send(self.next()?);
        let mut answer = attempt();
        for _ in 1..self.tries {
            if answer.is_ok() {
                break;
            }
            answer = attempt();
        }
        let is_good = |(_, bytes): &(_, Vec<u8>)| bytes.starts_with(b"HTTP/1.1 200 ");
        if !request.upgrades && !answer.as_ref().is_ok_and(is_good) {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }
}

/// A request as it is passed on.
struct Request {
    bytes: Vec<u8>,
    /// Whether the connection is a session afterwards.
    upgrades: bool,
}

impl Request {
    /// Reads a request; `None` if the client sends none.
    fn read(client: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let (mut head, mut length, mut upgrades) = (String::new(), 0, false);
        loop {
            let mut line = String::new();
            if client.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let lower = line.to_lowercase();
            if line == "\r\n" {
                break;
            }
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            upgrades |= lower.starts_with("upgrade:");
            if !lower.starts_with("connection:") {
                head += &line;
            }
        }
        // The client has to connect again for the next request.
        head += match upgrades {
            true => "connection: upgrade\r\n\r\n",
            false => "connection: close\r\n\r\n",
        };
        let mut bytes = head.into_bytes();
        let at = bytes.len();
        bytes.resize(at + length, 0);
        client.read_exact(&mut bytes[at..])?;
        Ok(Some(Self { bytes, upgrades }))
    }

    /// Sends it to a process; returns the connection and the answer: of a session, its beginning.
    fn send(&self, process: SocketAddr) -> io::Result<(TcpStream, Vec<u8>)> {
        let mut server = TcpStream::connect(process)?;
        server.set_nodelay(true)?;
        server.write_all(&self.bytes)?;
        let mut answer = Vec::new();
        if self.upgrades {
            answer.resize(16 << 10, 0);
            let count = server.read(&mut answer)?;
            answer.truncate(count);
        } else {
            server.read_to_end(&mut answer)?;
        }
        if answer.is_empty() || !self.upgrades && !is_complete(&answer) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        #[cfg(feature = "all-tests")]
        name_process(&mut answer, process);
        Ok((server, answer))
    }
}

/// Adds [`ANSWERED_BY`] after the status line.
#[cfg(feature = "all-tests")]
fn name_process(answer: &mut Vec<u8>, process: SocketAddr) {
    if let Some(end) = answer.windows(2).position(|bytes| bytes == b"\r\n") {
        let line = format!("{ANSWERED_BY}: {process}\r\n");
        answer.splice(end + 2..end + 2, line.into_bytes());
    }
}

/// Whether an answer has the length that it states.
fn is_complete(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return false;
    };
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let head = String::from_utf8_lossy(head).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    match length {
        Some(length) => length.trim().parse() == Ok(body.len()),
        None => body.ends_with(b"0\r\n\r\n"),
    }
}

/// Passes on one request and its answer, or a session.
fn relay(client: TcpStream, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut to_client = client.try_clone()?;
    let mut from_client = BufReader::new(client);
    let Some(request) = Request::read(&mut from_client)? else {
        return Ok(());
    };
    let (mut server, begin) = shared.send(&request)?;
    if request.upgrades {
        let mut to_server = server.try_clone()?;
        thread::spawn(move || {
            let _ = io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Both);
        });
    }
    to_client.write_all(&begin)?;
    let copied = io::copy(&mut server, &mut to_client);
    let _ = to_client.shutdown(Shutdown::Both);
    copied.map(drop)
}
