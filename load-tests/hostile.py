#!/usr/bin/env python3
"""Hostile clients: `load-tests/hostile.py ATTACK PORT PATH` repeats one attack until it is terminated, then prints how
often it connected, and what it was answered. It ends with a code other than 0 if an answer is wrong.

`load-tests/run soak` runs all at once; `load-tests/compare-ws --only others` measures how each of those over WebSocket,
which are in this file, affects other clients. Those over HTTP are in hostile_http.py.
"""

import json
import os
import select
import signal
import sys
import time

from hostile_http import OF_FLOODS, OF_READERS, OF_STRANGERS, Target
from websocket import frame


def request(method, params):
    return frame(
        1, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    )


def connect(target):
    session = target.connect()
    session.sendall(
        (
            f"GET {target.path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()
    )
    answer = session.recv(4096)
    if not answer.startswith(b"HTTP/1.1 101"):
        session.close()
        target.refused += 1
        raise ConnectionError(f"the handshake was refused: {answer[:200]!r}")
    session.settimeout(None)
    target.answered += 1
    return session


class Endless:
    """The same frames again and again. Only so many bytes of a frame are sent as the kernel takes; the next send
    goes on there."""

    def __init__(self, session, frames):
        self.session, self.frames, self.at = session, frames, 0
        session.setblocking(False)

    def send(self):
        self.at += self.session.send(self.frames[self.at :])
        self.at %= len(self.frames)


def fill_the_connection(session):
    """Sends requests until the server reads no more."""
    requests = Endless(session, request("eth_getLogs", [{"fromBlock": "earliest", "toBlock": "latest"}]) * 100)
    while select.select([], [session], [], 1)[1]:
        requests.send()
    session.setblocking(True)


def never_reads(target):
    session = connect(target)
    fill_the_connection(session)
    wait_for_close(session, read=0)


def reads_a_byte_a_second(target):
    session = connect(target)
    fill_the_connection(session)
    wait_for_close(session, read=1)


def wait_for_close(session, read):
    """Waits until the server closes the connection: then a write fails."""
    while True:
        time.sleep(1)
        if read:
            session.recv(read)
        if select.select([], [session], [], 0)[1]:
            session.send(b"\0")


def sends_a_byte_a_second(target):
    session = connect(target)
    session.sendall(frame(1, bytes(100_000))[:14])
    while True:
        time.sleep(1)
        session.sendall(b" ")


def opens_and_drops_1000_times(target):
    for _ in range(1_000):
        connect(target).close()
    raise SystemExit


def opens_and_drops_forever(target):
    while True:
        connect(target).close()


def asks_for_10000_blocks_and_leaves(target):
    session = connect(target)
    session.setblocking(False)
    requests = request("eth_getBlockByNumber", ["latest", True]) * 10_000
    session.send(requests)
    session.close()
    time.sleep(0.1)


def subscribes_to_everything_1000_times(target):
    session = connect(target)
    session.sendall(
        b"".join(
            request("eth_subscribe", [kind])
            for kind in ["newHeads", "logs", "reorgs", "logs"] * 250
        )
    )
    session.settimeout(1)
    taken = 0
    while taken < 100_000:
        received = session.recv(1 << 16)
        if not received:
            raise ConnectionError("the session was closed")
        taken += len(received)
    time.sleep(1)


def floods_pings(target):
    session = connect(target)
    pings = Endless(session, frame(9, b"") * 10_000)
    while True:
        readable, _, _ = select.select([session], [session], [])
        if readable:
            session.recv(1 << 16)
        pings.send()


def unfinished(opcode):
    """An empty frame that is not the last one of its message."""
    return bytes([opcode, 0x80]) + bytes(4)


def never_ends_a_message(target):
    session = connect(target)
    session.sendall(unfinished(1))
    continuations = Endless(session, unfinished(0) * 1_000)
    while True:
        select.select([], [session], [])
        continuations.send()


def announces_large_messages(target):
    """A hundred sessions announce 32 MiB each, and send one byte of it."""
    header = bytes([0x81, 0x80 | 127]) + (32 << 20).to_bytes(8) + bytes(4)
    sessions = []
    try:
        for _ in range(100):
            sessions.append(connect(target))
            sessions[-1].sendall(header + b"{")
        time.sleep(5)
    finally:
        for session in sessions:
            session.close()


# Those over WebSocket.
ATTACKS = {
    attack.__name__: attack
    for attack in (
        never_reads,
        reads_a_byte_a_second,
        sends_a_byte_a_second,
        never_ends_a_message,
        announces_large_messages,
        opens_and_drops_1000_times,
        opens_and_drops_forever,
        asks_for_10000_blocks_and_leaves,
        subscribes_to_everything_1000_times,
        floods_pings,
    )
}
# The only one that ends; a repeated one does the same.
ENDS = opens_and_drops_1000_times.__name__


def main():
    name, port, path = sys.argv[1:]
    attack = {**ATTACKS, **OF_READERS, **OF_FLOODS, **OF_STRANGERS}[name]
    target = Target(int(port), path)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # The measurement has priority on this core.
    os.nice(19)
    try:
        while True:
            try:
                attack(target)
            except OSError:
                # The server closed the connection or refused it: connect again.
                time.sleep(0.01)
    finally:
        print(json.dumps([target.connected, target.answered, target.refused]), flush=True)


if __name__ == "__main__":
    main()
