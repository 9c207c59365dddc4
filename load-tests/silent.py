"""Thousands of sessions that come at once and never answer a ping, and what another client waits for meanwhile."""

import json
import os
import socket
import statistics
import subprocess
import time

from crowd import allow_descriptors
from servers import Failure, request
from tables import table
from websocket import Session

SESSIONS = 8_000
# Twice as many connections: one key may not have all.
OPTIONS = [word for name in ("max-connections", "connections-per-address") for word in (f"--{name}", str(2 * SESSIONS))]
# Descriptors of this program besides.
DESCRIPTORS = 200
# All come within two seconds. So each of these happens to all in this second and the next ones, AROUND it.
COME_SECONDS = 2
HAPPENS = {"pinged": 30, "pinged again": 60, "asked to close": 86, "disconnected": 90}
AROUND = range(-1, 3)
SECONDS = 100
# Of the seconds in which nothing happens, the median of the longest waits.
TIMES_MAX = 10


def run(options, servers, _):
    """Prints one table, and returns what is wrong."""
    prepare(options)
    server, began = servers[0], time.monotonic()
    client = Client(server)
    sessions = [Session(server, f"/ws{server.path}") for _ in range(SESSIONS)]
    came = time.monotonic() - began
    if came > COME_SECONDS:
        raise Failure(f"{SESSIONS:,} sessions came in {came:.1f} s: at most {COME_SECONDS}")
    longest = [0.0] * (SECONDS + 1)
    while (second := int(time.monotonic() - began)) < SECONDS:
        longest[second] = max(longest[second], client.waited_ms())
    left = sum(1 for session in sessions if is_open(session))
    happens = {event: max(longest[second + near] for near in AROUND) for event, second in HAPPENS.items()}
    busy = {second + near for second in HAPPENS.values() for near in AROUND}
    quiet = [wait for second, wait in enumerate(longest[:SECONDS]) if second > came + 1 and second not in busy]
    usual = statistics.median(quiet)
    print(f"{SESSIONS:,} sessions came in {came:.1f} s; of another client, the longest wait of a second")
    rows = [("nothing", f"{usual:.1f}", "1.0")]
    rows += [(f"all are {event}", f"{wait:.1f}", f"{wait / usual:.1f}") for event, wait in happens.items()]
    table(("what happens", "ms", "times"), rows)
    faults = [
        f"while all are {event}, a client waits for {wait / usual:.1f} times as long as else, at most {TIMES_MAX}"
        for event, wait in happens.items()
        if wait > TIMES_MAX * usual
    ]
    return faults + ([f"{left} sessions are still open"] if left else [])


def prepare(options):
    """This program is the client."""
    allow_descriptors(SESSIONS + DESCRIPTORS)
    if options.generator_cores:
        words = ["taskset", "--pid", "--cpu-list", options.generator_cores, str(os.getpid())]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Client:
    """Sends a cheap request again and again, over one connection."""

    def __init__(self, server):
        body = request("eth_chainId", []).encode()
        head = f"POST {server.path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        self.sent = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.waited_ms()

    def waited_ms(self):
        began = time.perf_counter()
        self.socket.sendall(self.sent)
        answer = self.socket.recv(1 << 16)
        if not answer.startswith(b"HTTP/1.1 200") or "result" not in json.loads(answer.partition(b"\r\n\r\n")[2]):
            raise Failure(f"eth_chainId: {answer[:200]!r}")
        return (time.perf_counter() - began) * 1_000


def is_open(session):
    session.socket.setblocking(False)
    try:
        while session.socket.recv(4_096):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False
