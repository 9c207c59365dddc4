"""nearhead that follows geths, and the heads that servers announce."""

import contextlib
import http.client
import json
import math
import time

from servers import Failure, request, start_nearhead
from websocket import Session

WINDOW = 128
SUBSCRIBE_HEADS = request("eth_subscribe", ["newHeads"])


def ready(server):
    """The body of /ready, whatever its status."""
    for port in (server.admin_port, server.port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/ready")
            return json.loads(connection.getresponse().read())
        except ConnectionRefusedError:
            # An older build has the details on its only port.
            continue
        finally:
            connection.close()
    raise Failure(f"{server.name} does not listen")


def wait_until(what, condition, seconds=60, pause=0.002):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(pause)


def begin_following(options, ports, cores=None, **build):
    """Starts nearhead, which follows the nodes at these ports; `build` is its name and program."""
    cores = options.follower_cores if cores is None else cores
    urls = [f"{options.transport}://127.0.0.1:{port}" for port in ports]
    nodes = [word for url in urls for word in ("--node", url)]
    return start_nearhead(["--source", "node", *nodes, *options.nearhead], cores, **build)


def wait_full(server):
    # Polling uses the core on which blocks are verified: poll rarely.
    wait_until("a full window", lambda: ready(server).get("blocks") == WINDOW, pause=0.02)


@contextlib.contextmanager
def followed(options, chain, cores=None, prefix=()):
    """An upstream, and nearhead with a full window of it."""
    upstream = chain.start(options.node_cores, prefix)
    try:
        server = begin_following(options, [upstream.server.port], cores)
        try:
            wait_full(server)
            yield upstream, server
        finally:
            server.stop()
    finally:
        upstream.server.stop()


class Heads:
    """The heads that a server announces over WebSocket."""

    def __init__(self, server):
        self.session = Session(server, "/" if server.path == "/" else f"/ws{server.path}")
        self.session.result(SUBSCRIBE_HEADS)

    def next(self, upstream):
        """Waits until the upstream's head is announced; returns when, in ns since the epoch."""
        message, now = self.session.receive(), time.time_ns()
        head = json.loads(message)
        if head["params"]["result"]["hash"] != upstream.head["blockHash"]:
            raise Failure(f"another head was announced: {head}")
        return now


def requests_of(block_hash):
    return [
        request("eth_getBlockByHash", [block_hash, True]),
        request("eth_getBlockReceipts", [block_hash]),
    ]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)]
