//! Clients of five libraries go through a proxy in front of a fleet, while the leader is killed and
//! another process is replaced.

use std::{net::SocketAddr, ops::RangeInclusive, thread, time::Duration};

use alloy_primitives::{address, hex};
use nearhead_chain::dev::STORE_CONTRACT;
use serde_json::json;

use super::{
    example_loop::ExampleLoop,
    moving_chain::{Driver, MovingChain},
    stage::{Stage, leader_of, leads, wait_heads},
};
use crate::{
    clients::{
        self, CLIENTS, Call, Caller, Follower, NamedClient, REORG_DEPTH, REORG_EVERY, calls_about,
    },
    harness::{Connection, RoundRobin, Server, serving, wait_until},
    node::comparison::{Comparison, GETH},
};

/// The time from one step of the chain to the next: blocks about which calls are made stay in the
/// window until a slow machine has made them.
const STEP_TIME: Duration = Duration::from_millis(400);

/// Blocks about which calls are made. None of them is replaced.
const CALLED: u64 = 16;

/// The client that connects again by itself after a session that was cut off, but not after a close
/// frame with 1001: there, its user makes another provider, as in `library_faults`.
const ENDS_AT_1001: &str = "web3js";

/// The client that takes longest to make its calls.
const SLOWEST: &str = "web3py";

/// Another leader may take the time of the lease, and some more on a machine that is busy. There, a
/// call of a contract may take long, too.
pub(super) const PATIENT_OPTIONS: [&str; 4] = ["--min-block-wait", "10s", "--call-timeout", "60s"];

/// A client by its name, and the others.
fn with_first(name: &str) -> (&NamedClient, impl Iterator<Item = &NamedClient>) {
    let first = CLIENTS.iter().find(|client| client.0 == name).unwrap();
    let others = CLIENTS.iter().filter(|client| client.0 != first.0);
    (first, others)
}

/// Calls about these blocks, of which the process says what its node says.
pub(super) fn calls(server: &Server, node: SocketAddr, blocks: RangeInclusive<u64>) -> Vec<Call> {
    let mut comparison = Comparison::between(server, node);
    comparison.blocks(blocks.clone());
    comparison.finish(GETH);
    let slots = [0, 1, 2].map(|slot| format!("{slot:#066x}"));
    // A transfer to nobody.
    let token = address!("de00000000000000000000000000000000010000");
    let call = json!({"to": token, "input": hex::encode_prefixed(hex!("a9059cbb"))});
    calls_about(
        &mut server.connect(),
        blocks,
        (STORE_CONTRACT, &slots),
        &call,
    )
}

/// Every answer is right, no notification is missing and no library reads an older head than it has
/// seen. What a process leaves without a whole answer is sent to another one, four times at most,
/// so that this test does not see calls that fail: `load` does, whose proxy tries once.
#[test]
fn five_libraries_go_on_while_a_leader_is_killed_and_a_process_is_replaced() {
    let reorgs = [REORG_EVERY, REORG_DEPTH];
    let mut chain = MovingChain::make("fleet-libraries-chain", 67, 260, reorgs);
    let stage = Stage::at_genesis("fleet-libraries", chain.genesis.clone());
    let mut engine = stage.geth.engine();
    let first = chain.take(40, &mut engine);
    let node = stage.geth.address();
    let url = stage.redis.url();
    let further = [&["--fleet", &url][..], &PATIENT_OPTIONS].concat();
    let arguments = stage.arguments(Some(node), &further);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let join = || Server::of(&mut serving(&arguments));
    let (leader, others) = leader_of((0..3).map(|_| join()).collect());
    let [replaced, staying] = others.try_into().ok().unwrap();
    wait_heads(&[&leader, &replaced, &staying], first);

    let proxy = RoundRobin::redispatching(&[leader.address]);
    let urls = clients::urls(proxy.address);
    let http = urls[0].as_str();
    let examples = ExampleLoop::of(http, "fleet-libraries-examples");
    // Sessions have a proxy of their own: each client loses its session once, and finds a process
    // that stays.
    let of_sessions = RoundRobin::of(&[leader.address]);
    let [_, ws] = clients::urls(of_sessions.address);
    let driver = Driver::of(&mut chain, &mut engine);
    thread::scope(|scope| {
        let _endings = (driver.ending(), examples.ending());
        scope.spawn(|| driver.run(STEP_TIME));
        let (of_killed, others) = with_first(ENDS_AT_1001);
        let start = |(_, command): &NamedClient| Follower::start(command(), &ws);
        let mut followers = vec![start(of_killed)];
        followers[0].wait_head();
        proxy.add(replaced.address);
        of_sessions.add(replaced.address);
        of_sessions.remove(leader.address);
        followers.extend(others.map(start));
        for follower in &mut followers {
            follower.see_reorg(|| Connection::open(node, "/"));
        }

        let next = join();
        proxy.add(staying.address);
        proxy.add(next.address);
        let head = {
            let pause = driver.pause();
            wait_heads(&[&leader, &replaced, &staying, &next], pause.head);
            pause.head.0
        };
        let calls = calls(&leader, node, head - CALLED..=head - REORG_DEPTH - 1);
        // What a session has not answered when it ends has to be asked for again, which libraries
        // leave to their users: sessions for calls are at processes that stay.
        let calm = RoundRobin::of(&[staying.address, next.address]);
        let [_, calm] = clients::urls(calm.address);
        let start = |(name, command): &NamedClient| {
            Caller::start(&format!("fleet-{name}"), command(), &calls, [http, &calm])
        };
        let (slowest, others) = with_first(SLOWEST);
        let mut callers = vec![start(slowest)];
        callers[0].wait_answer();
        callers.extend(others.map(start));
        callers.iter().for_each(Caller::wait_answer);
        examples.allow(usize::MAX);
        let reading = scope.spawn(|| examples.run());
        proxy.remove(replaced.address);
        of_sessions.remove(replaced.address);
        of_sessions.add(staying.address);
        of_sessions.add(next.address);
        replaced.process.terminate();
        // What clients have seen last is known to others.
        let pause = driver.pause();
        wait_heads(&[&leader, &staying, &next], pause.head);
        let in_progress = callers
            .iter()
            .filter(|caller| caller.is_over_http())
            .count();
        assert!(in_progress > 0, "the calls are over");
        let killed = leader.address;
        drop(leader);
        drop(pause);
        wait_until("another one leads", || leads(&staying) || leads(&next));
        examples.go_on();
        examples.end();
        proxy.remove(killed);
        replaced.process.check_end(0);

        for caller in callers {
            caller.end();
        }
        // As many as followers have to see of a reorg.
        let steps = 2 * REORG_DEPTH + 2 * REORG_EVERY + 5;
        driver.wait_steps(usize::try_from(steps).unwrap());
        for mut follower in followers {
            follower.see_next_reorg();
            follower.end();
        }
        reading.join().unwrap();
        driver.stop();
        println!("{in_progress} clients made calls at the kill");
        let head = driver.pause().head;
        wait_heads(&[&staying, &next], head);
    });
}
