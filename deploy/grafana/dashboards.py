#!/usr/bin/env python3
"""Writes the dashboards of this folder from the table below. With --check, says which are not as the table says.

A dashboard is a file with rows of panels; a panel is a title, a unit of Grafana, and expressions with their legends.
$instance is what the reader chooses, $range is Grafana's interval for rates.
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent
OF = 'instance=~"$instance"'



def quantiles(histogram, *shares):
    """The quantiles of a histogram, each with its legend."""
    buckets = f"sum by (le) (rate({histogram}_bucket{{{OF}}}[$range]))"
    return [(f"histogram_quantile({share}, {buckets})", f"p{share * 100:.0f}") for share in shares]


TRAFFIC = [
    ("Requests by method", "reqps", [(f"sum by (method) (rate(nearhead_requests_total{{{OF}}}[$range]))", "{{method}}")]),
    ("Requests by outcome", "reqps", [(f"sum by (outcome) (rate(nearhead_requests_total{{{OF}}}[$range]))", "{{outcome}}")]),
    ("Time to answer", "s", quantiles("nearhead_request_seconds", 0.5, 0.9, 0.99)),
    ("p99 by method", "s", [(f"histogram_quantile(0.99, sum by (le, method) (rate(nearhead_request_seconds_bucket{{{OF}}}[$range])))", "{{method}}")]),
    ("HTTP requests in flight", "short", [(f"nearhead_http_requests_in_flight{{{OF}}}", "{{instance}}")]),
    ("Connections", "short", [(f"sum by (listener, key) (nearhead_connections{{{OF}}})", "{{listener}}, key {{key}}")]),
    ("Sessions and subscriptions", "short", [
        (f"sum(nearhead_sessions{{{OF}}})", "sessions"),
        (f"sum(nearhead_subscriptions{{{OF}}})", "subscriptions"),
        (f"sum(nearhead_filters{{{OF}}})", "filters"),
    ]),
    ("Notifications", "short", [(f"sum(rate(nearhead_notifications_total{{{OF}}}[$range]))", "a second")]),
]

HEAD = [
    ("Ready", "short", [(f"nearhead_ready{{{OF}}}", "{{instance}}")]),
    ("Head", "none", [(f"nearhead_head_number{{{OF}}}", "{{instance}}")]),
    ("Age of the head", "s", [(f"nearhead_head_age_seconds{{{OF}}}", "{{instance}}")]),
    ("From an announcement until the head is readable", "s", quantiles("nearhead_head_delay_seconds", 0.5, 0.99)),
    ("What is decided about the head", "short", [(f"nearhead_head_choice{{{OF}}} == 1", "{{instance}}: {{choice}}")]),
    ("Nodes that agree, and that have to", "short", [(f"nearhead_quorum_nodes{{{OF}}}", "{{instance}}: {{kind}}")]),
    ("States of nodes", "short", [(f"nearhead_node_state{{{OF}}} == 1", "{{instance}}: node {{node}} is {{state}}")]),
    ("Faults of nodes", "short", [(f"sum by (instance, node, reason) (increase(nearhead_node_faults_total{{{OF}}}[10m])) > 0", "{{instance}}: node {{node}}: {{reason}}")]),
    ("Nodes that contradict others", "short", [(f"increase(nearhead_node_dissent_total{{{OF}}}[10m])", "{{instance}}: node {{node}}")]),
    ("Answers in which nodes ask for fewer calls", "short", [(f"rate(nearhead_node_limited_total{{{OF}}}[$range])", "{{instance}}: node {{node}}")]),
]

SATURATION = [
    ("Share of requests that are refused", "percentunit", [(f"sum(rate(nearhead_requests_total{{{OF},outcome=\"refused\"}}[$range])) / sum(rate(nearhead_requests_total{{{OF}}}[$range]))", "refused")]),
    ("Connections are refused", "short", [(f"nearhead_refusing_connections{{{OF}}}", "{{instance}}: {{listener}}")]),
    ("What waits in queues", "short", [(f"sum by (class) (nearhead_queue_items{{{OF}}})", "{{class}}")]),
    ("Time in a queue", "s", [(f"sum by (class) (rate(nearhead_queue_wait_seconds_total{{{OF}}}[$range])) / clamp_min(sum by (class) (rate(nearhead_queue_taken_total{{{OF}}}[$range])), 1e-9)", "{{class}}")]),
    ("Refused by queues", "reqps", [(f"sum by (class, reason) (rate(nearhead_queue_refused_total{{{OF}}}[$range]))", "{{class}}: {{reason}}")]),
    ("Permits", "short", [
        (f"sum by (kind) (nearhead_permits_in_use{{{OF}}})", "{{kind}}: in use"),
        (f"sum by (kind) (nearhead_permits_available{{{OF}}})", "{{kind}}: free"),
    ]),
    ("Memory", "bytes", [(f"nearhead_memory_bytes{{{OF}}}", "{{instance}}: {{kind}}")]),
    ("Disk of the data folder", "bytes", [(f"nearhead_disk_bytes{{{OF}}}", "{{instance}}: {{kind}}")]),
    ("Memory of replies that are not taken yet", "bytes", [(f"nearhead_reply_bytes{{{OF}}}", "{{instance}}: {{kind}}")]),
    ("Clients that are too slow, strangers that are evicted", "short", [
        (f"sum(rate(nearhead_slow_clients_total{{{OF}}}[$range]))", "slow"),
        (f"sum by (reason) (rate(nearhead_strangers_evicted_total{{{OF}}}[$range]))", "evicted: {{reason}}"),
        (f"sum(rate(nearhead_key_guesses_throttled_total{{{OF}}}[$range]))", "guesses throttled"),
    ]),
    ("Spans of traces: sent and lost", "short", [(f"sum by (instance, outcome) (rate(nearhead_trace_spans_total{{{OF}}}[$range]))", "{{instance}}: {{outcome}}")]),
    ("Defects", "short", [
        (f"increase(nearhead_panics_total{{{OF}}}[10m])", "{{instance}}: panics"),
        (f"sum by (instance) (increase(nearhead_requests_total{{{OF},outcome=\"internal\"}}[10m]))", "{{instance}}: internal errors"),
    ]),
]

STATE = [
    ("Reads of state", "reqps", [(f"sum by (outcome) (rate(nearhead_state_reads_total{{{OF}}}[$range]))", "{{outcome}}")]),
    ("Calls to nodes for state", "reqps", [(f"sum by (outcome) (rate(nearhead_state_fetches_total{{{OF}}}[$range]))", "{{outcome}}")]),
    ("Merges in ten minutes", "short", [(f"sum by (source, outcome) (increase(nearhead_state_merges_total{{{OF}}}[10m]))", "{{source}}: {{outcome}}")]),
    ("Time until a block is merged", "s", quantiles("nearhead_state_merge_seconds", 0.5, 0.99)),
    ("Changed accounts and slots", "short", [(f"sum by (how) (rate(nearhead_state_merged_keys_total{{{OF}}}[$range]))", "{{how}}")]),
    ("Accounts and slots that merges ask for", "short", [(f"sum(rate(nearhead_state_merge_keys_asked_total{{{OF}}}[$range]))", "a second")]),
    ("JSON that merges ask for", "Bps", [(f"sum(rate(nearhead_state_merge_bytes_total{{{OF}}}[$range]))", "bytes a second")]),
    ("State that is held", "bytes", [(f"nearhead_state_held{{{OF},kind=\"bytes\"}}", "{{instance}}")]),
    ("Saved window: restored and refused", "short", [
        (f"sum by (instance, outcome) (nearhead_saved_blocks_total{{{OF}}})", "{{instance}}: blocks {{outcome}}"),
        (f"sum by (instance, outcome) (nearhead_saved_items_total{{{OF}}})", "{{instance}}: items {{outcome}}"),
    ]),
    ("Saved window: writes", "short", [(f"sum by (instance, outcome) (rate(nearhead_saved_writes_total{{{OF}}}[$range]))", "{{instance}}: {{outcome}}")]),
    ("Saved window: bytes", "bytes", [(f"nearhead_saved_bytes{{{OF}}}", "{{instance}}")]),
    ("Values, nodes of tries, and evictions", "short", [
        (f"nearhead_state_held{{{OF},kind=\"values\"}}", "{{instance}}: values of accounts and slots"),
        (f"nearhead_state_held{{{OF},kind=\"nodes\"}}", "{{instance}}: nodes"),
        (f"rate(nearhead_state_evicted_total{{{OF}}}[$range])", "{{instance}}: evicted a second"),
    ]),
]

# They need --tenant-metrics.
TENANTS = [
    ("Requests", "reqps", [(f"sum by (tenant) (rate(nearhead_tenant_requests_total{{{OF}}}[$range]))", "{{tenant}}")]),
    ("Requests that failed", "reqps", [(f"sum by (tenant, outcome) (rate(nearhead_tenant_requests_total{{{OF},outcome!=\"ok\"}}[$range]))", "{{tenant}}: {{outcome}}")]),
    ("Units", "short", [(f"sum by (tenant) (rate(nearhead_tenant_units_total{{{OF}}}[$range]))", "{{tenant}}")]),
    ("Sessions", "short", [(f"sum by (tenant) (nearhead_tenant_sessions{{{OF}}})", "{{tenant}}")]),
    ("The store fails", "short", [(f"nearhead_tenant_store_failing{{{OF}}}", "{{instance}}")]),
    ("Missing in usage", "reqps", [(f"rate(nearhead_usage_dropped_total{{{OF}}}[$range])", "{{instance}}")]),
]

# They need --fleet.
FLEET = [
    ("Role", "short", [(f"nearhead_fleet_role{{{OF}}} == 1", "{{instance}}: {{role}}")]),
    ("Epoch", "none", [(f"nearhead_fleet_epoch{{{OF}}}", "{{instance}}")]),
    ("Time behind the store", "s", [(f"nearhead_fleet_lag_seconds{{{OF}}}", "{{instance}}")]),
    ("Entries behind the store", "short", [(f"nearhead_fleet_lag_entries{{{OF}}}", "{{instance}}")]),
    ("Head", "none", [(f"nearhead_head_number{{{OF}}}", "{{instance}}")]),
    ("Changes of the lease", "short", [(f"increase(nearhead_fleet_lease_changes_total{{{OF}}}[10m])", "{{instance}}: {{change}}")]),
    ("Entries that are applied", "short", [(f"rate(nearhead_fleet_entries_applied_total{{{OF}}}[$range])", "{{instance}}")]),
    ("Entries that are refused", "short", [(f"sum by (instance, reason) (increase(nearhead_fleet_entries_refused_total{{{OF}}}[10m]))", "{{instance}}: {{reason}}")]),
    ("Looks for a snapshot", "short", [(f"sum by (instance, reason) (increase(nearhead_fleet_refills_total{{{OF}}}[10m]))", "{{instance}}: {{reason}}")]),
    ("Calls to the store that failed", "short", [(f"rate(nearhead_fleet_store_failures_total{{{OF}}}[$range])", "{{instance}}")]),
    ("What nodes have in the head's place", "short", [(f"sum by (instance, answer) (increase(nearhead_fleet_head_checks_total{{{OF}}}[10m]))", "{{instance}}: {{answer}}")]),
    ("Requests that waited for a block", "reqps", [(f"sum by (outcome) (rate(nearhead_min_block_waits_total{{{OF}}}[$range]))", "{{outcome}}")]),
]

DASHBOARDS = {
    "traffic": ("nearhead: traffic", TRAFFIC),
    "head-and-nodes": ("nearhead: head and nodes", HEAD),
    "saturation": ("nearhead: saturation", SATURATION),
    "state": ("nearhead: state", STATE),
    "tenants": ("nearhead: tenants", TENANTS),
    "fleet": ("nearhead: fleet", FLEET),
}

SOURCE = {"type": "prometheus", "uid": "${source}"}


def panel(at, title, unit, targets):
    return {
        "id": at + 1,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {"x": at % 2 * 12, "y": at // 2 * 8, "w": 12, "h": 8},
        # Numbers of blocks are far from zero.
        "fieldConfig": {"defaults": {"unit": unit} if unit == "none" else {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": expression.replace("$range", "$__rate_interval"),
                "legendFormat": legend,
            }
            for index, (expression, legend) in enumerate(targets)
        ],
    }


def dashboard(name, title, panels):
    instance = "label_values(nearhead_head_number, instance)"
    return {
        "uid": f"nearhead-{name}",
        "title": title,
        "tags": ["nearhead"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [{"type": "dashboards", "title": "nearhead", "tags": ["nearhead"], "asDropdown": True, "keepTime": True, "includeVars": True}],
        "templating": {
            "list": [
                {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                {
                    "name": "instance",
                    "label": "Instance",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": {"query": instance, "refId": "instances"},
                    "definition": instance,
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                },
            ]
        },
        "panels": [panel(at, *of) for at, of in enumerate(panels)],
    }


def main():
    changed = []
    for name, (title, panels) in DASHBOARDS.items():
        path = FOLDER / f"{name}.json"
        text = json.dumps(dashboard(name, title, panels), indent=1, ensure_ascii=False) + "\n"
        if not path.exists() or path.read_text() != text:
            changed.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    print("\n".join(changed))
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
