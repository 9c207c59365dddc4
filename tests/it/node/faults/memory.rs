//! Memory: a limit that nearhead keeps, and the kernel that ends it.

use std::{
    fs,
    io::{self, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;

use super::world::{World, Wrap};
use crate::{
    harness::{Connection, KEY, after, check, get, wait_until},
    node::wait_logged,
};

/// A cgroup whose processes may have so much memory.
struct MemoryLimit {
    folder: PathBuf,
    is_v1: bool,
}

impl MemoryLimit {
    fn of(name: &str, bytes: u64) -> Self {
        let is_v1 = Path::new("/sys/fs/cgroup/memory").exists();
        let root = match is_v1 {
            true => "/sys/fs/cgroup/memory",
            false => "/sys/fs/cgroup",
        };
        if !is_v1 {
            fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory").unwrap();
        }
        let folder = Path::new(root).join(format!("nearhead-{name}-{}", std::process::id()));
        fs::create_dir(&folder).expect("root can make a cgroup");
        let limit = Self { folder, is_v1 };
        limit.set(bytes).unwrap();
        limit
    }

    /// Fails if its processes need more.
    fn set(&self, bytes: u64) -> io::Result<()> {
        let file = match self.is_v1 {
            true => "memory.limit_in_bytes",
            false => "memory.max",
        };
        fs::write(self.folder.join(file), bytes.to_string())
    }

    /// Runs a command in it.
    fn around(&self, command: &Command) -> Command {
        let tasks = self.folder.join("cgroup.procs");
        after("echo $$ > \"$TASKS\"", command, &[("TASKS", &tasks)])
    }

    /// Bytes that the kernel cannot take back: those of its processes, and its own for them.
    fn needed(&self) -> u64 {
        match self.is_v1 {
            true => {
                let of_kernel = fs::read_to_string(self.folder.join("memory.kmem.usage_in_bytes"));
                self.number("memory.stat", "rss")
                    + of_kernel.unwrap().trim().parse::<u64>().unwrap()
            }
            false => self.number("memory.stat", "anon") + self.number("memory.stat", "kernel"),
        }
    }

    /// How many processes the kernel has killed at the limit.
    fn killed(&self) -> u64 {
        let file = match self.is_v1 {
            true => "memory.oom_control",
            false => "memory.events",
        };
        self.number(file, "oom_kill")
    }

    /// The number behind a name in a file.
    fn number(&self, file: &str, name: &str) -> u64 {
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        let number = text.lines().find_map(|line| {
            let (found, number) = line.split_once(' ')?;
            (found == name).then(|| number.parse().unwrap())
        });
        number.unwrap_or_else(|| panic!("no {name} in {file}: {text}"))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Its processes have ended.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Clients that ask for much and read nothing get less memory than there is.
#[test]
fn memory_is_limited() {
    const LIMIT: u64 = 320 << 20;
    const GREEDY: usize = 150;
    const BLOCKS: usize = 500;
    let limit = MemoryLimit::of("faults-memory", LIMIT);
    let mut world = World::of("faults-memory", &|_, command| limit.around(&command));
    let block = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber",
        "params": ["latest", true]});
    let batch = json!(vec![block.clone(); BLOCKS]).to_string();
    let known = world
        .server()
        .metric("nearhead_memory_bytes{kind=\"limit\"}");
    check("the limit is known", &known, &(LIMIT as f64));
    let one = world.server().connect().post(block.to_string()).body.len();
    assert!(
        (one * BLOCKS * GREEDY) as u64 > LIMIT,
        "they ask for more than there is"
    );
    world.survives(
        "clients ask for more than the memory",
        |world| {
            let address = world.server().address;
            let mut greedy: Vec<_> = (0..GREEDY)
                .map(|_| Connection::open(address, &format!("/v3/{KEY}")))
                .collect();
            for connection in &mut greedy {
                let request =
                    connection.request(&["content-type: application/json"], batch.as_bytes());
                connection.send(&request);
            }
            let asked = "nearhead_requests_total{method=\"eth_getBlockByNumber\",outcome=\"ok\"}";
            wait_until("they are answered", || {
                world.server().metric(asked) > 4_000.0
            });
            check(
                "up",
                &get(world.server().admin.unwrap(), "/health").status,
                &200,
            );
        },
        |_| {},
    );
    let began = Instant::now();
    let wanted = world.head();
    world.recovers("all have gone", wanted, began);
    world.kill();
    drop(limit);
}

/// A client that asks for a block, again and again, and reads nothing. It may be refused, or its
/// server may end.
fn ask_for_much(address: SocketAddr) -> Option<TcpStream> {
    let mut client = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    client.set_nonblocking(true).ok()?;
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["latest",true]}"#;
    let request = format!(
        "POST /v3/{KEY} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{call}",
        call.len()
    );
    client.write_all(request.repeat(50).as_bytes()).ok()?;
    Some(client)
}

/// Whoever finds it restarted learns what happened, from its log and its metrics.
#[test]
fn memory_runs_out() {
    const ENOUGH: u64 = 1 << 30;
    const KILLED: &str = "the process before this one did not shut down";
    let limit = MemoryLimit::of("faults-killed", ENOUGH);
    let in_group: Wrap<'_> = &|_, mut command| {
        // Memory that is freed is given back at once: there is nothing to live on.
        command.env("MIMALLOC_PURGE_DELAY", "0");
        limit.around(&command)
    };
    let mut world = World::of("faults-killed-for-memory", in_group);
    let is_unclean = |world: &World| world.server().metric("nearhead_unclean_shutdown");
    check("of the first process", &is_unclean(&world), &0.0);
    let saved = r#"nearhead_saved_writes_total{outcome="written"}"#;
    wait_until("saved", || world.server().metric(saved) > 0.0);

    // Clients may still take a twenty-fifth of what there is. It needs less from time to time.
    wait_until("it is short of memory", || {
        let _ = limit.set(limit.needed() * 26 / 25);
        world.server().metric("nearhead_memory_level") > 0.0
    });
    wait_logged(world.server(), "what the memory allows has changed");
    let (address, pid) = (world.server().address, world.server().process.id());
    let process = world.take_process();
    let mut clients = Vec::new();
    wait_until("killed", || {
        clients.extend(ask_for_much(address));
        process.has_exited()
    });
    let (status, log) = process.wait();
    check("killed", &status.signal(), &Some(9));
    check("by the kernel", &limit.killed(), &1);
    for reason in ["panicked at", "the service cannot go on", "stopping"] {
        assert!(!log.contains(reason), "{log}");
    }
    drop(clients);

    limit.set(ENOUGH).unwrap();
    let began = Instant::now();
    world.start(in_group);
    world.recovers("the kernel has killed nearhead", world.head(), began);
    check("of the next process", &is_unclean(&world), &1.0);
    let logged = format!("{KILLED}: it was killed, it failed, or its machine did");
    wait_logged(world.server(), &logged);
    wait_logged(world.server(), &format!("pid=\"{pid}\""));

    let (_, log) = world.stop(|| {});
    assert!(!log.contains("will say"), "{log}");
    world.start(in_group);
    check("after a shutdown", &is_unclean(&world), &0.0);
    let (_, log) = world.stop(|| {});
    assert!(!log.contains(KILLED), "{log}");
}
