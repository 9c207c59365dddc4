//! The pod that the chart makes: its environment is run, its probes are asked.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use super::{
    chart::{cases, render, workload},
    project,
};
use crate::harness::{
    Connection, Process, Server, check, get, nearhead, printed, request, scratch, wait_until,
};

/// The variables of the service's container. A part of the pod's resources is 2.
fn environment(objects: &[Value]) -> BTreeMap<String, String> {
    let pod = &workload(objects)["spec"]["template"]["spec"];
    let variables = pod["containers"][0]["env"].as_array().unwrap().iter();
    let read = |variable: &Value| {
        let from = &variable["valueFrom"];
        let field = &from["resourceFieldRef"]["resource"];
        let entry = &from["secretKeyRef"]["key"];
        let value = match (field.as_str(), entry.as_str()) {
            (Some("requests.cpu"), _) => "2",
            (_, Some("url")) => "rediss://nearhead:secret@redis.example.org",
            (_, Some("key")) => "5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e",
            _ => variable["value"].as_str().unwrap(),
        };
        (
            variable["name"].as_str().unwrap().to_owned(),
            value.to_owned(),
        )
    };
    let all: BTreeMap<_, _> = variables.clone().map(read).collect();
    check("each is set once", &all.len(), &variables.len());
    all
}

/// The value of an option in what `nearhead check` prints.
fn shown<'t>(text: &'t str, option: &str) -> &'t str {
    let lines = text.lines().filter_map(|line| line.split_once(" = "));
    let mut lines = lines.filter(|(name, _)| name.trim_end() == option);
    let (_, value) = lines.next().unwrap_or_else(|| panic!("{option}: {text}"));
    value.trim_end()
}

/// Each is an option of the service, which accepts its value.
#[test]
fn the_service_accepts_the_environment() {
    let options = project("docs/configuration.md");
    let file = scratch("pod-config").join("nearhead.toml");
    fs::write(&file, "api-key = [\"alice=0123456789abcdef\"]\n").unwrap();
    for (name, values, _) in cases() {
        let mut environment = environment(&render(&format!("check-{name}"), &values));
        environment.retain(|name, _| name.starts_with("NEARHEAD_"));
        let config = environment.remove("NEARHEAD_CONFIG");
        let has_secret = values["configSecret"].is_string();
        check(name, &config.is_some(), &has_secret);

        let mut command = nearhead(["check"]);
        command.env_clear().envs(&environment);
        if has_secret {
            command.env("NEARHEAD_CONFIG", &file);
        }
        let text = Process::start(&mut command).check_end(0);
        for variable in environment.keys() {
            let option = variable.trim_start_matches("NEARHEAD_");
            let option = option.to_lowercase().replace('_', "-");
            assert!(options.contains(&format!("\n| `{option}` |")), "{variable}");
            let origin = format!("# {variable}");
            assert!(shown(&text, &option).ends_with(&origin), "{name}: {text}");
        }
        // Numbers of Helm are floats, and an empty value would be none.
        if name == "everything" {
            for (option, value) in [
                ("state-bytes", "2147483648 "),
                ("rate-limit", "0 "),
                ("omit-total-difficulty", "false "),
                ("workers", "5 "),
                ("pool-threads", "2 "),
                ("shutdown-delay", "10s "),
            ] {
                let found = shown(&text, option);
                assert!(found.starts_with(value), "{option}: {found}");
            }
            let hosts = shown(&text, "allowed-host");
            for host in ["rpc-nearhead-admin.chain.svc", "ops.example.org"] {
                assert!(hosts.contains(host), "{hosts}");
            }
        }
    }
}

/// Puts a file there as the kubelet does: links lead to a folder, and one of them is replaced.
fn publish(folder: &std::path::Path, version: &str, text: &str) {
    fs::create_dir(folder.join(version)).unwrap();
    fs::write(folder.join(version).join("nearhead.toml"), text).unwrap();
    symlink(version, folder.join("..new")).unwrap();
    fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
    let file = folder.join("nearhead.toml");
    if file.symlink_metadata().is_err() {
        symlink("..data/nearhead.toml", file).unwrap();
    }
}

/// The service runs on this environment alone, and its probes answer. A changed Secret is in force
/// without a restart.
#[test]
fn the_pod_runs() {
    let values = json!({
        "options": {"source": "dev", "block-time": "0s"}, "configSecret": "keys",
    });
    let objects = render("runs", &values);
    let folder = scratch("pod-secret");
    publish(&folder, "..1", "api-key = [\"alice=0123456789abcdef\"]\n");
    let data = scratch("pod-data");
    let mut command = nearhead([]);
    command.env_clear();
    for (name, value) in environment(&objects) {
        // Free ports, and folders of this machine.
        let value = match name.ends_with("LISTEN") {
            true => "127.0.0.1:0".to_owned(),
            false => value.replace("/etc/nearhead", folder.to_str().unwrap()),
        };
        let value = value.replace("/var/lib/nearhead", data.to_str().unwrap());
        command.env(name, value);
    }
    let server = Server::of(&mut command);
    let metrics = server
        .process
        .output
        .wait_for("the metrics listener", |text| printed(text, "metrics"));

    let pod = &workload(&objects)["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let asked = &container[probe]["httpGet"];
        check(probe, &asked["port"], &json!("metrics"));
        let path = asked["path"].as_str().unwrap();
        check(path, &get(metrics, path).status, &200);
    }
    // As long as the service may take to end.
    let grace = &pod["terminationGracePeriodSeconds"];
    check("grace", grace, &json!(10 + 20 + 10));

    let is_let_in = |key: &str| {
        let mut client = Connection::open(server.address, &format!("/v3/{key}"));
        let call = request(1, "eth_chainId", &json!([]));
        client.post(call.to_string()).status == 200
    };
    check("the first key", &is_let_in("0123456789abcdef"), &true);
    publish(&folder, "..2", "api-key = [\"bob=fedcba9876543210\"]\n");
    wait_until("the second key is in force", || {
        is_let_in("fedcba9876543210")
    });
    check("the first key", &is_let_in("0123456789abcdef"), &false);
}

/// The Pod Security Standard `restricted`, a read-only root, and room for nothing else.
#[test]
fn pods_may_do_little() {
    for (name, values, _) in cases() {
        let objects = render(&format!("restricted-{name}"), &values);
        let pods = objects.iter().filter_map(|object| match &object["kind"] {
            kind if kind == "Pod" => Some(&object["spec"]),
            _ => object["spec"].get("template").map(|pod| &pod["spec"]),
        });
        let mut count = 0;
        for pod in pods {
            count += 1;
            let security = &pod["securityContext"];
            check(name, &security["runAsNonRoot"], &json!(true));
            check(
                name,
                &security["seccompProfile"]["type"],
                &json!("RuntimeDefault"),
            );
            check(name, &pod["automountServiceAccountToken"], &json!(false));
            check(name, &pod["enableServiceLinks"], &json!(false));
            let restricted = json!({
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            });
            let containers = pod["containers"].as_array().unwrap();
            check(name, &containers.len(), &1);
            check(name, &containers[0]["securityContext"], &restricted);
            assert!(containers[0]["resources"].get("limits").is_some(), "{pod}");
            let kinds = ["emptyDir", "secret", "configMap"];
            for volume in pod["volumes"].as_array().unwrap_or(&Vec::new()) {
                assert!(
                    kinds.iter().any(|kind| volume.get(kind).is_some()),
                    "{volume}"
                );
            }
        }
        check(name, &count, &2);
    }
}
