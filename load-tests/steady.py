"""A load that a server carries: how long answers take, by kind of request, and what a request costs."""

import k6
from figures import Phase
from tables import table
from workloads import Workload

WARM_UP_SECONDS = 3
TIMEOUT_MS = 2_000


def measure(options, server, window):
    """Offers the workload at the rate; returns the phase and the CPU microseconds of a request."""
    workload = Workload(options.name, server, window)
    url = f"http://127.0.0.1:{server.port}{server.path}"
    times = {"workload": workload, "url": url, "rate": options.rate, "clients": options.rate}
    warm = Phase("warm-up", start=0, seconds=WARM_UP_SECONDS, **times)
    phase = Phase(
        f"{options.rate}/s", start=WARM_UP_SECONDS, seconds=options.seconds, must_answer=True, **times
    )
    before = server.cpu_seconds()
    k6.offer(f"{options.name}-{server.name}", [warm, phase], TIMEOUT_MS, options.generator_cores)
    cpu = (server.cpu_seconds() - before) / (warm.sent + phase.sent)
    return phase, cpu * 1e6


HEAD = ("request", "server", "bytes", "offered/s", "sent", "answered", "refused", "late", "wrong", "p50 ms", "p99 ms")


def rows(kind, measured):
    """One for each server, of a kind of request or of all."""
    for server, phase, _ in measured:
        if kind is None:
            sent = (f"{phase.rate:,}", f"{phase.achieved:.0%}", f"{phase.good:,}")
            times = f"{phase.p50_ms:.2f}", f"{phase.p99_ms:.2f}"
            yield ("all", server.name, "", *sent, phase.refused, phase.late, phase.wrong, *times)
            continue
        workload = phase.workload
        number = workload.kinds.index(kind)
        share = sum(workload.requests[n]["kind"] == number for n in workload.sequence) / len(workload.sequence)
        count, p50, p99 = phase.kinds[kind]
        # Only those that were answered are counted by kind.
        sent = (f"{phase.rate * share:,.1f}", "", f"{count:,}", "", "", "")
        yield (kind, server.name, f"{workload.mean_bytes(kind):,.0f}", *sent, f"{p50:.2f}", f"{p99:.2f}")


def run(options, servers, window):
    """Prints one table, and returns what is wrong."""
    measured = [(server, *measure(options, server, window(server))) for server in servers]
    print(f"{options.name}: {options.rate} requests/s for {options.seconds} s, open loop; ms by k6")
    table(HEAD, [row for kind in [*measured[0][1].workload.kinds, None] for row in rows(kind, measured)])
    for server, _, cpu in measured:
        print(
            f"{server.name}: CPU of a request {cpu:.1f} µs ({1e6 / cpu:,.0f} requests a second of CPU), "
            f"resident {server.resident_kib() / 1024:.0f} MiB"
        )
    faults = [f"{server.name}, {fault}" for server, phase, _ in measured for fault in phase.faults()]
    p99 = measured[0][1].p99_ms
    return faults + ([f"p99 is {p99:.0f} ms, at most {options.p99_max_ms} ms"] if p99 > options.p99_max_ms else [])
