//! deploy/haproxy.cfg, by a real HAProxy before real processes.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    process::Command,
};

use serde_json::{Value, json};

use super::project;
use crate::{
    harness::{
        Connection, KEY, Process, Server, check, get, installed, request, scratch, serving,
        wait_until,
    },
    websocket::client::Client,
};

/// The servers of the configuration.
const SERVERS: [&str; 4] = ["leader-1", "leader-2", "replica-1", "replica-2"];

struct Proxy {
    address: SocketAddr,
    _process: Process,
}

impl Proxy {
    /// Starts it before these processes.
    fn before(servers: &[Server]) -> Self {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        // An address of its own, so that no other test takes its port.
        let address = IpAddr::from(Ipv4Addr::new(127, 78, high, low));
        let address = SocketAddr::new(address, 8_545);
        let mut text = project("deploy/haproxy.cfg");
        let mut replace = |from: String, to: String| {
            assert!(text.contains(&from), "no {from:?}");
            text = text.replace(&from, &to);
        };
        replace("bind :8545".into(), format!("bind {address}"));
        for (name, server) in SERVERS.iter().zip(servers) {
            let to = format!("server {name} {}", server.address);
            replace(format!("server {name} {name}:8545"), to);
        }
        let file = scratch("haproxy").join("haproxy.cfg");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(installed("tests/.tools/bin/haproxy"));
        let process = Process::start(command.args(["-db", "-f"]).arg(&file));
        wait_until("the proxy listens", || TcpStream::connect(address).is_ok());
        Self {
            address,
            _process: process,
        }
    }

    /// A request on a connection of its own, which has to be answered.
    fn ask(&self) {
        let mut client = Connection::open(self.address, &format!("/v3/{KEY}"));
        check(
            "chain",
            &client.result("eth_chainId", &json!([])),
            &json!("0x539"),
        );
    }
}

fn answered(server: &Server) -> f64 {
    server.metric("nearhead_requests_total{method=\"eth_chainId\",outcome=\"ok\"}")
}

/// Requests go round, and none fails while one process is asked to stop and another one is killed.
#[test]
fn the_proxy_of_a_fleet_uses_who_is_ready() {
    let options = [
        ["--block-time", "0s"],
        ["--trusted-proxy", "127.0.0.0/8"],
        ["--shutdown-delay", "3s"],
        ["--log-filter", "info,nearhead::access=debug"],
    ];
    let start = |_| Server::of(&mut serving(options.as_flattened()));
    let servers = SERVERS.map(start);
    let proxy = Proxy::before(&servers);
    wait_until("it has found all", || {
        proxy.ask();
        servers.iter().all(|server| answered(server) >= 1.0)
    });
    let before: Vec<f64> = servers.iter().map(answered).collect();
    for _ in 0..8 {
        proxy.ask();
    }
    let after = servers.iter().map(answered);
    let shares: Vec<f64> = after
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    check("round robin", &shares, &vec![2.0; 4]);

    // Headers of nearhead go both ways, and what a client says of itself does not.
    let mut client = Connection::open(proxy.address, &format!("/v3/{KEY}"));
    let body = request(1, "eth_blockNumber", &json!([])).to_string();
    let mut post = |headers: &[&str]| {
        let headers = [&["Content-Type: application/json"], headers].concat();
        let bytes = client.request(&headers, body.as_bytes());
        client.send(&bytes);
        client.receive()
    };
    let answer = post(&["X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9"]);
    let block = answer.header("x-nearhead-block");
    let block = block.unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    let seen = format!("X-Nearhead-Min-Block: {block}");
    check("reached", &post(&[&seen]).status, &200);
    let ahead = post(&["X-Nearhead-Min-Block: 1000000"]);
    check("not reached", &ahead.status, &503);
    check("again", &ahead.header("retry-after"), &Some("1"));

    let of = |server: &Server| {
        server
            .process
            .output
            .wait_for("", |log| Some(log.to_owned()))
    };
    let logs = || servers.iter().map(of).collect::<String>();
    wait_until("the access log", || {
        logs().contains(r#"method="eth_blockNumber""#)
    });
    assert!(!logs().contains("203.0.113.9"), "{}", logs());

    // A session, which stays where it is.
    let mut session = Client::open(proxy.address, &format!("/ws/v3/{KEY}"));
    let chain: Value = session.call("eth_chainId", &json!([]));
    check("session", &chain["result"], &json!("0x539"));
    drop(session);

    // One is asked to stop, and serves until the proxy has noticed.
    let mut servers = Vec::from(servers);
    let stopped = servers.remove(3);
    stopped.process.terminate();
    let is_unready = || get(stopped.address, "/ready").status == 503;
    wait_until("not ready", || {
        proxy.ask();
        is_unready()
    });
    wait_until("it has ended", || {
        proxy.ask();
        stopped.process.has_exited()
    });
    stopped.process.check_end(0);
    // Another one is killed: whoever has its request next gets an answer from another one.
    drop(servers.remove(1));
    for _ in 0..32 {
        proxy.ask();
    }
}

/// Names are looked up later, and may be unknown at the start.
#[test]
fn the_proxy_reads_its_configuration() {
    let mut command = Command::new(installed("tests/.tools/bin/haproxy"));
    let file = installed("deploy/haproxy.cfg");
    Process::start(command.args(["-c", "-f"]).arg(file)).check_end(0);
}
