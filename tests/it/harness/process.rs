//! The program as a child process, and its output.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{Connection, KEY, PATIENCE, Response, scratch, wait_until};

/// The output of a child process, line by line.
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

    /// Waits until `find` returns a value for the text so far; panics if the process closes its
    /// pipes first.
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
                panic!("{what} is missing from the output:\n{text}");
            }
            captured = self.0.1.wait_timeout(captured, left).unwrap().0;
        }
    }

    /// The lines so far that have this text.
    fn lines_with(&self, part: &str) -> String {
        let captured = self.0.0.lock().unwrap();
        let lines = captured.text.lines().filter(|line| line.contains(part));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Waits until the process has closed its pipes, and returns the whole text.
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

/// A child process that is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    /// Its standard output and error, in order of arrival.
    pub(crate) output: Output,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::with_stdin(command, Stdio::null())
    }

    pub(crate) fn with_stdin(command: &mut Command, stdin: Stdio) -> Self {
        let mut child = command
            .stdin(stdin)
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

    /// KiB that are resident.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.kib("VmRSS:")
    }

    /// The most KiB that were ever resident.
    #[cfg(feature = "all-tests")]
    pub(crate) fn peak_resident_kib(&self) -> u64 {
        self.kib("VmHWM:")
    }

    fn kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse().unwrap()
    }

    /// Whether its main thread has ended, as it has when the process exits. A thread that waits in
    /// the kernel, for a disk, keeps the process until it is answered.
    #[cfg(feature = "all-tests")]
    pub(crate) fn has_exited(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        status.contains("\nState:\tZ")
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends SIGINT.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    /// Sends SIGKILL.
    #[cfg(feature = "all-tests")]
    pub(crate) fn kill(&self) {
        self.signal("KILL");
    }

    /// Sends SIGHUP.
    pub(crate) fn hang_up(&self) {
        self.signal("HUP");
    }

    /// Sends SIGSTOP, which leaves the sockets open, and returns when all threads have stopped.
    #[cfg(feature = "all-tests")]
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
    #[cfg(feature = "all-tests")]
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        // The shell's builtin: /bin/kill is not installed everywhere.
        let kill = format!("kill -{name} {}", self.id());
        let sent = Command::new("bash").args(["-c", &kill]).status().unwrap();
        assert!(sent.success(), "{kill}");
    }

    /// Waits for the process to end; returns its status and its whole output, which is the caller's
    /// to look at.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let text = std::mem::take(&mut self.output).into_text();
        (self.child.wait().unwrap(), text)
    }
}

impl Process {
    /// Waits for the process to end, which has to be with this exit code; returns its whole output.
    #[track_caller]
    pub(crate) fn check_end(self, code: i32) -> String {
        let (status, output) = self.wait();
        super::check(&output, &status.code(), &Some(code));
        output
    }
}

impl Drop for Process {
    /// Fails the test if a thread of nearhead panicked: no test makes a process panic that it ends.
    /// If the test has failed already, a process that has failed by itself may be the reason.
    fn drop(&mut self) {
        let ended = self.child.try_wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            if let Ok(Some(status)) = ended
                && !status.success()
            {
                let output = self.output.lines_with("");
                println!("process {} had ended, {status}:\n{output}", self.id());
            }
            return;
        }
        let panicked = self.output.lines_with("nearhead::panic");
        assert!(panicked.is_empty(), "the process panicked:\n{panicked}");
    }
}

/// The program with these arguments, and nothing in its environment but a folder of its own for
/// data, and that each look at the metrics sees them as they are.
pub(crate) fn nearhead<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearhead"));
    command
        .args(arguments)
        .env_clear()
        .env("NEARHEAD_METRICS_MAX_AGE", "0s")
        .current_dir(env!("CARGO_TARGET_TMPDIR"));
    keep_data_in_scratch(&mut command);
    command
}

/// Keeps what a nearhead writes out of the home folder, and apart from what others write.
pub(crate) fn keep_data_in_scratch(command: &mut Command) {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let started = STARTED.fetch_add(1, Ordering::Relaxed);
    command.env("NEARHEAD_DATA_DIR", scratch(&format!("data-{started}")));
}

/// The program on free ports with [`KEY`] and these arguments.
pub(crate) fn serving(arguments: &[&str]) -> Command {
    let fixed = [
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--api-key",
        KEY,
    ];
    nearhead(fixed.iter().chain(arguments).copied())
}

/// Runs a command to its end with this standard input.
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> std::process::Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // A command that reads nothing may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The same command, with its environment, run by another program: its arguments follow those of
/// `by`.
pub(crate) fn run_by(mut by: Command, command: &Command) -> Command {
    by.arg(command.get_program()).args(command.get_args());
    by.env_clear();
    let variables = command.get_envs();
    by.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    by
}

/// The same command, run by a shell after these commands, which see the variables.
#[cfg(feature = "all-tests")]
pub(crate) fn after(commands: &str, command: &Command, variables: &[(&str, &Path)]) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("set -e; {commands}; exec \"$@\""), "bash"]);
    let mut shell = run_by(shell, command);
    shell.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    shell.envs(variables.iter().copied());
    shell
}

/// The address in this line of a greeting, if it has one.
pub(crate) fn printed(greeting: &str, line: &str) -> Option<SocketAddr> {
    // Log lines contain URLs of upstreams too.
    let (_, after) = greeting.split_once(&format!("\n{line:7} http"))?;
    let after = after
        .strip_prefix('s')
        .unwrap_or(after)
        .strip_prefix("://")?;
    let end = after.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'));
    after[..end.unwrap_or(after.len())].parse().ok()
}

/// Sends a GET on a new connection.
#[track_caller]
pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    let mut connection = Connection::open(address, path);
    connection.send(format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes());
    connection.receive()
}

/// Times that a load is repeated to see whether its memory is given back.
const MEMORY_ROUNDS: usize = 6;
/// The longest time from the end of a load until its memory is given back.
const GIVEN_BACK: Duration = Duration::from_secs(3);

/// A running nearhead.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// Where the admin listener is; `None` if it is off.
    pub(crate) admin: Option<SocketAddr>,
}

impl Server {
    /// Starts the program on a free port with [`KEY`] and these arguments; returns when it is
    /// ready.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of(&mut serving(arguments))
    }

    /// The same with freed memory returned to the system at once, so that resident memory is memory
    /// in use.
    pub(crate) fn giving_memory_back(arguments: &[&str]) -> Self {
        Self::of(serving(arguments).env("MIMALLOC_PURGE_DELAY", "0"))
    }

    /// Asserts that memory is given back after `load`: no more is resident than a tenth above what
    /// was before it. The first times let tables and buffers grow to their size, which depends on
    /// what meets by chance; what is not given back is there each time.
    pub(crate) fn check_memory_is_back(&self, mut load: impl FnMut()) {
        load();
        let mut resident = vec![self.process.resident_kib()];
        while resident.len() < MEMORY_ROUNDS {
            let before = resident[resident.len() - 1];
            load();
            // What connections had may still be on its way back.
            let patience = Instant::now() + GIVEN_BACK;
            while Instant::now() < patience {
                if self.process.resident_kib() <= before + resident[0] / 10 {
                    return;
                }
                // The pause between two looks; no test depends on its length.
                std::thread::park_timeout(Duration::from_millis(20));
            }
            resident.push(self.process.resident_kib());
        }
        panic!("memory is not given back, KiB after each load: {resident:?}");
    }

    /// Starts `command` and waits until it is ready.
    pub(crate) fn of(command: &mut Command) -> Self {
        let server = Self::listening(command);
        wait_until("ready", || server.get("/ready").status == 200);
        server
    }

    /// Starts a program whose data is in this folder, and whose chain stays as it is.
    pub(crate) fn on_data(root: &Path, arguments: &[&str]) -> Self {
        let fixed = [
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
            "--block-time",
            "0s",
            "--data-dir",
            root.to_str().unwrap(),
        ];
        Self::of(&mut nearhead(fixed.iter().chain(arguments).copied()))
    }

    /// Starts `command` and waits until it prints the URL that it listens on.
    pub(crate) fn listening(command: &mut Command) -> Self {
        Self::greeting(Process::start(command))
    }

    /// Starts `command` on a socket that listens already, and waits until it prints the URL.
    pub(crate) fn inheriting(listener: &TcpListener, command: &Command) -> Self {
        Self::greeting(Self::inherit(listener, command))
    }

    /// Starts `command` on a socket that listens already, as a service manager does: its descriptor
    /// is 3.
    pub(crate) fn inherit(listener: &TcpListener, command: &Command) -> Process {
        // They are for the process with this id, and exec keeps it.
        let inherit = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
        let mut shell = Command::new("bash");
        shell.args(["-c", inherit, "bash"]);
        let mut shell = run_by(shell, command);
        let listener = listener.try_clone().unwrap();
        let stdin = Stdio::from(OwnedFd::from(listener));
        Process::with_stdin(&mut shell, stdin)
    }

    /// A process that prints the URL that it listens on.
    pub(crate) fn greeting(process: Process) -> Self {
        // The last line of the greeting.
        let greeting = process.output.wait_for("the greeting", |text| {
            Some(text.split_once("\ntry ")?.0.to_owned())
        });
        Self {
            address: printed(&greeting, "url").expect("the greeting has the URL"),
            admin: printed(&greeting, "admin"),
            process,
        }
    }

    /// Serves the execution-apis chain.
    #[cfg(feature = "all-tests")]
    pub(crate) fn execution_apis(arguments: &[&str]) -> Self {
        let folder = super::vectors();
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

    /// Opens a connection that posts to the path of [`KEY`].
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address, &format!("/v3/{KEY}"))
    }

    /// Sends a GET on a new connection.
    pub(crate) fn get(&self, path: &str) -> Response {
        get(self.address, path)
    }

    /// Sends a GET to the admin listener, on a new connection.
    #[track_caller]
    pub(crate) fn get_admin(&self, path: &str) -> Response {
        get(self.admin.expect("there is an admin listener"), path)
    }

    /// The value of a series, such as
    /// `nearhead_requests_total{method="eth_chainId",outcome="ok"}`.
    #[track_caller]
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let metrics = self.get_admin("/metrics");
        let line = metrics
            .text()
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no series {series}"))
            .parse()
            .unwrap()
    }
}
