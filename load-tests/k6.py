"""k6 as the load generator: `offer.js` with a plan, or another script; dashboard and figures in results/."""

import json
import os
import pathlib
import subprocess

from figures import STEPS, Step
from servers import RESULTS, ROOT, WORK, Failure, pinned

K6 = WORK / "bin" / "k6"
# k6 exits with this code if a threshold was crossed.
THRESHOLD_CROSSED = 99
OUTCOMES = ("good", "refused", "late", "wrong")
# The chain of the scripts.
CHAIN = ["--source", "dev", "--reorg-every", "20", "--reorg-depth", "3"]
# The option of k6 that names the file of its summary.
SUMMARY = "--summary-export"


def install():
    subprocess.run([str(ROOT / "load-tests/setup"), "k6"], check=True)


def command(script, name, options=(), cores=""):
    """The command that runs a script and its environment, which makes it write the dashboard."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    environment = {
        "K6_WEB_DASHBOARD": "true",
        # No server for browsers: it would keep k6 running, and two runs would want its port.
        "K6_WEB_DASHBOARD_PORT": "-1",
        "K6_WEB_DASHBOARD_PERIOD": "1s",
        "K6_WEB_DASHBOARD_EXPORT": str(RESULTS / f"{name}.html"),
        "K6_NO_USAGE_REPORT": "true",
    }
    words = [str(K6), "run", "--quiet", "--no-color", *options]
    return pinned([*words, str(ROOT / "load-tests" / f"{script}.js")], cores), environment


def urls_of(server):
    """Where the scripts find this server, as variables of their environment."""
    return {
        "NEARHEAD_URL": f"http://127.0.0.1:{server.port}{server.path}",
        "NEARHEAD_WS_URL": f"ws://127.0.0.1:{server.port}/ws{server.path}",
        "NEARHEAD_METRICS_URL": f"http://127.0.0.1:{server.admin_port}/metrics",
    }


def script_command(script, name, options=()):
    """The command that runs a script which prints a summary, its environment, and the file of the summary: the one
    that the options name, else results/NAME.json. An older file is deleted."""
    summary = named_summary(options)
    more = ["--summary-trend-stats", "med,p(95),p(99),max"]
    if summary is None:
        summary = RESULTS / f"{name}.json"
        more += [SUMMARY, str(summary)]
    words, environment = command(script, name, [*options, *more])
    summary.unlink(missing_ok=True)
    return words, environment, summary


def named_summary(options):
    """The file that these options of k6 name for its summary."""
    for option, following in zip(options, [*options[1:], ""]):
        word, equals, file = option.partition("=")
        if word == SUMMARY:
            file = file if equals else following
            if not file:
                raise Failure(f"{SUMMARY} needs a file")
            return pathlib.Path(file)
    return None


def offer(name, phases, timeout_ms, cores="", encoding=None):
    """Runs these phases in one k6, and fills in their figures. k6's verdict is not needed: the phases
    have all that its thresholds ask. It accepts answers in this encoding, if one is given."""
    plan, figures = WORK / f"{name}.plan.json", RESULTS / f"{name}.json"
    workloads = {phase.workload.file: phase.workload.name for phase in phases}
    plan.write_text(
        json.dumps(
            {
                "figures": str(figures),
                "timeout_ms": timeout_ms,
                "encoding": encoding,
                "workloads": [{"name": n, "file": str(file)} for file, n in workloads.items()],
                "phases": [planned(number, phase) for number, phase in enumerate(phases)],
            }
        )
    )
    figures.unlink(missing_ok=True)
    log = WORK / "k6.log"
    log.unlink(missing_ok=True)
    # Without a warning for each request that is late.
    words, environment = command("offer", name, [f"--log-output=file={log},level=error"], cores)
    done = subprocess.run(words, env={**os.environ, **environment, "PLAN": str(plan)})
    said = log.read_text() if log.exists() else ""
    if done.returncode not in (0, THRESHOLD_CROSSED) or not figures.exists():
        raise Failure(f"k6 exited with {done.returncode}: {said[-2000:]}")
    for line in said.splitlines():
        if "have been crossed" not in line:
            print(line[:400])
    read = json.loads(figures.read_text())
    for number, phase in enumerate(phases):
        fill(phase, f"scenario:p{number}", read)


def planned(number, phase):
    return {
        "name": f"p{number}",
        "workload": phase.workload.name,
        "url": phase.url,
        "start": phase.start,
        "seconds": phase.seconds,
        "rate": phase.rate and round(phase.rate),
        "vus": phase.clients,
        "kinds": len(phase.workload.kinds),
        "must_answer": phase.must_answer,
        "has_timeline": phase.has_timeline,
    }


def fill(phase, tag, read):
    def count(name):
        return int(read.get(name, {}).get("count", 0))

    def times(tags):
        values = read.get(f"answer_ms{{{tags}}}", {})
        return int(values.get("count", 0)), values.get("med", 0), values.get("p(99)", 0)

    for outcome in OUTCOMES:
        setattr(phase, outcome, count(f"answers{{{tag},outcome:{outcome}}}"))
    phase.dropped = count(f"dropped_iterations{{{tag}}}")
    _, phase.p50_ms, phase.p99_ms = times(tag)
    for number, kind in enumerate(phase.workload.kinds):
        phase.kinds[kind] = times(f"{tag},kind:{number}")
    if phase.has_timeline:
        for step in range(STEPS):
            good, *others = [count(f"answers{{{tag},step:{step},outcome:{o}}}") for o in OUTCOMES]
            p95 = read.get(f"answer_ms{{{tag},step:{step}}}", {}).get("p(95)", 0)
            phase.steps.append(Step(good, sum(others), p95))
