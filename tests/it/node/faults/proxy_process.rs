//! The proxy between nearhead and its node is a process: a real HAProxy, which is stopped and
//! killed.

use std::{
    cell::RefCell,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    process::Command,
};

use super::world::{PLAIN, World};
use crate::harness::{Process, installed, scratch, wait_until};

/// HAProxy with nothing but what it needs. It waits longer than nearhead does, so that nearhead
/// notices first.
const CONFIGURATION: &str = "\
global
    maxconn 256
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    timeout tunnel 1h
frontend nearhead
    bind ADDRESS
    default_backend node
backend node
    server node NODE
";

struct HaProxy {
    address: SocketAddr,
    configuration: PathBuf,
    /// `None` while it is down.
    process: RefCell<Option<Process>>,
}

impl HaProxy {
    /// Starts it before this node. Its port has to be another one for each test.
    fn before(node: SocketAddr, name: &str, port: u16) -> Self {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        // An address of its own, so that no other test takes its port while it is down.
        let address = IpAddr::from(Ipv4Addr::new(127, 79, high, low));
        let address = SocketAddr::new(address, port);
        let configuration = scratch(&format!("{name}-haproxy")).join("haproxy.cfg");
        let text = CONFIGURATION
            .replace("ADDRESS", &address.to_string())
            .replace("NODE", &node.to_string());
        fs::write(&configuration, text).unwrap();
        let proxy = Self {
            address,
            configuration,
            process: RefCell::default(),
        };
        proxy.start();
        proxy
    }

    /// Starts it; returns when it listens.
    fn start(&self) {
        let mut command = Command::new(installed("tests/.tools/bin/haproxy"));
        command.args(["-db", "-f"]).arg(&self.configuration);
        *self.process.borrow_mut() = Some(Process::start(&mut command));
        wait_until("the proxy listens", || {
            TcpStream::connect(self.address).is_ok()
        });
    }

    fn freeze(&self) {
        self.process.borrow().as_ref().unwrap().freeze();
    }

    fn thaw(&self) {
        self.process.borrow().as_ref().unwrap().thaw();
    }

    /// Kills it, with all of its connections.
    fn kill(&self) {
        *self.process.borrow_mut() = None;
    }
}

/// Makes the node's next block, and returns when nearhead is not ready for want of it.
fn wait_noticed(world: &mut World) {
    world.go_on();
    wait_until("it is noticed", || !world.is_ready());
}

/// nearhead knows its node by a URL of this scheme.
fn the_proxy_fails(scheme: &str, port: u16) {
    let name = format!("faults-haproxy-{scheme}");
    let mut world = World::without_server(&name);
    let proxy = HaProxy::before(world.geth().address(), &name, port);
    world.start_at(&format!("{scheme}://{}", proxy.address), PLAIN);
    world.survives(
        &format!("the proxy is stopped for a while ({scheme})"),
        |world| {
            proxy.freeze();
            wait_noticed(world);
        },
        |_| proxy.thaw(),
    );
    for time in ["", ", once more"] {
        world.survives(
            &format!("the proxy is killed ({scheme}){time}"),
            |world| {
                proxy.kill();
                wait_noticed(world);
            },
            |_| proxy.start(),
        );
    }
}

#[test]
fn the_proxy_of_http_fails() {
    the_proxy_fails("http", 8_545);
}

#[test]
fn the_proxy_of_websocket_fails() {
    the_proxy_fails("ws", 8_546);
}
