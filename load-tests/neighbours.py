"""Two keys without quotas: one floods with the most expensive requests, the other sends a steady mix."""

import vegeta
from figures import Phase
from memory import resident_mib, wait_freed, wait_returned
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


def url_of(server, path):
    return f"http://127.0.0.1:{server.port}{path}"


def answer_alone(options, server, workload):
    """The requests of a flood in a closed loop, with nothing else to do."""
    alone = Phase(
        "alone",
        workload,
        url_of(server, f"/v3/{FLOODER}"),
        start=0,
        seconds=CAPACITY_SECONDS,
        rate=None,
        clients=CAPACITY_CLIENTS,
    )
    vegeta.offer(f"neighbours-{workload.name}-capacity", [alone], TIMEOUT_MS, options.generator_cores)
    return alone


def measure(options, server, mix, alone, calm):
    """Floods with what was answered alone. Returns what is wrong; `calm` MiB are resident without load."""
    flood = alone.workload.name
    rate = max(1, round(alone.goodput * FLOOD_LOAD))
    mine = {
        "workload": mix,
        "url": url_of(server, server.path),
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
        alone.workload,
        alone.url,
        start=options.seconds,
        seconds=options.seconds,
        rate=rate,
        clients=min(rate * 2 + 20, FLOOD_CLIENTS_MAX),
    )
    # On one core, who floods must not keep the other client from its clock.
    other.niceness = 19
    phases, faults = [before, during, other, after], []
    print(f"\nflood of {flood}")

    def wait():
        faults.extend(wait_returned(server, calm, other.ended))

    vegeta.offer(f"neighbours-{flood}", phases, TIMEOUT_MS, options.generator_cores, before_reading=wait)
    print(
        f"{rate}/s, {FLOOD_LOAD} times what is answered of it alone ({alone.goodput:.0f}/s); "
        f"the other key: {options.rate} requests/s of the mix"
    )
    times = ("p50 ms", "p99 ms", "p50, x before")
    table(
        ("", "offered/s", "sent", "goodput/s", "refused", "late", "wrong", "whole", *times),
        [
            (
                phase.title,
                phase.rate,
                f"{phase.achieved:.0%}",
                f"{phase.goodput:,.0f}",
                f"{phase.share(phase.refused):.1%}",
                f"{phase.share(phase.late):.1%}",
                phase.wrong,
                phase.whole_said,
                f"{phase.p50_ms:.2f}",
                f"{phase.p99_ms:.2f}",
                f"{phase.p50_ms / before.p50_ms:.1f}" if phase is not other and before.good else "",
            )
            for phase in phases
        ],
    )
    faults += [fault for phase in (alone, before, during, after) for fault in phase.faults()]
    faults += [f"{phase.title}: no answer" for phase in (alone, before, during, after) if not phase.good]
    if other.wrong:
        faults.append(f"{other.title}: {other.wrong} wrong answers")
    lost = during.share(during.refused + during.late)
    if lost > REFUSED_MAX:
        faults.append(f"{lost:.1%} of the other key's requests refused or late, at most {REFUSED_MAX:.0%}")
    if before.good and during.p50_ms > P50_MAX * before.p50_ms:
        times = during.p50_ms / before.p50_ms
        faults.append(f"the other key's p50 is {times:.1f} times that before, at most {P50_MAX}")
    return [f"{flood}, {fault}" for fault in faults]


def run(options, servers, window):
    """Prints a table of each flood."""
    server = servers[0]
    material = window(server)
    mix, *floods = (Workload(name, server, material) for name in ("mix", *FLOODS))
    # The first answers of each kind let tables grow to their size.
    alone = [answer_alone(options, server, workload) for workload in floods]
    wait_freed([server])
    calm = resident_mib(server)
    return [fault for one in alone for fault in measure(options, server, mix, one, calm)]
