"""Two keys without quotas: one floods with the most expensive requests, the other sends a steady mix."""

import vegeta
from figures import Phase
from tables import table
from workloads import Workload

# The second key, whose flood is measured with each of these.
FLOODER = "flooder"
FLOODS = ("proofs-1024", "filters-5000", "calls-40m")
# Of what the server answers of the flood alone.
FLOOD_LOAD = 2
# Connections of the flooder at most: then it waits for answers, and sends less.
FLOOD_CLIENTS_MAX = 512
CAPACITY_SECONDS = 4
CAPACITY_CLIENTS = 8
TIMEOUT_MS = 2_000

# What is required of the other key's requests while it floods.
REFUSED_MAX = 0.01
P50_MAX = 2


def measure(options, server, window, flood):
    """Returns what is wrong."""
    name = f"neighbours-{flood}"
    at = f"http://127.0.0.1:{server.port}"
    flooding = {"workload": Workload(flood, server, window), "url": f"{at}/v3/{FLOODER}"}
    closed = Phase(
        "alone", start=0, seconds=CAPACITY_SECONDS, rate=None, clients=CAPACITY_CLIENTS, **flooding
    )
    vegeta.offer(f"{name}-capacity", [closed], TIMEOUT_MS, options.generator_cores)
    rate = max(1, round(closed.goodput * FLOOD_LOAD))
    mine = {
        "workload": Workload("mix", server, window),
        "url": at + server.path,
        "seconds": options.seconds,
        "rate": options.rate,
        "clients": options.rate * 2,
    }
    # The flood begins and ends with the second phase.
    titles = ("before", "during", "after")
    before, during, after = (
        Phase(title, start=i * options.seconds, **mine) for i, title in enumerate(titles)
    )
    other = Phase(
        "the flood",
        start=options.seconds,
        seconds=options.seconds,
        rate=rate,
        clients=min(rate * 2 + 20, FLOOD_CLIENTS_MAX),
        **flooding,
    )
    # On one core, who floods must not keep the other client from its clock.
    other.niceness = 19
    phases = [before, during, other, after]
    vegeta.offer(name, phases, TIMEOUT_MS, options.generator_cores)
    print(
        f"\nflood of {flood}: {rate}/s, {FLOOD_LOAD} times what is answered of it alone ({closed.goodput:.0f}/s); "
        f"the other key: {options.rate} requests/s of the mix"
    )
    table(
        ("", "offered/s", "sent", "goodput/s", "refused", "late", "wrong", "p50 ms", "p99 ms", "p50, x before"),
        [
            (
                phase.title,
                phase.rate,
                f"{phase.achieved:.0%}",
                f"{phase.goodput:,.0f}",
                f"{phase.share(phase.refused):.1%}",
                f"{phase.share(phase.late):.1%}",
                phase.wrong,
                f"{phase.p50_ms:.2f}",
                f"{phase.p99_ms:.2f}",
                f"{phase.p50_ms / before.p50_ms:.1f}" if phase is not other else "",
            )
            for phase in phases
        ],
    )
    faults = [fault for phase in (closed, before, during, after) for fault in phase.faults()]
    if other.wrong:
        faults.append(f"{other.title}: {other.wrong} wrong answers")
    lost = during.share(during.refused + during.late)
    if lost > REFUSED_MAX:
        faults.append(f"{lost:.1%} of the other key's requests refused or late, at most {REFUSED_MAX:.0%}")
    if during.p50_ms > P50_MAX * before.p50_ms:
        times = during.p50_ms / before.p50_ms
        faults.append(f"the other key's p50 is {times:.1f} times that before, at most {P50_MAX}")
    return [f"{flood}, {fault}" for fault in faults]


def run(options, servers, window):
    """Prints a table of each flood."""
    server = servers[0]
    return [fault for flood in FLOODS for fault in measure(options, server, window(server), flood)]
