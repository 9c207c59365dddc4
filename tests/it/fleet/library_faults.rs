//! Clients of five libraries go through a proxy in front of a fleet, while its leader and its store
//! fail one after the other, all processes are replaced, and a replica joins in a reorg.
//!
//! In each of these steps, each library follows the head in a session that it loses, and makes
//! calls over HTTP and in another session, whose answers are compared. Those with an example of
//! min-block run it, too.

use std::{
    mem, thread,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use nearhead_chain::campaign;
use serde_json::json;

use super::{
    example_loop::ExampleLoop,
    leading::PAUSED,
    libraries::{self, PATIENT_OPTIONS},
    library_sessions::{LibrarySessions, SUBSCRIPTIONS},
    link::Link,
    member::{Member, expired, leader_at},
    moving_chain::{Driver, MovingChain},
    redis::Redis,
    stage::{Stage, epoch, leads, role, wait_heads},
};
use crate::{
    clients::{self, CLIENTS, Call, Caller, NamedClient, REORG_DEPTH, REORG_EVERY},
    harness::{
        self, Connection, Process, RoundRobin, Server, check, quantity, request, wait_until,
    },
    node::comparison::{Comparison, GETH},
};

/// The time from one step of the chain to the next, while something fails.
const STEP_TIME: Duration = Duration::from_millis(150);

/// What all processes have.
const OPTIONS: [&[&str]; 2] = [
    &PATIENT_OPTIONS,
    // A proxy notices within this time that a process is not ready any more.
    &["--shutdown-delay", "3s"],
];

/// Times that each example runs in each fault. It runs again after it.
const EXAMPLE_RUNS: usize = 2;

/// Blocks about which calls are made in each fault.
const CALLED: u64 = 3;

/// Steps while one thing fails: fewer than half of those that the window holds, however slow the
/// machine is.
const STEPS_MAX: usize = 40;

/// Steps before clients follow.
const FIRST: usize = 40;

/// Steps from one reorg to the next.
const CYCLE: usize = REORG_EVERY as usize + 1;

/// Steps of the whole chain: before the first fault, in each of them, and at the end.
const STEPS: usize = FIRST + 3 * CYCLE + FAULTS.len() * (STEPS_MAX + 4 * CYCLE) + CYCLE;

/// What fails, and what else happens to a fleet.
#[derive(Clone, Copy, Debug)]
enum Fault {
    PauseLeader,
    CutLeader,
    RestartStore {
        with_data: bool,
    },
    FailOver,
    /// Nothing fails: all processes are replaced one by one.
    ReplaceAll,
    /// Nothing fails: a replica joins while the chain is reorganized.
    StartReplica,
}

const FAULTS: [Fault; 7] = [
    Fault::PauseLeader,
    Fault::CutLeader,
    Fault::RestartStore { with_data: true },
    Fault::RestartStore { with_data: false },
    Fault::FailOver,
    Fault::ReplaceAll,
    Fault::StartReplica,
];

/// The fleet, its clients, and what moves its chain.
struct Fleet<'a> {
    stage: Stage,
    members: Vec<Member>,
    driver: &'a Driver<'a>,
    /// Of requests.
    proxy: &'a RoundRobin,
    examples: &'a ExampleLoop,
    sessions: LibrarySessions,
    /// The head that all have seen.
    head: (u64, B256),
}

impl<'a> Fleet<'a> {
    /// Three processes with nodes; all sessions are at the leader, and have seen a reorg.
    fn start(
        stage: Stage,
        head: (u64, B256),
        driver: &'a Driver<'a>,
        proxy: &'a RoundRobin,
        examples: &'a ExampleLoop,
    ) -> Self {
        let join = |()| Member::join(&stage, true, &OPTIONS.concat());
        let members: Vec<Member> = [(); 3].map(join).into();
        let servers: Vec<&Server> = members.iter().map(|member| &member.server).collect();
        wait_heads(&servers, head);
        servers.iter().for_each(|one| proxy.add(one.address));
        let leader = servers[leader_at(&members, &stage)];
        let sessions = LibrarySessions::start(leader);
        // ethers has two more for events of its own.
        LibrarySessions::wait_subscribed(&[leader], SUBSCRIPTIONS + 2);
        let mut fleet = Self {
            stage,
            members,
            driver,
            proxy,
            examples,
            sessions,
            head,
        };
        fleet.settle();
        fleet.reorganize();
        fleet.reorganize();
        let node = fleet.stage.geth.address();
        for follower in &mut fleet.sessions.followers {
            follower.see_reorg(|| Connection::open(node, "/"));
        }
        fleet
    }

    fn servers(&self) -> Vec<&Server> {
        self.members.iter().map(|member| &member.server).collect()
    }

    fn leader(&self) -> usize {
        leader_at(&self.members, &self.stage)
    }

    /// Goes to the block before the next reorg, and waits until all processes and clients have it:
    /// no client has seen a block that a process does not know.
    fn settle(&mut self) {
        let head = self.driver.go_to_reorg();
        wait_heads(&self.servers(), head);
        if mem::replace(&mut self.head, head) != head {
            self.sessions.wait_head(head);
        }
    }

    /// Goes through a reorg that all clients see whole.
    fn reorganize(&mut self) {
        let head = self.driver.step();
        self.sessions.wait_head(head);
        self.settle();
    }

    /// Nothing fails any more: one process leads and the others follow it, each client sees a reorg
    /// whole on the connection that it has now, and the example of each library runs.
    fn go_on(&mut self) {
        self.leader();
        self.settle();
        self.reorganize();
        self.reorganize();
        for follower in &mut self.sessions.followers {
            follower.see_next_reorg();
        }
        self.examples.go_on();
        let servers = self.servers();
        let count = |name| servers.iter().filter(|one| role(one, name)).count();
        wait_until("all follow the leader", || {
            [count("leader"), count("replica")] == [1, servers.len() - 1]
        });
    }

    /// Ends sessions, and goes through a reorg that only processes see.
    fn miss_reorg(&mut self) {
        self.sessions.end();
        self.driver.step();
        self.head = self.driver.go_to_reorg();
        wait_heads(&self.servers(), self.head);
    }

    /// Waits until clients have sessions at all processes.
    fn resume(&self) {
        let all = self.servers();
        self.sessions.resume_at(&all, &all);
    }

    /// Calls about blocks that stay, of which a process says what the node says.
    fn calls(&self) -> Vec<Call> {
        let newest = self.head.0 - REORG_DEPTH - 1;
        let blocks = newest + 1 - CALLED..=newest;
        let node = self.stage.geth.address();
        libraries::calls(&self.members[0].server, node, blocks)
    }

    /// All libraries begin to make these calls: over HTTP at the next process of the proxy, and in
    /// sessions at these processes.
    fn call<'c>(&self, calls: &'c [Call], servers: &[&Server]) -> Vec<Caller<'c>> {
        let [http, _] = clients::urls(self.proxy.address);
        let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
        let [_, ws] = clients::urls(RoundRobin::of(&addresses).address);
        let start = |(name, command): &NamedClient| {
            Caller::start(&format!("faults-{name}"), command(), calls, [&http, &ws])
        };
        CLIENTS.iter().map(start).collect()
    }

    /// Goes through a fault, and goes on. Each library makes calls during both.
    fn survive(&mut self, fault: Fault) {
        let calls = self.calls();
        self.examples.allow(EXAMPLE_RUNS);
        match fault {
            Fault::PauseLeader => self.pause_leader(&calls),
            Fault::CutLeader => self.cut_leader(&calls),
            Fault::RestartStore { with_data } => self.restart_store(&calls, with_data),
            Fault::FailOver => self.fail_over(&calls),
            Fault::ReplaceAll => self.replace_all(&calls),
            Fault::StartReplica => self.start_replica(&calls),
        }
        let callers = self.call(&calls, &self.servers());
        self.go_on();
        end(callers);
    }

    /// Sessions at the leader wait while it is paused, and go on when it wakes. It is asked then by
    /// clients that have seen more.
    fn pause_leader(&mut self, calls: &[Call]) {
        let at = self.leader();
        let paused = self.members.remove(at);
        let before = epoch(&paused.server);
        self.driver.allow(STEPS_MAX);
        self.proxy.remove(paused.server.address);
        paused.server.process.freeze();
        let since = Instant::now();
        let callers = self.call(calls, &self.servers());
        self.stage.check_next_leader(before, since);
        end(callers);
        wait_until("paused for long", || since.elapsed() >= PAUSED);
        let seen = {
            let pause = self.driver.pause();
            wait_heads(&self.servers(), pause.head);
            pause.head
        };
        self.proxy.add(paused.server.address);
        let mut reader = paused.server.connect();
        let body = request(1, "eth_blockNumber", &json!([])).to_string();
        reader.begin_post_after(&format!("{}, {}", seen.0, seen.1), body.as_bytes());
        paused.server.process.thaw();
        let read = quantity(&harness::json(&reader.receive().body)["result"]);
        assert!(read >= seen.0, "{read} after {}", seen.0);
        self.members.push(paused);
        self.settle();
        self.miss_reorg();
        let all = self.servers();
        self.sessions.resume_at(&[all[self.leader()]], &all);
    }

    /// Sessions at the leader go on while it is cut from the store: it follows its node.
    fn cut_leader(&mut self, calls: &[Call]) {
        let at = self.leader();
        let before = epoch(&self.members[at].server);
        self.driver.allow(STEPS_MAX);
        self.members[at].link.cut();
        let since = Instant::now();
        let callers = self.call(calls, &self.servers());
        self.stage.check_next_leader(before, since);
        end(callers);
        self.settle();
        self.miss_reorg();
        self.resume();
        self.members[at].link.heal();
    }

    /// The store is away for longer than a lease, and comes back.
    fn restart_store(&mut self, calls: &[Call], with_data: bool) {
        self.stage.redis.kill();
        self.without_store(calls);
        self.stage.redis.restart(with_data);
    }

    /// The store has just been killed, at the head that all have: clients get other sessions, and
    /// the chain goes on, until nobody leads.
    fn without_store(&self, calls: &[Call]) {
        let before = expired(&self.members);
        let callers = self.call(calls, &self.servers());
        self.sessions.end();
        self.resume();
        self.driver.allow(STEPS_MAX);
        wait_until("nobody leads", || expired(&self.members) > before);
        self.driver.wait_steps(1);
        end(callers);
    }

    /// Another store takes the place of the one that is killed, without what that one had last.
    fn fail_over(&mut self, calls: &[Call]) {
        let second = Redis::start_with("fleet-library-faults-second", &["--repl-timeout", "600"]);
        let replication = Link::to(self.stage.redis.address());
        second.replicate(&self.stage.redis, replication.address);
        replication.cut();
        self.reorganize();
        let (_, lost, _) = self.stage.newest_entry();
        self.stage.redis.kill();
        self.without_store(calls);
        second.call(&[b"REPLICAOF", b"NO", b"ONE"]);
        self.stage.redis = second;
        let (_, kept, _) = self.stage.newest_entry();
        assert!(kept < lost, "nothing was lost: {kept} of {lost}");
        for member in &self.members {
            member.link.lead_to(self.stage.redis.address());
        }
    }

    /// All processes are replaced one by one, as docs/fleet.md has it: the one that leads at last.
    /// No request fails meanwhile. Each session ends with its process, and resumes at a new one.
    fn replace_all(&mut self, calls: &[Call]) {
        let failed = self.proxy.failed();
        let (epoch, driver) = (self.stage.newest_epoch(), self.driver);
        for left in (1..=self.members.len()).rev() {
            driver.allow(STEPS_MAX / self.members.len());
            driver.wait_steps(1);
            let next = Member::join(&self.stage, true, &OPTIONS.concat());
            self.proxy.add(next.server.address);
            // Sessions move to new processes alone.
            self.sessions.proxy.add(next.server.address);
            let old = &self.members[..left];
            old.iter()
                .for_each(|one| self.sessions.proxy.remove(one.server.address));
            let at = old.iter().position(|one| !leads(&one.server)).unwrap_or(0);
            let Member { server, .. } = self.members.remove(at);
            self.members.push(next);
            // What clients have seen is known where they resume.
            let pause = driver.pause();
            wait_heads(&self.servers(), pause.head);
            wait_heads(&[&server], pause.head);
            server.process.terminate();
            wait_until("not ready", || server.get("/ready").status == 503);
            self.proxy.remove(server.address);
            // They begin while it still serves.
            let callers = self.call(calls, &[&self.members[left - 1].server]);
            server.process.check_end(0);
            LibrarySessions::wait_subscribed(&self.servers(), SUBSCRIPTIONS);
            end(callers);
        }
        wait_until("a new process leads", || self.stage.newest_epoch() > epoch);
        check("failed requests", &self.proxy.failed(), &failed);
    }

    /// A process without nodes has asked the store before the chain is reorganized, and is answered
    /// meanwhile. All sessions move there.
    fn start_replica(&mut self, calls: &[Call]) {
        let link = Link::to(self.stage.redis.address());
        link.cut();
        let mut command = Member::command(&self.stage, &link, false, &OPTIONS.concat());
        let process = Process::start(&mut command);
        wait_until("it asks the store", || link.is_waited_for());
        self.driver.step();
        link.heal();
        self.driver.allow(STEPS_MAX);
        let server = Server::greeting(process);
        wait_until("ready", || server.get("/ready").status == 200);
        self.proxy.add(server.address);
        self.members.push(Member {
            server,
            link,
            has_node: false,
        });
        let callers = self.call(calls, &[&self.members[self.members.len() - 1].server]);
        self.settle();
        let last = self.members.len() - 1;
        let all = self.servers();
        self.sessions.end();
        self.sessions.resume_at(&[all[last]], &all);
        end(callers);
    }

    /// Each client ends with what the node has, and so does each process.
    fn end(mut self) {
        self.reorganize();
        let head = self.head;
        for follower in self.sessions.followers {
            follower.end_at(head.1);
        }
        let asked = "nearhead_requests_total{method=\"eth_blockNumber\",outcome=\"ok\"}";
        for member in &self.members {
            assert!(member.server.metric(asked) > 0.0, "nobody has asked it");
            let mut comparison = Comparison::between(&member.server, self.stage.geth.address());
            comparison.blocks(head.0 - 8..=head.0);
            comparison.finish(GETH);
        }
    }
}

/// Waits for the end of clients that make calls, and checks each answer.
fn end(callers: Vec<Caller<'_>>) {
    callers.into_iter().for_each(|caller| _ = caller.end());
}

/// No library gets a wrong answer or reads an older head than it has seen, no example fails, and no
/// notification is missing or comes twice, whatever fails. No request fails while all processes are
/// replaced. It has the last three faults, or all with `NEARHEAD_CAMPAIGN=full`. Each step
/// is printed, so that it is known which one a client has not survived.
#[test]
fn five_libraries_go_on_while_leaders_and_stores_fail() {
    let reorgs = [REORG_EVERY, REORG_DEPTH];
    let mut chain = MovingChain::make("fleet-library-faults-chain", 71, STEPS as u64, reorgs);
    let stage = Stage::at_genesis("fleet-library-faults", chain.genesis.clone());
    let mut engine = stage.geth.engine();
    let first = chain.take(FIRST, &mut engine);
    let driver = Driver::of(&mut chain, &mut engine);
    let proxy = RoundRobin::of(&[]);
    let [http, _] = clients::urls(proxy.address);
    let examples = ExampleLoop::of(&http, "fleet-library-faults-examples");
    thread::scope(|scope| {
        let mut fleet = Fleet::start(stage, first, &driver, &proxy, &examples);
        let _endings = (driver.ending(), examples.ending());
        scope.spawn(|| driver.run(STEP_TIME));
        let reading = scope.spawn(|| examples.run());
        let count = usize::try_from(campaign::rounds(3, FAULTS.len() as u64)).unwrap();
        for fault in FAULTS.into_iter().skip(FAULTS.len() - count) {
            println!("{fault:?}");
            let since = Instant::now();
            fleet.survive(fault);
            println!("  took {:?}", since.elapsed());
        }
        examples.end();
        reading.join().unwrap();
        fleet.end();
    });
}
