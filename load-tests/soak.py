"""Everything at once, for a long time: reads, sessions that come and go, reorgs and every hostile client. nearhead is
to release what clients made it hold: memory and descriptors do not grow, and no answer is wrong. The clients are to
live as long as the soak: an attack that ended early would have shown nothing.

Replaced blocks fill the memory up to their bound, which takes an hour at one reorg in 20 s. So a second nearhead has
the same chain and no clients, and what its memory grows by is not counted.
"""

import collections
import contextlib
import http.client
import json
import math
import os
import pathlib
import subprocess
import sys
import time
import typing

import hostile
import hostile_http
import k6
from servers import RESULTS, ROOT, WORK, Failure, build, metrics, request, start_nearhead
from tables import table

# Until every buffer has its size.
WARM_UP_SECONDS = 60
# What the descriptors of clients that have gone may take to close.
CALM_SECONDS = 20
# Files of the store, and the kernel's about memory, come and go: the fewest descriptors in this time count.
LOOK_SECONDS = 3
# The keys of the clients that read slowly and of those that flood: none of that may cost the key of the others an
# answer, and the readers' replies are not refused because of the floods.
READERS, FLOODS = "readers", "floods"
KEYS = [word for key in (READERS, FLOODS) for word in ("--api-key", f"{key}={key}")]
# Some 450 clients with a key leave 300 slots, and two crowds of 230 strangers want more.
LIMITS = [*KEYS, "--max-connections", "768"]
WORKERS = 2
# The scripts of k6 with their load. Latencies are not asked for: the hostile clients take the CPU.
SCRIPTS = {
    # An open loop: a server that answers late gets no fewer requests. An iteration has a dozen of them. If it takes
    # seconds, a reorg often comes in between.
    "smoke": {"ARRIVALS": "25", "FOUND": "0.5"},
    "ws-hold": {"SESSIONS": "40"},
    "ws-fanout": {"SESSIONS": "20"},
}
# The allocator returns freed memory at once: what floods needed for a moment does not count as held.
ALLOCATOR = {"MIMALLOC_PURGE_DELAY": "0"}
# Thresholds of the scripts that are not asked for: times, because the hostile clients take the CPU; and dropped
# iterations, of which some are allowed.
IGNORED_METRICS = {"answer_ms", "head_spread_ms", "http_req_duration{kind:call}", "dropped_iterations"}
# Share of the reads that have to be sent. If iterations take seconds, k6 adds clients, and drops an iteration for each.
SENT_MIN = 0.95
# Replies that are to be held for the 52 readers alone at so many samples in a row, the first of which may still have
# replies to clients that have just gone; and within what time. A reader is cut off after ten seconds, and asks again.
HELD_MIN = 10
HELD_SAMPLES = 5
HELD_EVERY = 0.5
HELD_SECONDS = 60
# Connections of strangers that were closed because others got their slots.
DISPLACED = 'nearhead_strangers_evicted_total{listener="public",reason="slots"}'
# k6 starts a moment before the first sample, and so ends before the last.
ENDING_SECONDS = 10
# Mebibytes of growth a minute that are noise on any machine, and standard errors of the slope that are.
GROWTH_MIB_MAX = 1.0
ERRORS_MAX = 3
# What the allocator still takes once, after the warm-up, for everything at once.
SETTLING_MIB_MAX = 12


def descriptors(server):
    """What its open descriptors lead to."""
    found = []
    for descriptor in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        # It may be closed meanwhile.
        with contextlib.suppress(OSError):
            found.append(os.readlink(descriptor))
    return found


def start_threads(server):
    """A worker starts its thread for large bodies with the first of them: clients do not leave its descriptors."""
    large = request("eth_getLogs", [{"topics": [[f"0x{topic:064x}" for topic in range(1, 5_001)]]}])
    deadline = time.monotonic() + CALM_SECONDS
    while threads(server).count("bodies") < WORKERS:
        if time.monotonic() > deadline:
            raise Failure("not every worker has started its thread for large bodies")
        server.post(large)


def threads(server):
    """Their names."""
    found = []
    for file in pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/comm"):
        # It may end meanwhile.
        with contextlib.suppress(OSError):
            found.append(file.read_text().strip())
    return found


def fewest_descriptors(server, seconds, enough=0):
    """The fewest in these seconds, or the first that are not more than enough."""
    deadline, fewest = time.monotonic() + seconds, descriptors(server)
    while len(fewest) > enough and time.monotonic() < deadline:
        time.sleep(0.1)
        fewest = min(fewest, descriptors(server), key=len)
    return fewest


def slope(points):
    """Of a straight line through these points, with its standard error."""
    count = len(points)
    mean_x, mean_y = (sum(values) / count for values in zip(*points))
    square = sum((x - mean_x) ** 2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / square
    left = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in points)
    return rise, math.sqrt(left / (count - 2) / square)


def start_clients(server, seconds):
    """k6 and the hostile clients, as processes by name."""
    driven = {**os.environ, **k6.urls_of(server), "SECONDS": str(seconds), "DURATION": f"{seconds}s"}
    clients = {}
    for script, load in SCRIPTS.items():
        command, environment, _ = k6.script_command(script, name_of(script))
        clients[script] = subprocess.Popen(
            command, env={**driven, **environment, **load}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    paths = dict.fromkeys(hostile.ATTACKS.keys() - {hostile.ENDS}, f"/ws{server.path}")
    paths |= dict.fromkeys(hostile_http.OF_READERS, f"/v3/{READERS}")
    paths |= dict.fromkeys(hostile_http.OF_FLOODS, f"/v3/{FLOODS}")
    paths |= dict.fromkeys(hostile_http.OF_STRANGERS, "/")
    for attack, path in paths.items():
        command = [sys.executable, str(ROOT / "load-tests/hostile.py"), attack, str(server.port), path]
        with open(log_of(attack), "w") as log:
            clients[attack] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    return clients


def name_of(script):
    """Of its figures."""
    return f"soak-{script}"


def log_of(attack):
    return WORK / f"soak-{attack}.log"


def check_alive(clients):
    """Fails if a client has ended."""
    for name, client in clients.items():
        if client.poll() is not None:
            raise Failure(f"{name} ended early with code {client.returncode}{said(name)}")


def said(name):
    if name in SCRIPTS or not log_of(name).exists():
        return ""
    return f": {log_of(name).read_text()[-500:]}"


def held_and_displaced(server):
    """Replies that clients have not taken, and strangers that have lost their slots to others so far. Nothing if the
    server takes no connection at the moment: one of many samples."""
    found = {}
    with contextlib.suppress(OSError, http.client.HTTPException, Failure):
        found = metrics(server)
    return found.get("nearhead_replies_held", 0), found.get(DISPLACED, 0)


class Point(typing.NamedTuple):
    """What the servers hold at a moment."""

    minutes: float
    resident_mib: float
    idle_mib: float
    descriptors: int
    held: float
    displaced: float


def sample(server, idle, clients, seconds):
    """Points, once a second. Clients of k6 may end in the last seconds."""
    began, points = time.monotonic(), []
    while (now := time.monotonic() - began) < seconds:
        resident = (one.resident_kib() / 1024 for one in (server, idle))
        points.append(Point(now / 60, *resident, len(descriptors(server)), *held_and_displaced(server)))
        is_ending = now > seconds - ENDING_SECONDS
        check_alive({name: one for name, one in clients.items() if not (is_ending and name in SCRIPTS)})
        time.sleep(1)
    return points


def end(clients, server):
    """Waits for k6 and ends the attacks. Returns what came of each attack, and what is wrong."""
    faults = []
    for script in SCRIPTS:
        # Which thresholds were crossed is in the figures.
        if clients[script].wait(120) not in (0, k6.THRESHOLD_CROSSED):
            faults.append(f"k6 exited with {clients[script].returncode} from {script}")
    hostile_clients = {name: client for name, client in clients.items() if name not in SCRIPTS}
    check_alive(hostile_clients)
    readers = {name: client for name, client in hostile_clients.items() if name in hostile_http.OF_READERS}
    others = {name: client for name, client in hostile_clients.items() if name not in readers}
    attacks = end_attacks(others, faults)
    faults += wait_held(server)
    check_alive(readers)
    return attacks | end_attacks(readers, faults), faults


def wait_held(server):
    """Waits until replies are held for readers. Returns what is wrong."""
    deadline, samples = time.monotonic() + HELD_SECONDS, []
    while time.monotonic() < deadline:
        samples.append(held_and_displaced(server)[0])
        if len(samples) >= HELD_SAMPLES and min(samples[-HELD_SAMPLES:]) >= HELD_MIN:
            return []
        time.sleep(HELD_EVERY)
    return [f"fewer than {HELD_MIN} replies are held for readers: {samples[-HELD_SAMPLES:]}"]


def end_attacks(hostile_clients, faults):
    """Returns what came of each."""
    attacks = {}
    for client in hostile_clients.values():
        client.terminate()
    for name, client in hostile_clients.items():
        counts, _ = client.communicate(timeout=60)
        if client.returncode:
            faults.append(f"{name} ended with code {client.returncode}{said(name)}")
            continue
        attacks[name] = json.loads(counts)
        if not hostile_http.was_made(name, *attacks[name]):
            connected, answered, refused = attacks[name]
            faults.append(f"{name} was not made: {connected} connections, {answered} answered, {refused} refused")
    return attacks


class Judged(typing.NamedTuple):
    """What the scripts of k6 found."""

    # Checks.
    passed: int
    failed: int
    # Iterations of reads that were sent, and those that no client was free for.
    sent: int
    dropped: int
    # What is wrong.
    faults: list


def judge_scripts():
    passed, failed, sent, dropped, faults = 0, 0, 0, 0, []
    for script in SCRIPTS:
        file = RESULTS / f"{name_of(script)}.json"
        if not file.exists():
            raise Failure(f"k6 left no figures of {script}")
        summary = json.loads(file.read_text())
        metrics_of, checks = summary["metrics"], summary["root_group"]["checks"]
        if script == "smoke":
            sent = metrics_of.get("iterations", {}).get("count", 0)
            dropped = metrics_of.get("dropped_iterations", {}).get("count", 0)
        good = sum(check["passes"] for check in checks.values())
        if not good:
            faults.append(f"{script}: no check passed")
        passed += good
        for name, check in checks.items():
            if check["fails"]:
                failed += check["fails"]
                faults.append(f"{check['fails']} checks failed of {script}: {name}")
        faults += [f"{script}: {threshold}" for threshold in crossed(metrics_of)]
    if sent < SENT_MIN * (sent + dropped):
        faults.append(f"no client was free for {dropped} reads, and {sent} were sent")
    return Judged(passed, failed, sent, dropped, faults)


def crossed(found):
    """The thresholds that do not hold, of those that are asked for."""
    for name, metric in found.items():
        for threshold, is_crossed in metric.get("thresholds", {}).items():
            if is_crossed and name not in IGNORED_METRICS:
                yield f"{name} is not {threshold}"


def run(options):
    """Prints one table, and returns what is wrong."""
    k6.install()
    build()
    os.environ |= ALLOCATOR
    server = start_nearhead([*k6.CHAIN, *LIMITS], "", workers=WORKERS)
    servers, clients = [server], {}
    try:
        servers.append(start_nearhead(k6.CHAIN, "", name="idle", workers=WORKERS))
        start_threads(server)
        # What the listener of metrics needs from its first request on is not left by clients.
        metrics(server)
        fewest = fewest_descriptors(server, LOOK_SECONDS)
        clients = start_clients(server, WARM_UP_SECONDS + options.seconds)
        sample(*servers, clients, WARM_UP_SECONDS)
        points = sample(*servers, clients, options.seconds)
        attacks, faults = end(clients, server)
        left = fewest_descriptors(server, CALM_SECONDS, len(fewest))
        after = server.resident_kib() / 1024
    finally:
        for client in clients.values():
            client.kill()
        for one in servers:
            one.stop()
    judged = judge_scripts()
    rise, error = slope([(point.minutes, point.resident_mib - point.idle_mib) for point in points])
    idle_rise, _ = slope([(point.minutes, point.idle_mib) for point in points])
    most = Point(*(max(values) for values in zip(*points)))
    resident = points[0].resident_mib, most.resident_mib, after
    table(
        ("soak", ""),
        [
            ("seconds, after warm-up", options.seconds),
            ("checks passed", f"{judged.passed:,}"),
            ("checks failed", judged.failed),
            ("iterations of reads sent, not sent", f"{judged.sent:,} {judged.dropped:,}"),
            ("resident MiB first, most, after all clients have gone", " ".join(f"{mib:.0f}" for mib in resident)),
            ("MiB a minute without clients", f"{idle_rise:+.2f}"),
            ("MiB a minute more with clients, standard error", f"{rise:+.2f} ± {error:.2f}"),
            ("descriptors before, most, after", f"{len(fewest)} {most.descriptors} {len(left)}"),
            ("replies held, most, of floods too", f"{most.held:.0f}"),
            ("strangers that lost their slots to others", f"{most.displaced:,.0f}"),
        ],
    )
    print()
    rows = [(name, *(f"{count:,}" for count in counts)) for name, counts in sorted(attacks.items())]
    table(("attack", "connections", "answered", "refused"), rows)
    faults += judged.faults
    if not most.displaced:
        faults.append("no stranger lost its slot: strangers did not take all slots")
    if rise > max(GROWTH_MIB_MAX, ERRORS_MAX * error, SETTLING_MIB_MAX / (options.seconds / 60)):
        faults.append(f"memory grows by {rise:.2f} MiB a minute more than without clients")
    if len(left) > len(fewest):
        before, kinds = (collections.Counter(link.partition("[")[0] for link in links) for links in (fewest, left))
        faults.append(f"{len(left) - len(fewest)} descriptors were not closed: {dict(kinds - before)}")
    return faults
