#!/usr/bin/env python3
"""Hostile clients: `load-tests/hostile.py ATTACK PORT PATH` repeats one attack until it is killed.

`load-tests/compare-ws --only others` measures how each attack affects other clients.
"""

import json
import os
import select
import socket
import sys
import time

from websocket import frame


def request(method, params):
    return frame(
        1, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    )


def connect():
    port, path = int(sys.argv[2]), sys.argv[3]
    session = socket.create_connection(("127.0.0.1", port))
    session.sendall(
        (
            f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()
    )
    if not session.recv(4096).startswith(b"HTTP/1.1 101"):
        raise SystemExit("the handshake was refused")
    return session


def fill_the_connection(session):
    """Sends requests until the server reads no more."""
    requests = request("eth_getLogs", [{"fromBlock": "earliest", "toBlock": "latest"}]) * 100
    session.setblocking(False)
    while select.select([], [session], [], 1)[1]:
        session.send(requests)
    session.setblocking(True)


def never_reads():
    session = connect()
    fill_the_connection(session)
    wait_for_close(session, read=0)


def reads_a_byte_a_second():
    session = connect()
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


def sends_a_byte_a_second():
    session = connect()
    session.sendall(frame(1, bytes(100_000))[:14])
    while True:
        time.sleep(1)
        session.sendall(b" ")


def opens_and_drops_1000_times():
    for _ in range(1_000):
        connect().close()
    raise SystemExit


def opens_and_drops_forever():
    while True:
        connect().close()


def asks_for_10000_blocks_and_leaves():
    session = connect()
    session.setblocking(False)
    requests = request("eth_getBlockByNumber", ["latest", True]) * 10_000
    session.send(requests)
    session.close()
    time.sleep(0.1)


def subscribes_to_everything_1000_times():
    session = connect()
    session.sendall(
        b"".join(
            request("eth_subscribe", [kind])
            for kind in ["newHeads", "logs", "reorgs", "logs"] * 250
        )
    )
    session.settimeout(1)
    taken = 0
    while taken < 100_000:
        taken += len(session.recv(1 << 16))
    time.sleep(1)


def floods_pings():
    session = connect()
    pings = frame(9, b"") * 10_000
    session.setblocking(False)
    while True:
        readable, _, _ = select.select([session], [session], [])
        if readable:
            session.recv(1 << 16)
        session.send(pings)


ATTACKS = {
    attack.__name__: attack
    for attack in (
        never_reads,
        reads_a_byte_a_second,
        sends_a_byte_a_second,
        opens_and_drops_1000_times,
        opens_and_drops_forever,
        asks_for_10000_blocks_and_leaves,
        subscribes_to_everything_1000_times,
        floods_pings,
    )
}

if __name__ == "__main__":
    # The measurement has priority on this core.
    os.nice(19)
    while True:
        try:
            ATTACKS[sys.argv[1]]()
        except (BlockingIOError, ConnectionError, TimeoutError):
            # The server closed the connection: connect again.
            time.sleep(0.01)
