//! A service manager such as systemd: what it is notified of, and the sockets that it passes on.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

#[cfg(feature = "all-tests")]
use crate::harness::Process;
use crate::harness::{KEY, PATIENCE, Server, check, nearhead, scratch, serving, wait_until};

/// The next notification of a process.
fn notified(socket: &UnixDatagram) -> String {
    let mut states = [0; 256];
    let length = socket.recv(&mut states).unwrap();
    let states = String::from_utf8(states[..length].to_vec()).unwrap();
    states.trim().to_owned()
}

/// The program, which notifies this socket, and has to ten times a second.
fn notifying(name: &str, arguments: &[&str]) -> (UnixDatagram, Command) {
    let path = scratch(name).join("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = serving(&[&["--block-time", "0s"], arguments].concat());
    command.env("NOTIFY_SOCKET", &path);
    command.env("WATCHDOG_USEC", "400000");
    (socket, command)
}

#[test]
fn a_service_manager_is_notified() {
    let (socket, mut command) = notifying("notify", &["--shutdown-grace", "5s"]);
    let server = Server::of(&mut command);
    check("once it serves", &notified(&socket).as_str(), &"READY=1");
    for _ in 0..3 {
        check("while it runs", &notified(&socket).as_str(), &"WATCHDOG=1");
    }
    server.process.terminate();
    let last = loop {
        match notified(&socket) {
            states if states == "WATCHDOG=1" => {}
            states => break states,
        }
    };
    let stopping = "STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000";
    check("at its end", &last.as_str(), &stopping);
    server.process.check_end(0);
}

/// The service manager restarts a program of which it hears no more.
#[cfg(feature = "all-tests")]
#[test]
fn a_program_whose_workers_hang_is_not_reported() {
    let (socket, mut command) = notifying("notify-hangs", &[]);
    let server = Server::of(&mut command);
    // Those that run a worker, and others that run actors. strace stops them before they wait for
    // events again, and no other thread.
    let threads = format!("/proc/{}/task", server.process.id());
    let mut strace = Command::new("strace");
    strace.args(["-I", "1", "-o", "/dev/null", "-e", "trace=/^epoll_p?wait$"]);
    strace.args(["-e", "inject=/^epoll_p?wait$:delay_enter=3600s"]);
    for thread in std::fs::read_dir(threads).unwrap() {
        let thread = thread.unwrap();
        // A thread of the start may have ended by now.
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if name.starts_with("actix-rt") {
            strace.arg("-p").arg(thread.file_name());
        }
    }
    let tracer = Process::start(&mut strace);
    // A socket that nobody reads would hold up the reports.
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let log = || {
        server
            .process
            .output
            .wait_for("", |log| Some(log.to_owned()))
    };
    wait_until("no more reports", || {
        socket.recv(&mut [0; 256]).is_err() && log().contains("a worker hangs")
    });
    tracer.terminate();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    check(
        "once they go on",
        &notified(&socket).as_str(),
        &"WATCHDOG=1",
    );
}

/// One request on a connection of its own; whether it was answered. A client that does not ask soon
/// need not be.
fn is_answered(address: SocketAddr) -> std::io::Result<bool> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    let length = body.len();
    let asked = write!(
        stream,
        "POST /v3/{KEY} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let is_late = began.elapsed() > Duration::from_millis(500);
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        _ if is_late => return Ok(true),
        read => _ = asked.and(read)?,
    }
    Ok(answer.starts_with("HTTP/1.1 200") && answer.contains("\"result\""))
}

/// The program, which would listen elsewhere.
fn on_socket() -> Command {
    let addresses = ["--listen", "192.0.2.1:1", "--admin-listen", "127.0.0.1:0"];
    let more = ["--api-key", KEY, "--block-time", "0s"];
    nearhead(addresses.into_iter().chain(more))
}

/// Clients connect all the time while one process after another has the socket.
#[test]
fn a_restart_on_an_inherited_socket_refuses_nobody() {
    const CLIENTS: usize = 4;
    const RESTARTS: usize = 3;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let ended = Arc::new(AtomicBool::new(false));
    let ask = |_| {
        let (answered, ended) = (Arc::clone(&answered), Arc::clone(&ended));
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                assert!(is_answered(address).unwrap(), "an answer is no result");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(ask).collect();
    for _ in 0..RESTARTS {
        let before = answered.load(Ordering::Relaxed);
        let server = Server::inheriting(&listener, &on_socket());
        check("the URL", &server.address, &address);
        wait_until("some are answered", || {
            answered.load(Ordering::Relaxed) > before + 100 * CLIENTS
        });
        server.process.terminate();
        server.process.check_end(0);
    }
    // They wait in the socket until somebody has it.
    let server = Server::inheriting(&listener, &on_socket());
    ended.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    drop(server);
}

#[test]
fn an_inherited_socket_for_nothing_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = on_socket();
    command.env("LISTEN_FDNAMES", "metric");
    let (status, output) = Server::inherit(&listener, &command).wait();
    check(&output, &status.code(), &Some(2));
    check(
        &output,
        &output.contains("the inherited socket \"metric\" is for none of the listeners"),
        &true,
    );
}
