"""Round trips of a call that was never made before, to a node at a distance: their number, and the time.

A relay before geth delays all that it sends. The call is of many tokens, each for another holder, and
nothing that it reads is held.
"""

import asyncio
import copy
import itertools
import multiprocessing
import random
import socket
import statistics
import time

from follow import begin_following, wait_full
from state import keys_of_window
from tables import table
from upstream import Chain

CHUNK = 1 << 18
# A node that is 20 ms away.
DISTANCE = 0.02
# Calls that the one call makes.
CALLS = 100
TRIPS_GOAL = 4
# Longer than it takes until nothing is on its way any more.
QUIET = 0.3
TRANSFER_EVENT = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


class Distant:
    """A relay to a server, in a process of its own, that delays what the server sends."""

    def __init__(self, server, distance):
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.pipe, there = multiprocessing.Pipe()
        self.process = multiprocessing.Process(
            target=relay, args=(there, listener, server.port, distance), daemon=True
        )
        self.process.start()
        there.close()
        listener.close()

    def trips(self):
        """The longest sequence of messages to the server so far, each sent after an answer to the one before."""
        self.pipe.send(None)
        return self.pipe.recv()

    def stop(self):
        self.process.kill()
        self.process.join()


def relay(pipe, listener, port, distance):
    asyncio.run(Relay(pipe, port, distance).run(listener))


class Relay:
    def __init__(self, pipe, port, distance):
        self.pipe, self.port, self.distance = pipe, port, distance
        # How much of the longest sequence is answered.
        self.ended = 0

    async def run(self, listener):
        asyncio.get_running_loop().add_reader(self.pipe.fileno(), self.tell)
        server = await asyncio.start_server(self.serve, sock=listener)
        await server.serve_forever()

    def tell(self):
        self.pipe.recv()
        self.pipe.send(self.ended)

    async def serve(self, from_client, to_client):
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self.port)
        now = asyncio.get_running_loop().time
        answers, trip = asyncio.Queue(1_024), 0

        async def ask():
            nonlocal trip
            while data := await from_client.read(CHUNK):
                trip = self.ended + 1
                to_server.write(data)
                await to_server.drain()
            to_server.close()

        async def receive():
            while data := await from_server.read(CHUNK):
                await answers.put((now() + self.distance, trip, data))
            await answers.put(None)

        async def answer():
            while item := await answers.get():
                due, of, data = item
                await asyncio.sleep(max(0, due - now()))
                self.ended = max(self.ended, of)
                to_client.write(data)
                await to_client.drain()
            to_client.close()

        await asyncio.gather(ask(), receive(), answer(), return_exceptions=True)


def many_calls(tokens, holders):
    """Code that transfers nothing of a token to each of these holders: each reads two balances."""
    code = "0x63a9059cbb60e01b5f52"
    for token, holder in zip(itertools.cycle(tokens), holders):
        code += f"73{holder[2:]}6004525f5f60445f5f73{token[2:]}5af150"
    return code + "00"


def tokens_of(server):
    """The tokens that moved in the last blocks."""
    head = int(server.call("eth_blockNumber", []), 16)
    logs = server.call("eth_getLogs", [{"fromBlock": hex(head - 2), "topics": [TRANSFER_EVENT]}])
    return sorted({log["address"] for log in logs})


def call_trips(options):
    chain = Chain("mainnet", options.chain_blocks)
    upstream = chain.start(options.node_cores)
    relay, rows = Distant(upstream.server, DISTANCE), []
    try:
        for transport in ("http", "ws"):
            of_run = copy.copy(options)
            of_run.transport = transport
            # The genesis has the rules of the chain, without which no call is run.
            further = ["--genesis", str(chain.genesis), "--state-follow", "off"]
            of_run.nearhead = [*options.nearhead, *further]
            server = begin_following(of_run, [relay.port])
            try:
                wait_full(server)
                rows.append((transport, *measure(options, server, relay)))
            finally:
                server.stop()
    finally:
        relay.stop()
        upstream.server.stop()
    print(
        f"\na call of {CALLS} transfers that was never made before, a node {DISTANCE * 1e3:.0f} ms away; "
        f"medians of {options.rounds} rounds"
    )
    table(
        ("over", "tokens", f"round trips (goal <= {TRIPS_GOAL}, http)", "most", "ms", f"ms / {DISTANCE * 1e3:.0f}"),
        rows,
    )


def measure(options, server, relay):
    """Tokens, round trips (median and most), and times of calls for holders that were never read."""
    tokens, head = tokens_of(server), server.call("eth_blockNumber", [])
    holders = iter(keys_of_window(server, random.Random(1))[0].items)
    trips, times = [], []
    for _ in range(options.rounds):
        # Tokens of its own, for those of the calls before are held.
        some = tokens[len(trips) :: options.rounds]
        code = many_calls(some, list(itertools.islice(holders, CALLS)))
        time.sleep(QUIET)
        before, began = relay.trips(), time.monotonic()
        server.call("eth_call", [{"input": code}, head])
        times.append((time.monotonic() - began) * 1e3)
        time.sleep(QUIET)
        trips.append(relay.trips() - before)
    spent = statistics.median(times)
    return len(tokens), statistics.median(trips), max(trips), f"{spent:.0f}", f"{spent / DISTANCE / 1e3:.1f}"
