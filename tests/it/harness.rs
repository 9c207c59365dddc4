//! What the tests stand on: the program as a child process, a raw HTTP client, strict JSON, one
//! `check`.

use std::{
    fmt::Debug,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;

/// How long anything that is waited for may take: a bound for a hang, never a measure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// The key that test servers are started with.
pub(crate) const KEY: &str = "integration-test-key";

/// Methods that only a session answers: `websocket::subscriptions` asks them.
pub(crate) const SESSION_METHODS: [&str; 2] = ["eth_subscribe", "eth_unsubscribe"];

/// Folder of the execution-apis vectors and chain.
pub(crate) fn vectors() -> PathBuf {
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/execution-apis"
    ));
    assert!(
        folder.join("chain.rlp").is_file(),
        "{} is missing: the execution-apis vectors are read from there",
        folder.display()
    );
    folder.to_path_buf()
}

/// A file of the project that tests/setup puts there, or the project has.
pub(crate) fn installed(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert!(
        path.exists(),
        "{} is missing: run tests/setup",
        path.display()
    );
    path
}

/// An empty folder of this name under the build directory.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Asserts that `actual` is `expected`, naming the case.
#[track_caller]
pub(crate) fn check<T: PartialEq + Debug>(case: &str, actual: &T, expected: &T) {
    assert!(
        actual == expected,
        "{case}\n expected: {expected:?}\n   actual: {actual:?}"
    );
}

/// Parses JSON and refuses what a lenient parser hides: a key that comes twice.
#[track_caller]
pub(crate) fn json(bytes: &[u8]) -> Value {
    let Strict(value) = serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(bytes)));
    value
}

/// A JSON value whose objects name every key once.
struct Strict(Value);

impl<'de> serde::Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Strict;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_str<E>(self, v: &str) -> Result<Strict, E> {
                Ok(Strict(v.into()))
            }
            fn visit_unit<E>(self) -> Result<Strict, E> {
                Ok(Strict(Value::Null))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<Strict, A::Error> {
                let mut items = Vec::new();
                while let Some(Strict(item)) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Strict(items.into()))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Strict, A::Error> {
                let mut members = serde_json::Map::new();
                while let Some((key, Strict(member))) = map.next_entry::<String, _>()? {
                    if members.contains_key(&key) {
                        return Err(serde::de::Error::custom(format!("key {key} comes twice")));
                    }
                    members.insert(key, member);
                }
                Ok(Strict(members.into()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The text that a child process writes, line by line, with a way to wait for some of it.
#[derive(Clone, Default)]
pub(crate) struct Output(Arc<(Mutex<Captured>, Condvar)>);

#[derive(Default)]
struct Captured {
    text: String,
    open_pipes: usize,
}

impl Output {
    fn capture(&self, pipe: impl Read + Send + 'static) {
        self.0.0.lock().unwrap().open_pipes += 1;
        let this = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut captured = this.0.0.lock().unwrap();
                captured.text.push_str(&line);
                captured.text.push('\n');
                this.0.1.notify_all();
            }
            this.0.0.lock().unwrap().open_pipes -= 1;
            this.0.1.notify_all();
        });
    }

    /// Waits until `find` sees what it looks for in the text; panics when the process closed its
    /// pipes before that.
    #[track_caller]
    pub(crate) fn wait_for<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut captured = self.0.0.lock().unwrap();
        loop {
            if let Some(found) = find(&captured.text) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if captured.open_pipes == 0 || left.is_zero() {
                let text = captured.text.clone();
                drop(captured);
                panic!("{what} did not come; the output was:\n{text}");
            }
            captured = self.0.1.wait_timeout(captured, left).unwrap().0;
        }
    }

    /// Everything that was written, once the process has closed its pipes.
    pub(crate) fn into_text(self) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut captured = self.0.0.lock().unwrap();
        while captured.open_pipes > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "the process did not end; the output was:\n{}",
                captured.text
            );
            captured = self.0.1.wait_timeout(captured, left).unwrap().0;
        }
        captured.text.clone()
    }
}

/// A child process that dies with its guard.
pub(crate) struct Process {
    child: Child,
    /// Its standard output and error, as they come.
    pub(crate) output: Output,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = Output::default();
        output.capture(child.stdout.take().unwrap());
        output.capture(child.stderr.take().unwrap());
        Self { child, output }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends SIGSTOP: the process keeps its sockets, and does nothing. Returns when all of its
    /// threads have stopped.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status"));
            status.is_ok_and(|status| status.contains("\nState:\tT"))
        };
        let threads = format!("/proc/{}/task", self.id());
        wait_until("stopped", || {
            std::fs::read_dir(&threads).unwrap().all(is_stopped)
        });
    }

    /// Sends SIGCONT.
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        // The shell's own: the program is not installed everywhere.
        let kill = format!("kill -{name} {}", self.id());
        let sent = Command::new("bash").args(["-c", &kill]).status().unwrap();
        assert!(sent.success(), "{kill}");
    }

    /// Waits for the end of the process: its status and everything that it wrote.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let text = self.output.clone().into_text();
        (self.child.wait().unwrap(), text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program with these arguments, no configuration taken from this process's environment.
pub(crate) fn nearhead<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearhead"));
    command
        .args(arguments)
        .env_clear()
        .current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

/// The program, to listen on a free port with [`KEY`], and with these arguments besides.
pub(crate) fn serving(arguments: &[&str]) -> Command {
    let fixed = ["--listen", "127.0.0.1:0", "--api-key", KEY];
    nearhead(fixed.iter().chain(arguments).copied())
}

/// A running nearhead.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts the program on a free port with [`KEY`] and these arguments besides; returns when it
    /// is ready.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of(&mut serving(arguments))
    }

    /// Waits until the process that `command` starts is ready.
    pub(crate) fn of(command: &mut Command) -> Self {
        let server = Self::listening(command);
        wait_until("ready", || server.get("/ready").status == 200);
        server
    }

    /// Waits until the process that `command` starts has said where it listens.
    pub(crate) fn listening(command: &mut Command) -> Self {
        let process = Process::start(command);
        let address = process.output.wait_for("the URL", |text| {
            // Not that of a node, which log lines have.
            let (_, after) = text.split_once("\nurl     http://")?;
            let end = after.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'))?;
            after[..end].parse().ok()
        });
        Self { process, address }
    }

    /// Serves the execution-apis chain.
    pub(crate) fn execution_apis(arguments: &[&str]) -> Self {
        let folder = vectors();
        let [genesis, chain] = ["genesis.json", "chain.rlp"].map(|name| folder.join(name));
        Self::files(&genesis, &chain, arguments)
    }

    /// Serves a chain of files.
    pub(crate) fn files(genesis: &Path, chain: &Path, arguments: &[&str]) -> Self {
        let source = [
            "--source",
            "files",
            "--genesis",
            genesis.to_str().unwrap(),
            "--chain",
            chain.to_str().unwrap(),
        ];
        Self::start(&source.iter().chain(arguments).copied().collect::<Vec<_>>())
    }

    /// A new connection that posts to the path of [`KEY`].
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address, &format!("/v3/{KEY}"))
    }

    /// GET on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Response {
        let mut connection = self.connect();
        connection
            .send(format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address).as_bytes());
        connection.receive()
    }

    /// The value of a metric's series, such as
    /// `nearhead_requests_total{method="eth_chainId",outcome="ok"}`.
    #[track_caller]
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let metrics = self.get("/metrics");
        let line = metrics
            .text()
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("there is no series {series}"))
            .parse()
            .unwrap()
    }
}

/// Looks at `state` until it holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut state: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !state() {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        // A pause between two looks; nothing is assumed of its length.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// As sent, compressed if it was.
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

/// An HTTP/1.1 connection with nothing hidden: what is sent is what the test wrote.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    path: String,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr, path: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream: BufReader::new(stream),
            path: path.to_owned(),
        }
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends bytes for as long as the server takes them: it may answer and close before the last
    /// one.
    pub(crate) fn send_until_closed(&mut self, bytes: &[u8]) {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self.stream.get_mut().write_all(bytes) {
            Err(error) if !matches!(error.kind(), BrokenPipe | ConnectionReset) => {
                panic!("{error}")
            }
            _ => {}
        }
    }

    /// A POST of `body` with these header lines besides host and content-length.
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

    /// Posts JSON and returns the answer.
    #[track_caller]
    pub(crate) fn post(&mut self, body: impl AsRef<[u8]>) -> Response {
        let request = self.request(&["content-type: application/json"], body.as_ref());
        self.send(&request);
        self.receive()
    }

    /// Calls a method: the strictly parsed answer to a request with id 1.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let request =
            serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
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

    /// Reads one answer.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Response {
        self.try_receive()
            .unwrap_or_else(|| panic!("the connection was closed instead of an answer"))
    }

    /// Reads one answer; `None` when the server closed the connection instead.
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

    /// Waits until the server closes the connection; what it still sent is dropped.
    #[track_caller]
    pub(crate) fn wait_closed(&mut self) {
        let mut rest = [0; 4096];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
                Err(error) => panic!("the server did not close the connection: {error}"),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer came: {error}"),
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
