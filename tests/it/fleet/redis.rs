//! A Redis of a test's own, and a sentinel that watches it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU16, Ordering},
};

use crate::harness::{Process, installed, scratch, wait_until};

/// Ports that no system gives away by itself.
static NEXT_PORT: AtomicU16 = AtomicU16::new(21_000);

/// A running Redis. It is killed when this is dropped.
pub(super) struct Redis {
    process: Option<Process>,
    folder: PathBuf,
    port: u16,
    arguments: Vec<String>,
}

impl Redis {
    /// Starts one that has nothing, and writes each change to its append-only file.
    pub(super) fn start(name: &str) -> Self {
        let appended = ["--appendonly", "yes", "--appendfsync", "always"];
        Self::start_with(name, &appended)
    }

    /// Starts one that has nothing, with these arguments.
    pub(super) fn start_with(name: &str, arguments: &[&str]) -> Self {
        let mut redis = Self {
            process: None,
            folder: scratch(name),
            port: free_port(),
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
        };
        redis.run();
        redis
    }

    fn run(&mut self) {
        let mut command = server();
        let port = self.port.to_string();
        let folder = self.folder.to_str().unwrap();
        command.args(["--port", &port, "--bind", "127.0.0.1", "--dir", folder]);
        command.args(["--save", ""]).args(&self.arguments);
        self.process = Some(Process::start(&mut command));
        wait_until("redis answers", || {
            let is_there = TcpStream::connect(self.address()).is_ok();
            // One with a password answers too.
            is_there
                && ["+PONG", "-NOAUTH"]
                    .iter()
                    .any(|text| self.call(&[b"PING"]).starts_with(text))
        });
    }

    /// The process, to pause it.
    pub(super) fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Kills the process.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the process again, with or without its data.
    pub(super) fn restart(&mut self, with_data: bool) {
        if !with_data {
            fs::remove_dir_all(&self.folder).unwrap();
            fs::create_dir_all(&self.folder).unwrap();
        }
        self.run();
    }

    /// Becomes a replica of this server, which it reaches at this address; returns when it has what
    /// that one has.
    pub(super) fn replicate(&self, master: &Self, at: SocketAddr) {
        // A master waits for five seconds for more replicas.
        master.call(&[b"CONFIG", b"SET", b"repl-diskless-sync-delay", b"0"]);
        let port = at.port().to_string();
        self.call(&[b"REPLICAOF", b"127.0.0.1", port.as_bytes()]);
        wait_until("a replica of Redis", || {
            self.replication().contains("master_link_status:up")
        });
    }

    /// What it says of its replication.
    pub(super) fn replication(&self) -> String {
        self.call(&[b"INFO", b"replication"])
    }

    /// Runs a script with these keys and arguments; returns the answer.
    pub(super) fn eval(&self, script: &str, keys: &[&str], arguments: &[&str]) -> String {
        let count = keys.len().to_string();
        let head = ["EVAL", script, &count];
        let words: Vec<&[u8]> = [&head, keys, arguments]
            .into_iter()
            .flatten()
            .map(|word| word.as_bytes())
            .collect();
        self.call(&words)
    }

    /// Sends a command; returns the answer: its first line, or all of a bulk string.
    pub(super) fn call(&self, words: &[&[u8]]) -> String {
        call(self.address(), words)
    }

    /// Sends a command that answers a list of numbers.
    pub(super) fn numbers(&self, words: &[&[u8]]) -> Vec<i64> {
        let mut lines = send(self.address(), words).lines();
        let mut line = || lines.next().unwrap().unwrap();
        let first = line();
        let count = first.strip_prefix('*').unwrap_or_else(|| panic!("{first}"));
        let numbers = (0..count.parse().unwrap()).map(|_| line()[1..].parse().unwrap());
        numbers.collect()
    }
}

/// A sentinel, which decides alone. It is killed when this is dropped.
pub(super) struct Sentinel {
    _process: Process,
    address: SocketAddr,
}

impl Sentinel {
    /// Watches this master under this name; `folder` is that of its scratch files.
    pub(super) fn of(master: SocketAddr, name: &str, folder: &str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let folder = scratch(folder);
        let file = folder.join("sentinel.conf");
        let (ip, port) = (master.ip(), master.port());
        // It would undo a link between master and replica after the last of these times.
        let lines = [
            format!("port {}", address.port()),
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", folder.display()),
            format!("sentinel monitor {name} {ip} {port} 1"),
            format!("sentinel down-after-milliseconds {name} 500"),
            format!("sentinel failover-timeout {name} 120000"),
        ];
        fs::write(&file, lines.join("\n") + "\n").unwrap();
        let process = Process::start(server().arg(&file).arg("--sentinel"));
        wait_until("the sentinel answers", || {
            TcpStream::connect(address).is_ok()
        });
        Self {
            _process: process,
            address,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Whether this is the master by now.
    pub(super) fn follows(&self, master: SocketAddr) -> bool {
        let info = call(self.address, &[b"INFO", b"sentinel"]);
        info.contains(&format!("address={master},"))
    }

    /// Whether it knows that the master has this number of replicas.
    pub(super) fn knows_replicas(&self, count: usize) -> bool {
        let info = call(self.address, &[b"INFO", b"sentinel"]);
        info.contains(&format!("slaves={count}"))
    }
}

/// Sends a command to a server; returns the answer: its first line, or all of a bulk string.
fn call(address: SocketAddr, words: &[&[u8]]) -> String {
    let mut answer = send(address, words);
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    let line = line.trim_end().to_owned();
    let Some(length) = line.strip_prefix('$').and_then(|text| text.parse().ok()) else {
        return line;
    };
    let mut bytes: Vec<u8> = vec![0; length];
    answer.read_exact(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends a command to a server; returns where the answer comes.
fn send(address: SocketAddr, words: &[&[u8]]) -> BufReader<TcpStream> {
    let mut connection = TcpStream::connect(address).unwrap();
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).into_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    connection.write_all(&request).unwrap();
    BufReader::new(connection)
}

/// The program: a Redis, or a sentinel.
fn server() -> Command {
    Command::new(installed("tests/.tools/bin/redis-server"))
}

/// A port at which nobody listens.
pub(super) fn free_port() -> u16 {
    loop {
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
