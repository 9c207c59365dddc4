//! A tenant's quotas over three processes: with the store, without it, and with one process that is
//! cut off; requests and units a second, and units of a day.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant, SystemTime},
};

use crossbeam::channel;
use serde_json::json;

use super::{
    link::Link,
    stage::{Stage, leads, wait_heads},
    tenants::wait_lets_in,
};
use crate::{
    admin_api::client::{Admin, id_and_key},
    harness::{Connection, KEY, Server, check, json as parse, usual_niceness_and, wait_until},
};

/// Requests a second of the tenant.
const RATE: f64 = 240.0;

/// The time in which requests are counted, after the time in which the full bucket is used up.
const COUNTED: Duration = Duration::from_millis(2_500);
const WARM_UP: Duration = Duration::from_millis(900);

/// Costs a unit.
const BODY: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;

/// Costs two.
const TWO_UNITS: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"method":"eth_feeHistory","params":["0x1","latest",[]]}"#;

/// What is sent for a tenant.
#[derive(Clone, Copy)]
struct Demand<'a> {
    key: &'a str,
    body: &'a [u8],
    /// How many of these requests the quota allows in a second.
    rate: f64,
}

/// The demand of the key of the configuration.
const CONFIGURED: Demand<'static> = Demand {
    key: KEY,
    body: BODY,
    rate: RATE,
};

impl Demand<'_> {
    fn connect(&self, server: &Server) -> Connection {
        Connection::open(server.address, &format!("/v3/{}", self.key))
    }
}

/// Sends to each process about as many requests as all may admit; returns how many seconds of the
/// rate each one admitted in a second.
fn drive(servers: &[&Server], demand: Demand<'_>) -> Vec<f64> {
    let Demand { body, rate, .. } = demand;
    let barrier = Barrier::new(servers.len());
    let drive_one = |server: &Server| {
        let mut connection = demand.connect(server);
        let ticks = channel::tick(Duration::from_secs_f64(1.0 / rate));
        barrier.wait();
        let begin = Instant::now() + WARM_UP;
        let mut admitted = 0;
        for at in ticks {
            if at >= begin + COUNTED {
                break;
            }
            let status = connection.post(body).status;
            assert!(status == 200 || status == 429, "{status}");
            if status == 200 && at >= begin {
                admitted += 1;
            }
        }
        f64::from(admitted) / COUNTED.as_secs_f64() / rate
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
        for (name, more) in [("source", 10), ("fleet-json", 10), ("quotas", 0)] {
            let thread = (name.to_owned(), usual_niceness_and(more));
            wait_until(&format!("{thread:?}"), || {
                server.process.threads().contains(&thread)
            });
        }
    }
    for server in servers {
        wait_until("it knows the others", || {
            server.metric("nearhead_fleet_processes{role=\"replica\"}") == 2.0
        });
    }

    // The first request after a while is admitted, although nothing is borrowed.
    for server in servers {
        assert_eq!(server.connect().post(BODY).status, 200);
    }
    let admitted = drive(&servers, CONFIGURED);
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
    let admitted = drive(&servers, CONFIGURED);
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
    let admitted = drive(&servers, CONFIGURED);
    for share in &admitted {
        assert!((0.3..=0.36).contains(share), "{admitted:?}");
    }

    // With it, they share the rate again.
    stage.redis.restart(true);
    let failures = "nearhead_fleet_store_failures_total";
    let admitted = |()| -> f64 { drive(&servers, CONFIGURED).iter().sum() };
    wait_until("the rate is shared again", || {
        (0.95..=1.05).contains(&admitted(()))
    });
    assert!(far.metric(failures) > 0.0);
}

/// A process sends its sums once a second, and what is used meanwhile may exceed the limit: this
/// time, and as much again on a machine that is busy.
const UNCOUNTED: Duration = Duration::from_secs(2);

/// The time from one request to the next, of each process.
const PACE: Duration = Duration::from_millis(50);

/// Units of a day of the tenant.
const OF_DAY: u64 = 480;

/// Nothing is counted on two days.
fn wait_for_one_day() {
    wait_until("midnight is not near", || {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        86_400 - now.as_secs() % 86_400 > 60
    });
}

#[test]
fn three_processes_admit_the_units_of_a_tenant_together() {
    let mut stage = Stage::new("fleet-units", 61, [135, 4]);
    let first = stage.go_to(130);
    let leader = stage.join(Some(stage.geth.address()));
    let replicas = [(); 2].map(|()| stage.join(None));
    let servers = [&leader, &replicas[0], &replicas[1]];
    wait_heads(&servers, first);
    for server in servers {
        wait_until("it knows the others", || {
            server.metric("nearhead_fleet_processes{role=\"replica\"}") == 2.0
        });
    }
    let mut admin = Admin::first(&leader);
    let mut key = |name: &str, quota: serde_json::Value| {
        let body = json!({"name": name, "limits": {"quota": quota}});
        admin.done("POST", "/tenants", &body, 201);
        let body = json!({"tenant": name, "name": "wallet"});
        let (_, key) = id_and_key(&admin.done("POST", "/keys", &body, 201));
        key
    };

    // Units a second: each request costs two of them.
    let by_second = key(
        "by second",
        json!({"units": {"perSecond": RATE as u32, "burst": RATE as u32}}),
    );
    let by_day = key("by day", json!({"unitsPerDay": OF_DAY}));
    wait_lets_in(&servers, &by_second, true);
    let demand = Demand {
        key: &by_second,
        body: TWO_UNITS,
        rate: RATE / 2.0,
    };
    let admitted = drive(&servers, demand);
    let all: f64 = admitted.iter().sum();
    assert!((0.95..=1.05).contains(&all), "{admitted:?}");

    // Units of a day: each process sends requests until one is refused.
    wait_for_one_day();
    wait_lets_in(&servers, &by_day, true);
    let demand = Demand {
        key: &by_day,
        body: TWO_UNITS,
        rate: 1.0 / PACE.as_secs_f64(),
    };
    let use_up = |server: &Server| -> u64 {
        let mut connection = demand.connect(server);
        let ticks = channel::tick(PACE).into_iter();
        let admitted = ticks.take_while(|_| match connection.post(demand.body).status {
            200 => true,
            402 => false,
            other => panic!("status {other}"),
        });
        admitted.count() as u64
    };
    let used: Vec<u64> = thread::scope(|scope| {
        let threads = servers.map(|server| scope.spawn(|| use_up(server)));
        let used = threads.map(|thread| 2 * thread.join().unwrap());
        used.to_vec()
    });
    // The requests of `wait_lets_in` cost a unit each.
    let all = used.iter().sum::<u64>() + servers.len() as u64;
    let excess = 2 * servers.len() as u64 * (UNCOUNTED.as_millis() / PACE.as_millis()) as u64;
    println!("units of the day at each process: {used:?} of {OF_DAY}");
    assert!((OF_DAY - 1..=OF_DAY + excess).contains(&all), "{used:?}");
    assert!(used.iter().all(|used| *used > OF_DAY / 6), "{used:?}");
    // Everywhere, the refusal says what it is.
    for server in servers {
        let response = demand.connect(server).post(BODY);
        check("status", &response.status, &402);
        let error = &parse(&response.body)["error"];
        check("code", &error["code"], &json!(-32005));
        check(
            "limit",
            &error["data"]["allowed_units_per_day"],
            &json!(OF_DAY),
        );
        let retry_after: u64 = response.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=86_400).contains(&retry_after), "{retry_after}");
    }
    // Other tenants are not concerned.
    for server in servers {
        check("another one", &server.connect().post(BODY).status, &200);
    }
}
