//! Clients that read and subscribe through a proxy, whatever becomes of the processes.

use std::{collections::HashSet, net::SocketAddr};

use alloy_primitives::B256;

use super::{readers::Readers, sessions::Sessions};
use crate::{
    harness::{RoundRobin, Server, wait_until},
    upstreams::Branches,
};

/// How many clients read, and how many subscribe.
const CLIENTS: usize = 3;

/// Readers and sessions, and the proxy that gives their requests to the next process.
pub(super) struct ThroughProxy {
    pub(super) proxy: RoundRobin,
    pub(super) readers: Readers,
    pub(super) sessions: Sessions,
}

impl ThroughProxy {
    /// Clients of these processes, whose head is this one. The blocks are all that an answer may be
    /// about; notifications are compared with what this node has at the end.
    pub(super) fn start(
        servers: &[&Server],
        node: SocketAddr,
        blocks: HashSet<(u64, B256)>,
        head: (u64, B256),
    ) -> Self {
        let addresses: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
        let proxy = RoundRobin::of(&addresses);
        let readers = Readers::start(CLIENTS, proxy.address, blocks);
        servers.iter().for_each(|server| readers.watch(server));
        Self {
            sessions: Sessions::start(CLIENTS, proxy.address, node, head),
            readers,
            proxy,
        }
    }

    /// A process that has joined gets requests too.
    pub(super) fn add(&self, server: &Server) {
        self.readers.watch(server);
        self.proxy.add(server.address);
    }

    /// Waits until so many further requests were answered, and all clients have a session.
    #[track_caller]
    pub(super) fn go_on(&self, answers: usize) {
        let before = self.readers.answered();
        wait_until("clients read and follow", || {
            self.readers.answered() > before + answers && self.sessions.are_live()
        });
    }

    /// Waits until so many further requests were answered, whatever becomes of sessions.
    #[track_caller]
    pub(super) fn read_on(&self, answers: usize) {
        let before = self.readers.answered();
        wait_until("clients read", || {
            self.readers.answered() > before + answers
        });
    }

    /// Ends readers; says with which head sessions end, which is not the head yet.
    #[track_caller]
    pub(super) fn end_at(self, last: (u64, B256)) -> Sessions {
        self.readers.end();
        self.sessions.end_at(last);
        self.sessions
    }
}

/// All blocks of these branches.
pub(super) fn blocks_of(chain: &Branches) -> HashSet<(u64, B256)> {
    let all = chain.trunk.iter().chain(&chain.branch);
    all.map(|block| (block.number, block.hash)).collect()
}
