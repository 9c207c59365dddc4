"""Many connections beside few: work that is answered to few clients is to be answered to a crowd as often."""

import hashlib
import resource
import statistics
import subprocess
import time
import typing

import wrk
from memory import resident_mib, wait_freed, wait_returned
from servers import Failure, Refused
from tables import table
from workloads import Window, Workload

# Connections in a closed loop, few and many.
WORK = {"bulk-logs": (4, 512), "proofs-64": (32, 2_000)}
ROUNDS = 5
WARM_UP_ROUNDS = 2
# The chain of the proofs. On a mainnet-like one, each has half a megabyte too.
PROOFS_CHAIN = "small"
# Bytes of a refused response, at most.
REFUSAL_BYTES_MAX = 1_000
# Descriptors that wrk and this program need beside its connections.
DESCRIPTORS = 200
# Connections that are cut for each good answer, at most: with more, the sizes of good answers would show nothing.
CUT_MAX = 1
# Until the queue of a crowd that has gone has room.
QUEUE_SECONDS = 10

# What is required of many, as times what few are answered. Of large answers, the figures are printed.
TIMES_MIN = {"proofs-64": 0.9}


def run(options, servers, _):
    """Prints one table, and returns what is wrong. The first server has large logs, the second the chain of proofs."""
    wrk.require_wrk()
    allow_descriptors(max(many for _, many in WORK.values()) + DESCRIPTORS)
    rows, faults = [], []
    workloads = [Workload(work, server, Window(server)) for work, server in zip(WORK, servers)]
    # The first crowds let tables grow to their size.
    for workload, server in zip(workloads, servers):
        for asked in workload.requests[:WARM_UP_ROUNDS]:
            for count in WORK[workload.name]:
                measure(options, server, asked, count, options.seconds)
    wait_freed(servers)
    for workload, server in zip(workloads, servers):
        work, connections = workload.name, WORK[workload.name]
        before, rounds = resident_mib(server), []
        for number in range(ROUNDS):
            # Another request in each round, with an answer of another size.
            asked = workload.requests[number % len(workload.requests)]
            rounds.append([measure(options, server, asked, count, options.seconds) for count in connections])
        faults += wait_returned(server, before, time.monotonic(), work)
        rows.append(row(work, connections, rounds))
        times = statistics.median(ratios(rounds))
        if times < TIMES_MIN.get(work, 0):
            clients = f"{work}: {connections[1]:,} connections"
            faults.append(f"{clients} are answered {times:.2f} times what few are, at least {TIMES_MIN[work]}")
    print(f"\nclosed loops, {ROUNDS} rounds of {options.seconds} s in turns; medians")
    sides = ("connections", "answers/s", "p99 ms") * 2
    table(("work", "bytes", *sides, "refused", "not let in", "cut", "times", "each round"), rows)
    return faults


class Round(typing.NamedTuple):
    # Good answers a second.
    rate: float
    p99_ms: float
    refused: int
    # Connections.
    unconnected: int
    cut: int
    # Bytes of an answer.
    size: int


def ratios(rounds):
    return [many.rate / few.rate for few, many in rounds]


def row(work, connections, rounds):
    cells = []
    for at, count in enumerate(connections):
        rate = statistics.median(one[at].rate for one in rounds)
        p99 = statistics.median(one[at].p99_ms for one in rounds)
        cells += [f"{count:,}", f"{rate:,.0f}", f"{p99:.1f}"]
    size = statistics.median(many.size for _, many in rounds)
    lost = [f"{sum(getattr(many, what) for _, many in rounds):,}" for what in ("refused", "unconnected", "cut")]
    times = ratios(rounds)
    each = ", ".join(f"{one:.2f}" for one in times)
    return (work, f"{size:,.0f}", *cells, *lost, f"{statistics.median(times):.2f}", each)


def allow_descriptors(count):
    """wrk has those of this program."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise Failure(f"{count} descriptors are needed, and the hard limit is {hard}: raise it (ulimit -H -n)")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def measure(options, server, asked, connections, seconds):
    """One round. Who is refused, not let in or cut off tries again at once: only good answers count."""
    size = checked_size(server, asked)
    program = wrk.command(server, asked["body"], seconds, connections, options.generator_cores)
    out = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    figures, good, cut = good_answers(out, size, connections)
    if not good or figures.late or cut > CUT_MAX * good:
        raise Failure(f"{connections} connections: {good} good answers, {figures.late} late, {cut} cut: {out}")
    checked_size(server, asked)
    rate = good / (figures.microseconds / 1e6)
    return Round(rate, figures.p99_microseconds / 1e3, figures.refused, figures.unconnected, cut, size)


def good_answers(out, size, connections):
    """What wrk printed: its figures, how many answers were good, and how many connections were cut."""
    figures = wrk.exact_figures(out)
    good = figures.requests - figures.refused
    # In an overload, connections are refused, before the first byte. Others are cut.
    cut = figures.failed - figures.unconnected - figures.refused - figures.late
    # wrk compares no bytes. The sizes add up, and the answer was right before and is right afterwards. Answers in
    # flight at the end are in the bytes, not in the count.
    others = figures.read - good * size
    if not 0 <= others <= figures.refused * REFUSAL_BYTES_MAX + (connections + cut) * size:
        raise Failure(f"{connections} connections: {good} answers of {size} bytes, and {others} bytes more: {out}")
    return figures, good, cut


def checked_size(server, asked):
    """Size of the response, after checking its answer."""
    answer, size = post_patiently(server, asked["body"])
    if hashlib.sha256(answer).hexdigest() != asked["digest"]:
        raise Failure(f"a wrong answer to {asked['body'][:200]}: {answer[:200]!r}")
    return size


def post_patiently(server, body):
    """Posts again for some seconds while the server has no room."""
    ends = time.monotonic() + QUEUE_SECONDS
    while True:
        try:
            return server.post(body)
        except (Refused, ConnectionError):
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)
