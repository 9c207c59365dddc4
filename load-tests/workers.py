"""Two workers beside one: how much more they answer with twice the CPU time."""

import statistics

import vegeta
from cpu_quota import cpu_quota
from figures import Phase
from tables import table
from workloads import Workload

# Of a core, for each worker: the load generator needs three times what it makes the server use.
SHARE = 0.1
WORK = ("cheap", "mix", "proofs-64")
# As many for one worker as for two, and enough that neither of two runs out of requests: each of two
# workers with 32 did.
CLIENTS = 128
ROUNDS = 5
TIMEOUT_MS = 2_000
TIMES_MIN = 1.8


def run(options, servers, window):
    """Prints one table, and returns what is wrong. The first server has one worker, the second has two."""
    rows, faults = [], []
    for work in WORK:
        workloads = [Workload(work, server, window(server)) for server in servers]
        goodputs = [[], []]
        for number in range(ROUNDS):
            for index, server in enumerate(servers):
                phase = measure(options, server, workloads[index], index + 1, f"workers-{work}-{number}")
                faults += [f"{work}, {index + 1} workers, {fault}" for fault in phase.faults()]
                goodputs[index].append(phase.goodput)
        times = [two / one for one, two in zip(*goodputs)]
        one, two, median = map(statistics.median, (*goodputs, times))
        rows.append((work, f"{one:,.0f}", f"{two:,.0f}", f"{median:.2f}", ", ".join(f"{t:.2f}" for t in times)))
        if median < TIMES_MIN:
            faults.append(f"{work}: two workers answer {median:.2f} times what one does, at least {TIMES_MIN}")
    print(f"{SHARE:.0%} of a core for each worker, {CLIENTS} connections in a closed loop, {ROUNDS} rounds in turns")
    table(("work", "one worker, /s", "two, /s", "times", "each round"), rows)
    return faults


def measure(options, server, workload, workers, name):
    url = f"http://127.0.0.1:{server.port}{server.path}"
    phase = Phase(workload.name, workload, url, 0, options.seconds, None, CLIENTS)
    with cpu_quota(server.pids(), SHARE, workers):
        vegeta.offer(name, [phase], TIMEOUT_MS)
    return phase
