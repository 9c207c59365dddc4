"""A head each second to thousands of sessions, and what another client of their worker waits for meanwhile."""

import itertools
import json
import statistics
import time

from servers import Failure, request
from silent import SESSIONS, Client, prepare
from tables import table
from websocket import Session

SOURCE = ["--source", "dev", "--block-time", "1s"]
SECONDS_MAX = 60
# Of the median longest wait of a second, times that without sessions.
TIMES_MAX = 20


def run(options, servers, _):
    """Prints one table, and returns what is wrong. The sessions read when all is measured."""
    if options.seconds > SECONDS_MAX:
        raise Failure(f"--seconds: at most {SECONDS_MAX}, because sessions that answer no ping are closed")
    prepare(options)
    server = servers[0]
    client = Client(server)
    before = longest_waits(client, options.seconds)
    sessions = [Session(server, f"/ws{server.path}") for _ in range(SESSIONS)]
    for session in sessions:
        session.send(request("eth_subscribe", ["newHeads"]))
    longest_waits(client, 2)
    began = server.cpu_seconds()
    during = longest_waits(client, options.seconds)
    used = (server.cpu_seconds() - began) / options.seconds
    heads = [numbers_of_heads(session) for session in sessions[:: SESSIONS // 100]]
    print(f"a head each second to {SESSIONS:,} sessions: {used:.0%} of a core; waits of another client, in ms")
    rows = [
        (name, f"{statistics.median(waits):.1f}", f"{max(waits):.1f}")
        for name, waits in (("without sessions", before), ("with them", during))
    ]
    table(("longest wait of a second", "median", "maximum"), rows)
    times = statistics.median(during) / statistics.median(before)
    faults = [f"{times:.1f} times as long as without sessions, at most {TIMES_MAX}"] if times > TIMES_MAX else []
    # The first and the last one may come a moment before or after what is measured.
    missed = sum(is_gapped(numbers) for numbers in heads)
    fewer = sum(len(numbers) < options.seconds - 1 for numbers in heads)
    faults += [f"{missed} of {len(heads)} sessions missed a head"] if missed else []
    return faults + ([f"{fewer} of {len(heads)} sessions have too few heads"] if fewer else [])


def longest_waits(client, seconds):
    """The longest wait in each second, in ms."""
    longest = [0.0] * seconds
    began = time.monotonic()
    while (second := int(time.monotonic() - began)) < seconds:
        longest[second] = max(longest[second], client.waited_ms())
    return longest


def is_gapped(numbers):
    return any(after != before + 1 for before, after in itertools.pairwise(numbers))


def numbers_of_heads(session):
    """Of those that have arrived: they come before the answer to a request that is sent now."""
    session.send(request("eth_chainId", []))
    numbers, answers = [], 0
    # The first answer is that to the subscription.
    while answers < 2:
        message = json.loads(session.receive())
        if "method" in message:
            numbers.append(int(message["params"]["result"]["number"], 16))
        else:
            answers += 1
    return numbers
