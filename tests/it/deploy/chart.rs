//! The Helm chart: what it refuses, and that what it makes is valid and fits together.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::{Value, json};

use super::project;
use crate::harness::{Process, check, installed, json, run_with_input, scratch};

/// Oldest and newest version that the objects are validated for, and one between them.
const KUBERNETES: [&str; 3] = ["1.27", "1.32", "1.37"];

/// The values that the chart is rendered with, each with the objects that it makes.
pub(super) fn cases() -> [(&'static str, Value, Vec<&'static str>); 3] {
    let node = json!({"node": ["http://geth:8545", "wss://reth:8546"], "network": "mainnet"});
    let always = [
        "Pod",
        "PodDisruptionBudget",
        "Service",
        "Service",
        "StatefulSet",
    ];
    let peers = json!([{"namespaceSelector": {"matchLabels": {"a": "b"}}}]);
    let everything = json!({
        "image": {"repository": "ghcr.io/a/nearhead", "digest": format!("sha256:{:064}", 0)},
        "imagePullSecrets": [{"name": "registry"}],
        "replicas": 3,
        "options": {
            "node": ["http://geth:8545"], "state-bytes": 2_147_483_648_u64, "rate-limit": 0,
            "omit-total-difficulty": false, "allowed-host": ["ops.example.org"], "workers": 5,
            "network": "mainnet",
        },
        "configSecret": "keys",
        "fleet": {"existingSecret": "fleet"},
        "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}},
        "admin": {"access": "service"},
        "persistence": {"storageClass": "fast"},
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": true, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": true},
        "networkPolicy": {
            "enabled": true, "clients": peers, "monitoring": peers, "operators": peers,
            "egress": [{"to": peers}],
        },
        "podAnnotations": {"a": "b"},
        "podLabels": {"a": "b"},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "priorityClassName": "high",
        "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/ca/ca.pem"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
    });
    let of_everything = [
        &["ConfigMap", "NetworkPolicy"][..],
        &always[..2],
        &["PrometheusRule", "Service", "Service", "Service"],
        &["ServiceMonitor", "StatefulSet"],
    ];
    let stateless = json!({
        "options": {"source": "dev"}, "listenAddress": "[::]", "admin": {"access": "off"},
        "persistence": {"enabled": false}, "resources": {"requests": null},
        "podDisruptionBudget": {"enabled": false},
    });
    let of_stateless = vec!["Deployment", "Pod", "Service", "Service"];
    [
        ("nodes", json!({"options": node}), always.to_vec()),
        ("everything", everything, of_everything.concat()),
        ("stateless", stateless, of_stateless),
    ]
}

/// Runs helm; returns its success, its output and its messages.
fn helm(arguments: &[&str]) -> (bool, String, String) {
    let mut helm = Command::new(installed("tests/.tools/bin/helm"));
    // What the user of this machine has set up is no part of a test.
    helm.args(arguments)
        .env("HELM_CONFIG_HOME", "/nonexistent")
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = helm.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The objects of a chart with these values, in YAML, or why there are none.
fn template(name: &str, chart: &str, values: &Value) -> Result<String, String> {
    let file = scratch(&format!("chart-{name}")).join("values.json");
    fs::write(&file, values.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let release = ["template", "rpc", chart, "--namespace", "chain"];
    let given = ["--kube-version", KUBERNETES[2], "--values", file];
    let (is_done, objects, messages) = helm(&[&release[..], &given].concat());
    is_done.then_some(objects).ok_or(messages)
}

/// Reads YAML; with arguments, validates what it has.
pub(super) fn read_yaml(yaml: &str, arguments: &[&str]) -> Result<Vec<Value>, String> {
    let mut python = Command::new(installed("tests/.tools/kubernetes/bin/python"));
    python
        .arg(installed("tests/chart/objects.py"))
        .args(arguments);
    let output = run_with_input(&mut python, yaml.as_bytes());
    match output.status.success() {
        true => Ok(json(&output.stdout).as_array().unwrap().clone()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// The objects of the chart with these values.
pub(super) fn render(name: &str, values: &Value) -> Vec<Value> {
    let yaml = template(name, "deploy/chart", values).unwrap();
    read_yaml(&yaml, &[]).unwrap()
}

/// The folder with the definitions of the Prometheus operator.
fn definitions() -> String {
    let folder = fs::read_dir(installed("tests/.tools/kubernetes")).unwrap();
    let mut paths = folder.map(|entry| entry.unwrap().path());
    let path = paths.find(|path| path.to_str().unwrap().contains("/operator-"));
    path.unwrap().to_str().unwrap().to_owned()
}

/// The objects of a kind, by their names.
fn of_kind<'o>(objects: &'o [Value], kind: &str) -> BTreeMap<&'o str, &'o Value> {
    let objects = objects.iter().filter(|object| object["kind"] == *kind);
    objects
        .map(|object| (object["metadata"]["name"].as_str().unwrap(), object))
        .collect()
}

/// The StatefulSet, or the Deployment.
pub(super) fn workload(objects: &[Value]) -> &Value {
    let is_workload = |object: &&Value| object["spec"]["template"].is_object();
    objects.iter().find(is_workload).unwrap()
}

#[test]
fn what_the_chart_makes_is_valid() {
    let definitions = definitions();
    let arguments = [&[definitions.as_str()][..], &KUBERNETES].concat();
    for (name, values, kinds) in cases() {
        let yaml = template(&format!("valid-{name}"), "deploy/chart", &values).unwrap();
        let objects = read_yaml(&yaml, &arguments).unwrap();
        let mut made: Vec<_> = objects.iter().map(|one| &one["kind"]).collect();
        made.sort_by_key(|kind| kind.as_str());
        check(name, &json!(made), &json!(kinds));

        let file = scratch(&format!("lint-{name}")).join("values.json");
        fs::write(&file, values.to_string()).unwrap();
        let lint = ["lint", "--strict", "deploy/chart", "--values"];
        let version = ["--kube-version", KUBERNETES[0]];
        let (is_clean, found, _) = helm(&[&lint[..], &[file.to_str().unwrap()], &version].concat());
        check(&format!("{name}: {found}"), &is_clean, &true);
    }
    // What checks them notices what is wrong, in objects of both origins.
    for (kind, group) in [
        ("Service", "v1"),
        ("ServiceMonitor", "monitoring.coreos.com/v1"),
    ] {
        let object = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "a"},
            "spec": {"selector": {}, "endpoints": [], "selektor": {}}});
        let refusal = read_yaml(&object.to_string(), &arguments).unwrap_err();
        assert!(refusal.contains("selektor"), "{refusal}");
    }
}

#[test]
fn the_schema_refuses_what_the_chart_does_not_know() {
    for (values, named) in [
        (json!({"replcas": 2}), "replcas"),
        (
            json!({"serviceMonitor": {"enable": true}}),
            "'/serviceMonitor'",
        ),
        (json!({"options": {"netwrok": "mainnet"}}), "netwrok"),
        // The chart sets it.
        (json!({"options": {"listen": "127.0.0.1:1"}}), "'listen'"),
        // It is a secret.
        (json!({"options": {"api-key": "alice=secret"}}), "'api-key'"),
        (json!({"options": {"fleet-key": "5e5e"}}), "'fleet-key'"),
        (json!({"options": {"quorum": 1.5}}), "'/options/quorum'"),
        (json!({"admin": {"access": "public"}}), "'/admin/access'"),
        (json!({"image": {"digest": "sha256:1"}}), "'/image/digest'"),
        (json!({"service": {"port": "http"}}), "'/service/port'"),
        (
            json!({"shutdown": {"graceSeconds": -1}}),
            "'/shutdown/graceSeconds'",
        ),
        (json!({}), "options.node is missing"),
    ] {
        let refusal = template("refused", "deploy/chart", &values).unwrap_err();
        assert!(refusal.contains(named), "{values}: {refusal}");
    }
}

/// Whether each of these labels is among those.
fn selects(labels: &Value, all: &Value) -> bool {
    let mut labels = labels.as_object().unwrap().iter();
    labels.all(|(name, value)| all[name] == *value)
}

/// Selectors and names of ports are strings, which nothing else compares.
#[test]
fn the_objects_fit_together() {
    for (name, values, _) in cases() {
        let objects = render(&format!("fit-{name}"), &values);
        let workload = workload(&objects);
        let pod = &workload["spec"]["template"];
        let labels = &pod["metadata"]["labels"];
        let container = &pod["spec"]["containers"][0];
        let ports = container["ports"].as_array().unwrap().iter();
        let ports: BTreeSet<_> = ports.map(|port| port["name"].as_str().unwrap()).collect();

        let services = of_kind(&objects, "Service");
        let mut selectors = vec![&workload["spec"]["selector"]["matchLabels"]];
        for service in services.values() {
            selectors.push(&service["spec"]["selector"]);
            for port in service["spec"]["ports"].as_array().unwrap() {
                let target = port["targetPort"].as_str().unwrap();
                assert!(ports.contains(target), "{name}: {service}");
            }
        }
        for budget in of_kind(&objects, "PodDisruptionBudget").values() {
            selectors.push(&budget["spec"]["selector"]["matchLabels"]);
        }
        for policy in of_kind(&objects, "NetworkPolicy").values() {
            selectors.push(&policy["spec"]["podSelector"]["matchLabels"]);
            let rules = policy["spec"]["ingress"].as_array().unwrap().iter();
            let open = rules.map(|rule| rule["ports"][0]["port"].as_str().unwrap());
            check(name, &open.collect::<BTreeSet<_>>(), &ports);
        }
        for selector in selectors {
            assert!(selects(selector, labels), "{name}: {selector}, {labels}");
            let test = of_kind(&objects, "Pod")["rpc-nearhead-ready"];
            assert!(!selects(selector, &test["metadata"]["labels"]), "{test}");
        }
        for monitor in of_kind(&objects, "ServiceMonitor").values() {
            let selector = &monitor["spec"]["selector"]["matchLabels"];
            let selected = services
                .iter()
                .filter(|(_, service)| selects(selector, &service["metadata"]["labels"]));
            let selected: Vec<_> = selected.map(|(name, _)| *name).collect();
            check("scraped", &selected, &vec!["rpc-nearhead-metrics"]);
            let endpoint = &monitor["spec"]["endpoints"][0];
            let port = &services[selected[0]]["spec"]["ports"][0]["name"];
            check("port", &endpoint["port"], port);
            let job = json!([{"targetLabel": "job", "replacement": "nearhead"}]);
            check("the job of the alerts", &endpoint["relabelings"], &job);
        }
        if workload["kind"] == "StatefulSet" {
            let service = workload["spec"]["serviceName"].as_str().unwrap();
            check(
                service,
                &services[service]["spec"]["clusterIP"],
                &json!("None"),
            );
        }
    }
}

/// There is one source of each, which the chart links to.
#[test]
fn alerts_and_dashboards_are_those_of_the_project() {
    let (_, values, _) = &cases()[1];
    let objects = render("monitoring", values);
    let rule = of_kind(&objects, "PrometheusRule")["rpc-nearhead"];
    let alerts = read_yaml(&project("deploy/prometheus/alerts.yaml"), &[]).unwrap();
    check("alerts", &rule["spec"], &alerts[0]);

    let dashboards = of_kind(&objects, "ConfigMap")["rpc-nearhead-dashboards"];
    let dashboards = dashboards["data"].as_object().unwrap();
    for (file, text) in dashboards {
        let name = file.strip_prefix("nearhead-").unwrap();
        let dashboard = project(&format!("deploy/grafana/{name}"));
        check(
            file,
            &json(text.as_str().unwrap().as_bytes()),
            &json(dashboard.as_bytes()),
        );
    }
    check("dashboards", &dashboards.len(), &6);
}

/// A package has the files that the chart links to.
#[test]
fn a_package_makes_the_same_objects() {
    let folder = scratch("chart-package");
    let destination = ["--destination", folder.to_str().unwrap()];
    let (is_done, _, messages) = helm(&[&["package", "deploy/chart"][..], &destination].concat());
    check(&messages, &is_done, &true);
    let package = format!("nearhead-{}.tgz", env!("CARGO_PKG_VERSION"));
    let package = folder.join(package);
    let (_, values, _) = &cases()[1];
    let packaged = template("packaged", package.to_str().unwrap(), values);
    let linked = template("linked", "deploy/chart", values);
    check("objects", &packaged, &linked);

    let chart = &read_yaml(&project("deploy/chart/Chart.yaml"), &[]).unwrap()[0];
    check("version", &chart["appVersion"], &chart["version"]);
}

/// A released chart names the image of its release, which nobody can replace.
#[test]
fn a_released_chart_has_its_image() {
    let folder = scratch("chart-release");
    let digest = format!("sha256:{:064x}", 0xab);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/package-chart");
    let pack = |image: &str, digest: &str| {
        let mut pack = Command::new(script);
        pack.args([image, digest]).arg(&folder);
        Process::start(&mut pack).wait()
    };
    let (status, text) = pack("ghcr.io/a/nearhead", &digest);
    check(&text, &status.success(), &true);
    let package = format!("nearhead-{}.tgz", env!("CARGO_PKG_VERSION"));
    let values = json!({"options": {"source": "dev"}});
    let package = folder.join(package);
    let yaml = template("released", package.to_str().unwrap(), &values).unwrap();
    let objects = read_yaml(&yaml, &[]).unwrap();
    let image = &workload(&objects)["spec"]["template"]["spec"]["containers"][0]["image"];
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("ghcr.io/a/nearhead:{version}@{digest}");
    check("image", image, &json!(expected));

    for (image, digest) in [("ghcr.io/A|b", digest.as_str()), ("a/nearhead", "sha256:1")] {
        let (status, text) = pack(image, digest);
        check(&text, &status.code(), &Some(1));
    }
}

/// Names of all values: of a schema, where one without members of its own ends the name.
fn names(schema: &Value, definitions: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    let link = schema["$ref"]
        .as_str()
        .and_then(|link| link.rsplit_once('/'));
    let schema = link.map_or(schema, |(_, name)| &definitions[name]);
    let Some(members) = schema["properties"].as_object() else {
        found.insert(prefix.to_owned());
        return;
    };
    // These go into an object of Kubernetes as they are.
    if prefix == "resources" {
        found.insert(prefix.to_owned());
        return;
    }
    for (name, member) in members {
        let name = [prefix, name].join(".");
        names(member, definitions, name.trim_start_matches('.'), found);
    }
}

/// values.yaml, the schema and the table have the same values.
#[test]
fn every_value_is_documented() {
    let schema = json(project("deploy/chart/values.schema.json").as_bytes());
    let mut known = BTreeSet::new();
    names(&schema, &schema["definitions"], "", &mut known);
    // Of Helm, not of this chart.
    assert!(known.remove("global"));

    let defaults = &read_yaml(&project("deploy/chart/values.yaml"), &[]).unwrap()[0];
    let page = project("deploy/chart/README.md");
    let (_, table) = page.split_once("|---|---|---|\n").unwrap();
    let mut documented = BTreeSet::new();
    for row in table.lines() {
        let cells: Vec<_> = row.split(" | ").collect();
        let name = cells[0].trim_matches(['|', ' ', '`']);
        let default = defaults.pointer(&format!("/{}", name.replace('.', "/")));
        let default = default.unwrap_or_else(|| panic!("values.yaml has no {name}"));
        let written = format!("`{default}`");
        let is_long = cells[1] == "see values.yaml";
        assert!(is_long || cells[1] == written, "{row}: {written}");
        documented.insert(name.to_owned());
    }
    check("the table", &documented, &known);

    // As above, but of the defaults: each is a value that the schema knows.
    for (name, value) in defaults.as_object().unwrap() {
        let members = value.as_object().filter(|_| !known.contains(name));
        for member in members.into_iter().flatten() {
            let name = format!("{name}.{}", member.0);
            assert!(known.contains(&name), "{name}");
        }
        assert!(known.contains(name) || members.is_some(), "{name}");
    }
}
