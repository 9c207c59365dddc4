"""Up to ten times what a server can answer, of one key or of several, while it has a share of one core.

All loads are offered in each of `--rounds` rounds, and the medians of these are judged.
"""

import contextlib
import dataclasses
import json
import math
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
# Connections in a closed loop. The best of their goodputs is the capacity, by which the rates are chosen. With as many,
# it is measured again after each load but the last but one, which the recovery follows: the speed of a machine changes
# from minute to minute. Beside each, connections are offered at the rate of that load to a port that refuses them. So
# the load generator takes as much from the server's cores, caches and memory as it does under load.
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
    urls = [f"http://127.0.0.1:{server.port}{path}" for path in paths]
    name = f"overload-{options.work}-{server.name}" + (f"-{len(urls)}-keys" if len(urls) > 1 else "")
    first = closed_loops(f"{name}-closed", workload, urls)
    best = max(first, key=lambda loop: loop.goodput)
    resident = server.resident_kib()
    names = [f"{name}-{number}" for number in range(options.rounds)]
    rounds = [offer_once(one, options.seconds, server, workload, urls, best) for one in names]
    capacity = statistics.mean(loop.goodput for one in rounds for loop in one.loops)
    used, generator_used = (statistics.mean(getattr(one, of) for one in rounds) for of in ("used", "generator_used"))
    print(
        f"\n{server.name}, {options.work}, keys: {len(urls)}, {share:.0%} of a core (used: {used:.1%}), "
        f"closed loop: {', '.join(f'{closed_loop_said(loop)} with {loop.clients}' for loop in first)}; "
        f"{best.goodput / share:,.0f} answers a second of CPU; vegeta used {generator_used:.0%} of a core; "
        f"resident {resident / 1024:.0f} MiB before, {server.resident_kib() / 1024:.0f} after"
    )
    for one in rounds:
        print_round(one)
    if len(rounds) > 1:
        print_medians(rounds)
    figures = [
        [phase.figures() | {"capacity": capacity} for phase, capacity in zip(one.phases, one.capacities)]
        for one in rounds
    ]
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=1))
    faults = judge(first, rounds)
    # What an overload has left unable to answer would have a low capacity after it.
    loops = [loop for one in rounds for loop in one.loops]
    left = [loop for loop in loops if loop.wrong or loop.goodput < LEFT_MIN * best.goodput]
    faults += [f"after a load, a closed loop has {closed_loop_said(loop)}, {loop.wrong} wrong" for loop in left]
    return [f"{server.name}, {fault}" for fault in faults], capacity


@dataclasses.dataclass
class Round:
    """All loads once."""

    phases: list
    # After each load but the last but one.
    loops: list
    # Cores used by the server, and by the load generator, while the loads last.
    used: float
    generator_used: float

    @property
    def capacities(self):
        """Of each load. Between the last two, there is no closed loop."""
        return [loop.goodput for loop in [*self.loops, self.loops[-1]]]

    @property
    def shares(self):
        pairs = zip(self.phases, self.capacities)
        return [phase.goodput / capacity if capacity else 0 for phase, capacity in pairs]

    @property
    def p99_times(self):
        """Of that at the first load."""
        calm = self.phases[0].p99_ms
        return [phase.p99_ms / calm if calm and phase.good else math.inf for phase in self.phases]

    @property
    def recovered_after(self):
        """In seconds; infinite if that is after the timeline."""
        after = self.phases[-1].recovered_after(P99_MAX * self.phases[0].p99_ms)
        return math.inf if after is None else after


def offer_once(name, seconds, server, workload, urls, best):
    phases = []
    for load in LOADS:
        rate = max(1, round(best.goodput * load))
        # Half as many again as wait if no answer comes until the timeout.
        clients = min(round(rate * TIMEOUT_MS / 1_000 * 1.5) + 20, CLIENTS_MAX)
        phase = Phase(f"{load:.0%}", workload, urls[0], 0, seconds, rate, clients)
        phase.settles, phase.other_urls = SETTLES_SECONDS, tuple(urls[1:])
        phases.append(phase)
    # From its first moment on.
    phases[-1].start, phases[-1].settles, phases[-1].has_timeline = seconds, 0, True
    used, generator_used, loops = 0, 0, []
    for number, offered in enumerate([[phase] for phase in phases[:-2]] + [phases[-2:]]):
        began = server.cpu_seconds(), children_seconds()
        vegeta.offer(f"{name}-{number}", offered, TIMEOUT_MS)
        used += server.cpu_seconds() - began[0]
        generator_used += children_seconds() - began[1]
        loops += closed_loops(f"{name}-closed-{number}", workload, urls, [best.clients], offered[0].rate)
    seconds_of_all = seconds * len(phases)
    return Round(phases, loops, used / seconds_of_all, generator_used / seconds_of_all)


def closed_loop_said(loop):
    """Its goodput, and which share of its requests was refused or late, if any was."""
    missed = loop.share(loop.refused + loop.late)
    return f"{loop.goodput:,.0f}/s" + (f" ({missed:.0%} refused or late)" if missed else "")


def closed_loops(name, workload, urls, connections=CLOSED, rate_beside=None):
    """One after the other. Beside them, connections are offered at a rate to a port that refuses them."""
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
    with contextlib.ExitStack() as ends:
        beside = None
        if rate_beside:
            seconds = len(phases) * (CLOSED_SECONDS + 1)
            beside = 0, ends.enter_context(vegeta.refused(phases[0], rate_beside, seconds, TIMEOUT_MS))
        vegeta.offer(name, phases, TIMEOUT_MS, beside=beside)
    return phases


def children_seconds():
    """CPU time of all load generators that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


HEAD = ["load", "offered/s", "sent", "goodput/s", "capacity", "of it"]
HEAD += ["refused", "late", "wrong", "whole", "p50 ms", "p99 ms", "x 70%"]


def print_round(one):
    table(
        HEAD,
        [
            (
                phase.title,
                f"{phase.rate:,}",
                f"{phase.achieved:.0%}",
                f"{phase.goodput:,.0f}",
                f"{capacity:,.0f}",
                f"{share:.0%}",
                f"{phase.share(phase.refused):.0%}",
                f"{phase.share(phase.late):.0%}",
                phase.wrong,
                phase.whole_said,
                f"{phase.p50_ms:.1f}" if phase.good else "-",
                f"{phase.p99_ms:.1f}" if phase.good else "-",
                f"{times:.1f}" if phase.good else "-",
            )
            for phase, capacity, share, times in zip(one.phases, one.capacities, one.shares, one.p99_times)
        ],
    )
    print(f"recovered {after_said(one.recovered_after)}")


def after_said(seconds):
    return f"after {seconds} s" if seconds < math.inf else "not within the timeline"


def print_medians(rounds):
    print(f"\nmedians of {len(rounds)} rounds")
    rows = zip(rounds[0].phases, medians(one.shares for one in rounds), medians(one.p99_times for one in rounds))
    table(["load", "of capacity", "x 70%"], [(phase.title, f"{share:.0%}", f"{x:.1f}") for phase, share, x in rows])
    print(f"recovered {after_said(statistics.median(one.recovered_after for one in rounds))}")


def medians(rows):
    """Of each column."""
    return [statistics.median(column) for column in zip(*rows)]


def judge(closed, rounds):
    """What is wrong: in any round, and with the medians of all."""
    phases = [phase for one in rounds for phase in one.phases]
    faults = [fault for phase in [*closed, *phases] for fault in phase.faults()]
    faults += [f"{phase.title}: nothing is answered" for phase in phases if not phase.good]
    shares, p99_times = medians(one.shares for one in rounds), medians(one.p99_times for one in rounds)
    for load, share, times in zip(LOADS, shares, p99_times):
        least = GOODPUT_MIN.get(load)
        if least and share < least:
            faults.append(f"{load:.0%}: goodput is {share:.0%} of capacity, at least {least:.0%}")
        if least and times > P99_MAX:
            faults.append(f"{load:.0%}: p99 is {times:.1f} times that at {LOADS[0]:.0%}, at most {P99_MAX}")
    after = statistics.median(one.recovered_after for one in rounds)
    if after > RECOVERY_MAX:
        faults.append(f"recovery: {after_said(after)}, at most {RECOVERY_MAX} s")
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
