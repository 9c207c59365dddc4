//! Sessions of all libraries, through one proxy.

use alloy_primitives::B256;

use crate::{
    clients::{self, CLIENTS, Follower, Relay},
    harness::{RoundRobin, Server, wait_until},
};

/// Blocks and logs.
pub(super) const SUBSCRIPTIONS: usize = 2 * CLIENTS.len();

/// Followers of all libraries, and their way to the processes.
pub(super) struct LibrarySessions {
    /// Its connections can be ended.
    relay: Relay,
    pub(super) proxy: RoundRobin,
    pub(super) followers: Vec<Follower>,
}

impl LibrarySessions {
    /// All of them are at this process.
    pub(super) fn start(server: &Server) -> Self {
        let proxy = RoundRobin::of(&[server.address]);
        let relay = Relay::to(proxy.address);
        let [_, ws] = clients::urls(relay.address);
        let start = |(_, command): &clients::NamedClient| Follower::start(command(), &ws);
        Self {
            followers: CLIENTS.iter().map(start).collect(),
            relay,
            proxy,
        }
    }

    /// Waits until all were notified of this head.
    pub(super) fn wait_head(&self, (_, hash): (u64, B256)) {
        for follower in &self.followers {
            follower.wait_block(hash);
        }
    }

    /// Ends all sessions, without a close frame.
    pub(super) fn end(&self) {
        self.relay.cut();
    }

    /// Waits until clients have sessions again, at these of all processes.
    pub(super) fn resume_at(&self, servers: &[&Server], all: &[&Server]) {
        all.iter().for_each(|one| self.proxy.remove(one.address));
        servers.iter().for_each(|one| self.proxy.add(one.address));
        self.relay.restore();
        for follower in &self.followers {
            follower.wait_lost();
        }
        Self::wait_subscribed(servers, SUBSCRIPTIONS);
    }

    /// Waits until clients have so many subscriptions, at these processes.
    pub(super) fn wait_subscribed(servers: &[&Server], count: usize) {
        wait_until("all have subscribed", || {
            let of = |server: &&Server| server.metric("nearhead_subscriptions");
            servers.iter().map(of).sum::<f64>() == count as f64
        });
    }
}
