"""A head each second to thousands of sessions, and what another client of their worker waits for meanwhile."""

import json
import statistics
import time

from servers import request
from silent import OPTIONS, SESSIONS, Client, prepare
from tables import table
from websocket import Session

SOURCE = ["--source", "dev", "--block-time", "1s", *OPTIONS]
# Of the median longest wait of a second, times that without sessions.
TIMES_MAX = 20


def run(options, servers, _):
    """Prints one table, and returns what is wrong. The sessions read when all is measured."""
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
    notified = [sum(1 for _ in range(options.seconds) if is_head(session)) for session in sessions[:: SESSIONS // 100]]
    print(f"a head each second to {SESSIONS:,} sessions: {used:.0%} of a core; waits of another client, in ms")
    rows = [
        (name, f"{statistics.median(waits):.1f}", f"{max(waits):.1f}")
        for name, waits in (("without sessions", before), ("with them", during))
    ]
    table(("longest wait of a second", "median", "maximum"), rows)
    times = statistics.median(during) / statistics.median(before)
    faults = [f"{times:.1f} times as long as without sessions, at most {TIMES_MAX}"] if times > TIMES_MAX else []
    missing = sum(1 for count in notified if count < options.seconds)
    return faults + ([f"{missing} of {len(notified)} sessions missed a head"] if missing else [])


def longest_waits(client, seconds):
    """The longest wait in each second, in ms."""
    longest = [0.0] * seconds
    began = time.monotonic()
    while (second := int(time.monotonic() - began)) < seconds:
        longest[second] = max(longest[second], client.waited_ms())
    return longest


def is_head(session):
    """Whether the session's next message is a head; the answer to its subscription is passed over."""
    message = json.loads(session.receive())
    if "method" not in message:
        message = json.loads(session.receive())
    return message["method"] == "eth_subscription" and "parentHash" in message["params"]["result"]
