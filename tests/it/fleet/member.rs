//! A process of a fleet, and its own way to the store.

use std::process::Command;

use super::{
    link::Link,
    stage::{Stage, epoch, leads},
};
use crate::harness::{Server, wait_until};

/// A process, and its way to the store.
pub(super) struct Member {
    pub(super) server: Server,
    pub(super) link: Link,
    pub(super) has_node: bool,
}

impl Member {
    /// Starts a process with these options; returns when it is ready.
    pub(super) fn join(stage: &Stage, has_node: bool, options: &[&str]) -> Self {
        let link = Link::to(stage.redis.address());
        Self {
            server: Server::of(&mut Self::command(stage, &link, has_node, options)),
            link,
            has_node,
        }
    }

    /// Starts a process that reaches the store by this link.
    pub(super) fn command(stage: &Stage, link: &Link, has_node: bool, options: &[&str]) -> Command {
        let url = format!("redis://{}", link.address);
        let options = [&["--fleet", &url][..], options].concat();
        let node = has_node.then(|| stage.geth.address());
        stage.command(node, &options)
    }
}

/// The place of the process that leads. One that was paused may believe that it still does.
#[track_caller]
pub(super) fn leader_at(members: &[Member], stage: &Stage) -> usize {
    let mut found = None;
    wait_until("one process leads", || {
        let newest = stage.newest_epoch();
        let is_leader = |one: &Member| leads(&one.server) && Some(epoch(&one.server)) == newest;
        found = members.iter().position(is_leader);
        found.is_some()
    });
    found.unwrap()
}

/// How often these processes have lost the lease because they did not renew it in time.
pub(super) fn expired(members: &[Member]) -> f64 {
    let series = "nearhead_fleet_lease_changes_total{change=\"expired\"}";
    let all = members.iter();
    all.map(|member| member.server.metric(series)).sum()
}
