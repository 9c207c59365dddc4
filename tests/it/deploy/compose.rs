//! deploy/compose.yaml: what the reference implementation of the specification reads of it.

use std::{collections::BTreeSet, path::Path, process::Command};

use serde_json::Value;

use super::{project, run};
use crate::harness::{check, installed, json};

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
    let expected = ["geth", "grafana", "nearhead", "prometheus"].map(str::to_owned);
    check("services", &services, &expected.into());
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
    check("mounted", &mounted, &4);
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
        let is_checked = name == "nearhead" || service["healthcheck"]["test"][0] == "CMD";
        assert!(is_checked, "{name} has no health check");
        for port in service["ports"].as_array().into_iter().flatten() {
            check(name, &port["host_ip"], &"127.0.0.1".into());
            published.insert(port["published"].as_str().unwrap().to_owned());
        }
        for (other, condition) in service["depends_on"].as_object().into_iter().flatten() {
            check(other, &condition["condition"], &"service_healthy".into());
        }
    }
    let expected = ["3000", "8545", "8590"].map(str::to_owned);
    check("published", &published, &expected.into());
    let key = &compose["services"]["nearhead"]["environment"]["NEARHEAD_API_KEY"];
    let key = key.as_str().unwrap();
    assert!(key.starts_with("${NEARHEAD_API_KEY:?"), "{key}");
    let version = env!("CARGO_PKG_VERSION");
    let image = format!("nearhead:{version}");
    check(
        "image",
        &compose["services"]["nearhead"]["image"],
        &image.into(),
    );
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
