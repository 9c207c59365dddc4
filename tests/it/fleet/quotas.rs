//! A tenant's quota over three processes: with the store, without it, and with one process that is
//! cut off.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use crossbeam::channel;

use super::{
    link::Link,
    stage::{Stage, leads, wait_heads},
};
use crate::harness::{Server, wait_until};

/// Requests a second of the tenant.
const RATE: f64 = 240.0;

/// The time in which requests are counted, after the time in which the full bucket is used up.
const COUNTED: Duration = Duration::from_millis(2_500);
const WARM_UP: Duration = Duration::from_millis(900);

const BODY: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;

/// Sends to each process about as many requests as all may admit; returns how many seconds of the
/// rate each one admitted in a second.
fn drive(servers: &[&Server]) -> Vec<f64> {
    let barrier = Barrier::new(servers.len());
    let drive_one = |server: &Server| {
        let mut connection = server.connect();
        let ticks = channel::tick(Duration::from_secs_f64(1.0 / RATE));
        barrier.wait();
        let begin = Instant::now() + WARM_UP;
        let mut admitted = 0;
        for at in ticks {
            if at >= begin + COUNTED {
                break;
            }
            let status = connection.post(BODY).status;
            assert!(status == 200 || status == 429, "{status}");
            if status == 200 && at >= begin {
                admitted += 1;
            }
        }
        f64::from(admitted) / COUNTED.as_secs_f64() / RATE
    };
    thread::scope(|scope| {
        let threads = servers
            .iter()
            .map(|server| scope.spawn(|| drive_one(server)));
        let threads: Vec<_> = threads.collect();
        let admitted = threads.into_iter().map(|thread| thread.join().unwrap());
        admitted.collect()
    })
}

#[test]
fn three_processes_admit_the_rate_of_a_tenant_together() {
    let mut stage = Stage::new("fleet-quotas", 53, [135, 4]);
    let first = stage.go_to(130);
    let rate = RATE.to_string();
    let link = Link::to(stage.redis.address());
    let join = |node, url: &str| {
        let further = ["--fleet", url, "--rate-limit", rate.as_str()];
        stage.join_by(node, &further)
    };
    let leader = join(Some(stage.geth.address()), &stage.redis.url());
    assert!(leads(&leader));
    let near = join(None, &stage.redis.url());
    let far = join(None, &format!("redis://{}", link.address));
    wait_heads(&[&leader, &near, &far], first);
    let servers = [&leader, &near, &far];
    for server in servers {
        wait_until("it knows the others", || {
            server.metric("nearhead_fleet_processes{role=\"replica\"}") == 2.0
        });
    }

    // The first request after a while is admitted, although nothing is borrowed.
    for server in servers {
        assert_eq!(server.connect().post(BODY).status, 200);
    }
    let admitted = drive(&servers);
    let all: f64 = admitted.iter().sum();
    assert!((0.95..=1.05).contains(&all), "{admitted:?}");

    // What is left is that of the tenant, wherever it is asked for.
    let left = |server: &Server| -> u32 {
        let response = server.connect().post(BODY);
        let left = response.header("ratelimit-remaining").unwrap();
        left.parse().unwrap()
    };
    assert!(left(&near) < 100, "the bucket is nearly empty");

    // One process is cut off, and admits its share.
    link.cut();
    let admitted = drive(&servers);
    let all: f64 = admitted.iter().sum();
    assert!((1.2..=4.0 / 3.0 * 1.05).contains(&all), "{admitted:?}");
    assert!((0.3..=0.36).contains(&admitted[2]), "{admitted:?}");
    link.heal();

    // Without the store, each one admits its share.
    wait_until("it is back", || {
        far.metric("nearhead_fleet_processes{role=\"replica\"}") == 2.0
            && far.metric("nearhead_fleet_lag_seconds") == 0.0
            && near.metric("nearhead_fleet_processes{role=\"replica\"}") == 2.0
            && leader.metric("nearhead_fleet_processes{role=\"replica\"}") == 2.0
    });
    stage.redis.kill();
    let admitted = drive(&servers);
    for share in &admitted {
        assert!((0.3..=0.36).contains(share), "{admitted:?}");
    }

    // With it, they share the rate again.
    stage.redis.restart(true);
    let failures = "nearhead_fleet_store_failures_total";
    let admitted = |()| -> f64 { drive(&servers).iter().sum() };
    wait_until("the rate is shared again", || {
        (0.95..=1.05).contains(&admitted(()))
    });
    assert!(far.metric(failures) > 0.0);
}
