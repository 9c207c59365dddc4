"""Up to ten times what a server can answer, of one key or of several, while it has a share of one core."""

import itertools
import json
import resource
import statistics

import vegeta
from cpu_quota import cpu_quota
from figures import Phase
from servers import RESULTS
from tables import table
from workloads import Workload

# What is requested, and the share of a core that a server gets: so much that vegeta can offer ten times what it
# answers on two cores. k6 cannot: it needs a client of a megabyte for each request in progress.
WORK = {"proofs-64": 0.2, "bulk-logs": 0.2, "calls": 0.1, "mix": 0.05, "cheap": 0.05}
# A phase has a process of its own, whose clients all connect at its start. So has a closed loop. Until then, a server
# with a quota has nobody to answer in most of the time in which it may run.
SETTLES_SECONDS = 1
# Of capacity.
LOADS = (0.7, 1, 2, 5, 10, 0.7)
# Connections in a closed loop. The best of their goodputs is the capacity. With as many, it is measured again after
# each load but the last but one, which the recovery follows: the speed of a machine changes from minute to minute.
CLOSED = (4, 16, 64)
CLOSED_SECONDS = 4
TIMEOUT_MS = 1_000
# Connections at most. A server that answers or refuses in time needs fewer; of one that does not, less is sent.
CLIENTS_MAX = 4_000

# What is required: of the capacity, at five and at ten times of it; of p99 at the first load; and the
# seconds until the last load is answered as the first one was.
GOODPUT_MIN = {5: 0.95, 10: 0.90}
P99_MAX = 3
RECOVERY_MAX = 1.0
# Of the capacity before all loads, in the closed loop after each.
LEFT_MIN = 0.5


def measure(options, server, window):
    """Prints the table; returns what is wrong, and the capacity in answers a second."""
    share = options.share or WORK[options.work]
    workload = Workload(options.work, server, window)
    with cpu_quota(server.pids(), share):
        return offer(options, server, workload, share)


def offer(options, server, workload, share):
    paths = [server.path, *(f"/v3/{key}" for key in options.other_keys)]
    url, *others = urls = [f"http://127.0.0.1:{server.port}{path}" for path in paths]
    name = f"overload-{options.work}-{server.name}" + (f"-{len(urls)}-keys" if others else "")
    first = closed_loop(f"{name}-closed", workload, urls)
    best = max(first, key=lambda phase: phase.goodput)
    phases = []
    for load in LOADS:
        rate = max(1, round(best.goodput * load))
        # Half as many again as wait if no answer comes until the timeout.
        clients = min(round(rate * TIMEOUT_MS / 1_000 * 1.5) + 20, CLIENTS_MAX)
        phase = Phase(f"{load:.0%}", workload, url, 0, options.seconds, rate, clients)
        phase.settles, phase.other_urls = SETTLES_SECONDS, tuple(others)
        phases.append(phase)
    # From its first moment on.
    phases[-1].start, phases[-1].settles, phases[-1].has_timeline = options.seconds, 0, True
    resident, used, busy, later = server.resident_kib(), [], [], []
    for number, offered in enumerate([[phase] for phase in phases[:-2]] + [phases[-2:]]):
        began = server.cpu_seconds(), children_seconds()
        vegeta.offer(f"{name}-{number}", offered, TIMEOUT_MS)
        used.append(server.cpu_seconds() - began[0])
        busy.append(children_seconds() - began[1])
        later += closed_loop(f"{name}-closed-{number}", workload, urls, [best.clients])
    seconds = options.seconds * len(phases)
    means = [(before.goodput + after.goodput) / 2 for before, after in itertools.pairwise([best, *later])]
    # The recovery follows the load before it without a closed loop in between.
    capacities = [*means, means[-1]]
    capacity = statistics.mean(means)
    print(
        f"\n{server.name}, {options.work}, keys: {len(urls)}, {share:.0%} of a core (used: {sum(used) / seconds:.1%}), "
        f"closed loop: {', '.join(f'{closed_loop_said(loop)} with {loop.clients}' for loop in first)}, "
        f"and with {best.clients} after the loads {', '.join(closed_loop_said(loop) for loop in later)}; "
        f"{capacity / share:,.0f} answers a second of CPU; "
        f"vegeta used {sum(busy) / seconds:.0%} of a core; "
        f"resident {resident / 1024:.0f} MiB before, {server.resident_kib() / 1024:.0f} after"
    )
    print_phases(phases, capacities)
    figures = [phase.figures() | {"capacity": one} for phase, one in zip(phases, capacities)]
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=1))
    faults = judge(first, phases, capacities)
    # What an overload has left unable to answer would have a low capacity after it.
    left = [loop for loop in later if loop.wrong or loop.goodput < LEFT_MIN * best.goodput]
    faults += [f"after a load, a closed loop has {closed_loop_said(loop)}, {loop.wrong} wrong" for loop in left]
    return [f"{server.name}, {fault}" for fault in faults], capacity


def closed_loop_said(loop):
    """Its goodput, and which share of its requests was refused or late, if any was."""
    missed = loop.share(loop.refused + loop.late)
    return f"{loop.goodput:,.0f}/s" + (f" ({missed:.0%} refused or late)" if missed else "")


def closed_loop(name, workload, urls, connections=CLOSED):
    phases = [
        Phase(
            title=f"{clients} connections",
            workload=workload,
            url=urls[0],
            other_urls=tuple(urls[1:]),
            start=number * (CLOSED_SECONDS + 1),
            seconds=CLOSED_SECONDS,
            rate=None,
            clients=clients,
            settles=SETTLES_SECONDS,
        )
        for number, clients in enumerate(connections)
    ]
    vegeta.offer(name, phases, TIMEOUT_MS)
    return phases


def children_seconds():
    """CPU time of all load generators that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


HEAD = ["load", "offered/s", "sent", "goodput/s", "of capacity"]
HEAD += ["refused", "late", "wrong", "whole", "p50 ms", "p99 ms", "x 70%"]


def print_phases(phases, capacities):
    calm = phases[0].p99_ms
    table(
        HEAD,
        [
            (
                phase.title,
                f"{phase.rate:,}",
                f"{phase.achieved:.0%}",
                f"{phase.goodput:,.0f}",
                f"{phase.goodput / capacity:.0%}" if capacity else "-",
                f"{phase.share(phase.refused):.0%}",
                f"{phase.share(phase.late):.0%}",
                phase.wrong,
                phase.whole_said,
                f"{phase.p50_ms:.1f}" if phase.good else "-",
                f"{phase.p99_ms:.1f}" if phase.good else "-",
                f"{phase.p99_ms / calm:.1f}" if phase.good and calm else "-",
            )
            for phase, capacity in zip(phases, capacities)
        ],
    )


def judge(closed, phases, capacities):
    """What is wrong. Each phase is compared with the capacity around it."""
    faults = [fault for phase in closed for fault in phase.faults()]
    faults += [fault for phase in phases for fault in phase.faults()]
    p99_max = P99_MAX * phases[0].p99_ms
    for load, phase, capacity in zip(LOADS, phases, capacities):
        least = GOODPUT_MIN.get(load)
        if least and phase.goodput < least * capacity:
            faults.append(f"{phase.title}: goodput is {phase.goodput / capacity:.0%} of capacity, at least {least:.0%}")
        if least and phase.p99_ms > p99_max:
            times = phase.p99_ms / phases[0].p99_ms
            faults.append(f"{phase.title}: p99 is {times:.1f} times that at {phases[0].title}, at most {P99_MAX}")
    after = phases[-1].recovered_after(p99_max)
    if after is None or after > RECOVERY_MAX:
        said = "not within the timeline" if after is None else f"after {after} s"
        faults.append(f"recovery: {said}, at most {RECOVERY_MAX} s")
    else:
        print(f"recovered after {after} s")
    return faults


def run(options, servers, window):
    """Prints a table of each server, and returns what is wrong with the first one. The others are there to be
    compared with: they need not reach what is required."""
    results = [measure(options, server, window(server)) for server in servers]
    for server, (faults, capacity) in list(zip(servers, results))[1:]:
        print(f"\ncapacity of {servers[0].name} / {server.name}: {results[0][1] / capacity:.1f}")
        for fault in faults:
            print(fault)
    return results[0][0]
