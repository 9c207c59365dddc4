"""Scripts of k6 that check answers while the chain moves: closed loops on the dev chain with reorgs. Prints one table
from the summary of k6."""

import json
import os
import subprocess

import k6
from servers import build, start_nearhead
from tables import table

# A script's scenario: what it counts as answered, and which times it measures of that.
SCENARIOS = {
    "smoke": ("requests", "http_reqs", "http_req_duration"),
    "ws-hold": ("requests of sessions", "answers", "answer_ms"),
    "ws-fanout": ("heads to sessions, after the first", "heads", "head_spread_ms"),
    "ws-stalled": ("requests beside stalled sessions", "answers", "answer_ms"),
    "reconnect": ("sessions that are back", "back", "back_ms"),
}


def run(name, options):
    """Runs a script of k6; with NEARHEAD_URL set (NEARHEAD_WS_URL and NEARHEAD_METRICS_URL, where the script needs
    them), against that service instead of one that it starts. Returns the exit code of k6."""
    k6.install()
    if os.environ.get("NEARHEAD_URL"):
        return drive(name, options, {})
    build()
    server = start_nearhead(k6.CHAIN, "", workers=None)
    try:
        return drive(name, options, k6.urls_of(server))
    finally:
        server.stop()


def drive(name, options, urls):
    command, environment, summary = k6.script_command(name, name, options)
    # k6 prints its summary there; its errors and the thresholds that were crossed are in the other stream.
    done = subprocess.run(command, env={**os.environ, **environment, **urls}, stdout=subprocess.DEVNULL)
    if summary.exists():
        print_summary(name, json.loads(summary.read_text()))
    return done.returncode


def print_summary(name, summary):
    what, answered, times = SCENARIOS[name]
    metrics, arrivals = summary["metrics"], os.environ.get("ARRIVALS") if name == "smoke" else None

    def of(metric, value):
        return metrics.get(metric, {}).get(value, 0)

    rows = [
        (
            f"{name}: {what}",
            # A closed loop offers what is answered.
            f"{arrivals} iterations" if arrivals else "closed loop",
            f"{of(answered, 'count'):,}",
            f"{of(answered, 'rate'):,.1f}",
            f"{of('refused', 'count'):,}",
            f"{of(times, 'med'):.2f}",
            f"{of(times, 'p(99)'):.2f}",
            f"{of('checks', 'fails'):,}",
        )
    ]
    table(("scenario", "offered/s", "answered", "answered/s", "refused", "p50 ms", "p99 ms", "wrong"), rows)
    for check, counts in summary["root_group"]["checks"].items():
        if counts["fails"]:
            print(f"wrong: {check}: {counts['fails']:,} of {counts['passes'] + counts['fails']:,}")
