//! The metrics of a running program match docs/metrics.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::json;

use crate::{
    harness::{Connection, Server, check, request, wait_until},
    websocket::client::Client,
};

/// Compares the exported names, types and labels with the table. A unit test covers the metrics
/// that appear only with an upstream or a session.
#[test]
fn exported_metrics_match_the_table() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md")).unwrap();
    let (_, table) = page.split_once("\n| metric | type | labels |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    // Name, type and labels of each row.
    let rows = table.lines().skip(2).map(|row| {
        let cells: Vec<_> = row.split('|').map(|cell| cell.replace('`', "")).collect();
        let labels = cells[3].split(',').map(|label| label.trim().to_owned());
        let labels: BTreeSet<_> = labels.filter(|label| !label.is_empty()).collect();
        (
            cells[1].trim().to_owned(),
            cells[2].trim().to_owned(),
            labels,
        )
    });
    let rows: Vec<_> = rows.collect();
    let server = Server::start(&["--source", "dev", "--block-time", "0"]);
    let metrics = server.get_admin("/metrics");
    let mut kinds = BTreeMap::new();
    for line in metrics.text().lines() {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            let (name, kind) = line.split_once(' ').unwrap();
            kinds.insert(name.to_owned(), kind.to_owned());
            continue;
        }
        let Some((series, _)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split("\",");
        let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        // Every histogram adds `le`.
        let labels: BTreeSet<_> = labels.filter(|label| label != "le").collect();
        let is_row = |(row, _, has): &&(String, String, BTreeSet<String>)| {
            name.strip_prefix(row.as_str())
                .is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
                && *has == labels
        };
        assert!(
            rows.iter().any(|row| is_row(&row)),
            "not in docs/metrics.md: {line}"
        );
    }
    for (name, kind, labels) in &rows {
        match kinds.get(name) {
            Some(exported) => check(name, exported, kind),
            // A metric with labels appears with its first event, and these with source node, or in
            // a fleet, where `fleet::following` looks for them.
            None if name == "nearhead_header_rules" || name.starts_with("nearhead_fleet_") => {}
            None => assert!(!labels.is_empty(), "{name} is not exported"),
        }
    }
}

/// Only with the option, and by the name of the tenant.
#[test]
fn tenants_have_metrics_if_they_are_asked_for() {
    let keys = ["--api-key", "alice=a1", "--api-key", "bob=b1"];
    let (still, off) = (["--block-time", "0"], Vec::new());
    for (option, is_on) in [(off, false), (vec!["--tenant-metrics"], true)] {
        let server = Server::start(&[&keys[..], &still, &option].concat());
        for (key, method) in [
            ("a1", "eth_chainId"),
            ("b1", "eth_chainId"),
            ("b1", "unknown"),
        ] {
            let mut connection = Connection::open(server.address, &format!("/v3/{key}"));
            connection.post(request(1, method, &json!([])).to_string());
        }
        let _session = Client::open(server.address, "/ws/v3/b1");
        let series = || {
            let metrics = server.get_admin("/metrics");
            let lines = metrics.text().lines().map(str::to_owned);
            let lines = lines.filter(|line| line.contains("tenant=\""));
            lines.collect::<BTreeSet<_>>()
        };
        if !is_on {
            wait_until("what was used is counted", || {
                let total = r#"nearhead_requests_total{method="eth_chainId",outcome="ok"}"#;
                server.metric(total) == 2.0
            });
            check("without the option", &series(), &BTreeSet::new());
            continue;
        }
        let expected = [
            r#"nearhead_tenant_requests_total{outcome="invalid",tenant="bob"} 1"#,
            r#"nearhead_tenant_requests_total{outcome="ok",tenant="alice"} 1"#,
            r#"nearhead_tenant_requests_total{outcome="ok",tenant="bob"} 1"#,
            r#"nearhead_tenant_sessions{tenant="alice"} 0"#,
            r#"nearhead_tenant_sessions{tenant="bob"} 1"#,
            r#"nearhead_tenant_sessions{tenant="other"} 0"#,
            r#"nearhead_tenant_units_total{tenant="alice"} 1"#,
            r#"nearhead_tenant_units_total{tenant="bob"} 3"#,
        ];
        let expected: BTreeSet<_> = expected.map(str::to_owned).into();
        wait_until("what was used is counted", || series() == expected);
    }
}
