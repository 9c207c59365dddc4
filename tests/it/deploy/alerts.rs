//! Alerts and dashboards: that they fire when they have to, and ask for what is exported.

use std::{collections::BTreeSet, process::Command};

use serde_json::{Value, json};

use super::{project, prometheus::Prometheus};
use crate::{
    harness::{
        Connection, KEY, Process, Server, UnusedPort, check, installed, json, serving, wait_until,
    },
    upstreams::Anvil,
};

const DASHBOARDS: [&str; 6] = [
    "traffic",
    "head-and-nodes",
    "saturation",
    "state",
    "tenants",
    "fleet",
];

/// The values of `name: value` in lines of YAML.
fn values<'y>(yaml: &'y str, name: &str) -> Vec<&'y str> {
    let value = |line: &'y str| line.trim_start_matches([' ', '-']).strip_prefix(name);
    yaml.lines().filter_map(value).map(str::trim).collect()
}

/// deploy/prometheus/alerts_test.yaml has what each alert is for, and what it is not for.
#[test]
fn alerts_fire_when_they_have_to() {
    let run = |arguments: [&str; 3]| {
        let mut promtool = Command::new(installed("tests/.tools/bin/promtool"));
        promtool
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = promtool.output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        check(&text, &output.status.success(), &true);
    };
    run(["check", "rules", "deploy/prometheus/alerts.yaml"]);
    run(["test", "rules", "deploy/prometheus/alerts_test.yaml"]);
    let tests = project("deploy/prometheus/alerts_test.yaml");
    for alert in values(&project("deploy/prometheus/alerts.yaml"), "alert:") {
        // Of an instance, or of a fleet.
        let fires = [
            "instance=\"bad\"",
            "job=\"none\"",
            "job=\"two\"",
            "job=\"often\"",
        ];
        let is_tested = fires.iter().any(|of| {
            let fires = format!("{{alertname=\"{alert}\", {of}}}', value: 1}}");
            tests.contains(&fires)
        });
        assert!(is_tested, "{alert} is not tested");
    }
}

/// A pattern of which one part is a wrong name still yields a series.
#[test]
fn alerts_choose_series_by_names_that_exist() {
    let alerts = project("deploy/prometheus/alerts.yaml");
    // The choices, the faults and the checks, as the code has them.
    let known = project("docs/nodes.md");
    let mut count = 0;
    for pattern in alerts.split("=~\"").skip(1) {
        let (pattern, _) = pattern.split_once('"').unwrap();
        let members = "block_member|receipt_member|ommer_member";
        let pattern = pattern.replace("(block|receipt|ommer)_member", members);
        for name in pattern.split('|').map(|name| name.trim_start_matches(".*")) {
            count += 1;
            assert!(known.contains(&format!("{name}` |")), "{name}");
        }
    }
    check("names", &count, &20);
}

/// Where an alert sends its reader, there is something to read.
#[test]
fn alerts_lead_to_the_runbook() {
    let alerts = project("deploy/prometheus/alerts.yaml");
    let runbook = project("docs/operations.md");
    let headings = runbook.lines().filter(|line| line.starts_with("##"));
    let anchor = |heading: &str| heading.trim_start_matches('#').trim().to_lowercase();
    let anchors = headings.map(|heading| anchor(heading).replace(' ', "-"));
    let anchors: BTreeSet<String> = anchors.collect();
    let links = values(&alerts, "runbook:");
    check("links", &links.len(), &values(&alerts, "alert:").len());
    for link in links {
        let anchor = link.strip_prefix("docs/operations.md#").unwrap();
        assert!(anchors.contains(anchor), "{link} is not there");
    }
}

#[test]
fn dashboards_are_what_their_table_says() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/grafana/dashboards.py");
    let output = Command::new("python3").args([script, "--check"]).output();
    let output = output.unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    check("run deploy/grafana/dashboards.py", &text.trim(), &"");
    check("its end", &output.status.success(), &true);
}

/// The expressions of all panels, as Grafana asks for them.
fn of_panels() -> Vec<String> {
    let mut expressions = Vec::new();
    for name in DASHBOARDS {
        let dashboard = json(project(&format!("deploy/grafana/{name}.json")).as_bytes());
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                let expression = expression.replace("$instance", ".*");
                expressions.push(expression.replace("$__rate_interval", "10s"));
            }
        }
    }
    expressions
}

/// The expressions of all alerts, without what they are compared with.
fn of_alerts(prometheus: &Prometheus) -> Vec<String> {
    let data = prometheus.api("rules");
    let rules = data["groups"][0]["rules"].as_array().unwrap();
    let expression = |rule: &Value| {
        let text = rule["query"].as_str().unwrap();
        let (value, bound) = text.rsplit_once(' ').unwrap();
        assert!(bound.parse::<f64>().is_ok(), "{text}");
        let value = value.trim_end_matches(['<', '>', '=', ' ']);
        value.to_owned()
    };
    rules.iter().map(expression).collect()
}

/// The store of a fleet, and its URL.
fn store() -> (Process, String) {
    // An address of its own, so that no other test takes its port.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.80.{high}.{low}");
    let mut command = Command::new(installed("tests/.tools/bin/redis-server"));
    let process = Process::start(command.args(["--bind", &address, "--save", ""]));
    let is_ready = |log: &str| log.contains("Ready to accept connections").then_some(());
    process.output.wait_for("the store", is_ready);
    (process, format!("redis://{address}"))
}

/// What nothing asks for any more, or never did under that name, yields nothing.
#[test]
fn every_expression_yields_a_series() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(3);
    let url = format!("http://{}", anvil.address);
    // Nobody listens there: a node with faults.
    let unused = UnusedPort::take();
    let faulty = format!("http://{}", unused.address());
    let nodes = [
        "--source", "node", "--node", &url, "--node", &faulty, "--quorum", "1",
    ];
    // It leads a fleet, which is a process alone.
    let (_store, store) = store();
    let genesis =
        Connection::open(anvil.address, "/").result("eth_getBlockByNumber", &json!(["0x0", false]));
    let genesis = format!("0:{}", genesis["hash"].as_str().unwrap());
    let secret = "5e".repeat(32);
    let fleet = [
        "--fleet",
        &store,
        "--fleet-key",
        &secret,
        "--chain-id",
        "31337",
        "--trusted-block",
        &genesis,
    ];
    // Nobody takes the spans either.
    let more = [
        "--tenant-metrics",
        "--otlp-endpoint",
        &faulty,
        "--otlp-sample-ratio",
        "1",
    ];
    let server = Server::of(&mut serving(&[&nodes[..], &fleet, &more].concat()));
    let mut client = Connection::open(server.address, &format!("/v3/{KEY}"));
    client.result("eth_chainId", &json!([]));
    // A tenant's requests that fail.
    client.call("eth_unknown", &json!([]));
    let prometheus = Prometheus::scraping(&server);
    let alerts = of_alerts(&prometheus);
    let written = project("deploy/prometheus/alerts.yaml");
    check("alerts", &alerts.len(), &values(&written, "alert:").len());
    for expression in of_panels().iter().chain(&alerts) {
        wait_until(expression, || prometheus.series(expression) > 0);
    }
    // 0 of 0 spans are a series too.
    let is_of_spans = |alert: &&String| alert.contains("nearhead_trace_spans_total");
    let lost = alerts.iter().find(is_of_spans).unwrap();
    let all_are_lost = format!("({lost}) == 1");
    wait_until(&all_are_lost, || {
        client.result("eth_chainId", &json!([]));
        prometheus.series(&all_are_lost) > 0
    });
    check("a wrong name", &prometheus.series("nearhead_head"), &0);
}
