//! deploy/compose.yaml: what the reference implementation of the specification reads of it.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::{Value, json};

use super::{project, run};
use crate::{
    harness::{Connection, Process, check, installed, json, nearhead, scratch},
    upstreams::Geth,
};

/// The processes of the fleet.
const FLEET: [&str; 4] = ["leader-1", "leader-2", "replica-1", "replica-2"];

/// What compose makes of the file. It has checked the schema.
fn compose() -> Value {
    let mut read = Command::new(installed("tests/.tools/bin/compose-go"));
    // No environment: the key stays the expression that asks for it.
    read.args(["-no-interpolation", "-format", "json", "compose.yaml"]);
    json(run(read.current_dir(installed("deploy"))).as_bytes())
}

fn names(value: &Value) -> BTreeSet<String> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, _)| name.clone()).collect()
}

#[test]
fn what_services_name_is_there() {
    let compose = compose();
    let services = names(&compose["services"]);
    let of_profile = |profile: Value| -> BTreeSet<String> {
        let is_of = |name: &&String| compose["services"][*name]["profiles"] == profile;
        services.iter().filter(is_of).cloned().collect()
    };
    let expected = ["geth", "grafana", "nearhead", "prometheus"].map(str::to_owned);
    check("services", &of_profile(Value::Null), &expected.into());
    let expected = [&FLEET[..], &["proxy", "redis"]].concat();
    let expected = expected.into_iter().map(str::to_owned).collect();
    check("the fleet", &of_profile(json!(["fleet"])), &expected);
    let mut mounted = 0;
    for (name, service) in compose["services"].as_object().unwrap() {
        for (kind, known) in [
            ("networks", names(&compose["networks"])),
            ("depends_on", services.clone()),
        ] {
            let used = names(&service[kind]);
            assert!(used.is_subset(&known), "{name}: {kind} {used:?}");
        }
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let source = volume["source"].as_str().unwrap();
            if volume["type"] == "bind" {
                mounted += 1;
                assert!(Path::new(source).exists(), "{name}: {source} is not there");
                assert_eq!(volume["read_only"], true, "{name}: {source}");
            } else {
                assert!(compose["volumes"].get(source).is_some(), "{name}: {source}");
            }
        }
    }
    check("mounted", &mounted, &5);
    let build = &compose["services"]["nearhead"]["build"];
    let dockerfile = Path::new(build["context"].as_str().unwrap());
    let dockerfile = dockerfile.join(build["dockerfile"].as_str().unwrap());
    assert!(dockerfile.is_file(), "{}", dockerfile.display());
}

/// Others than this machine reach nothing, and a service that is taken over can do little.
#[test]
fn services_are_exposed_to_little() {
    let compose = compose();
    let mut published = BTreeSet::new();
    for (name, service) in compose["services"].as_object().unwrap() {
        check(name, &service["read_only"], &true.into());
        check(name, &service["cap_drop"][0], &"ALL".into());
        let privileges = "no-new-privileges:true";
        check(name, &service["security_opt"][0], &privileges.into());
        let (_, tag) = service["image"].as_str().unwrap().split_once(':').unwrap();
        let is_pinned = tag.trim_start_matches('v').split('.').count() == 3;
        assert!(is_pinned, "{name}: {tag} is no version");
        // That of nearhead is in its image.
        let is_nearhead = service["image"] == format!("nearhead:{}", env!("CARGO_PKG_VERSION"));
        let is_checked = is_nearhead || service["healthcheck"]["test"][0] == "CMD";
        assert!(is_checked, "{name} has no health check");
        for port in service["ports"].as_array().into_iter().flatten() {
            check(name, &port["host_ip"], &"127.0.0.1".into());
            published.insert(port["published"].as_str().unwrap().to_owned());
        }
        for (other, condition) in service["depends_on"].as_object().into_iter().flatten() {
            check(other, &condition["condition"], &"service_healthy".into());
        }
    }
    let expected = ["3000", "8545", "8546", "8590", "8591"].map(str::to_owned);
    check("published", &published, &expected.into());
    for name in [&FLEET[..], &["nearhead"]].concat() {
        let key = &compose["services"][name]["environment"]["NEARHEAD_API_KEY"];
        let key = key.as_str().unwrap();
        assert!(key.starts_with("${NEARHEAD_API_KEY:?"), "{key}");
        let image = format!("nearhead:{}", env!("CARGO_PKG_VERSION"));
        check(name, &compose["services"][name]["image"], &image.into());
    }
    // Nothing but the fleet reaches its store, and who has no node reaches none.
    for (network, members) in [
        ("store", [&FLEET[..], &["redis"]].concat()),
        ("chain", ["geth", "leader-1", "leader-2", "nearhead"].into()),
    ] {
        check(
            network,
            &compose["networks"][network]["internal"],
            &true.into(),
        );
        let services = compose["services"].as_object().unwrap();
        let is_member = |service: &Value| names(&service["networks"]).contains(network);
        let found = services.iter().filter(|(_, service)| is_member(service));
        let found: BTreeSet<&str> = found.map(|(name, _)| name.as_str()).collect();
        check(network, &found, &members.into_iter().collect());
    }
}

/// The node is the one that the tests run.
#[test]
fn the_node_is_one_that_is_tested() {
    let setup = project("tests/setup");
    let version = setup
        .lines()
        .find_map(|line| line.strip_prefix("geth_version="));
    let version = version.unwrap().split_whitespace().next().unwrap();
    let image = format!("ethereum/client-go:v{version}");
    check(
        "geth",
        &compose()["services"]["geth"]["image"],
        &image.into(),
    );
}

#[test]
fn prometheus_reads_its_configuration() {
    let mut promtool = Command::new(installed("tests/.tools/bin/promtool"));
    let config = installed("deploy/prometheus/prometheus.yaml");
    let said = run(promtool.args(["check", "config"]).arg(config));
    assert!(said.contains("1 rule files found"), "{said}");
}

/// The environment of a service, with the variables that docs/fleet.md has its reader export.
fn environment(service: &str, store: &str) -> Vec<(String, String)> {
    let environment = &compose()["services"][service]["environment"];
    let variables = environment.as_object().unwrap().iter();
    let value = |value: &Value| match value {
        Value::String(text) => text
            .replace("${NEARHEAD_FLEET_PASSWORD:-}", "a1b2")
            .replace("${NEARHEAD_FLEET_KEY:-}", &"5e".repeat(32))
            .replace("redis:6379", store),
        other => other.to_string(),
    };
    let key = (
        "NEARHEAD_API_KEY".to_owned(),
        format!("alice={}", "k".repeat(16)),
    );
    let variables = variables.map(|(name, of)| (name.clone(), value(of)));
    variables.chain([key]).collect()
}

/// The store that is started there suits the fleet that is started there.
#[test]
fn the_store_suits_the_fleet() {
    let compose = compose();
    // An address of its own, so that no other test takes its port.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.79.{high}.{low}");
    let folder = scratch("compose-store");
    let server = installed("tests/.tools/bin/redis-server");
    let command = compose["services"]["redis"]["command"].as_array().unwrap();
    let started = format!("{} --bind {address}", server.display());
    let command = command.iter().map(|word| {
        let word = word.as_str().unwrap().replace("$$", "$");
        let word = word.replace("valkey-server", &started);
        word.replace("/data", folder.to_str().unwrap())
    });
    let command: Vec<String> = command.collect();
    let start = |password: &str| {
        let mut started = Command::new(&command[0]);
        Process::start(started.args(&command[1..]).env("PASSWORD", password))
    };
    // Without the profile's variables, nothing starts that anybody could use.
    let refused = start("");
    let said = refused.wait().1;
    assert!(said.contains("export NEARHEAD_FLEET_PASSWORD"), "{said}");
    let store = start("a1b2");
    let is_ready = |log: &str| log.contains("Ready to accept connections").then_some(());
    store.output.wait_for("the store", is_ready);
    for service in FLEET {
        let mut doctor = nearhead(["doctor", "--listen", "127.0.0.1:0"]);
        doctor.args(["--admin-listen", "off", "--metrics-listen", "127.0.0.1:0"]);
        let environment = environment(service, &format!("{address}:6379"));
        let (_, text) = Process::start(doctor.envs(environment)).wait();
        for finding in ["good  --fleet-key: 32 bytes", "good  the fleet's store: "] {
            assert!(text.contains(finding), "{service}: {text}");
        }
        let has_node = text.contains("http://geth:8545");
        check(service, &has_node, &service.starts_with("leader"));
    }
    let keyless = environment("replica-1", "redis").into_iter();
    let keyless = keyless.filter(|(name, _)| name != "NEARHEAD_FLEET_KEY");
    let keyless = keyless.chain([("NEARHEAD_FLEET_KEY".to_owned(), String::new())]);
    Process::start(nearhead(["check"]).envs(keyless)).check_end(2);
}

/// A fleet names its chain: that of the node.
#[test]
fn the_chain_is_that_of_the_node() {
    let geth = Geth::dev(&scratch("compose-geth"), 0);
    let mut node = Connection::open(geth.address, "/");
    let genesis = node.result("eth_getBlockByNumber", &json!(["0x0", false]));
    let genesis = format!("0:{}", genesis["hash"].as_str().unwrap());
    for service in FLEET {
        let environment = environment(service, "redis");
        let value = |name: &str| {
            environment
                .iter()
                .find(|(of, _)| of == name)
                .unwrap()
                .1
                .clone()
        };
        check(service, &value("NEARHEAD_TRUSTED_BLOCK"), &genesis);
        check(service, &value("NEARHEAD_CHAIN_ID"), &"1337".to_owned());
    }
}
