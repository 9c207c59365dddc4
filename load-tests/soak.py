"""Everything at once, for a long time: reads, sessions that come and go, reorgs and every hostile client. nearhead is
to release what clients made it hold: memory and sockets do not grow, and no answer is wrong.

Replaced blocks fill the memory up to their bound, which takes an hour at one reorg in 20 s. So a second nearhead has
the same chain and no clients, and what its memory grows by is not counted.
"""

import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import hostile
import k6
from servers import RESULTS, ROOT, Failure, build, start_nearhead
from tables import table

# Until every buffer has its size.
WARM_UP_SECONDS = 60
# What the sockets of clients that have gone may take to close.
CALM_SECONDS = 20
# The scripts of k6 with their load. Latencies are not asked for: the hostile clients take the CPU.
SCRIPTS = {
    "smoke": {"VUS": "2"},
    "ws-hold": {"SESSIONS": "40"},
    "ws-fanout": {"SESSIONS": "20"},
}
# Mebibytes of growth a minute that are noise on any machine, and standard errors of the slope that are.
GROWTH_MIB_MAX = 1.0
ERRORS_MAX = 3
# What the allocator still takes once, after the warm-up, for everything at once.
SETTLING_MIB_MAX = 12


def sockets(server):
    """Its open sockets: those of clients, and a few of its own that it has from the start."""
    found = 0
    for descriptor in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        # It may be closed meanwhile.
        with contextlib.suppress(OSError):
            found += os.readlink(descriptor).startswith("socket:")
    return found


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
    driven = {
        **os.environ,
        "NEARHEAD_URL": f"http://127.0.0.1:{server.port}{server.path}",
        "NEARHEAD_WS_URL": f"ws://127.0.0.1:{server.port}/ws{server.path}",
        "SECONDS": str(seconds),
        "DURATION": f"{seconds}s",
    }
    clients = {}
    for script, load in SCRIPTS.items():
        name = f"soak-{script}"
        (RESULTS / f"{name}.json").unlink(missing_ok=True)
        command, environment = k6.command(script, name)
        command[-1:-1] = ["--summary-export", str(RESULTS / f"{name}.json")]
        clients[script] = subprocess.Popen(
            command, env={**driven, **environment, **load}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    for attack in hostile.ATTACKS:
        command = [sys.executable, str(ROOT / "load-tests/hostile.py"), attack, str(server.port)]
        clients[attack] = subprocess.Popen([*command, f"/ws{server.path}"], stderr=subprocess.DEVNULL)
    return clients


def sample(server, idle, seconds):
    """Minutes, resident MiB of both and sockets, once a second."""
    began, points = time.monotonic(), []
    while (now := time.monotonic() - began) < seconds:
        resident = (one.resident_kib() / 1024 for one in (server, idle))
        points.append((now / 60, *resident, sockets(server)))
        time.sleep(1)
    return points


def failed_checks():
    """Checks that passed and failed in all scripts."""
    passed = failed = 0
    for script in SCRIPTS:
        file = pathlib.Path(RESULTS / f"soak-{script}.json")
        if not file.exists():
            raise Failure(f"k6 left no figures of {script}")
        checks = json.loads(file.read_text())["metrics"]["checks"]
        passed, failed = passed + int(checks["passes"]), failed + int(checks["fails"])
    return passed, failed


def run(options):
    """Prints one table, and returns what is wrong."""
    k6.install()
    build()
    chain = ["--source", "dev", "--reorg-every", "20", "--reorg-depth", "3"]
    server = start_nearhead(chain, "", workers=None)
    servers, clients = [server], {}
    try:
        servers.append(start_nearhead(chain, "", name="idle", workers=None))
        fewest = sockets(server)
        clients = start_clients(server, WARM_UP_SECONDS + options.seconds)
        sample(*servers, WARM_UP_SECONDS)
        points = sample(*servers, options.seconds)
        for script in SCRIPTS:
            clients[script].wait(120)
        for client in clients.values():
            client.kill()
            client.wait()
        deadline = time.monotonic() + CALM_SECONDS
        while sockets(server) > fewest and time.monotonic() < deadline:
            time.sleep(0.5)
        left = sockets(server)
        after = server.resident_kib() / 1024
    finally:
        for client in clients.values():
            client.kill()
        for one in servers:
            one.stop()
    passed, failed = failed_checks()
    rise, error = slope([(minute, mine - idle) for minute, mine, idle, _ in points])
    idle_rise, _ = slope([(minute, idle) for minute, _, idle, _ in points])
    most = [max(point[column] for point in points) for column in range(4)]
    table(
        ("soak", ""),
        [
            ("seconds, after warm-up", options.seconds),
            ("checks passed", f"{passed:,}"),
            ("checks failed", failed),
            ("resident MiB first, most, after all clients have gone", f"{points[0][1]:.0f} {most[1]:.0f} {after:.0f}"),
            ("MiB a minute without clients", f"{idle_rise:+.2f}"),
            ("MiB a minute more with clients, standard error", f"{rise:+.2f} ± {error:.2f}"),
            ("sockets before, most, after", f"{fewest} {most[3]} {left}"),
        ],
    )
    faults = []
    if failed:
        faults.append(f"{failed} checks failed")
    if rise > max(GROWTH_MIB_MAX, ERRORS_MAX * error, SETTLING_MIB_MAX / (options.seconds / 60)):
        faults.append(f"memory grows by {rise:.2f} MiB a minute more than without clients")
    if left > fewest:
        faults.append(f"{left - fewest} sockets were not closed")
    return faults
