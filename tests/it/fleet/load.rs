//! Processes are replaced one by one, and killed, paused or cut off from the store, while clients
//! read and subscribe through a proxy.

use std::{
    thread,
    time::{Duration, Instant},
};

use nearhead_chain::campaign;
use nearhead_fleet::bounds::LEASE;

use super::{
    member::{Member, expired, leader_at},
    moving_chain::{Driver, MovingChain},
    stage::{Stage, epoch, leads, wait_heads},
    subscriber::Ended,
    through_proxy::ThroughProxy,
};
use crate::{
    harness::{Server, check, wait_until},
    node::comparison::{Comparison, GETH},
    rng::Rng,
};

/// The time from one step of the chain to the next.
const STEP_TIME: Duration = Duration::from_millis(150);

/// Steps between two times when all clients are known to go on: fewer than half of those that the
/// window holds, however slow the machine is.
const STEPS_MAX: usize = 40;

/// What all processes have.
const OPTIONS: [[&str; 2]; 2] = [
    // What docs/fleet.md recommends: with the default, on a machine whose cores are busy, one
    // resumption of a session was refused in eight runs.
    ["--min-block-wait", "3s"],
    // A proxy notices within this time that a process is not ready any more.
    ["--shutdown-delay", "3s"],
];

fn join(stage: &Stage, has_node: bool) -> Member {
    Member::join(stage, has_node, OPTIONS.as_flattened())
}

/// What becomes of a process.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Pause,
    Cut,
}

const FAULTS: [Fault; 3] = [Fault::Kill, Fault::Pause, Fault::Cut];

/// The fleet, and its clients.
struct Load {
    clients: ThroughProxy,
    members: Vec<Member>,
}

impl Load {
    fn leader(&self, stage: &Stage) -> usize {
        leader_at(&self.members, stage)
    }

    /// The place of the process that is replaced next, as docs/fleet.md has it: those without
    /// nodes, those that do not lead, the leader. Those that have been replaced are at the end.
    fn next_of_upgrade(&self, left: usize) -> usize {
        let old = &self.members[..left];
        let without = old.iter().position(|one| !one.has_node);
        let follows = || old.iter().position(|one| !leads(&one.server));
        without.or_else(follows).unwrap_or(0)
    }

    fn add(&mut self, member: Member) {
        self.clients.add(&member.server);
        self.members.push(member);
    }

    /// Ends a process as a service manager does: it gets no more requests when it is not ready any
    /// more, and another one starts in its place.
    fn replace(&mut self, at: usize, stage: &Stage) {
        let Member {
            server,
            has_node,
            link,
        } = self.members.remove(at);
        server.process.terminate();
        wait_until("not ready", || server.get("/ready").status == 503);
        self.clients.proxy.remove(server.address);
        server.process.check_end(0);
        drop(link);
        self.add(join(stage, has_node));
    }

    /// One process fails, and is there again; if it led, another one leads in time.
    fn fail(&mut self, at: usize, fault: Fault, stage: &Stage, driver: &Driver<'_>) {
        let is_leader = self.leader(stage) == at;
        let before = epoch(&self.members[at].server);
        println!("{fault:?}, of the leader: {is_leader}, in epoch {before}");
        let since = Instant::now();
        let wait_for_others = || {
            if is_leader {
                stage.check_next_leader(before, since);
            }
            wait_until("longer than a lease", || since.elapsed() > LEASE);
        };
        let proxy = &self.clients.proxy;
        match fault {
            Fault::Kill => {
                let Member {
                    server, has_node, ..
                } = self.members.remove(at);
                let address = server.address;
                drop(server);
                proxy.remove(address);
                if is_leader {
                    stage.check_next_leader(before, since);
                }
                self.add(join(stage, has_node));
            }
            Fault::Pause => {
                let server = &self.members[at].server;
                server.process.freeze();
                proxy.remove(server.address);
                wait_for_others();
                // When it wakes, it has requests from clients that have seen more.
                proxy.add(server.address);
                self.clients.read_on(2);
                server.process.thaw();
            }
            // It goes on to serve what it has, and what its node has.
            Fault::Cut => {
                self.members[at].link.cut();
                wait_for_others();
                self.members[at].link.heal();
            }
        }
        self.clients.go_on(20);
        self.wait_caught_up(driver);
    }

    /// Waits until all processes have the head: a session at one that is behind by more than the
    /// window could not go on.
    fn wait_caught_up(&self, driver: &Driver<'_>) {
        let all: Vec<&Server> = self.members.iter().map(|member| &member.server).collect();
        let pause = driver.pause();
        wait_heads(&all, pause.head);
    }
}

/// No request fails while all processes are replaced; none is answered wrong, or with an older head
/// than the client has seen, whichever process is killed, paused or cut off from the store, and
/// however long the store is away. Subscriptions go on at another process, and give each block and
/// log once, in order, through reorgs.
#[test]
fn clients_go_on_while_processes_are_replaced_and_fail() {
    let rounds = campaign::rounds(6, 30);
    let steps = 20 + STEPS_MAX as u64 * (rounds + 10);
    let mut chain = MovingChain::make("fleet-load-chain", 59, steps, [11, 3]);
    let mut stage = Stage::at_genesis("fleet-load", chain.genesis.clone());
    let mut engine = stage.geth.engine();
    let first = chain.take(20, &mut engine);
    let node = stage.geth.address();
    let members = [true, true, false, false].map(|has_node| join(&stage, has_node));
    let servers = members.each_ref().map(|member| &member.server);
    wait_heads(&servers, first);
    let clients = ThroughProxy::start(&servers, node, chain.blocks(), first);
    let mut load = Load {
        clients,
        members: members.into(),
    };
    let driver = Driver::of(&mut chain, &mut engine);
    thread::scope(|scope| {
        let _ending = driver.ending();
        scope.spawn(|| driver.run(STEP_TIME));
        let before = load.clients.readers.answered();
        for left in (1..=load.members.len()).rev() {
            driver.allow(STEPS_MAX);
            load.replace(load.next_of_upgrade(left), &stage);
        }
        assert!(
            load.clients.readers.answered() > before + 100,
            "nobody reads"
        );
        check("failed requests", &load.clients.readers.failed(), &0);
        let ended = load.clients.sessions.ended();
        let is_each_moved = ended.len() >= 3 && ended.iter().all(|one| *one == Ended(Some(1001)));
        assert!(is_each_moved, "sessions ended with {ended:?}");
        check(
            "sessions not resumed at once",
            &load.clients.sessions.failed(),
            &[0; 2],
        );

        let mut rng = Rng::new(61);
        for round in 0..rounds {
            driver.allow(STEPS_MAX);
            let at = match round % 2 {
                0 => load.leader(&stage),
                _ => rng.below(load.members.len()),
            };
            // The leader meets each of them before one comes again.
            let fault = FAULTS[(round / 2 % 3) as usize];
            load.fail(at, fault, &stage, &driver);
        }

        // The store too, for longer than a lease, and it comes back with its data and without.
        for with_data in [true, false] {
            load.leader(&stage);
            driver.allow(STEPS_MAX);
            let before = expired(&load.members);
            stage.redis.kill();
            wait_until("nobody leads", || expired(&load.members) > before);
            driver.allow(STEPS_MAX / 4);
            driver.wait_steps(2);
            stage.redis.restart(with_data);
            load.clients.go_on(50);
            load.leader(&stage);
            load.wait_caught_up(&driver);
        }
        driver.stop();
    });
    let Load { clients, members } = load;
    let sessions = clients.end_at(chain.next());
    let head = chain.take(1, &mut engine);
    assert!(head.0 > first.0 + 30, "there were few blocks");
    let running: Vec<&Server> = members.iter().map(|member| &member.server).collect();
    wait_heads(&running, head);
    wait_until("one process leads", || running.iter().any(|one| leads(one)));
    let removed = sessions.wait();
    let were_reorgs = removed.iter().all(|count| *count >= 3);
    assert!(
        were_reorgs,
        "blocks and logs that were removed: {removed:?}"
    );
    for server in running {
        let mut comparison = Comparison::between(server, node);
        comparison.blocks(head.0 - 8..=head.0);
        comparison.finish(GETH);
    }
}
