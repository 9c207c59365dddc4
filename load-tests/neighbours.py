"""Two keys without quotas: one floods, with the most expensive or with cheap requests, the other sends a steady mix."""

import crowd
import vegeta
import wrk
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
# Cheap requests, with the connections of a closed loop: more than one core can offer at a rate. The first is answered
# at once, the second is a message to another actor.
CHEAP_FLOODS = {"eth_chainId": (512, 2_000), "eth_getBalance": (512, 2_000)}
CAPACITY_SECONDS = 4
CAPACITY_CLIENTS = 8
TIMEOUT_MS = 2_000
# On one core, who floods must not keep the other client from its clock.
FLOOD_NICENESS = 19
# What else the other key sends during a flood of cheap requests, and how often.
HEAVY = "proofs-64"
HEAVY_RATE = 10

# What is required of the other key's requests during a flood.
REFUSED_MAX = 0.01
P50_MAX = 2
# On one core, the threads for heavy work have what workers leave, which a flood of cheap requests keeps busy.
HEAVY_P50_MAX = 20


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


def phases_of(options, server, workload, rate):
    """What the other key sends before, during and after a flood."""
    return [
        Phase(
            title,
            workload,
            url_of(server, server.path),
            start=i * options.seconds,
            seconds=options.seconds,
            rate=rate,
            clients=rate * 2,
        )
        for i, title in enumerate(("before", "during", "after"))
    ]


def judge(own, p50_max=P50_MAX):
    """What is wrong with the other key's requests before, during and after a flood."""
    before, during, _ = own
    faults = [fault for phase in own for fault in phase.faults()]
    faults += [f"{phase.title}: no answer" for phase in own if not phase.good]
    lost = during.share(during.refused + during.late)
    if lost > REFUSED_MAX:
        faults.append(f"{lost:.1%} of the other key's requests refused or late, at most {REFUSED_MAX:.0%}")
    if before.good and during.p50_ms > p50_max * before.p50_ms:
        times = during.p50_ms / before.p50_ms
        faults.append(f"the other key's p50 is {times:.1f} times that before, at most {p50_max}")
    return faults


TIMES = ("p50 ms", "p99 ms", "p50, x before")
HEAD = ("", "offered/s", "sent", "goodput/s", "refused", "late", "wrong", "whole", *TIMES)


def row(phase, before=None):
    return (
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
        f"{phase.p50_ms / before.p50_ms:.1f}" if before and before.good else "",
    )


def measure(options, server, mix, alone, calm):
    """Floods with what was answered alone. Returns what is wrong; `calm` MiB are resident without load."""
    flood = alone.workload.name
    rate = max(1, round(alone.goodput * FLOOD_LOAD))
    # The flood begins and ends with the second phase.
    own = phases_of(options, server, mix, options.rate)
    before, during, after = own
    other = Phase(
        "the flood",
        alone.workload,
        alone.url,
        start=options.seconds,
        seconds=options.seconds,
        rate=rate,
        clients=min(rate * 2 + 20, FLOOD_CLIENTS_MAX),
        niceness=FLOOD_NICENESS,
    )
    faults = []
    print(f"\nflood of {flood}")

    def wait():
        faults.extend(wait_returned(server, calm, other.ended))

    phases = [before, during, other, after]
    vegeta.offer(f"neighbours-{flood}", phases, TIMEOUT_MS, options.generator_cores, before_reading=wait)
    print(
        f"{rate}/s, {FLOOD_LOAD} times what is answered of it alone ({alone.goodput:.0f}/s); "
        f"the other key: {options.rate} requests/s of the mix"
    )
    table(HEAD, [row(phase, None if phase is other else before) for phase in phases])
    faults += alone.faults()
    faults += [] if alone.good else [f"{alone.title}: no answer"]
    faults += judge(own)
    if other.wrong:
        faults.append(f"{other.title}: {other.wrong} wrong answers")
    return [f"{flood}, {fault}" for fault in faults]


def measure_cheap(options, server, workloads, asked, connections):
    """Floods with one cheap request in a closed loop of so many connections. Returns what is wrong."""
    mix, heavy = workloads
    method = mix.kinds[asked["kind"]]
    flood = f"{method}, {connections:,} connections"
    own = phases_of(options, server, mix, options.rate)
    of_heavy = phases_of(options, server, heavy, HEAVY_RATE)
    phases = sorted([*own, *of_heavy], key=lambda phase: phase.start)
    faults, size = [], crowd.checked_size(server, asked)
    words = wrk.command(
        server, asked["body"], options.seconds, connections, options.generator_cores, [f"/v3/{FLOODER}"]
    )
    words = ["nice", f"-n{FLOOD_NICENESS}", *words]
    began = server.cpu_seconds()
    out = vegeta.offer(
        f"neighbours-{method}-{connections}",
        phases,
        TIMEOUT_MS,
        options.generator_cores,
        beside=(options.seconds, words),
    )
    cpu = server.cpu_seconds() - began
    figures, good, _ = crowd.good_answers(out, size, connections)
    if figures.late:
        faults.append(f"{figures.late} answers late: {out}")
    crowd.checked_size(server, asked)
    rate = good / (figures.microseconds / 1e6)
    print(f"\nflood of {flood}: {rate:,.0f}/s answered, {figures.refused:,} refused, {cpu:.1f} s of CPU in all")
    for workload, phases, p50_max in ((mix, own, P50_MAX), (heavy, of_heavy, HEAVY_P50_MAX)):
        print(f"the other key: {phases[0].rate}/s of {workload.name}")
        table(HEAD, [row(phase, phases[0]) for phase in phases])
        faults += [f"{workload.name}, {fault}" for fault in judge(phases, p50_max)]
    return [f"{flood}, {fault}" for fault in faults]


def run(options, servers, window):
    """Prints a table of each flood."""
    wrk.require_wrk()
    crowd.allow_descriptors(max(map(max, CHEAP_FLOODS.values())) + crowd.DESCRIPTORS)
    server = servers[0]
    material = window(server)
    mix, heavy, *floods = (Workload(name, server, material) for name in ("mix", HEAVY, *FLOODS))
    faults = []
    for method, counts in CHEAP_FLOODS.items():
        asked = first_of(mix, method)
        for connections in counts:
            faults += measure_cheap(options, server, (mix, heavy), asked, connections)
    # The first answers of each kind let tables grow to their size.
    alone = [answer_alone(options, server, workload) for workload in floods]
    wait_freed([server])
    calm = resident_mib(server)
    return faults + [fault for one in alone for fault in measure(options, server, mix, one, calm)]


def first_of(workload, kind):
    """The first request of this kind."""
    number = workload.kinds.index(kind)
    return next(request for request in workload.requests if request["kind"] == number)
