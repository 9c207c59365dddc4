//! Which processes a fleet has, whoever writes into the store.

use serde_json::json;

use super::stage::{Stage, epoch, leads, wait_heads};
use crate::{
    admin_api::client::{self, Admin},
    harness::{Server, check, wait_until},
};

/// How many processes of this role a process knows.
fn count(server: &Server, role: &str) -> f64 {
    server.metric(&format!("nearhead_fleet_processes{{role=\"{role}\"}}"))
}

#[test]
fn processes_know_who_is_there_whatever_others_write() {
    let mut stage = Stage::new("fleet-presence", 47, [135, 4]);
    let first = stage.go_to(130);
    let leader = stage.join(Some(stage.geth.address()));
    assert!(leads(&leader));
    let [one, other] = [(); 2].map(|()| stage.join(None));
    wait_heads(&[&leader, &one, &other], first);
    let knows = |server: &Server, replicas: f64| {
        wait_until(&format!("1 leader and {replicas} replicas"), || {
            [count(server, "leader"), count(server, "replica")] == [1.0, replicas]
        });
    };
    for server in [&leader, &one, &other] {
        knows(server, 2.0);
    }
    // The dashboard and its API show them.
    let mut admin = Admin::first(&one);
    // What a process says of itself is a second old.
    let head = json!({"number": first.0, "hash": first.1.to_string()});
    let mut fleet = json!(null);
    wait_until("all say their heads, the epoch and their roles", || {
        fleet = admin.get("/fleet");
        let processes = fleet["processes"].as_array().unwrap();
        // On a slow machine, the lease may have ended and another epoch begun.
        let epoch = epoch(&leader);
        let roles = processes.iter().map(|process| &process["role"]);
        let mut roles: Vec<_> = roles.map(|role| role.as_str().unwrap()).collect();
        roles.sort_unstable();
        let mut all = processes.iter();
        roles == ["leader", "replica", "replica"]
            && all.all(|process| process["head"] == head && process["epoch"] == epoch)
    });
    let processes = fleet["processes"].as_array().unwrap();
    check("this one is first", &processes[0]["isThis"], &json!(true));
    for process in processes {
        check(
            "version",
            &process["version"],
            &json!(env!("CARGO_PKG_VERSION")),
        );
    }
    admin.check_schemas("fleet");
    let page = |path: &str| {
        let page = client::send(one.admin.unwrap(), "GET", path, &admin.headers, b"");
        check(path, &page.status, &200);
        page.text().to_owned()
    };
    let text = page("/fleet");
    for process in processes {
        let id = process["id"].as_str().unwrap();
        assert!(text.contains(id), "{id} is not on the page");
    }
    wait_until("the overview names the fleet and its epoch", || {
        let epoch = epoch(&one);
        let sentence =
            format!("This process is a replica in a fleet of 3 processes, in epoch {epoch}.");
        page("/").contains(&sentence)
    });

    // A process that ends says so; one that is killed is gone after 5 s.
    let ended = stage.join(None);
    knows(&leader, 3.0);
    ended.process.terminate();
    ended.process.check_end(0);
    knows(&leader, 2.0);
    drop(other);
    knows(&one, 1.0);

    // What others write is neither counted nor left there, and does not keep a process from being
    // known: invented, too long, of another time, and another type in place of the key.
    let key = stage.key("processes");
    let refused = "nearhead_fleet_processes_refused_total";
    let before = one.metric(refused);
    let long = "9".repeat(1 << 20);
    let script = "local t = redis.call('TIME')[1] * 1000 \
        redis.call('HSET', KEYS[1], 'a', string.format('%.0f', t + 2000) .. ' invented', \
        'b', ARGV[1], 'c', string.format('%.0f', t + 9000000) .. ' for ever') return 'written'";
    let written = stage.redis.eval(script, &[&key], &[&long]);
    assert_eq!(written, "written");
    wait_until("it is refused", || one.metric(refused) > before);
    wait_until("what cannot be a record is removed", || {
        stage.redis.call(&[b"HLEN", key.as_bytes()]) == ":3"
    });
    knows(&one, 1.0);
    for fill in [
        "for i = 1, 5000 do redis.call('HSET', KEYS[1], i, 'x') end return 'written'",
        "redis.call('DEL', KEYS[1]) redis.call('SADD', KEYS[1], 'x') return 'written'",
    ] {
        let written = stage.redis.eval(fill, &[&key], &[]);
        assert_eq!(written, "written");
        wait_until("both are there again", || {
            stage.redis.call(&[b"HLEN", key.as_bytes()]) == ":2"
        });
        knows(&one, 1.0);
    }
}
