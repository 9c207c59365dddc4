//! A Prometheus that scrapes a running service four times a second.

use std::{fs, net::SocketAddr, process::Command};

use serde_json::Value;

use crate::harness::{Process, Server, get, installed, json, scratch, wait_until};

/// A running Prometheus, with the alerts of deploy/.
pub(super) struct Prometheus {
    address: SocketAddr,
    _process: Process,
}

impl Prometheus {
    pub(super) fn scraping(server: &Server) -> Self {
        let folder = scratch("prometheus");
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/alerts.yaml");
        let target = server.admin.unwrap();
        let config = format!(
            "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 1s}}\n\
             rule_files: [{rules:?}]\n\
             scrape_configs:\n\
             - job_name: nearhead\n  static_configs: [{{targets: [{:?}]}}]\n",
            target.to_string()
        );
        let file = folder.join("prometheus.yaml");
        fs::write(&file, config).unwrap();
        let mut command = Command::new(installed("tests/.tools/bin/prometheus"));
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ));
        command.arg("--web.listen-address=127.0.0.1:0");
        let process = Process::start(&mut command);
        let address = process.output.wait_for("Prometheus' address", |text| {
            let line = text
                .lines()
                .find(|line| line.contains("\"Listening on\""))?;
            let (_, address) = line.split_once("address=")?;
            address.split_whitespace().next()?.parse().ok()
        });
        wait_until("Prometheus is ready", || {
            get(address, "/-/ready").status == 200
        });
        Self {
            address,
            _process: process,
        }
    }

    /// The data of an answer of its API.
    pub(super) fn api(&self, path: &str) -> Value {
        let answer = json(&get(self.address, &format!("/api/v1/{path}")).body);
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// How many series an expression yields now.
    pub(super) fn series(&self, expression: &str) -> usize {
        let mut query = String::new();
        for byte in expression.bytes() {
            match byte.is_ascii_alphanumeric() {
                true => query.push(byte.into()),
                false => query.push_str(&format!("%{byte:02X}")),
            }
        }
        let found = self.api(&format!("query?query={query}"));
        found["result"].as_array().unwrap().len()
    }
}
