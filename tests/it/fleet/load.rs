//! Processes are replaced one by one, and killed at random, while clients read and subscribe
//! through a proxy.

use std::{net::SocketAddr, thread, time::Duration};

use nearhead_chain::campaign;

use super::{
    moving_chain::{Driver, MovingChain},
    readers::Readers,
    sessions::Sessions,
    stage::{Stage, leads, wait_heads},
    subscriber::Ended,
};
use crate::{
    harness::{RoundRobin, Server, check, serving, wait_until},
    node::comparison::{Comparison, GETH},
    rng::Rng,
};

/// The time from one step of the chain to the next.
const STEP_TIME: Duration = Duration::from_millis(150);

/// What all processes have.
const OPTIONS: [[&str; 2]; 2] = [
    // The default is one second; a machine that does other things may take longer to find another
    // leader.
    ["--min-block-wait", "3s"],
    // A proxy notices within this time that a process is not ready any more.
    ["--shutdown-delay", "1s"],
];

/// What replaces processes, and the processes.
struct Processes<'a> {
    proxy: &'a RoundRobin,
    arguments: &'a [String],
    running: Vec<Server>,
}

impl Processes<'_> {
    fn join(&self) -> Server {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        Server::of(&mut serving(&arguments))
    }

    /// Ends a process as a service manager does: it gets no more requests when it is not ready any
    /// more, and another one starts in its place.
    fn replace(&mut self, at: usize) {
        let old = self.running.remove(at);
        old.process.terminate();
        wait_until("not ready", || old.get("/ready").status == 503);
        self.proxy.remove(old.address);
        old.process.check_end(0);
        self.add();
    }

    /// Kills a process, and starts another one.
    fn kill(&mut self, at: usize) {
        let old = self.running.remove(at);
        let address = old.address;
        drop(old);
        self.proxy.remove(address);
        self.add();
    }

    fn add(&mut self) {
        let next = self.join();
        self.proxy.add(next.address);
        self.running.push(next);
    }
}

/// No request fails while all processes are replaced; none is answered wrong, or with an older head
/// than the client has seen, whatever process is killed, and if the store is. Subscriptions go on
/// at another process, and give each block and log once, in order, through reorgs.
#[test]
fn clients_go_on_while_processes_are_replaced_and_killed() {
    let kills = campaign::rounds(10, 20);
    let mut chain = MovingChain::make("fleet-load-chain", 59, 300, [11, 3]);
    let mut stage = Stage::at_genesis("fleet-load", chain.genesis.clone());
    let first = chain.take(20, &mut stage.geth);
    let url = stage.redis.url();
    let further = [&["--fleet", &url][..], OPTIONS.as_flattened()].concat();
    let arguments = stage.arguments(Some(stage.geth.address()), &further);
    let proxy = RoundRobin::of(&[]);
    let mut processes = Processes {
        proxy: &proxy,
        arguments: &arguments,
        running: Vec::new(),
    };
    (0..3).for_each(|_| processes.add());
    wait_heads(&processes.running.iter().collect::<Vec<_>>(), first);
    let address: SocketAddr = stage.geth.address();
    let readers = Readers::start(3, proxy.address, chain.blocks());
    let sessions = Sessions::start(3, proxy.address, address, first);
    let driver = Driver::of(&mut chain, &mut stage.geth);
    let redis = &mut stage.redis;
    thread::scope(|scope| {
        scope.spawn(|| driver.run(STEP_TIME));
        // The leader too, whichever it is.
        let before = readers.answered();
        for _ in 0..processes.running.len() {
            processes.replace(0);
        }
        assert!(readers.answered() > before + 100, "nobody reads");
        check("failed requests", &readers.failed(), &0);
        let ended = sessions.ended();
        let is_each_moved = ended.len() >= 3 && ended.iter().all(|one| *one == Ended(Some(1001)));
        assert!(is_each_moved, "sessions ended with {ended:?}");
        check("sessions not resumed at once", &sessions.failed(), &[0; 2]);

        let mut rng = Rng::new(61);
        for _ in 0..kills {
            let before = readers.answered();
            processes.kill(rng.below(3));
            wait_until("clients read and follow", || {
                readers.answered() > before + 20 && sessions.are_live()
            });
        }
        // The store too, which comes back with its data and without.
        for with_data in [true, false] {
            redis.kill();
            let before = readers.answered();
            redis.restart(with_data);
            wait_until("clients read and follow", || {
                readers.answered() > before + 50 && sessions.are_live()
            });
        }
        driver.stop();
    });
    readers.end();
    sessions.end_at(chain.next());
    let head = chain.take(1, &mut stage.geth);
    assert!(head.0 > first.0 + 30, "there were few blocks");
    let running: Vec<&Server> = processes.running.iter().collect();
    wait_heads(&running, head);
    wait_until("one process leads", || running.iter().any(|one| leads(one)));
    let removed = sessions.wait();
    assert!(removed >= 3, "there were few reorgs: {removed}");
    for server in running {
        let mut comparison = Comparison::between(server, address);
        comparison.blocks(head.0 - 8..=head.0);
        comparison.finish(GETH);
    }
}
