//! A fleet over one geth whose head the test chooses.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use nearhead_fleet::bounds::LEASE;

use super::redis::Redis;
use crate::{
    harness::{Process, Server, serving, wait_until},
    node::{driven_geth::DrivenGeth, head},
    upstreams::{Branches, proxy::Proxy},
};

/// The secret of all fleets of these tests.
pub(super) const SECRET: &str = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e7abcd";

/// The time of these tests' longest block, which a new leader may have to wait for.
const BLOCK_TIME: Duration = Duration::from_secs(1);

/// What a new leader may take above that: on a machine with two cores, four tests with four
/// processes each run at once, so that a process may wait for seconds until it is its turn. On a
/// machine that does nothing else, half a second is enough.
const SLACK: Duration = Duration::from_secs(8);

/// Geth, the store, and how processes join.
pub(super) struct Stage {
    pub(super) chain: Branches,
    pub(super) geth: DrivenGeth,
    pub(super) redis: Redis,
    pub(super) name: String,
}

impl Stage {
    /// A geth with a trunk of this many blocks, and a branch that replaces the last `depth`.
    pub(super) fn new(name: &str, seed: u64, [blocks, depth]: [u64; 2]) -> Self {
        let chain = Branches::make(&format!("{name}-chain"), seed, blocks, depth);
        Self::over(name, chain)
    }

    /// A geth at this genesis, whose blocks come later.
    pub(super) fn at_genesis(name: &str, genesis: PathBuf) -> Self {
        let chain = Branches {
            genesis,
            trunk: Vec::new(),
            branch: Vec::new(),
        };
        Self::over(name, chain)
    }

    fn over(name: &str, chain: Branches) -> Self {
        let mut geth = DrivenGeth::of(&format!("{name}-geth"), &chain);
        geth.send_blocks(&chain.branch);
        Self {
            geth,
            redis: Redis::start(&format!("{name}-redis")),
            chain,
            name: name.to_owned(),
        }
    }

    /// A block of the trunk.
    pub(super) fn block(&self, number: u64) -> (u64, B256) {
        let at = usize::try_from(number - 1).unwrap();
        (number, self.chain.trunk[at].hash)
    }

    /// Makes a block of the trunk the head.
    pub(super) fn go_to(&mut self, number: u64) -> (u64, B256) {
        let at = usize::try_from(number - 1).unwrap();
        self.geth.go_to(&self.chain.trunk[at])
    }

    /// Makes the last block of the branch the head.
    pub(super) fn go_to_branch(&mut self) -> (u64, B256) {
        self.geth.go_to(self.chain.branch.last().unwrap())
    }

    /// The head of geth.
    pub(super) fn head(&self) -> (u64, B256) {
        head(&mut self.geth.connect())
    }

    /// The name of one of the fleet's keys in the store.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{{{}}}:{key}", self.name)
    }

    /// Epoch, sequence and id of the newest entry in the store.
    pub(super) fn newest_entry(&self) -> (u64, u64, String) {
        let script = "return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]";
        let id = self.redis.eval(script, &[&self.key("entries")], &[]);
        let (epoch, sequence) = id.split_once('-').unwrap();
        (epoch.parse().unwrap(), sequence.parse().unwrap(), id)
    }

    /// The epoch of the newest entry. There is none until the first entry of an epoch that has
    /// begun.
    pub(super) fn newest_epoch(&self) -> Option<u64> {
        self.epochs().rsplit(' ').next()?.parse().ok()
    }

    /// Waits for an entry of an epoch after this one: a new leader has appended it within the
    /// lease and a block of what became of the one before, which was at this time.
    #[track_caller]
    pub(super) fn check_next_leader(&self, before: u64, since: Instant) {
        wait_until("an entry of another epoch", || {
            self.newest_epoch().is_some_and(|newest| newest > before)
        });
        let (took, most) = (since.elapsed(), LEASE + BLOCK_TIME + SLACK);
        println!("{}: a new leader has appended after {took:?}", self.name);
        assert!(took <= most, "{took:?} is more than {most:?}");
    }

    /// The epochs of the entries in the store.
    pub(super) fn epochs(&self) -> String {
        let script = "local epochs = {} \
            for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do \
              local epoch = string.match(entry[1], '^%d+') \
              if epochs[#epochs] ~= epoch then table.insert(epochs, epoch) end \
            end \
            return table.concat(epochs, ' ')";
        self.redis.eval(script, &[&self.key("entries")], &[])
    }

    /// A proxy to geth, which counts calls.
    pub(super) fn proxy(&self) -> Proxy {
        Proxy::to(&[self.geth.address()])
    }

    /// The arguments of a process that joins, with this node or without one, and with these further
    /// options, which name the store.
    pub(super) fn arguments(&self, node: Option<SocketAddr>, further: &[&str]) -> Vec<String> {
        let genesis = self.chain.genesis.to_str().unwrap();
        let is_aged = further.contains(&"--head-age-max");
        let age = ["--head-age-max", "off"];
        let fixed = [
            ["--source", "node"],
            ["--genesis", genesis],
            ["--fleet-key", SECRET],
            ["--fleet-prefix", &self.name],
        ];
        let mut arguments: Vec<String> = fixed
            .as_flattened()
            .iter()
            .chain(age.iter().filter(|_| !is_aged))
            .chain(further)
            .map(|one| (*one).into())
            .collect();
        if let Some(node) = node {
            arguments.extend(["--node".to_owned(), format!("http://{node}")]);
        }
        arguments
    }

    pub(super) fn command(&self, node: Option<SocketAddr>, further: &[&str]) -> Command {
        let arguments = self.arguments(node, further);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        serving(&arguments)
    }

    /// Starts a process; returns when it is ready.
    pub(super) fn join(&self, node: Option<SocketAddr>) -> Server {
        self.join_by(node, &["--fleet", &self.redis.url()])
    }

    /// The same with these options, which name the store.
    pub(super) fn join_by(&self, node: Option<SocketAddr>, further: &[&str]) -> Server {
        Server::of(&mut self.command(node, further))
    }

    /// Starts a process, which may have nothing to serve yet.
    pub(super) fn start(&self, node: Option<SocketAddr>) -> Process {
        Process::start(&mut self.command(node, &["--fleet", &self.redis.url()]))
    }
}

/// The epoch that a process has met.
pub(super) fn epoch(server: &Server) -> u64 {
    server.metric("nearhead_fleet_epoch") as u64
}

/// The process that leads, and the others.
#[track_caller]
pub(super) fn leader_of(mut servers: Vec<Server>) -> (Server, Vec<Server>) {
    let find = |servers: &[Server]| servers.iter().position(leads);
    wait_until("one process leads", || find(&servers).is_some());
    let leader = servers.swap_remove(find(&servers).unwrap());
    assert!(!servers.iter().any(leads), "two processes lead");
    (leader, servers)
}

/// Whether a process leads.
pub(super) fn leads(server: &Server) -> bool {
    role(server, "leader")
}

/// Whether this is the role of a process.
pub(super) fn role(server: &Server, role: &str) -> bool {
    server.metric(&format!("nearhead_fleet_role{{role=\"{role}\"}}")) == 1.0
}

/// Waits until this block is the head of each process.
#[track_caller]
pub(super) fn wait_heads(servers: &[&Server], wanted: (u64, B256)) {
    for server in servers {
        let mut connection = server.connect();
        wait_until(&format!("head {wanted:?}"), || {
            head(&mut connection) == wanted
        });
    }
}
